//! The nodes that are linked, as far as their queues and this node's are concerned.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use stdx::QueueId;

use super::frames;
use super::outlet::Outlet;
use super::replies;
use crate::cell::Queue;
use crate::cluster::far::known::{Asked, Far, Fars, Guests};
use crate::cluster::name::NodeName;
use crate::cluster::peers::{Epoch, Lane, SharedPeers};
use crate::services::Services;

impl Fars {
    pub(in crate::cluster) fn start(&self, peers: SharedPeers) {
        let _is_first = self.peers.set(peers);
        let early = std::mem::take(&mut *self.early.lock());
        early.iter().for_each(|(name, version)| self.up(name, *version));
    }

    pub(in crate::cluster) fn attach(&self, services: &Arc<Services>) {
        let _is_first = self.services.set(Arc::downgrade(services));
    }

    /// Parts that the queues of this node share, once the broker is there.
    pub(in crate::cluster) fn services(&self) -> Option<Arc<Services>> {
        self.services.get().and_then(Weak::upgrade)
    }

    /// The node of that name, if it is linked.
    pub(in crate::cluster) fn get(&self, name: &NodeName) -> Option<Arc<Far>> {
        self.linked.read().get(name).cloned()
    }

    pub(in crate::cluster) fn up(&self, name: &NodeName, version: u16) {
        self.down(name, true);
        let Some(peers) = self.peers.get() else {
            self.early.lock().push((name.clone(), version));
            return;
        };
        let far = Far {
            outlet: Outlet::new(name.clone(), peers.clone()),
            version,
            asked: Asked::default(),
            guests: Guests::default(),
        };
        self.linked.write().insert(name.clone(), Arc::new(far));
    }

    /// The link to a node has ended. `may_return`: its process may go on.
    pub(in crate::cluster) fn down(&self, name: &NodeName, may_return: bool) {
        self.arriving.lock().forget(name);
        self.early.lock().retain(|(early, _)| early != name);
        let is_linked = self.get(name).is_some();
        if is_linked {
            // Before anybody finds no link: settlements from here on wait for the next one.
            self.replicated().iter().for_each(|queue| queue.link_lost(name));
        }
        let gone = self.linked.write().remove(name);
        if let Some(far) = gone {
            far.outlet.close();
            far.give_up();
            far.leave(may_return);
        }
    }

    /// The policies of some queue say something else.
    pub(crate) fn note_policies(&self) {
        self.have_policies_changed.store(true, Ordering::Release);
    }

    /// Whether that has been so since this was asked before.
    pub(in crate::cluster) fn take_policies(&self) -> bool {
        self.have_policies_changed.swap(false, Ordering::AcqRel)
    }

    /// Several nodes have a queue.
    pub(in crate::cluster) fn note_replicated(&self, queue: &Arc<Queue>) {
        self.replicated.lock().insert(queue.id, Arc::downgrade(queue));
    }

    /// The queues that several nodes have.
    pub(in crate::cluster) fn replicated(&self) -> Vec<Arc<Queue>> {
        let mut all = self.replicated.lock();
        all.retain(|_, queue| queue.upgrade().is_some_and(|queue| !queue.is_removed()));
        all.values().filter_map(Weak::upgrade).collect()
    }

    /// A consumer of this node is brought to another node: deliveries on their way to it go back there.
    pub(in crate::cluster) fn forget_consumer(&self, consumer: queues::ConsumerId) {
        let all: Vec<_> = self.linked.read().values().cloned().collect();
        all.iter().for_each(|far| far.forget_consumer(consumer));
    }

    /// This node does not lead a queue any more.
    pub(in crate::cluster) fn forget_unsettled(&self, queue: QueueId) {
        let all: Vec<_> = self.linked.read().values().cloned().collect();
        all.iter().for_each(|far| far.forget_unsettled(queue));
    }

    /// So much of the metadata is about to be applied.
    pub(in crate::cluster) fn applying(&self, applied: u64) {
        self.applying.fetch_max(applied, Ordering::AcqRel);
    }

    /// The metadata that another node must have to understand what this one asks now.
    pub(in crate::cluster) fn needed(&self) -> u64 {
        self.applying.load(Ordering::Acquire)
    }

    /// Frames that wait for room are tried again.
    pub(in crate::cluster) fn pump(&self) {
        let all: Vec<_> = self.linked.read().values().cloned().collect();
        all.iter().for_each(|far| far.outlet.pump());
    }

    pub(in crate::cluster) fn drained(&self, name: &NodeName) {
        if let Some(far) = self.get(name) {
            far.outlet.pump();
        }
    }

    /// A frame of the live lane; false when it cannot be read.
    pub(in crate::cluster) fn frame(&self, from: &NodeName, _epoch: Epoch, kind: u8, payload: Bytes) -> bool {
        let whole = self.arriving.lock().add(from, Lane::Live, kind, payload);
        let Some(message) = whole else { return true };
        let Some(far) = self.get(from) else { return true };
        let Some(services) = self.services.get().and_then(Weak::upgrade) else {
            return kind != frames::ASK || far.not_ready(message).is_some();
        };
        let read = match kind {
            frames::ASK => far.asked_by(&services, message),
            frames::ANSWER => far.answered(&services, message),
            frames::DELIVER => far.delivered(message),
            frames::NEWS => far.news(message),
            frames::REPLY => replies::replied(&services, message),
            _ => None,
        };
        read.is_some()
    }

    /// Forgets all, so that nothing holds the broker.
    pub(in crate::cluster) fn abandon(&self) {
        let all: Vec<_> = self.linked.write().drain().collect();
        for (_, far) in all {
            far.outlet.close();
            far.give_up();
            far.leave(false);
        }
    }

    /// More of the metadata is applied here: work that waited for it is tried again.
    pub(in crate::cluster) fn applied(&self, applied: u64) {
        self.applying(applied);
        let Some(services) = self.services.get().and_then(Weak::upgrade) else { return };
        let all: Vec<_> = self.linked.read().values().cloned().collect();
        all.iter().for_each(|far| far.try_again(&services, applied));
    }
}
