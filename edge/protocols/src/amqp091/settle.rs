//! Settling deliveries: acks gathered from the client, resolved under one lock, handed to each queue as runs.
//!
//! Refuses to know what queues do with them. One call per queue and batch; consecutive places of one consumer in its
//! queue are one run.

use broker::{ConsumerId, SettleHow};

use super::errors::{Failure, MethodId, Outcome, ReplyCode};
use super::running::Running;
use crate::unacked::Entry;

/// basic.ack, nack or reject as received, not looked up yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settlement {
    pub(crate) channel: u16,
    pub(crate) tag: u64,
    pub(crate) multiple: bool,
    pub(crate) how: SettleHow,
    /// The method to blame if the tag is unknown.
    pub(crate) method: MethodId,
}

/// Most settlements gathered before they are looked up: bounds the memory a flood of acks in one read may take.
const GATHERED_MAX: usize = 4096;

impl Running {
    /// Remembers a settlement; it is looked up together with its neighbours.
    pub(crate) fn gather(&mut self, settlement: Settlement) {
        self.gathered.push(settlement);
        if self.gathered.len() >= GATHERED_MAX {
            self.settle_gathered();
        }
    }

    /// Looks up everything gathered. An unknown tag closes its channel (B127).
    pub(crate) fn settle_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut rest = &gathered[..];
        while let Some(first) = rest.first() {
            self.settle_as(first.how);
            rest = self.settle_alike(rest);
        }
        gathered.clear();
        self.gathered = gathered;
        self.has_freed_window = true;
    }

    /// Looks up the settlements at the front that are all of one kind; returns those after them.
    fn settle_alike<'a>(&mut self, all: &'a [Settlement]) -> &'a [Settlement] {
        let how = all[0].how;
        let mut unknown = None;
        let mut done = 0;
        let mut output = self.sink.outbox.lock();
        for settlement in all.iter().take_while(|settlement| settlement.how == how) {
            done += 1;
            let Settlement { channel, tag, multiple, .. } = *settlement;
            let is_open = self.channels.is_open(channel);
            let settlements = &mut self.settlements;
            let mut count = 0;
            let each = |first: Entry, run: u32| {
                count += u64::from(run);
                settlements.add_run(first.source, first.seq, run);
            };
            if is_open && !output.state().settle(channel, tag, multiple, each) {
                unknown = Some(settlement);
                break;
            }
            if how == SettleHow::Ack {
                output.state().count_acked(channel, count);
            }
        }
        drop(output);
        if let Some(settlement) = unknown {
            self.fail_channel(settlement.channel, &unknown_tag(settlement.tag, settlement.method));
        }
        &all[done..]
    }

    /// Settles deliveries that are added from now on this way; earlier ones go to their queues if the way differs.
    pub(crate) fn settle_as(&mut self, how: SettleHow) {
        if self.settlements.how() != how {
            self.submit();
            self.settlements.settle_as(how);
        }
    }

    /// Hands publishes and settlements to the queues, in this order, so that a publish precedes the ack that follows it.
    pub(crate) fn submit(&mut self) {
        self.publisher.flush();
        if self.settlements.is_empty() {
            return;
        }
        self.settlements.submit();
        self.release_forgotten();
    }

    /// Lets go of queues whose consumer is cancelled and whose deliveries are settled.
    pub(crate) fn release_forgotten(&mut self) {
        let forgotten = {
            let mut output = self.sink.outbox.lock();
            let side = output.state();
            let mut forgotten = std::mem::take(&mut side.forgotten);
            // A number may be in use again.
            forgotten.retain(|source| !side.is_known(*source));
            forgotten
        };
        // The last reference to a deleted queue may go here: not under the lock.
        forgotten.into_iter().for_each(|source| self.settlements.forget(source));
    }

    /// Resumes consumers that were refused for want of prefetch or room, if there is some now.
    pub(crate) fn resume_paused(&mut self) {
        let mut resumable = std::mem::take(&mut self.resumable);
        {
            let mut output = self.sink.outbox.lock();
            if output.state().has_paused() && output.pending_bytes() < crate::OUTPUT_BYTES_LOW {
                output.state().take_resumable(&mut resumable);
            }
        }
        for (source, token) in resumable.drain(..) {
            if let Some(queue) = self.settlements.queue(source) {
                queue.resume(ConsumerId { connection: self.principal.connection, token });
            }
        }
        self.resumable = resumable;
    }

    /// basic.recover: everything unacked on the channel goes back (B132).
    pub(crate) fn requeue_unacked(&mut self, channel: u16) {
        self.settle_as(SettleHow::Requeue);
        {
            let mut output = self.sink.outbox.lock();
            let settlements = &mut self.settlements;
            output
                .state()
                .settle(channel, 0, true, |first, count| settlements.add_run(first.source, first.seq, count));
        }
        self.submit();
        self.has_freed_window = true;
    }
}

/// B127.
pub(crate) fn unknown_tag(tag: u64, method: MethodId) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, format!("unknown delivery tag {tag}")).in_method(method)
}

/// The same as a result.
pub(crate) fn known_tag(is_known: bool, tag: u64, method: MethodId) -> Outcome {
    if is_known { Ok(()) } else { Err(unknown_tag(tag, method)) }
}
