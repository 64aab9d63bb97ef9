//! How far the nodes of a cluster are with the entries of the metadata.

use std::collections::{BTreeMap, BTreeSet};

use metadata::ClusterStep;

use super::name::NodeName;

/// How far the nodes are that serve clients, and speak of it.
#[derive(Default)]
pub(super) struct Progress {
    /// This one has all entries up to this index.
    pub(super) own: u64,
    /// The others that report, with the same.
    pub(super) others: BTreeMap<NodeName, u64>,
}

impl Progress {
    /// All of them have the entries up to this one.
    pub(super) fn everywhere(&self) -> u64 {
        self.others.values().copied().fold(self.own, u64::min)
    }

    /// Another node reports. One that is behind an earlier report changes nothing.
    pub(super) fn reached(&mut self, node: &NodeName, index: u64) {
        let reached = self.others.entry(node.clone()).or_default();
        *reached = index.max(*reached);
    }
}

/// The nodes that have proposed something in these steps.
pub(super) fn proposers(steps: &[(u64, ClusterStep)]) -> BTreeSet<u16> {
    let of = |step: &(u64, ClusterStep)| match &step.1 {
        ClusterStep::Proposed(proposed) => Some(proposed.node),
        _ => None,
    };
    steps.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_node_counts_until_its_link_ends() {
        let node = |name: &str| NodeName::new(name).unwrap();
        let mut progress = Progress { own: 7, ..Progress::default() };
        assert_eq!(progress.everywhere(), 7);
        progress.reached(&node("a@h"), 5);
        progress.reached(&node("b@h"), 9);
        progress.reached(&node("a@h"), 4);
        assert_eq!(progress.everywhere(), 5);
        progress.others.remove(&node("a@h"));
        assert_eq!(progress.everywhere(), 7);
    }
}
