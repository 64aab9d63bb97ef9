//! Answers of several nodes together: listings of objects that each node has for itself, and the description of a node. A node is asked by its link.

use std::sync::Arc;

use broker::cluster::NodeName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::table;
use crate::ctl::commands::Outcome;
use crate::ctl::protocol::{Answer, Request};
use crate::http;
use crate::http::App;
use crate::resources::node::cluster::members;
use crate::resources::node::{NODE_NAME, Node};

/// Listings whose lines each node has for itself.
const LISTINGS: [&str; 7] = [
    "list_connections",
    "list_channels",
    "list_mqtt_connections",
    "list_web_mqtt_connections",
    "list_stream_connections",
    "list_stream_consumers",
    "list_stream_publishers",
];

/// The question of one node to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The lines of that node, of one of [`LISTINGS`].
    Listing(Request),
    /// The page of that node.
    Node,
    /// The objects of that node, of a request to the HTTP API.
    Http(http::AskedOfNode),
    /// The parts of the memory of that node.
    Memory,
}

/// From now on the node answers questions of others, with the rates that the application has counted.
pub fn answer_other_nodes(app: &App) {
    let (app, broker) = (app.clone(), &app.0.broker);
    let Some(cluster) = broker.cluster() else { return };
    cluster.answer_with(Some(Arc::new(move |question: &[u8]| answer(&app, question))));
}

/// Nothing for a question that is not understood: a newer version asks it.
fn answer(app: &App, question: &[u8]) -> Vec<u8> {
    let (broker, node) = (&app.0.broker, &app.0.node);
    let said = match serde_json::from_slice(question) {
        Ok(Question::Listing(request)) if LISTINGS.contains(&request.command.as_str()) => {
            serde_json::to_vec(&table::run_here(broker, node, &request))
        }
        Ok(Question::Node) => serde_json::to_vec(&http::facts_of_node(broker, node)),
        Ok(Question::Http(asked)) => serde_json::to_vec(&http::answer_node(app, asked)),
        Ok(Question::Memory) => serde_json::to_vec(&http::memory_of_node(broker)),
        _ => return Vec::new(),
    };
    said.unwrap_or_default()
}

/// Answers of all other nodes that run, in order of their names.
pub(crate) fn ask_others(node: &Node, question: &Question) -> Vec<(String, Vec<u8>)> {
    let Some(cluster) = node.peers.as_ref().and_then(|it| it.cluster.as_ref()) else { return Vec::new() };
    let Ok(bytes) = serde_json::to_vec(question) else { return Vec::new() };
    let others = members(node).into_iter().filter(|it| it.is_running && it.name.as_str() != NODE_NAME);
    let asked: Vec<_> = others
        .filter_map(|it| Some((cluster.inquire(NodeName::new(&it.name).ok()?, bytes.clone()), it.name)))
        .collect();
    asked.into_iter().filter_map(|(call, name)| Some((name, call.wait()?))).collect()
}

/// Pages of the other nodes that run, by name.
pub(crate) fn pages_of_others(node: &Node) -> Vec<(String, Value)> {
    let answers = ask_others(node, &Question::Node).into_iter();
    answers.filter_map(|(name, bytes)| Some((name, serde_json::from_slice(&bytes).ok()?))).collect()
}

/// Bytes of the memory of another node, by part; `None` while it does not answer.
pub(crate) fn memory_of(node: &Node, name: &str) -> Option<Map<String, Value>> {
    let cluster = node.peers.as_ref()?.cluster.as_ref()?;
    let question = serde_json::to_vec(&Question::Memory).ok()?;
    serde_json::from_slice(&cluster.inquire(NodeName::new(name).ok()?, question).wait()?).ok()
}

/// Adds the lines of the other nodes to a listing of this one's.
pub(crate) fn with_others(node: &Node, request: &Request, outcome: Outcome) -> Outcome {
    if !LISTINGS.contains(&request.command.as_str()) {
        return outcome;
    }
    let Ok(Answer::Rows(mut rows)) = outcome else { return outcome };
    for (name, bytes) in ask_others(node, &Question::Listing(request.clone())) {
        match serde_json::from_slice(&bytes) {
            Ok(Answer::Rows(theirs)) if theirs.columns == rows.columns => rows.rows.extend(theirs.rows),
            _ => {
                tracing::warn!(node = %name, command = %request.command, "the listing of another node cannot be read");
            }
        }
    }
    Ok(Answer::Rows(rows))
}

#[cfg(test)]
mod tests {
    use broker::{Broker, BrokerOptions};

    use super::*;
    use crate::resources::node::tests::sample;

    #[test]
    fn listings_and_the_page_are_answered_and_other_commands_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        let app = App::new(broker.clone(), sample(), http::HttpOptions::default());
        let asked = |question: &Question| answer(&app, &serde_json::to_vec(question).unwrap());
        let request = |command: &str| Request { command: command.into(), ..Request::default() };
        let listed = asked(&Question::Listing(request("list_connections")));
        assert!(matches!(serde_json::from_slice(&listed), Ok(Answer::Rows(_))));
        let page: Value = serde_json::from_slice(&asked(&Question::Node)).unwrap();
        assert_eq!(page["name"], NODE_NAME.as_str());
        let memory: Value = serde_json::from_slice(&asked(&Question::Memory)).unwrap();
        assert!(memory["code"].as_u64() > Some(0));
        assert!(asked(&Question::Listing(request("stop"))).is_empty());
        assert!(answer(&app, b"{}").is_empty());
        broker.shutdown();
    }
}
