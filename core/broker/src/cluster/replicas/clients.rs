//! Clients of this node at a replicated queue, wherever its leader is. Consumers are brought to each new leader; requests that nobody can
//! answer now wait for one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use queues::{ConsumerId, ConsumerSpec, GotMessage, SettleHow, SettleRun};

use super::role::{Replica, ReplicaEvent};
use crate::call::{Call, Reply};
use crate::cell::{Event, Queue};
use crate::cluster::awaited::Awaited;
use crate::cluster::far::origin;
use crate::cluster::name::NodeName;
use crate::data::consume::ConsumerSink;
use crate::stages::Began;

/// How long something waits for a leader before it is refused.
const WAIT_MS: u64 = 30_000;

impl Replica {
    /// Whether the leader knows what clients of this node have.
    fn has_claimed(&self) -> bool {
        self.clients.claimed.load(Ordering::Acquire) == self.known().epoch
    }

    /// The leader of this epoch did not take a consumer, because it starts. All consumers are brought to the leader of a later epoch anyway.
    pub(in crate::cluster) fn bring_again(&self, consumer: ConsumerId, epoch: u32) {
        if self.known().epoch == epoch {
            self.clients.to_bring_again.lock().push(consumer);
        }
    }

    /// Whether the leader has not taken a consumer.
    pub(in crate::cluster) fn is_to_bring_again(&self) -> bool {
        !self.clients.to_bring_again.lock().is_empty()
    }
}

/// Whether these are deliveries to consumers of a node.
fn is_of_node(runs: &[SettleRun], node: u16) -> bool {
    runs.iter().all(|run| run.consumer.is_some_and(|consumer| consumer.connection.node == node))
}

impl Queue {
    /// A client of this node asks for something: its messages are noted. `None` for a request that waits until the leader knows of that.
    pub(crate) fn note_client(self: &Arc<Self>, event: Event) -> Option<Event> {
        let Some(replica) = self.replica.get() else { return Some(event) };
        match event {
            Event::Consume(spec, sink, reply) => Some(self.note_consumer(replica, spec, sink, reply)),
            Event::Cancel(id, reply) => {
                replica.clients.consumers.lock().remove(&id);
                replica.clients.held.cancelled(id);
                Some(Event::Cancel(id, reply))
            }
            Event::Get(true, reply) => Some(self.note_get(reply)),
            Event::Settle(how, runs, _) if !replica.has_claimed() => {
                replica.clients.settlements.lock().push_back((how, runs));
                // It may have claimed meanwhile.
                if replica.has_claimed() {
                    self.release_settlements(replica);
                }
                None
            }
            Event::Settle(how, mut runs, began) => {
                replica.clients.held.settle(&mut runs);
                (!runs.is_empty()).then_some(Event::Settle(how, runs, began))
            }
            other => Some(other),
        }
    }

    fn note_consumer(
        self: &Arc<Self>,
        replica: &Replica,
        spec: Box<ConsumerSpec>,
        sink: Arc<dyn ConsumerSink>,
        reply: Reply<Result<(), crate::Refused>>,
    ) -> Event {
        let id = spec.id;
        let sink = if spec.ack_required { replica.clients.held.noting(id, sink) } else { sink };
        let noted = ((*spec).clone(), sink.clone());
        replica.clients.consumers.lock().insert(id, noted);
        let (answer, call) = Call::pair();
        let (queue, epoch) = (self.clone(), replica.known().epoch);
        Awaited::begin(call, move |answer: Result<(), crate::Refused>| {
            let Some(replica) = queue.replica.get() else { return reply.send(answer) };
            match answer {
                Err(crate::Refused::HomeDown { .. }) => {
                    replica.bring_again(id, epoch);
                    return reply.send(Ok(()));
                }
                Err(_) => {
                    replica.clients.consumers.lock().remove(&id);
                    replica.clients.held.cancelled(id);
                }
                Ok(()) => {}
            }
            reply.send(answer);
        });
        Event::Consume(spec, sink, answer)
    }

    fn note_get(self: &Arc<Self>, reply: Reply<Result<Option<GotMessage>, crate::Refused>>) -> Event {
        let (answer, call) = Call::pair();
        let queue = self.clone();
        Awaited::begin(call, move |answer: Result<Option<GotMessage>, crate::Refused>| {
            let got = answer.as_ref().ok().and_then(|got| got.as_ref()).map(|got| got.seq);
            if let (Some(seq), Some(replica)) = (got, queue.replica.get()) {
                replica.clients.held.note(None, seq.0..seq.0 + 1);
                if reply.is_abandoned() {
                    // The connection ended meanwhile.
                    let run = SettleRun { consumer: None, first: seq, count: 1 };
                    return queue.settle(SettleHow::Requeue, &[run]);
                }
            }
            reply.send(answer);
        });
        Event::Get(true, answer)
    }

    /// An event of a client for a cell that does not lead: it goes to the leader. False for what the cell does itself.
    pub(crate) fn redirect(self: &Arc<Self>, event: &mut Event) -> bool {
        let Some(replica) = self.replica.get() else { return false };
        match std::mem::replace(event, Event::Handled) {
            Event::Consume(spec, sink, reply) => {
                // A client of this node is brought to each leader; one of another node is by that.
                let is_noted = replica.clients.consumers.lock().contains_key(&spec.id);
                drop(sink);
                reply.send(if is_noted { Ok(()) } else { Err(self.home_down()) });
                true
            }
            // The leader has no consumer of this cell.
            Event::Cancel(_, reply) => {
                reply.send(());
                true
            }
            Event::Resume(_) | Event::Credit(..) => true,
            // The next leader has to know first who has what.
            Event::Settle(how, runs, _) if is_of_node(&runs, replica.own) => {
                let has_claimed = replica.has_claimed();
                for run in &runs {
                    let numbers = run.first.0..run.first.0.saturating_add(run.count.into());
                    replica.clients.held.note(run.consumer, numbers.clone());
                    if has_claimed {
                        self.claim(replica, run.consumer, vec![numbers]);
                    }
                }
                replica.clients.settlements.lock().push_back((how, runs));
                if has_claimed {
                    self.release_settlements(replica);
                }
                true
            }
            client @ (Event::Publish(_)
            | Event::Settle(..)
            | Event::Get(..)
            | Event::Purge(..)
            | Event::Counts(_)
            | Event::Stats(_)
            | Event::Delete { .. }
            | Event::Touch) => {
                if self.is_elsewhere() {
                    self.submit_elsewhere(client);
                } else {
                    self.hold_for_leader(client);
                }
                true
            }
            other => {
                *event = other;
                false
            }
        }
    }

    /// Nobody can answer this now.
    pub(crate) fn hold_for_leader(self: &Arc<Self>, event: Event) {
        let Some(replica) = self.replica.get() else { return origin::refuse(self, event) };
        match event {
            // The next leader knows nothing of these.
            Event::Settle(..) | Event::Resume(_) | Event::Credit(..) | Event::Touch => {}
            // Consumers are brought to the next leader.
            Event::Consume(_, _, reply) => reply.send(Err(self.home_down())),
            Event::Cancel(_, reply) => reply.send(()),
            event => {
                if let Event::Publish(handover) = &event {
                    self.sent_elsewhere(handover.batch.bytes());
                }
                let now_ms = self.services().now_ms();
                replica.clients.waiting.lock().push_back((now_ms, event));
            }
        }
    }

    /// Somebody else leads, or can be reached again: consumers of this node go there, and waiting requests do.
    pub(super) fn leader_changed(self: &Arc<Self>) {
        let Some(replica) = self.replica.get() else { return };
        if !self.can_reach_leader() {
            return;
        }
        replica.clients.to_bring_again.lock().clear();
        let consumers: Vec<_> = {
            let all = replica.clients.consumers.lock();
            all.values().map(|(spec, sink)| (spec.clone(), sink.clone())).collect()
        };
        for (spec, sink) in consumers {
            self.bring_consumer(replica, spec, sink);
        }
        self.claim_from_leader(replica);
    }

    /// The leader has not taken some consumers of this node, and perhaps no claims.
    pub(super) fn bring_consumers_again(self: &Arc<Self>, replica: &Replica) {
        let again = std::mem::take(&mut *replica.clients.to_bring_again.lock());
        for id in &again {
            let noted = replica.clients.consumers.lock().get(id).cloned();
            if let Some((spec, sink)) = noted {
                self.bring_consumer(replica, spec, sink);
            }
        }
        self.claim_from_leader(replica);
    }

    fn claim_from_leader(self: &Arc<Self>, replica: &Replica) {
        let epoch = replica.known().epoch;
        self.claim_held(replica);
        replica.clients.claimed.store(epoch, Ordering::Release);
        self.release_settlements(replica);
        self.release_held(|_| true);
    }

    /// The link to a node has ended: if that leads, it forgets what clients of this node have.
    pub(crate) fn link_lost(&self, name: &NodeName) {
        let (Some(replica), Some(cluster)) = (self.replica.get(), &self.services().cluster) else { return };
        if cluster.view().member(replica.leader()).is_some_and(|leader| leader.name == *name) {
            replica.clients.claimed.store(0, Ordering::Release);
        }
    }

    fn release_settlements(self: &Arc<Self>, replica: &Replica) {
        let all = std::mem::take(&mut *replica.clients.settlements.lock());
        for (how, mut runs) in all {
            replica.clients.held.settle(&mut runs);
            if !runs.is_empty() {
                self.submit_to_leader(Event::Settle(how, runs, Began::default()));
            }
        }
    }

    fn bring_consumer(
        self: &Arc<Self>,
        replica: &Replica,
        mut spec: ConsumerSpec,
        sink: Arc<dyn ConsumerSink>,
    ) {
        let (id, epoch) = (spec.id, replica.known().epoch);
        if let Some(cluster) = &self.services().cluster {
            cluster.fars().forget_consumer(id);
        }
        if let Some((taken, _)) = sink.credit(id.token) {
            spec.delivered_before = taken;
        }
        let (reply, call) = Call::pair();
        let queue = self.clone();
        let told = sink.clone();
        self.submit_to_leader(Event::Consume(Box::new(spec), sink, reply));
        Awaited::begin(call, move |answer: Result<(), crate::Refused>| match answer {
            Ok(()) => {
                queue.bring_credit(id, &*told);
                queue.submit_to_leader(Event::Resume(id));
            }
            Err(refused) => {
                let Some(replica) = queue.replica.get() else { return };
                if matches!(refused, crate::Refused::HomeDown { .. }) {
                    return replica.bring_again(id, epoch);
                }
                replica.clients.consumers.lock().remove(&id);
                told.cancelled(id.token);
            }
        });
    }

    /// Tells the leader how much a consumer has asked for.
    fn bring_credit(self: &Arc<Self>, id: ConsumerId, sink: &dyn ConsumerSink) {
        let mut told = None;
        // It may ask for more meanwhile, and what is told last counts.
        while let Some((_, credit)) = sink.credit(id.token).filter(|(_, credit)| told != Some(*credit)) {
            told = Some(credit);
            self.submit_to_leader(Event::Credit(id, credit));
        }
    }

    /// Brings what waited to the leader, or has it wait again.
    fn release_held(self: &Arc<Self>, goes: impl Fn(u64) -> bool) {
        let Some(replica) = self.replica.get() else { return };
        let held = std::mem::take(&mut *replica.clients.waiting.lock());
        let (gone, stay): (VecDeque<_>, VecDeque<_>) = held.into_iter().partition(|(since, _)| goes(*since));
        if !stay.is_empty() {
            let mut held = replica.clients.waiting.lock();
            stay.into_iter().rev().for_each(|event| held.push_front(event));
        }
        for (_, event) in gone {
            if let Event::Publish(handover) = &event {
                self.taken_elsewhere(handover.batch.bytes());
            }
            self.submit_to_leader(event);
        }
    }

    /// Requests that have waited for too long are refused. If there is a leader by now, all requests go there.
    pub(super) fn look_at_held(self: &Arc<Self>, now_ms: u64) {
        let Some(replica) = self.replica.get() else { return };
        if self.can_reach_leader() && replica.is_to_bring_again() {
            self.submit_later(Event::Replica(Box::new(ReplicaEvent::BringAgain)));
        }
        if replica.clients.waiting.lock().is_empty() {
            return;
        }
        if self.can_reach_leader() {
            return self.release_held(|_| true);
        }
        let mut old = Vec::new();
        {
            let mut held = replica.clients.waiting.lock();
            while held.front().is_some_and(|(since, _)| since + WAIT_MS <= now_ms) {
                old.extend(held.pop_front());
            }
        }
        for (_, event) in old {
            if let Event::Publish(handover) = &event {
                self.taken_elsewhere(handover.batch.bytes());
            }
            origin::refuse(self, event);
        }
    }
}
