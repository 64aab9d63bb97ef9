//! A queue that cannot go on: its machine panicked, or stored data are not what was written. Only this queue goes out of
//! service; what its machine held is dropped, what is logged brings it back (`reload.rs`, or a restart).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use queues::{Classic, QueueCounts, QueueStats};

use super::{CellState, Event, Queue};
use crate::control::queues::DeletedQueue;
use crate::effects::Aftermath;
use crate::refused::Refused;

/// Whether a queue can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// It can.
    Running = 0,
    /// It is deleted.
    Deleted = 1,
    /// It is out of service until it is reloaded, the node restarted, or it deleted (B71, B172).
    Crashed = 2,
}

/// A [`Condition`] that many read and the one who runs the machine changes.
pub(super) struct ConditionCell(AtomicU8);

impl ConditionCell {
    pub(super) fn running() -> ConditionCell {
        ConditionCell(AtomicU8::new(Condition::Running as u8))
    }

    pub(super) fn get(&self) -> Condition {
        match self.0.load(Ordering::Acquire) {
            0 => Condition::Running,
            1 => Condition::Deleted,
            _ => Condition::Crashed,
        }
    }

    pub(super) fn set(&self, condition: Condition) {
        self.0.store(condition as u8, Ordering::Release);
    }
}

/// Runs what may panic; returns the text of the panic.
pub(super) fn contained<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    // What the closure leaves half done is dropped by the caller, never looked at again.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

impl Queue {
    /// Out of service: consumers are cancelled, gets answered, the machine dropped. The log keeps what it has of the queue.
    pub(super) fn crash(self: &Arc<Self>, state: &mut CellState, why: &str) {
        let (queue, vhost) = (String::from_utf8_lossy(self.name()), self.vhost_name());
        tracing::error!(%queue, vhost, why, "a queue has crashed and is out of service; what it logged is kept");
        self.condition.set(Condition::Crashed);
        self.count_gone(&state.machine);
        state.machine = Classic::new(self.config(), 0);
        for (consumer, gone) in state.sinks.drain() {
            // Its session may be what panicked.
            let _told = contained(|| gone.sink.cancelled(consumer.token));
            self.tell_consumer_deleted(consumer, gone.channel, &gone.tag);
        }
        for (_, get) in state.gets.drain() {
            get.reply.send(Err(Refused::Crashed(self.resource())));
        }
        state.checkpoints.drain(..).for_each(|reply| reply.send(()));
        self.begin_reload(state);
    }

    /// Out of service until the restart: what the disk holds of it is not whole, and reading it again would not help.
    pub(crate) fn put_out_of_service(self: &Arc<Self>, why: &str) {
        self.reloads.forbid();
        let mut held = self.state.lock();
        let state = held.wake(self, self.services().now_ms());
        self.crash(state, why);
    }

    /// A crashed queue refuses what it is asked, and can be deleted.
    pub(super) fn handle_crashed(
        self: &Arc<Self>,
        state: &mut CellState,
        event: &mut Event,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) {
        let refused = || Refused::Crashed(self.resource());
        match event {
            Event::Publish(handover) => {
                let Some(confirms) = handover.confirms.take() else { return };
                for nth in 0..handover.picks.len() as u32 {
                    let entry = handover.batch.entry(handover.picks.nth(nth));
                    confirms.reject(entry.group, entry.publish);
                }
                if confirms.answered(0) {
                    self.services().confirm_when_durable(&confirms);
                }
            }
            Event::Consume(_, _, reply) => reply.send(Err(refused())),
            Event::Get(_, reply) => reply.send(Err(refused())),
            Event::Cancel(_, reply) | Event::Checkpoint(_, reply) => reply.send(()),
            Event::Purge(reply) => reply.send(0),
            Event::Counts(reply) => reply.send(Err(refused())),
            Event::Stats(reply) => reply.send(QueueStats::default()),
            Event::Scheduled(_, reply) => reply.send(Vec::new()),
            Event::DropScheduled(_, reply) => reply.send(false),
            Event::Delete { if_empty: true, reply, .. } => reply.send(Err(refused())),
            Event::Delete { .. } => {
                self.condition.set(Condition::Deleted);
                self.oldest_log.store(0, Ordering::Release);
                if let Event::Delete { reply, by, .. } = std::mem::replace(event, Event::Handled) {
                    aftermath.deleted = Some((0, reply, by));
                }
            }
            Event::Close => {
                self.condition.set(Condition::Deleted);
                self.oldest_log.store(0, Ordering::Release);
            }
            Event::Handled
            | Event::Examine(_)
            | Event::Settle(..)
            | Event::Resume(_)
            | Event::Touch
            | Event::Reconfigure
            | Event::ShareMemory
            | Event::Tick
            | Event::Rest
            | Event::LettersTaken(_) => {}
            Event::BlocksSynced(_) | Event::BlockWritten(..) | Event::BlockRead(..) => {
                self.begin_reload(state);
            }
            Event::Reloaded(_) => {
                if let Event::Reloaded(machine) = std::mem::replace(event, Event::Handled) {
                    self.reloaded(state, *machine, now_ms, aftermath);
                }
            }
        }
    }

    /// A deleted queue still answers what was on its way: publishes are confirmed (B108), the rest finds nothing.
    pub(super) fn handle_deleted(&self, state: &mut CellState, event: &mut Event) {
        let refused = || Refused::NotFound(self.resource());
        match event {
            Event::Publish(handover) => {
                if let Some(confirms) = handover.confirms.take()
                    && confirms.answered(0)
                {
                    self.services().confirm_when_durable(&confirms);
                }
            }
            Event::Consume(_, _, reply) => reply.send(Err(refused())),
            Event::Cancel(_, reply) | Event::Checkpoint(_, reply) => reply.send(()),
            Event::Get(_, reply) => reply.send(Err(refused())),
            Event::Purge(reply) => reply.send(0),
            Event::Counts(reply) => reply.send(Ok(QueueCounts::default())),
            Event::Stats(reply) => reply.send(QueueStats::default()),
            Event::Scheduled(_, reply) => reply.send(Vec::new()),
            Event::DropScheduled(_, reply) => reply.send(false),
            Event::Delete { reply, .. } => reply.send(Ok(DeletedQueue { ready: 0 })),
            Event::BlocksSynced(_) => state.checkpoints.drain(..).for_each(|reply| reply.send(())),
            Event::Handled
            | Event::Examine(_)
            | Event::Reloaded(_)
            | Event::Settle(..)
            | Event::Resume(_)
            | Event::Touch
            | Event::Reconfigure
            | Event::ShareMemory
            | Event::Close
            | Event::Tick
            | Event::Rest
            | Event::LettersTaken(_)
            | Event::BlockWritten(..)
            | Event::BlockRead(..) => {}
        }
    }
}
