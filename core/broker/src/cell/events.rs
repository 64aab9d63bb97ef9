//! Handling of each event of a queue: the machine is asked, its answer passed on.
//!
//! Runs while the cell is held. Refuses to know which thread runs it, and when.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use queues::{
    BlockToken, BodyBuffer, ConsumerId, ConsumerSpec, DiskAnswer, GetToken, HeldBody, IncomingMessages,
    Machine, PublishOutcome, SettleHow, Store,
};

use super::gather::Gather;
use super::machine::AnyMachine;
use super::portions::PORTION_COUNT;
use super::{Attached, CellState, Event, GetReply, Queue, crash, portions};
use crate::call::Reply;
use crate::cell::condition::Condition;
use crate::cell::rest::Rest;
use crate::data::batch::{Handover, Picked, ToWait, Unshared};
use crate::data::consume::ConsumerSink;
use crate::effects::{Aftermath, CellEffects};
use crate::refused::Refused;
use crate::stages::Stage;

/// How far an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is answered.
    Done,
    /// It is answered, and was enough for one round.
    Enough,
    /// There is more to do: it comes again, before all others.
    Part,
}

impl Queue {
    /// One event. Should the machine panic, only this queue goes out of service, and the event is answered so.
    pub(super) fn handle_contained(
        self: &Arc<Self>,
        state: &mut CellState,
        event: &mut Event,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) -> Progress {
        match event {
            Event::Publish(handover) => {
                self.inbox_bytes.fetch_sub(handover.batch.bytes(), Ordering::Relaxed);
            }
            Event::BlockWritten(..)
            | Event::BlockLogged(..)
            | Event::BlockRead(..)
            | Event::BlocksSynced(_)
            | Event::BodyRead(..) => {
                self.reloads.disk_answered();
            }
            _ => {}
        }
        if let Event::Rest = event {
            state.rest = Rest::Due;
            return Progress::Done;
        }
        if let Event::Examine(reply) = event {
            reply.send(self.examined(state, now_ms));
            return Progress::Done;
        }
        match self.condition() {
            Condition::Running => {
                let handled = crash::contained(|| self.handle(state, event, now_ms, aftermath));
                let fault = aftermath.fault.take().map(str::to_owned);
                match (handled, fault) {
                    (Ok(progress), None) => return progress,
                    (Err(why), _) | (Ok(_), Some(why)) => {
                        self.crash(state, &why);
                        self.handle_crashed(state, event, now_ms, aftermath);
                    }
                }
            }
            Condition::Deleted => self.handle_deleted(state, event),
            Condition::Crashed => self.handle_crashed(state, event, now_ms, aftermath),
        }
        Progress::Done
    }

    fn handle(
        self: &Arc<Self>,
        state: &mut CellState,
        event: &mut Event,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) -> Progress {
        let mut progress = Progress::Done;
        let CellState { machine, sinks, gets, next_get, checkpoints, since_reload, is_forgotten, .. } = state;
        let (gathers, held_bodies) = (&mut state.gathers, &mut state.held_bodies);
        let mut fx = CellEffects { queue: self, sinks, gets, gathers, held_bodies, aftermath };
        if self.is_replicated() {
            self.take_part(machine, now_ms, &mut fx);
            if (machine.follows() && self.redirect(event)) || self.settles_after_claims(event) {
                return progress;
            }
        }
        match event {
            Event::Publish(handover) => self.publish(machine, handover, now_ms, &mut fx),
            Event::Settle(..) => progress = settle(machine, event, since_reload.as_deref(), now_ms, &mut fx),
            Event::Annotate(run, entries) => machine.annotate(run, entries),
            Event::Resume(consumer) => machine.resume(*consumer, now_ms, &mut fx),
            Event::Credit(consumer, credit) => machine.credit(*consumer, *credit, now_ms, &mut fx),
            Event::Consume(spec, sink, reply) => {
                let added = self.attach(machine, spec, sink, now_ms, &mut fx);
                if added {
                    since_reload.iter_mut().for_each(|known| known.extend([spec.id]));
                }
                reply.send(if added { Ok(()) } else { Err(Refused::ExclusiveUse(self.resource())) });
            }
            Event::Cancel(..) => cancel(machine, event, now_ms, &mut fx),
            Event::Get(..) | Event::Peek(..) => get(machine, event, next_get, now_ms, &mut fx),
            Event::Purge(..) => progress = purge(machine, event, &mut fx),
            Event::Counts(reply) => reply.send(Ok(machine.counts())),
            Event::Touch => machine.touch(now_ms, &mut fx),
            Event::Stats(reply) => reply.send(self.stats_of(machine, now_ms)),
            Event::Tick => machine.tick(now_ms, &mut fx),
            Event::BlockWritten(..)
            | Event::BlockLogged(..)
            | Event::BlockRead(..)
            | Event::BlocksSynced(_)
            | Event::BodyRead(..)
            | Event::BodiesHere => take_from_disk(machine, event, now_ms, &mut fx),
            // Of an earlier life: the messages are here again, and so will their letters be.
            Event::LettersTaken(life, _) if *life != self.life() => {}
            Event::LettersTaken(_, removals) => machine.letters_taken(removals, now_ms, &mut fx),
            Event::Checkpoint(..) | Event::Compact(..) => {
                begin_checkpoint(machine, event, checkpoints, &mut fx);
            }
            Event::Delete { .. } => self.delete(machine, event, &mut fx),
            Event::Close => drop(self.close(machine, &mut fx)),
            Event::ShareMemory => machine.relieve(&mut fx),
            Event::Reconfigure => machine.reconfigure(self.config(), now_ms, &mut fx),
            Event::Scheduled(..) | Event::DropScheduled(..) => ask_delayed(machine, event, &mut fx),
            Event::Replica(_) => {
                if let Event::Replica(about) = std::mem::replace(event, Event::Handled) {
                    self.handle_replica(machine, *about, now_ms, &mut fx);
                }
            }
            Event::Reloaded(_) | Event::Examine(_) | Event::Rest | Event::Handled => {}
        }
        if self.is_replicated() {
            self.go_on_filling(machine, now_ms, &mut fx);
        }
        self.follow_up(machine, checkpoints, now_ms, &mut fx);
        if *is_forgotten {
            fx.held_bodies.clear();
        }
        progress
    }

    /// A consumer comes; false when another one has the queue for itself.
    fn attach(
        &self,
        machine: &mut AnyMachine,
        spec: &ConsumerSpec,
        sink: &Arc<dyn ConsumerSink>,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) -> bool {
        // A consumer that its node has brought once more counts from here on with the new sink.
        let is_again = self.is_replicated() && fx.sinks.contains_key(&spec.id);
        let added = is_again || machine.add_consumer(spec.clone(), now_ms);
        if added {
            let attached = Attached { sink: sink.clone(), channel: spec.channel, tag: spec.tag.clone() };
            fx.sinks.insert(spec.id, attached);
        }
        if added && !is_again {
            self.tell_consumer_created(spec);
        }
        added
    }

    /// Does the work that an event left to be done at once.
    fn follow_up(
        &self,
        machine: &mut AnyMachine,
        checkpoints: &mut Vec<Reply<()>>,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        // A returned message is for the next get that waits, and nobody may wait for its answer either.
        loop {
            let got = std::mem::take(&mut fx.aftermath.got_without_ack);
            let stranded = std::mem::take(&mut fx.aftermath.got_by_nobody);
            if !got.is_empty() {
                machine.settle_unasked(&got, now_ms, fx);
            }
            if !stranded.is_empty() {
                machine.settle(SettleHow::Requeue, &stranded, now_ms, fx);
            }
            if got.is_empty() && stranded.is_empty() {
                break;
            }
        }
        // A queue deleted on the way hears no answers of the disk any more. Its part of the log is needed until that is durable.
        let is_closed = self.is_closed();
        if std::mem::take(&mut fx.aftermath.checkpointed) || is_closed {
            if !is_closed {
                self.oldest_log.store(machine.oldest_log_position(), Ordering::Release);
            }
            checkpoints.drain(..).for_each(|reply| reply.send(()));
        }
    }

    /// Feeds a handover to the machine and answers its confirms.
    fn publish(
        self: &Arc<Self>,
        machine: &mut AnyMachine,
        handover: &mut Handover,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        if self.takes_again(handover, &fx.aftermath.shipped) {
            return;
        }
        let picks = &handover.picks;
        let picked = Picked { batch: &handover.batch, picks };
        let whole = handover.batch.take_whole();
        let outcome = match machine {
            AnyMachine::Delayed(delayed) => take_in(delayed, &ToWait(picked), whole, now_ms, fx),
            // Members get the records as they are logged: with the bodies inside.
            AnyMachine::Classic(classic) if self.is_replicated() => {
                take_in(classic, &Unshared(picked), whole, now_ms, fx)
            }
            AnyMachine::Classic(classic) => take_in(classic, &picked, whole, now_ms, fx),
            AnyMachine::Stream(stream) => take_in(stream, &picked, whole, now_ms, fx),
            #[cfg(test)]
            AnyMachine::Memory(light) => take_in(light, &picked, whole, now_ms, fx),
        };
        self.services().stages.end_in(self.kind(), Stage::Enqueue, handover.batch.began);
        if outcome.rejected.is_empty() {
            self.note_taken(handover.id, &mut fx.aftermath.shipped);
        }
        // From here on it is answered.
        let Some(confirms) = handover.confirms.take() else { return };
        for nth in outcome.rejected {
            let (group, publish) = handover.batch.place(picks.nth(nth));
            confirms.reject(group, publish);
        }
        if let AnyMachine::Stream(stream) = machine {
            // The stream's own files have it, not the log.
            return self.confirm_when_committed(stream, confirms);
        }
        let waits = self.replica.get().and_then(|replica| replica.wait(outcome.log_position, &confirms));
        if waits.is_none() && confirms.answered(outcome.log_position) {
            self.services().confirm_when_durable(&confirms);
        }
    }

    /// The counts of the machine stay counted.
    pub(super) fn count_gone(&self, machine: &AnyMachine) {
        *self.services().counters.queues_gone.lock() += &machine.glance(0).totals;
    }

    fn delete(&self, machine: &mut AnyMachine, event: &mut Event, fx: &mut CellEffects<'_>) {
        let Event::Delete { if_unused, if_empty, reply, .. } = event else { return };
        let counts = machine.counts();
        // RabbitMQ looks at if-empty first (seen with 4.3.6).
        if *if_empty && counts.ready > 0 {
            reply.send(Err(Refused::NotEmpty(self.resource())));
            return;
        }
        if *if_unused && counts.consumers > 0 {
            reply.send(Err(Refused::InUse(self.resource())));
            return;
        }
        let ready = self.close(machine, fx);
        if let Event::Delete { reply, by, .. } = std::mem::replace(event, Event::Handled) {
            fx.aftermath.deleted = Some((ready, reply, by));
        }
    }

    /// Cancels consumers and forgets all messages; returns how many were ready.
    pub(super) fn close(&self, machine: &mut AnyMachine, fx: &mut CellEffects<'_>) -> u64 {
        self.condition.set(Condition::Deleted);
        let ready = machine.delete(fx);
        self.count_gone(machine);
        for (id, gone) in fx.sinks.drain() {
            self.tell_consumer_deleted(id, gone.channel, &gone.tag);
        }
        // A crash brings the queue back until its deletion is durable.
        fx.held_bodies.extend(machine.store().into_iter().flat_map(Store::bodies));
        fx.gathers.clear();
        *machine = self.new_machine(0);
        ready
    }
}

/// Hands messages to the machine: a batch, or one with a body of its own.
#[inline]
fn take_in<'a>(
    machine: &mut impl Machine,
    batch: &impl IncomingMessages<'a>,
    whole: Option<BodyBuffer>,
    now_ms: u64,
    fx: &mut CellEffects<'_>,
) -> PublishOutcome {
    match whole {
        None => machine.publish(batch, now_ms, fx),
        Some(body) => machine.publish_whole(&batch.message(0), body, now_ms, fx),
    }
}

/// Has the machine write its state, or empty segments of which little is needed: answered when that is over.
fn begin_checkpoint(
    machine: &mut AnyMachine,
    event: &mut Event,
    checkpoints: &mut Vec<Reply<()>>,
    fx: &mut CellEffects<'_>,
) {
    match std::mem::replace(event, Event::Handled) {
        Event::Checkpoint(position, vacate, reply) => {
            checkpoints.push(reply);
            machine.checkpoint(position, &vacate, fx);
        }
        Event::Compact(reply) => {
            checkpoints.push(reply);
            machine.compact(fx);
        }
        other => *event = other,
    }
}

/// Asks questions that only a queue of delayed messages answers.
fn ask_delayed(machine: &mut AnyMachine, event: &mut Event, fx: &mut CellEffects<'_>) {
    match (event, machine) {
        (Event::Scheduled(count_max, reply), AnyMachine::Delayed(delayed)) => {
            reply.send(delayed.scheduled(*count_max));
        }
        (Event::DropScheduled(seq, reply), AnyMachine::Delayed(delayed)) => {
            reply.send(delayed.drop_scheduled(*seq, fx));
        }
        (Event::Scheduled(_, reply), _) => reply.send(Vec::new()),
        (Event::DropScheduled(_, reply), _) => reply.send(false),
        _ => {}
    }
}

/// A client asks for one message, or somebody looks at one.
fn get(
    machine: &mut AnyMachine,
    event: &mut Event,
    next_get: &mut u64,
    now_ms: u64,
    fx: &mut CellEffects<'_>,
) {
    if let Event::Peek(position, reply) = event {
        return reply.send(machine.show_ready(*position, fx));
    }
    let Event::Get(ack_required, reply) = std::mem::replace(event, Event::Handled) else { return };
    let token = GetToken(*next_get);
    *next_get += 1;
    fx.gets.insert(token, GetReply { reply, ack_required });
    machine.get(token, now_ms, fx);
}

/// Settles what consumers of the queue's present life were handed.
fn settle(
    machine: &mut AnyMachine,
    event: &mut Event,
    since_reload: Option<&HashSet<ConsumerId>>,
    now_ms: u64,
    fx: &mut CellEffects<'_>,
) -> Progress {
    let Event::Settle(how, runs, began) = event else { return Progress::Done };
    if let Some(known) = since_reload {
        runs.retain(|run| run.consumer.is_none_or(|consumer| known.contains(&consumer)));
    }
    machine.settle(*how, runs, now_ms, fx);
    fx.queue.services().stages.end_in(fx.queue.kind(), Stage::Ack, *began);
    if portions::is_full(*how, runs) { Progress::Enough } else { Progress::Done }
}

/// Drops a portion of what is ready.
fn purge(machine: &mut AnyMachine, event: &mut Event, fx: &mut CellEffects<'_>) -> Progress {
    let Event::Purge(purged, reply) = event else { return Progress::Done };
    let count_max = PORTION_COUNT.into();
    let now = machine.purge(count_max, fx);
    *purged += now;
    if now >= count_max {
        return Progress::Part;
    }
    reply.send(*purged);
    Progress::Done
}

/// A consumer leaves. Answered when the queue that goes with it is gone, too.
fn cancel(machine: &mut AnyMachine, event: &mut Event, now_ms: u64, fx: &mut CellEffects<'_>) {
    let Event::Cancel(consumer, _) = event else { return };
    machine.cancel(*consumer, now_ms, fx);
    if let Some(gone) = fx.sinks.remove(consumer) {
        fx.queue.tell_consumer_deleted(*consumer, gone.channel, &gone.tag);
    }
    if let Event::Cancel(_, reply) = std::mem::replace(event, Event::Handled) {
        if fx.aftermath.is_gone() {
            fx.aftermath.last_cancelled = Some(reply);
        } else {
            reply.send(());
        }
    }
}

/// A block's own bytes, if they were asked for, and bodies that it shares.
type Parts = (Option<Vec<u8>>, Vec<HeldBody>);

/// A block without shared bodies.
fn alone(bytes: Vec<u8>) -> Parts {
    (Some(bytes), Vec::new())
}

/// The disk has answered.
fn take_from_disk(machine: &mut AnyMachine, event: &mut Event, now_ms: u64, fx: &mut CellEffects<'_>) {
    let answer = match event {
        Event::BlockWritten(token, place) => Some(DiskAnswer::Written(*token, *place)),
        Event::BlockLogged(token, is_durable) => Some(DiskAnswer::Logged(*token, *is_durable)),
        Event::BlocksSynced(are_durable) => Some(DiskAnswer::Synced(*are_durable)),
        _ => None,
    };
    if let Some(answer) = answer {
        give_back(machine, answer, now_ms, fx);
    }
    match event {
        Event::BlockRead(token, bytes) => match fx.gathers.iter_mut().find(|gather| gather.token == *token) {
            None => read_back(machine, *token, bytes.take().map(alone), now_ms, fx),
            Some(gather) => gather.take_block(bytes.take()),
        },
        Event::BodyRead(id, bytes) => {
            fx.gathers.iter_mut().for_each(|gather| gather.take_body(*id, bytes.as_ref()));
        }
        _ => {}
    }
    take_gathered(machine, now_ms, fx);
}

/// Blocks of which everything has come go back into the machine.
fn take_gathered(machine: &mut AnyMachine, now_ms: u64, fx: &mut CellEffects<'_>) {
    // The machine may ask for more meanwhile.
    while fx.aftermath.fault.is_none()
        && let Some(at) = fx.gathers.iter().position(Gather::is_complete)
    {
        let gather = fx.gathers.swap_remove(at);
        read_back(machine, gather.token, gather.into_parts(), now_ms, fx);
    }
}

/// A block came back from disk, or could not be read.
fn read_back(
    machine: &mut AnyMachine,
    token: BlockToken,
    parts: Option<Parts>,
    now_ms: u64,
    fx: &mut CellEffects<'_>,
) {
    let Some((bytes, bodies)) = parts else {
        fx.aftermath.fault = Some("a block cannot be read back");
        return;
    };
    give_back(machine, DiskAnswer::Read(token, bytes, &bodies), now_ms, fx);
}

fn give_back(machine: &mut AnyMachine, answer: DiskAnswer<'_>, now_ms: u64, fx: &mut CellEffects<'_>) {
    if !machine.disk_answered(answer, now_ms, fx) {
        fx.aftermath.fault = Some("a block read back does not hold what was written");
    }
}
