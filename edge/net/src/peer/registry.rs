//! The nodes that are known, and which of them are connected. Of each pair the node with the smaller name decides which connection counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::cluster::NodeName;
use broker::cluster::peers::{DownReason, Epoch, PeerIdentity, PeerStatus};
use parking_lot::RwLock;
use platform::Clock;
use wire::peer::Verdict;

use super::link::Link;

/// A link that has been up for less is not replaced by another of the same process: both sides have dialled at once.
const YOUNG_MS: u64 = 2_000;
/// A connection that has been welcomed comes up within this time, or another one may.
const COMING_MS: u64 = 5_000;
/// Nodes that are known at most; further ones are refused.
const NODES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Registry {
    nodes: RwLock<BTreeMap<NodeName, Entry>>,
    last_epoch: AtomicU64,
}

struct Entry {
    identity: PeerIdentity,
    address: String,
    link: Option<Arc<Link>>,
    /// When a connection was welcomed that is not up yet.
    coming_ms: Option<u64>,
}

impl Registry {
    pub(super) fn next_epoch(&self) -> Epoch {
        Epoch(self.last_epoch.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The fate of a new connection, by the node that decides. After a welcome others are refused until it is up or [`Self::abandon`]ed.
    pub(super) fn admit(&self, peer: &PeerIdentity, instance: u64, now_ms: u64) -> Verdict {
        let mut nodes = self.nodes.write();
        if !nodes.contains_key(&peer.name) && nodes.len() >= NODES_MAX {
            return Verdict::Busy;
        }
        let entry = nodes.entry(peer.name.clone()).or_insert_with(|| Entry::new(peer));
        if entry.coming_ms.is_some_and(|since| now_ms.saturating_sub(since) < COMING_MS) {
            return Verdict::Linked;
        }
        if let Some(link) = &entry.link {
            if link.peer.data_id != peer.data_id {
                return Verdict::NameTaken;
            }
            if link.instance == instance && now_ms.saturating_sub(link.since_ms) < YOUNG_MS {
                return Verdict::Linked;
            }
        }
        entry.coming_ms = Some(now_ms);
        Verdict::Welcome
    }

    /// A connection that was welcomed does not come up.
    pub(super) fn abandon(&self, name: &NodeName) {
        if let Some(entry) = self.nodes.write().get_mut(name) {
            entry.coming_ms = None;
        }
    }

    /// Makes this the link to its node, once the one before has ended.
    pub(super) async fn enter(&self, link: &Arc<Link>, address: &str) {
        while let Some(before) = self.try_enter(link, address) {
            before.close(DownReason::Replaced);
            before.ended().await;
        }
    }

    fn try_enter(&self, link: &Arc<Link>, address: &str) -> Option<Arc<Link>> {
        let mut nodes = self.nodes.write();
        let entry = nodes.entry(link.peer.name.clone()).or_insert_with(|| Entry::new(&link.peer));
        if let Some(before) = &entry.link {
            return Some(before.clone());
        }
        entry.identity = link.peer.clone();
        if !address.is_empty() {
            address.clone_into(&mut entry.address);
        }
        entry.link = Some(link.clone());
        entry.coming_ms = None;
        None
    }

    /// The link has ended.
    pub(super) fn leave(&self, link: &Link) {
        if let Some(entry) = self.nodes.write().get_mut(&link.peer.name)
            && entry.link.as_ref().is_some_and(|known| known.epoch == link.epoch)
        {
            entry.link = None;
        }
    }

    /// Takes a node out, with its link if it has one.
    pub(super) fn forget(&self, name: &NodeName) -> Option<Arc<Link>> {
        self.nodes.write().remove(name)?.link
    }

    pub(super) fn link(&self, name: &NodeName) -> Option<Arc<Link>> {
        self.nodes.read().get(name)?.link.clone()
    }

    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        self.nodes.read().values().filter_map(|entry| entry.link.clone()).collect()
    }

    /// Names and addresses of those that are connected.
    pub(super) fn addresses(&self) -> Vec<(NodeName, String)> {
        let nodes = self.nodes.read();
        let connected = nodes.iter().filter(|(_, entry)| entry.link.is_some() && !entry.address.is_empty());
        connected.map(|(name, entry)| (name.clone(), entry.address.clone())).collect()
    }

    pub(super) fn statuses(&self, clock: &dyn Clock) -> Vec<PeerStatus> {
        let nodes = self.nodes.read();
        let status = |entry: &Entry| PeerStatus {
            identity: entry.identity.clone(),
            address: entry.address.clone(),
            link: entry.link.as_ref().map(|link| link.status(clock)),
        };
        nodes.values().filter(|entry| entry.link.is_some() || !entry.address.is_empty()).map(status).collect()
    }
}

impl Entry {
    fn new(peer: &PeerIdentity) -> Entry {
        Entry { identity: peer.clone(), address: String::new(), link: None, coming_ms: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::cluster::peers::{DataId, VersionRange};
    use platform::RealClock;

    fn peer(name: &str, folder: u8) -> PeerIdentity {
        let versions = VersionRange { min: 1, max: 1 };
        PeerIdentity { name: NodeName::new(name).unwrap(), data_id: DataId([folder; 16]), life: 1, versions }
    }

    #[tokio::test]
    async fn one_connection_of_a_pair_counts() {
        let (registry, clock) = (Registry::default(), RealClock::new());
        let b = peer("b@x", 1);
        assert_eq!(registry.admit(&b, 7, 0), Verdict::Welcome);
        assert_eq!(registry.admit(&b, 7, COMING_MS - 1), Verdict::Linked, "both have dialled at once");
        assert_eq!(registry.admit(&b, 7, COMING_MS), Verdict::Welcome, "the first one never came up");
        let link = Arc::new(Link::new(b.clone(), 7, registry.next_epoch(), &clock));
        registry.enter(&link, "x:1").await;
        assert_eq!(registry.admit(&b, 7, link.since_ms + YOUNG_MS - 1), Verdict::Linked);
        assert_eq!(registry.admit(&peer("b@x", 2), 8, 0), Verdict::NameTaken);
        assert_eq!(registry.admit(&b, 8, 0), Verdict::Welcome, "another life of the node");
        registry.abandon(&b.name);
        assert_eq!(
            registry.admit(&b, 7, link.since_ms + YOUNG_MS),
            Verdict::Welcome,
            "it has lost the first"
        );
        assert_eq!(registry.statuses(&clock)[0].address, "x:1");
        registry.leave(&link);
        assert!(registry.link(&b.name).is_none() && registry.addresses().is_empty());
        assert_eq!(registry.statuses(&clock).len(), 1, "it is known, and down");
    }

    #[test]
    fn there_is_a_bound_for_nodes() {
        let registry = Registry::default();
        let verdicts = (0..=NODES_MAX).map(|n| registry.admit(&peer(&format!("n{n}@x"), 1), 1, 0));
        let last = verdicts.collect::<Vec<_>>().pop();
        assert_eq!(last, Some(Verdict::Busy));
    }
}
