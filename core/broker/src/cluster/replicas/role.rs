//! The part that this node has in a replicated queue, and what changes with it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use metadata::Replicas;
use parking_lot::{Mutex, RwLock};
use queues::{ConsumerId, ConsumerSpec};

use crate::cell::Event;
use crate::cluster::far::Far;
use crate::cluster::replicas::leading::Leading;
use crate::data::batch::BatchConfirms;
use crate::data::consume::ConsumerSink;

/// A confirm, and the position of this node's log that it needs, too.
pub(super) type Waiting = (u64, Arc<BatchConfirms>);

/// A queue that several nodes have, as this node knows it.
pub(crate) struct Replica {
    pub(super) own: u16,
    pub(super) known: RwLock<Arc<Replicas>>,
    /// The epoch for which the cell has taken its part; 0 before the first.
    pub(super) begun: AtomicU32,
    /// The epoch whose leader has the consumers of this node.
    pub(super) brought: AtomicU32,
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
    pub(super) fn has_begun(&self, epoch: u32) -> bool {
        self.begun.load(Ordering::Acquire) == epoch
    }
}

/// Clients of this node at a replicated queue.
#[derive(Default)]
pub(super) struct Clients {
    pub(super) consumers: Mutex<HashMap<ConsumerId, (ConsumerSpec, Arc<dyn ConsumerSink>)>>,
    /// With the time when it began to wait.
    pub(super) held: Mutex<VecDeque<(u64, Event)>>,
}
