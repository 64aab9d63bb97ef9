//! The nodes of the cluster, as this node sees them. Refuses to know how they are linked.

use std::fmt;
use std::sync::Arc;

use broker::cluster::peers::{PeerStatus, Peers, Vitals};
use broker::cluster::{Cluster, View, ViewedMember};

use super::{NODE_NAME, Node};

/// This node among others.
#[derive(Clone)]
pub struct NodePeers {
    /// Its links.
    pub peers: Arc<dyn Peers>,
    /// Its membership; `None` in tests of links alone.
    pub cluster: Option<Cluster>,
}

impl fmt::Debug for NodePeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePeers").field("own", self.peers.own()).finish_non_exhaustive()
    }
}

/// A node of the cluster; this one is among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is up, as far as this node knows.
    pub(crate) is_running: bool,
    /// Its latest description of itself; `None` of this node, and of those that are down.
    pub(crate) vitals: Option<Vitals>,
}

/// All nodes in order of their names.
pub(crate) fn members(node: &Node) -> Vec<Member> {
    let known = node.peers.as_ref().map(|it| it.peers.known()).unwrap_or_default();
    let mut all: Vec<Member> = known.iter().map(Member::of).collect();
    if let Some(cluster) = node.peers.as_ref().and_then(|it| it.cluster.as_ref()) {
        all = of_cluster(&cluster.view(), &all);
    }
    all.retain(|member| member.name.as_str() != NODE_NAME);
    all.push(Member { name: NODE_NAME.into(), is_running: true, vitals: None });
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// The members that the metadata name, with what their links tell. Others that are linked take no part.
fn of_cluster(view: &View, linked: &[Member]) -> Vec<Member> {
    let vitals = |name: &str| linked.iter().find(|member| member.name == name)?.vitals;
    let member = |it: &ViewedMember| Member {
        name: it.name.to_string(),
        is_running: it.is_up,
        vitals: vitals(it.name.as_str()),
    };
    view.members.iter().map(member).collect()
}

/// Names of all nodes, or of those that run.
pub(crate) fn names(node: &Node, is_wanted: impl Fn(&Member) -> bool) -> Vec<String> {
    members(node).into_iter().filter(|member| is_wanted(member)).map(|member| member.name).collect()
}

/// Whether so few of the nodes run that without this one there would be no majority; `None` when it is alone.
pub(crate) fn is_critical(node: &Node) -> Option<bool> {
    let all = members(node);
    let others = all.iter().filter(|member| member.is_running).count() - 1;
    (all.len() > 1).then_some(others < all.len() / 2 + 1)
}

impl Member {
    fn of(peer: &PeerStatus) -> Member {
        Member {
            name: peer.identity.name.to_string(),
            is_running: peer.link.is_some(),
            vitals: peer.link.as_ref().map(|link| link.vitals),
        }
    }
}

/// A feature that a node uses only with nodes that have it, too. Such features need no hand: they are on as soon as all nodes have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FeatureFlag {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The version of what nodes say to each other that has it first.
    since: u16,
}

/// All, in order of their names.
pub(crate) const FEATURE_FLAGS: [FeatureFlag; 5] = [
    FeatureFlag {
        name: "answers_on_all_nodes",
        about: "A change is answered when all nodes have it",
        since: 2,
    },
    FeatureFlag {
        name: "direct_reply_to_between_nodes",
        about: "Direct replies reach requesters of other nodes",
        since: 2,
    },
    FeatureFlag {
        name: "expiry_of_queues_changes",
        about: "The expiry of an MQTT session changes",
        since: 5,
    },
    FeatureFlag { name: "queues_of_other_nodes", about: "Queues are used from every node", since: 1 },
    FeatureFlag { name: "replicated_metadata", about: "Metadata are on all nodes", since: 1 },
];

impl FeatureFlag {
    /// `enabled`; `unavailable` while a member that is linked, or was, does not have it.
    pub(crate) fn state(&self, node: &Node) -> &'static str {
        let known = node.peers.as_ref().map(|it| it.peers.known()).unwrap_or_default();
        let lacks = |peer: &PeerStatus| peer.identity.versions.max < self.since;
        if known.iter().any(lacks) { "unavailable" } else { "enabled" }
    }
}

/// The answer for an operator who enables a flag.
///
/// # Errors
/// There is no such flag, or a node lacks it: as a word and as a sentence.
pub(crate) fn enable_feature_flag(node: &Node, name: &str) -> Result<(), String> {
    if name == "all" {
        return Ok(());
    }
    let Some(flag) = FEATURE_FLAGS.iter().find(|flag| flag.name == name) else {
        return Err(format!("unsupported: there is no feature flag {name}"));
    };
    match flag.state(node) {
        "enabled" => Ok(()),
        _ => Err(format!(
            "unsupported: a node of the cluster does not have {name}; it is enabled when that is upgraded"
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use broker::cluster::NodeName;
    use broker::cluster::memory::MemoryNet;
    use broker::cluster::peers::{DataId, NoEvents, PeerIdentity, VersionRange};

    /// This node with two others, of which the last one is down.
    pub(crate) fn with_two() -> (Node, Arc<MemoryNet>) {
        let net = MemoryNet::new();
        let identity = |name: &str, id: u8| PeerIdentity {
            name: NodeName::new(name).unwrap(),
            data_id: DataId([id; 16]),
            life: 1,
            versions: VersionRange::OWN,
        };
        let own = net.join(identity(&NODE_NAME, 1), Arc::new(NoEvents));
        let [b, c] =
            [("b@x", 2), ("z@x", 3)].map(|(name, id)| net.join(identity(name, id), Arc::new(NoEvents)));
        net.cut(&own.own().name, &c.own().name);
        let _linked = b;
        (
            Node {
                peers: Some(NodePeers { peers: own, cluster: None }),
                ..crate::resources::node::tests::sample()
            },
            net,
        )
    }

    #[test]
    fn nodes_are_listed_with_those_that_are_down() {
        let (node, _net) = with_two();
        let found: Vec<(String, bool)> =
            members(&node).into_iter().map(|member| (member.name, member.is_running)).collect();
        let wanted = [("b@x", true), ("warren@localhost", true), ("z@x", false)];
        assert_eq!(found, wanted.map(|(name, is_running)| (name.to_owned(), is_running)));
        assert_eq!(is_critical(&node), Some(true));
        let alone = crate::resources::node::tests::sample();
        assert_eq!((members(&alone).len(), is_critical(&alone)), (1, None));
    }
}
