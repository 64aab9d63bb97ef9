//! A queue that cannot go on: its machine panicked, or stored data are not what was written. Only this queue goes out of
//! service; the state of its machine is dropped, the log brings it back (`reload.rs`, or a restart).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use queues::{Peeked, QueueCounts, QueueStats};

use super::{CellState, Event, Queue};
use crate::cell::condition::Condition;
use crate::control::deleted::DeletedQueue;
use crate::data::batch::Handover;
use crate::effects::Aftermath;
use crate::refused::Refused;

/// Runs what may panic; returns the text of the panic.
pub(super) fn contained<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    // The caller drops any half-done state of the closure, and never looks at it again.
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
        tracing::error!(%queue, vhost, why, "a queue has crashed and is out of service; its logged messages are kept");
        self.condition.set(Condition::Crashed);
        self.reloads.crashed();
        self.count_gone(&state.machine);
        state.gathers.clear();
        // A machine that panicked may not be whole: it is looked through as carefully as it was run.
        if let Err(why) = contained(|| state.hold_bodies()) {
            tracing::error!(%queue, vhost, why, "shared bodies of a crashed queue may be lost");
        }
        state.machine = self.new_machine(0);
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

    /// Out of service until the restart: its data on disk are not whole, and reading them again would not help.
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
            Event::Publish(handover) => self.refuse_or_hold(state, handover),
            Event::Consume(_, _, reply) => reply.send(Err(refused())),
            Event::Get(_, reply) => reply.send(Err(refused())),
            Event::Cancel(_, reply) | Event::Checkpoint(_, _, reply) | Event::Compact(reply) => {
                reply.send(());
            }
            Event::Purge(purged, reply) => reply.send(*purged),
            Event::Counts(reply) => reply.send(Err(refused())),
            Event::Stats(reply) => reply.send(QueueStats::default()),
            Event::Peek(_, reply) => reply.send(Peeked::Nothing),
            Event::Scheduled(_, reply) => reply.send(Vec::new()),
            Event::DropScheduled(_, reply) => reply.send(false),
            Event::Delete { if_empty: true, reply, .. } => reply.send(Err(refused())),
            Event::Delete { .. } => {
                self.condition.set(Condition::Deleted);
                if let Event::Delete { reply, by, .. } = std::mem::replace(event, Event::Handled) {
                    aftermath.deleted = Some((0, reply, by));
                }
                self.take_held_letters(state, now_ms, aftermath);
            }
            Event::Close => {
                self.condition.set(Condition::Deleted);
                self.take_held_letters(state, now_ms, aftermath);
            }
            Event::Handled
            | Event::Examine(_)
            | Event::Replica(_)
            | Event::Settle(..)
            | Event::Annotate(..)
            | Event::Resume(_)
            | Event::Credit(..)
            | Event::Touch
            | Event::Reconfigure
            | Event::ShareMemory
            | Event::Tick
            | Event::Rest
            | Event::BodiesHere
            | Event::LettersTaken(..) => {}
            Event::BlocksSynced(_)
            | Event::BlockWritten(..)
            | Event::BlockLogged(..)
            | Event::BlockRead(..)
            | Event::BodyRead(..) => {
                self.begin_reload(state);
            }
            Event::Reloaded(_) => {
                if let Event::Reloaded(machine) = std::mem::replace(event, Event::Handled) {
                    self.reloaded(state, *machine, now_ms, aftermath);
                }
            }
        }
    }

    /// Publishers hear that their messages are refused; dead letters, which nobody would send again, wait.
    fn refuse_or_hold(&self, state: &mut CellState, handover: &mut Handover) {
        let Some(confirms) = handover.confirms.take() else { return };
        if confirms.are_of_letters() {
            let letters = Handover { confirms: Some(confirms.clone()), ..handover.clone() };
            let held = state.held_letters.get_or_insert_default();
            let was_full = held.is_full;
            if held.hold(letters).is_ok() {
                return;
            }
            if !was_full {
                let (queue, vhost) = (String::from_utf8_lossy(self.name()), self.vhost_name());
                tracing::warn!(%queue, vhost, "too many dead letters wait for a crashed queue: more of them come back to where they died with the next start");
            }
            confirms.reject_all();
        }
        for nth in 0..handover.picks.len() as u32 {
            let (group, publish) = handover.batch.place(handover.picks.nth(nth));
            confirms.reject(group, publish);
        }
        if confirms.answered(0) {
            self.services().confirm_when_durable(&confirms);
        }
    }

    /// The queue is in service again, or deleted: dead letters that waited for that arrive.
    pub(super) fn take_held_letters(
        self: &Arc<Self>,
        state: &mut CellState,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) {
        let Some(held) = state.held_letters.take() else { return };
        for letters in held.handovers {
            // As if they had just been brought.
            self.inbox_bytes.fetch_add(letters.batch.bytes(), Ordering::Relaxed);
            self.handle_contained(state, &mut Event::Publish(letters), now_ms, aftermath);
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
            Event::Cancel(_, reply) | Event::Checkpoint(_, _, reply) | Event::Compact(reply) => {
                reply.send(());
            }
            Event::Get(_, reply) => reply.send(Err(refused())),
            Event::Purge(purged, reply) => reply.send(*purged),
            Event::Counts(reply) => reply.send(Ok(QueueCounts::default())),
            Event::Stats(reply) => reply.send(QueueStats::default()),
            Event::Peek(_, reply) => reply.send(Peeked::Nothing),
            Event::Scheduled(_, reply) => reply.send(Vec::new()),
            Event::DropScheduled(_, reply) => reply.send(false),
            Event::Delete { reply, .. } => reply.send(Ok(DeletedQueue { ready: 0 })),
            Event::BlocksSynced(_) => state.checkpoints.drain(..).for_each(|reply| reply.send(())),
            Event::Handled
            | Event::Examine(_)
            | Event::Replica(_)
            | Event::Reloaded(_)
            | Event::Settle(..)
            | Event::Annotate(..)
            | Event::Resume(_)
            | Event::Credit(..)
            | Event::Touch
            | Event::Reconfigure
            | Event::ShareMemory
            | Event::Close
            | Event::Tick
            | Event::Rest
            | Event::LettersTaken(..)
            | Event::BlockWritten(..)
            | Event::BlockLogged(..)
            | Event::BodyRead(..)
            | Event::BodiesHere
            | Event::BlockRead(..) => {}
        }
    }
}
