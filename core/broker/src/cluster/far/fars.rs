//! The nodes that are linked, as far as their queues and this node's are concerned.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use stdx::QueueId;

use super::frames;
use super::outlet::Outlet;
use super::replies;
use crate::cell::Queue;
use crate::cluster::far::known::{Asked, Far, Fars, Guests, Links};
use crate::cluster::name::NodeName;
use crate::cluster::peers::{DataId, Epoch, Lane, SharedPeers};
use crate::services::Services;

impl Fars {
    pub(in crate::cluster) fn start(&self, peers: SharedPeers) {
        let _is_first = self.peers.set(peers);
        let links: Vec<_> = self.links.lock().up.keys().cloned().collect();
        links.iter().for_each(|name| self.open(name));
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

    /// A node is linked: it may use the queues of this node, unless it is a stranger with the name of a member.
    pub(in crate::cluster) fn up(&self, name: &NodeName, data: DataId, version: u16) {
        self.down(name, true);
        self.links.lock().up.insert(name.clone(), (data, version));
        self.open(name);
    }

    /// These are the members of the cluster, each with its data.
    pub(in crate::cluster) fn members_are(&self, members: HashMap<NodeName, DataId>) {
        let mut links = self.links.lock();
        if links.members == members {
            return;
        }
        let strangers = |links: &Links| -> HashSet<NodeName> {
            links.up.keys().filter(|name| links.is_stranger(name)).cloned().collect()
        };
        let before = strangers(&links);
        links.members = members;
        let now = strangers(&links);
        drop(links);
        now.difference(&before).for_each(|name| self.close(name, false));
        before.difference(&now).for_each(|name| self.open(name));
    }

    /// Does nothing before the links are known here: [`Self::start`] opens them.
    fn open(&self, name: &NodeName) {
        let Some(peers) = self.peers.get() else { return };
        // The link stays locked: a node that is opened by two threads at the same moment is opened once.
        let links = self.links.lock();
        let Some(&(_, version)) = links.up.get(name).filter(|_| !links.is_stranger(name)) else { return };
        self.linked.write().entry(name.clone()).or_insert_with(|| {
            Arc::new(Far {
                outlet: Outlet::new(name.clone(), peers.clone()),
                version,
                asked: Asked::default(),
                guests: Guests::default(),
            })
        });
    }

    /// The link to a node has ended. `may_return`: its process may go on.
    pub(in crate::cluster) fn down(&self, name: &NodeName, may_return: bool) {
        self.links.lock().up.remove(name);
        self.close(name, may_return);
    }

    fn close(&self, name: &NodeName, may_return: bool) {
        self.arriving.lock().forget(name);
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

    /// Whether a majority of the cluster knows that this node is there. If not, other nodes may lead its queues by now.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Acquire)
    }

    /// Takes whether that is so. False when it was so before.
    pub(in crate::cluster) fn trust(&self, is_trusted: bool) -> bool {
        let is_news = self.is_trusted.swap(is_trusted, Ordering::AcqRel) != is_trusted;
        if is_news {
            self.replicated().iter().for_each(Queue::trust_changed);
        }
        is_news
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
        // Before the links are known here nothing can be answered: a link that is made anew tells the other node so.
        let Some(far) = self.get(from) else { return self.peers.get().is_some() };
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
