//! Asks the other nodes of the cluster. Refuses to know what questions and answers mean.

use broker::cluster::NodeName;

use super::cluster::members;
use super::{NODE_NAME, Node};

/// Answers of all other nodes that run, in order of their names; one that does not answer within five seconds is left out. Only on a thread
/// that may block.
pub(crate) fn ask_others(node: &Node, question: &[u8]) -> Vec<(String, Vec<u8>)> {
    let Some(cluster) = node.peers.as_ref().and_then(|it| it.cluster.as_ref()) else { return Vec::new() };
    let others = members(node).into_iter().filter(|it| it.is_running && it.name.as_str() != NODE_NAME);
    let asked: Vec<_> = others
        .filter_map(|it| Some((cluster.inquire(NodeName::new(&it.name).ok()?, question.to_vec()), it.name)))
        .collect();
    asked.into_iter().filter_map(|(call, name)| Some((name, call.wait()?))).collect()
}
