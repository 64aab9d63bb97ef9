//! Counts for limits over all nodes: connections of vhosts, connections and channels of users. Each node tells the others how many it has of those
//! that have limits. Clients that come to several nodes within the time of a message between nodes may be one too many.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::RwLock;

use super::frames;
use super::name::NodeName;

/// The kind of thing that limits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum CountedKind {
    /// Connections to a vhost.
    Vhost = 0,
    /// Connections of a user.
    User = 1,
    /// Channels of a user.
    Channels = 2,
}

/// Its kind as a number, and its name.
pub(super) type Key = (u8, Box<str>);

/// Clients of something that has a limit.
#[derive(Clone)]
pub(crate) struct Counted {
    key: Key,
    here: Arc<AtomicU64>,
}

impl Counted {
    /// `here` has how many this node has.
    pub(crate) fn new(kind: CountedKind, name: &str, here: &Arc<AtomicU64>) -> Counted {
        Counted { key: (kind as u8, name.into()), here: here.clone() }
    }
}

/// The counts of the other nodes.
#[derive(Default)]
pub(super) struct Elsewhere(RwLock<HashMap<NodeName, HashMap<Key, u64>>>);

impl Elsewhere {
    pub(super) fn count(&self, counted: &Counted) -> u64 {
        self.0.read().values().filter_map(|of_node| of_node.get(&counted.key)).sum()
    }

    pub(super) fn heard(&self, from: &NodeName, key: Key, count: u64) {
        let mut nodes = self.0.write();
        let of_node = nodes.entry(from.clone()).or_default();
        match count {
            0 => drop(of_node.remove(&key)),
            _ => drop(of_node.insert(key, count)),
        }
    }

    pub(super) fn forget(&self, name: &NodeName) {
        self.0.write().remove(name);
    }
}

/// Counts to be told, each once.
#[derive(Default)]
pub(super) struct Untold(BTreeMap<Key, Counted>);

impl Untold {
    pub(super) fn add(&mut self, counted: Counted) {
        self.0.insert(counted.key.clone(), counted);
    }

    pub(super) fn take(&mut self) -> Vec<Counted> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}

/// Entries as `kind u8 | count u64 | bytes of the name u32 | name`.
pub(super) fn encode(entries: &[Counted]) -> Bytes {
    let mut out = BytesMut::new();
    for Counted { key: (kind, name), here } in entries {
        out.put_u8(*kind);
        out.put_u64(here.load(Ordering::Relaxed));
        frames::put_run(&mut out, name.as_bytes());
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_other_nodes_are_added_until_a_node_goes() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let counted = |kind| Counted::new(kind, "v", &Arc::default());
        let elsewhere = Elsewhere::default();
        let key = |kind: CountedKind| (kind as u8, "v".into());
        elsewhere.heard(&node("a@h"), key(CountedKind::Vhost), 3);
        elsewhere.heard(&node("b@h"), key(CountedKind::Vhost), 4);
        elsewhere.heard(&node("b@h"), key(CountedKind::User), 1);
        elsewhere.heard(&node("a@h"), key(CountedKind::Vhost), 2);
        assert_eq!(elsewhere.count(&counted(CountedKind::Vhost)), 6);
        elsewhere.forget(&node("b@h"));
        assert_eq!(elsewhere.count(&counted(CountedKind::Vhost)), 2);
        assert_eq!(elsewhere.count(&counted(CountedKind::User)), 0);
    }
}
