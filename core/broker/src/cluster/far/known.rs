//! This node's knowledge of the queues of others: questions on their way, consumers on both sides. Refuses to know what happens to them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use queues::{ConsumerId, GotMessage, MessageSeq, QueueCounts, QueueStats};
use stdx::{QueueId, RunSet};

use crate::call::Reply;
use crate::cell::Queue;
use crate::cluster::counted::Counted;
use crate::cluster::far::carried::Carried;
use crate::cluster::far::outlet::Outlet;
use crate::cluster::name::NodeName;
use crate::cluster::peers::{DataId, SharedPeers};
use crate::cluster::view::View;
use crate::control::deleted::DeletedQueue;
use crate::data::batch::Handover;
use crate::data::consume::ConsumerSink;
use crate::data::reply::FarRequester;
use crate::refused::Refused;
use crate::services::Services;

/// One other node that is linked.
pub(crate) struct Far {
    pub(super) outlet: Outlet,
    /// The version that both nodes speak.
    pub(super) version: u16,
    /// This node's questions to the other one.
    pub(super) asked: Asked,
    /// Queues of this node that the other one uses.
    pub(super) guests: Guests,
}

/// All nodes that are linked, as far as their queues and this node's are concerned.
#[derive(Default)]
pub(crate) struct Fars {
    pub(super) linked: RwLock<HashMap<NodeName, Arc<Far>>>,
    pub(super) arriving: Mutex<crate::cluster::frames::Arriving>,
    pub(super) peers: OnceLock<SharedPeers>,
    /// All links, whether their nodes may use queues or not.
    pub(super) links: Mutex<Links>,
    pub(super) services: OnceLock<Weak<Services>>,
    /// So much of the metadata is applied, or is being applied while the view does not show it yet.
    pub(super) applying: AtomicU64,
    /// Policies may ask for other members.
    pub(super) have_policies_changed: AtomicBool,
    /// Queues that several nodes have.
    pub(super) replicated: Mutex<HashMap<QueueId, Weak<Queue>>>,
    /// A majority of the cluster knows that this node is there.
    pub(super) is_trusted: AtomicBool,
}

/// The links that are up, and the members of the cluster.
#[derive(Default)]
pub(super) struct Links {
    /// Each with the data of the node at the other end and the version that both speak.
    pub(super) up: HashMap<NodeName, (DataId, u16)>,
    pub(super) members: HashMap<NodeName, DataId>,
}

impl Links {
    /// Whether the node at the other end has a member's name and other data than the member: its disk was lost, or it is a node of another cluster.
    pub(super) fn is_stranger(&self, name: &NodeName) -> bool {
        let (member, linked) = (self.members.get(name), self.up.get(name));
        member.zip(linked).is_some_and(|(member, linked)| *member != linked.0)
    }
}

/// A question on its way.
pub(super) enum Question {
    Publish(Handover),
    Get(bool, Reply<Result<Option<GotMessage>, Refused>>),
    Purge(Reply<u64>),
    Counts(Reply<Result<QueueCounts, Refused>>),
    Stats(Reply<QueueStats>),
    Delete(Reply<Result<DeletedQueue, Refused>>),
    Consume(ConsumerId, Reply<Result<(), Refused>>),
    Cancel(ConsumerId, Reply<()>),
}

/// A consumer of this node at a queue of the other one.
pub(super) struct Abroad {
    pub(super) queue: Arc<Queue>,
    pub(super) id: ConsumerId,
    pub(super) channel: u16,
    pub(super) sink: Arc<dyn ConsumerSink>,
    pub(super) waiting: Mutex<Arrived>,
}

#[derive(Default)]
pub(super) struct Arrived {
    /// Bytes that the session has not taken.
    pub(super) deliveries: VecDeque<(MessageSeq, bool, Carried)>,
    /// Bytes that it has taken and the home has not been told of.
    pub(super) freed_bytes: u64,
    pub(super) is_cancelled: bool,
}

/// Questions of this node to another one, and its consumers there.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) next: AtomicU64,
    pub(super) open: Mutex<HashMap<u64, (Arc<Queue>, Question)>>,
    pub(super) consumers: Mutex<HashMap<ConsumerId, Arc<Abroad>>>,
}

/// The holder of unsettled deliveries: a consumer, or the clients that got them one by one.
pub(super) type Holder = (QueueId, Option<ConsumerId>);

/// Queues of this node that another node uses.
#[derive(Default)]
pub(super) struct Guests {
    pub(super) consumers: Mutex<HashMap<ConsumerId, (Arc<Queue>, Arc<Guest>)>>,
    pub(super) unsettled: Mutex<HashMap<Holder, RunSet>>,
    /// Questions about queues that this node has not heard of yet, or does not lead yet, and all behind them.
    pub(super) early: Mutex<VecDeque<(u64, Bytes)>>,
    pub(super) services: Mutex<Weak<Services>>,
}

/// A consumer of another node, as its queue knows it.
pub(super) struct Guest {
    pub(super) far: Weak<Far>,
    pub(super) queue: QueueId,
    pub(super) id: ConsumerId,
    pub(super) ack_required: bool,
    pub(super) room_bytes: Mutex<i64>,
}

/// Questions of queues to the cluster of their node.
pub(crate) trait Surroundings: Send + Sync {
    /// This node's view of the cluster.
    fn view(&self) -> Arc<View>;

    /// The nodes that are linked.
    fn fars(&self) -> &Fars;

    /// The requester behind an address of another node; `None` when that is not linked.
    fn requester(&self, node: u16, vhost: &str, address: &[u8]) -> Option<Box<dyn FarRequester>>;

    /// Something about nodes or members of queues is to be noted. May be lost: a node that needs it asks again.
    fn step(&self, step: metadata::ClusterStep);

    /// This node has another number of clients of something with a limit.
    fn counted(&self, counted: Counted);

    /// How many of these clients the other nodes have.
    fn counted_elsewhere(&self, counted: &Counted) -> u64;

    /// Does something when this node has all that the cluster had committed when it was asked.
    fn when_caught_up(&self, then: Box<dyn FnOnce() + Send>);
}
