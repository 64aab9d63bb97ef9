//! The part that this node has in a replicated queue, and what changes with it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use metadata::Replicas;
use parking_lot::{Mutex, RwLock};
use queues::{ConsumerId, ConsumerSpec, SettleHow};

use super::absent::Absent;
use super::held::{Held, Holder};
use super::seen::Seen;
use crate::cell::Event;
use crate::cell::portions::Runs;
use crate::cluster::far::Far;
use crate::cluster::replicas::leading::Leading;
use crate::data::batch::{BatchConfirms, HandoverId};
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
    /// Handovers of which the messages are here, or were.
    pub(super) seen: Mutex<Seen>,
    /// The log position behind the newest message that this node has logged since it started.
    pub(super) appended: AtomicU64,
    /// While this node leads: messages that clients of all nodes have since before.
    pub(super) claims: Claims,
    /// While this node leads: what clients of nodes have that cannot be reached.
    pub(super) absent: Mutex<HashMap<u16, Absent>>,
}

/// Something that concerns the members of a queue.
pub(crate) enum ReplicaEvent {
    /// The members are others, or somebody else leads.
    Changed,
    /// The leader can be reached again.
    LeaderLinked,
    /// The leader has not taken some consumers of this node.
    BringAgain,
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
    /// Members that lack messages may be sent more, or consumers may be served again.
    Fill,
    /// A node says what a client of it has since before this node led.
    Claim(Claiming),
    /// It has said everything.
    Claimed { node: u16, epoch: u32 },
    /// A claim of this node was not granted.
    Lost { epoch: u32, holder: Holder, numbers: Vec<Range<u64>> },
}

impl Replica {
    pub(crate) fn new(own: u16, life: u64, replicas: Arc<Replicas>) -> Replica {
        Replica {
            own,
            known: RwLock::new(replicas),
            begun: AtomicU32::new(0),
            brought: AtomicU32::new(0),
            leading: Mutex::default(),
            clients: Clients { life, ..Clients::default() },
            seen: Mutex::default(),
            appended: AtomicU64::new(0),
            claims: Claims::default(),
            absent: Mutex::default(),
        }
    }

    /// The name of a handover that goes to another node.
    pub(crate) fn next_id(&self) -> HandoverId {
        let number = self.clients.handed_over.fetch_add(1, Ordering::Relaxed);
        HandoverId { node: self.own, life: self.clients.life, number }
    }

    /// Whether the messages of a handover are here, or were.
    pub(crate) fn has_taken(&self, id: HandoverId) -> bool {
        self.seen.lock().has(id)
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
    /// Consumers that a leader did not take because it started: they are brought to it again.
    pub(super) to_bring_again: Mutex<Vec<ConsumerId>>,
    /// With the time when it began to wait.
    pub(super) waiting: Mutex<VecDeque<(u64, Event)>>,
    /// Settlements that wait until the leader knows who has what. They settle deliveries, and are no more than those.
    pub(super) settlements: Mutex<VecDeque<(SettleHow, Runs)>>,
    /// Unsettled deliveries.
    pub(super) held: Held,
    /// The epoch whose leader knows what clients of this node have; 0 when none does.
    pub(super) claimed: AtomicU32,
    /// Tells this life of the node from others.
    pub(super) life: u64,
    /// Handovers to other nodes.
    pub(super) handed_over: AtomicU64,
}

/// The deliveries that a node claims for one holder.
pub(crate) struct Claiming {
    pub(crate) epoch: u32,
    pub(crate) holder: Holder,
    pub(crate) numbers: Vec<Range<u64>>,
    /// The node; `None` for this one.
    pub(crate) far: Option<Arc<Far>>,
}

/// Claims at the leader.
#[derive(Default)]
pub(super) struct Claims {
    /// Whether somebody is waited for, or something waits for the disk.
    pub(super) are_open: AtomicBool,
    pub(super) open: Mutex<Open>,
}

#[derive(Default)]
pub(super) struct Open {
    pub(super) epoch: u32,
    /// Nodes that have not told everything.
    pub(super) nodes: BTreeSet<u16>,
    pub(super) until_ms: u64,
    /// The block of the first message of the first one is being read; all others wait behind it.
    pub(super) waiting: VecDeque<Claiming>,
    /// Settlements that came behind claims which wait.
    pub(super) settlements: Vec<Event>,
}

impl Claims {
    /// A node has told everything, or is gone.
    pub(super) fn told(&self, node: u16, epoch: u32) {
        let mut open = self.open.lock();
        if open.epoch == epoch {
            open.nodes.remove(&node);
        }
    }

    /// Nodes that have not told everything.
    pub(super) fn awaited(&self) -> Vec<u16> {
        let are_open = self.are_open.load(Ordering::Acquire);
        if are_open { self.open.lock().nodes.iter().copied().collect() } else { Vec::new() }
    }

    /// A node is gone. Returns whether it was waited for.
    pub(super) fn left(&self, node: u16) -> bool {
        self.are_open.load(Ordering::Acquire) && self.open.lock().nodes.remove(&node)
    }
}
