//! Changes in a queue when this node's part in it changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metadata::Replicas;

use crate::cell::machine::AnyMachine;
use crate::cell::{Event, Queue};
use crate::cluster::replicas::leading::Leading;
use crate::cluster::replicas::role::{Replica, ReplicaEvent};
use crate::effects::CellEffects;

impl Queue {
    /// The metadata say who has the queue now.
    pub(crate) fn set_replicas(self: &Arc<Self>, replicas: &Arc<Replicas>) {
        let own = self.services().own_node;
        let replica =
            self.replica.get_or_init(|| Box::new(Replica::new(own, self.life_number(), replicas.clone())));
        let before = std::mem::replace(&mut *replica.known.write(), replicas.clone());
        if let Some(cluster) = &self.services().cluster {
            cluster.fars().note_replicated(self);
            if before.leader == own && before.epoch != replicas.epoch {
                cluster.fars().forget_unsettled(self.id);
            }
        }
        // The caller holds the metadata.
        self.submit_later(Event::Replica(Box::new(ReplicaEvent::Changed)));
    }

    /// A number that no earlier start of this node has used for handovers.
    fn life_number(&self) -> u64 {
        u64::from_be_bytes(self.services().random_bytes())
    }

    /// Whether another leader than the one of before gets the consumers of this node; once.
    pub(super) fn is_to_bring(&self, replica: &Replica) -> bool {
        let epoch = replica.known().epoch;
        replica.brought.swap(epoch, Ordering::AcqRel) != epoch
    }

    /// At the start of a turn: the machine takes the part that the metadata give this node.
    pub(crate) fn take_part(
        self: &Arc<Self>,
        machine: &mut AnyMachine,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        let Some(replica) = self.replica.get() else { return };
        let AnyMachine::Classic(classic) = machine else { return };
        let known = replica.known();
        let leads = known.leader == replica.own;
        if !replica.has_begun(known.epoch) {
            self.end_part(replica, fx);
            if leads {
                self.await_claims(replica, classic, known.epoch, now_ms);
                classic.let_follow(false, known.epoch, now_ms, fx);
                *replica.leading.lock() = Some(Leading::new(replica.own, &known, now_ms));
            } else {
                // A node that is no member keeps its copy: when it is added again it goes on from there.
                classic.let_follow(true, 0, now_ms, fx);
            }
            replica.begun.store(known.epoch, Ordering::Release);
            if leads {
                self.begin_members(classic, now_ms, fx);
            } else if known.has(replica.own) {
                self.tell_leader(&known);
            }
        } else if leads == classic.follows() {
            // It has been at rest.
            classic.let_follow(!leads, known.epoch, now_ms, fx);
        }
        fx.aftermath.shipped.turn_on(leads);
    }

    /// Consumers and gets of this node's cell end: those who have them bring them to the next leader.
    fn end_part(&self, replica: &Replica, fx: &mut CellEffects<'_>) {
        let given_up = replica.leading.lock().take().map(|mut leading| leading.give_up()).unwrap_or_default();
        for (_, confirms) in given_up {
            // Nobody knows whether the next leader has them: the publisher is told that they may be lost.
            confirms.reject_all();
            if confirms.answered(0) {
                self.services().confirm_when_durable(&confirms);
            }
        }
        for (id, gone) in fx.sinks.drain() {
            self.tell_consumer_deleted(id, gone.channel, &gone.tag);
        }
        for (_, get) in fx.gets.drain() {
            get.reply.send(Err(self.home_down()));
        }
    }
}
