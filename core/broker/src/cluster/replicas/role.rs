//! The part that this node has in a replicated queue, and what changes with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use metadata::Replicas;
use parking_lot::{Mutex, RwLock};

use super::clients::Clients;
use super::leading::Leading;
use crate::cell::machine::AnyMachine;
use crate::cell::{Event, Queue};
use crate::cluster::far::Far;
use crate::data::batch::BatchConfirms;
use crate::effects::CellEffects;

/// A confirm, and the position of this node's log that it needs, too.
pub(super) type Waiting = (u64, Arc<BatchConfirms>);

/// A queue that several nodes have, as this node knows it.
pub(crate) struct Replica {
    pub(super) own: u16,
    known: RwLock<Arc<Replicas>>,
    /// The epoch for which the cell has taken its part; 0 before the first.
    begun: AtomicU32,
    /// The epoch whose leader has the consumers of this node.
    brought: AtomicU32,
    /// While this node leads. Taken for a moment only.
    pub(super) leading: Mutex<Option<Leading<Waiting>>>,
    /// Clients of this node.
    pub(super) clients: Clients,
}

/// Something that concerns the members of a queue.
pub(crate) enum ReplicaEvent {
    /// The members are others, or somebody else leads.
    Changed,
    /// The leader can be reached again.
    LeaderLinked,
    /// A member is linked: it is told what lives.
    Begin(u16),
    /// The leader tells what lives: this node keeps nothing else, and says what it has.
    Sync { epoch: u32, live: Bytes, far: Arc<Far> },
    /// Records of the leader.
    Records { epoch: u32, number: u64, records: Bytes, far: Arc<Far> },
    /// A member has said what it has.
    Has { node: u16, epoch: u32, cursor: Bytes },
    /// A member knows of this leader.
    Here { node: u16, epoch: u32 },
    /// Members that lack messages may be sent more.
    Fill,
}

impl Replica {
    pub(crate) fn new(own: u16, replicas: Arc<Replicas>) -> Replica {
        Replica {
            own,
            known: RwLock::new(replicas),
            begun: AtomicU32::new(0),
            brought: AtomicU32::new(0),
            leading: Mutex::default(),
            clients: Clients::default(),
        }
    }

    /// The members, as this node knows them.
    pub(crate) fn known(&self) -> Arc<Replicas> {
        self.known.read().clone()
    }

    /// The leader, as far as this node knows.
    pub(crate) fn leader(&self) -> u16 {
        self.known.read().leader
    }

    /// Whether this node leads, as far as it knows.
    pub(crate) fn leads(&self) -> bool {
        self.leader() == self.own
    }

    /// Whether the cell leads, in this epoch.
    fn has_begun(&self, epoch: u32) -> bool {
        self.begun.load(Ordering::Acquire) == epoch
    }
}

impl Queue {
    /// The metadata say who has the queue now.
    pub(crate) fn set_replicas(self: &Arc<Self>, replicas: &Arc<Replicas>) {
        let own = self.services().own_node;
        let replica = self.replica.get_or_init(|| Box::new(Replica::new(own, replicas.clone())));
        *replica.known.write() = replicas.clone();
        if let Some(cluster) = &self.services().cluster {
            cluster.fars().note_replicated(self);
        }
        // The caller holds the metadata.
        self.submit_later(Event::Replica(Box::new(ReplicaEvent::Changed)));
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
