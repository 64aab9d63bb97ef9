//! Queues that live on another node: what is done to them here goes through the link to their home, and what comes of it comes back.
//!
//! [`origin`] is the side of the node whose client asks, [`home`] that of the node which has the messages; [`frames`] is what they say to each
//! other, all of it on the live lane and in order. When the link ends, both sides give up what it carried: publishes are nacked, consumers are
//! cancelled, deliveries that were not settled are put back.

pub(super) mod frames;
mod home;
pub(super) mod origin;
mod outlet;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::name::NodeName;
use super::peers::{Epoch, Lane, SharedPeers};
use crate::broker::Inner;
use home::Guests;
use origin::Asked;
use outlet::Outlet;

/// One other node that is linked.
pub(super) struct Far {
    outlet: Outlet,
    /// What this node has asked the other one.
    asked: Asked,
    /// What the other one uses here.
    guests: Guests,
}

/// All nodes that are linked, as far as their queues and this node's are concerned.
#[derive(Default)]
pub(crate) struct Fars {
    linked: RwLock<HashMap<NodeName, Arc<Far>>>,
    arriving: Mutex<super::frames::Arriving>,
    peers: OnceLock<SharedPeers>,
    /// Nodes that were linked before the links were known here.
    early: Mutex<Vec<NodeName>>,
    inner: OnceLock<Weak<Inner>>,
}

impl Fars {
    pub(super) fn start(&self, peers: SharedPeers) {
        let _is_first = self.peers.set(peers);
        let early = std::mem::take(&mut *self.early.lock());
        early.iter().for_each(|name| self.up(name));
    }

    pub(super) fn attach(&self, inner: Weak<Inner>) {
        let _is_first = self.inner.set(inner);
    }

    /// The node of that name, if it is linked.
    pub(super) fn get(&self, name: &NodeName) -> Option<Arc<Far>> {
        self.linked.read().get(name).cloned()
    }

    pub(super) fn up(&self, name: &NodeName) {
        self.down(name);
        let Some(peers) = self.peers.get() else {
            self.early.lock().push(name.clone());
            return;
        };
        let far = Far {
            outlet: Outlet::new(name.clone(), peers.clone()),
            asked: Asked::default(),
            guests: Guests::default(),
        };
        self.linked.write().insert(name.clone(), Arc::new(far));
    }

    pub(super) fn down(&self, name: &NodeName) {
        self.arriving.lock().forget(name);
        self.early.lock().retain(|early| early != name);
        let gone = self.linked.write().remove(name);
        if let Some(far) = gone {
            far.outlet.close();
            far.give_up();
            far.leave();
        }
    }

    /// What waits for room is tried again.
    pub(super) fn pump(&self) {
        let all: Vec<_> = self.linked.read().values().cloned().collect();
        all.iter().for_each(|far| far.outlet.pump());
    }

    pub(super) fn drained(&self, name: &NodeName) {
        if let Some(far) = self.get(name) {
            far.outlet.pump();
        }
    }

    /// A frame of the live lane; false when it cannot be read.
    pub(super) fn frame(&self, from: &NodeName, _epoch: Epoch, kind: u8, payload: Bytes) -> bool {
        let whole = self.arriving.lock().add(from, Lane::Live, kind, payload);
        let Some(message) = whole else { return true };
        let Some(far) = self.get(from) else { return true };
        let Some(inner) = self.inner.get().and_then(Weak::upgrade) else {
            return kind != frames::ASK || far.not_ready(message).is_some();
        };
        let read = match kind {
            frames::ASK => far.asked_by(&inner, message),
            frames::ANSWER => far.answered(&inner, message),
            frames::DELIVER => far.delivered(message),
            frames::NEWS => far.news(message),
            _ => None,
        };
        read.is_some()
    }

    /// Forgets all, so that nothing holds the broker.
    pub(super) fn abandon(&self) {
        let all: Vec<_> = self.linked.write().drain().collect();
        for (_, far) in all {
            far.outlet.close();
            far.give_up();
            far.leave();
        }
    }

    /// More of the metadata is applied here: what waited for it is tried again.
    pub(super) fn applied(&self, applied: u64) {
        let Some(inner) = self.inner.get().and_then(Weak::upgrade) else { return };
        let all: Vec<_> = self.linked.read().values().cloned().collect();
        all.iter().for_each(|far| far.try_again(&inner, applied));
    }
}
