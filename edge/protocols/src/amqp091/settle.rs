//! Settling deliveries: acks gathered from the client, resolved under one lock, handed to each queue as runs.
//!
//! Refuses to know what queues do with them. One call per queue and batch; consecutive places of one consumer in its
//! queue are one run.

use std::sync::Arc;

use broker::{ConsumerId, MessageSeq, Queue, SettleHow, SettleRun};

use super::errors::{Failure, MethodId, Outcome, ReplyCode};
use super::running::Running;
use super::unacked::Entry;

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

/// A source of deliveries as the session sees it.
struct SourceQueue {
    queue: Arc<Queue>,
    consumer: Option<ConsumerId>,
    runs: Vec<SettleRun>,
}

/// Settlements on their way to queues, by source.
pub(crate) struct Settlements {
    sources: Vec<Option<SourceQueue>>,
    dirty: Vec<u32>,
    how: SettleHow,
}

impl Settlements {
    pub(crate) fn new() -> Settlements {
        Settlements { sources: Vec::new(), dirty: Vec::new(), how: SettleHow::Ack }
    }

    /// Says which queue a source number stands for; the number must be free or forgotten.
    pub(crate) fn attach(&mut self, source: u32, queue: Arc<Queue>, consumer: Option<ConsumerId>) {
        let index = source as usize;
        if self.sources.len() <= index {
            self.sources.resize_with(index + 1, || None);
        }
        self.sources[index] = Some(SourceQueue { queue, consumer, runs: Vec::new() });
    }

    /// The queue behind a source.
    pub(crate) fn queue(&self, source: u32) -> Option<&Arc<Queue>> {
        self.sources.get(source as usize)?.as_ref().map(|source| &source.queue)
    }

    pub(crate) fn forget(&mut self, source: u32) {
        if let Some(slot) = self.sources.get_mut(source as usize) {
            *slot = None;
        }
    }

    /// Adds one delivery to what will be settled the way all of this batch are.
    #[inline]
    pub(crate) fn add(&mut self, source: u32, seq: MessageSeq) {
        self.add_run(source, seq, 1);
    }

    /// As [`Self::add`], of neighbours in their queue.
    #[inline]
    pub(crate) fn add_run(&mut self, source: u32, seq: MessageSeq, count: u32) {
        let Some(SourceQueue { consumer, runs, .. }) = &mut self.sources[source as usize] else {
            debug_assert!(false, "a source is forgotten after its deliveries");
            return;
        };
        if let Some(last) = runs.last_mut()
            && last.first.0 + u64::from(last.count) == seq.0
        {
            last.count += count;
            return;
        }
        if runs.is_empty() {
            self.dirty.push(source);
        }
        runs.push(SettleRun { consumer: *consumer, first: seq, count });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Hands everything to the queues. Not under the outbox's lock: a queue may deliver at once.
    fn submit(&mut self) {
        for source in self.dirty.drain(..) {
            if let Some(SourceQueue { queue, runs, .. }) = &mut self.sources[source as usize] {
                queue.settle(self.how, runs);
                runs.clear();
            }
        }
    }
}

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

    /// Makes what is added from now on settled this way; what was added before goes to its queues if it differs.
    pub(crate) fn settle_as(&mut self, how: SettleHow) {
        if self.settlements.how != how {
            self.submit();
            self.settlements.how = how;
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
