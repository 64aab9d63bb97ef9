//! Answers of several nodes together: listings of objects that each node has for itself, and the description of a node. A node is asked by its link.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::cluster::{ANSWER_BYTES_MAX, NodeName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::table;
use crate::ctl::application;
use crate::ctl::commands::Outcome;
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::http;
use crate::http::App;
use crate::resources::node::cluster::members;
use crate::resources::node::{NODE_NAME, Node};
use crate::resources::node::{asking, described};

/// Listings whose lines each node has for itself.
const LISTINGS: [&str; 8] = [
    "list_connections",
    "list_channels",
    "list_stomp_connections",
    "list_mqtt_connections",
    "list_web_mqtt_connections",
    "list_stream_connections",
    "list_stream_consumers",
    "list_stream_publishers",
];

/// Commands and profiles for other nodes that run at once; they may take minutes.
const LONG_MAX: usize = 4;
/// The longest that one of them takes: a profile has at most ten minutes.
const LONG: Duration = Duration::from_secs(660);
/// The option of a request for a node that is none of this machine: its name.
pub const OTHER_NODE: &str = "other-node";

/// The question of one node to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The lines of that node, of one of [`LISTINGS`].
    Listing(Request),
    /// The page of that node without rates, for nodes of older versions.
    Node,
    /// The objects of that node, of a request to the HTTP API.
    Http(http::AskedOfNode),
    /// The parts of the memory of that node.
    Memory,
    /// The messages in queues of that node.
    Contents(http::AskedContents),
    /// A command for that node.
    Command(Request),
    /// A profile of that node.
    Profile(http::AskedProfile),
    /// That node's part of the status of the cluster: [`described::QUESTION`].
    Description,
}

/// Questions that may take long, as long as they are answered.
struct Long;

impl Long {
    fn begin() -> Option<Long> {
        LONG_RUNNING
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < LONG_MAX).then_some(count + 1)
            })
            .ok()?;
        Some(Long)
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        LONG_RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

static LONG_RUNNING: AtomicUsize = AtomicUsize::new(0);

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
        Ok(Question::Contents(asked)) => serde_json::to_vec(&http::contents_of_queues(app, &asked)),
        Ok(Question::Command(request)) => match Long::begin() {
            Some(_long) if !stays_here(&request) => Ok(command_answer(&table::run(broker, node, &request))),
            _ => return Vec::new(),
        },
        Ok(Question::Description) => serde_json::to_vec(&described::of_this_node(broker, node)),
        Ok(Question::Profile(asked)) => match Long::begin() {
            Some(_long) => serde_json::to_vec(&http::profile_of_node(app, &asked)),
            None => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    said.unwrap_or_default()
}

/// The answer to a command as it travels, or that it is too long to travel.
fn command_answer(answer: &Answer) -> Vec<u8> {
    let bytes = serde_json::to_vec(answer).unwrap_or_default();
    if bytes.len() <= ANSWER_BYTES_MAX {
        return bytes;
    }
    let text = format!(
        "Error:\nthe answer of node {NODE_NAME} has {} bytes, at most {ANSWER_BYTES_MAX} go from node to node: \
         run the command on its machine, or ask for less",
        bytes.len()
    );
    serde_json::to_vec(&Answer::Failed(Failure::new(Exit::UNAVAILABLE, text))).unwrap_or_default()
}

/// Answers of all other nodes that run, in order of their names.
pub(crate) fn ask_others(node: &Node, question: &Question) -> Vec<(String, Vec<u8>)> {
    serde_json::to_vec(question).map_or_else(|_| Vec::new(), |bytes| asking::ask_others(node, &bytes))
}

/// Answers of some other nodes, each to a question of its own. Only on a thread that may block.
pub(crate) fn ask_each<'a>(
    node: &Node,
    questions: impl Iterator<Item = (&'a str, Question)>,
) -> Vec<(String, Vec<u8>)> {
    let Some(cluster) = node.peers.as_ref().and_then(|it| it.cluster.as_ref()) else { return Vec::new() };
    let asked: Vec<_> = questions
        .filter_map(|(name, question)| {
            let bytes = serde_json::to_vec(&question).ok()?;
            Some((cluster.inquire(NodeName::new(name).ok()?, bytes), name.to_owned()))
        })
        .collect();
    asked.into_iter().filter_map(|(call, name)| Some((name, call.wait()?))).collect()
}

/// Whether a command is for the control socket of its own node only: it ends the process, or the broker in it.
fn stays_here(request: &Request) -> bool {
    table::ends_the_server(request) || application::order_of(request).is_some()
}

/// Has the node do a command that its option `--node` names; `None` when that is this one.
pub(crate) fn run_there(node: &Node, request: &Request) -> Option<Answer> {
    let is_elsewhere = request.has(OTHER_NODE);
    let name = request.options.get(OTHER_NODE).or_else(|| request.options.get("node"))?;
    let others = members(node);
    let Some(other) = others.iter().find(|it| it.name == *name && it.name.as_str() != NODE_NAME) else {
        return is_elsewhere.then(|| Answer::Failed(no_such_node(name, "--node", &request.command)));
    };
    if stays_here(request) {
        let text = format!("Error:\n{} has to be run on the machine of node {name}", request.command);
        return Some(Answer::Failed(Failure::new(Exit::UNAVAILABLE, text)));
    }
    let mut asked = request.clone();
    asked.options.retain(|option, _| option != OTHER_NODE && option != "node");
    let answer = if other.is_running { ask_long(node, name, &Question::Command(asked)) } else { None };
    let silent = || Answer::Failed(no_answer(name, other.is_running));
    Some(answer.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_else(silent))
}

/// Why nothing came of a command for another node.
fn no_answer(name: &str, is_running: bool) -> Failure {
    let why = if is_running {
        "does not answer, or has too much to do"
    } else {
        "does not run, or is not reachable"
    };
    Failure::new(Exit::NOT_NOW, format!("Error: unable to perform an operation on node '{name}': it {why}"))
}

/// The refusal of a command for a node that is neither on this machine nor in the cluster of the one that is. `from` gave the name.
#[must_use]
pub fn no_such_node(name: &str, from: &str, command: &str) -> Failure {
    let problem = if command == "ping" {
        format!("Error:\nFailed to connect and authenticate to {name}")
    } else {
        format!(
            "Error: unable to perform an operation on node '{name}'. Please see diagnostics information and suggestions below."
        )
    };
    let text = format!(
        "{problem}\n\n\
         * the server of this machine, which is '{NODE_NAME}', is not that node and has no such node in its cluster: leave {from} out to reach it\n\
         * is it on another machine? --url http://USER@HOST:15672 reaches it over HTTP"
    );
    Failure::new(Exit::UNAVAILABLE, text)
}

/// The answer of one other node to a question that may take long.
pub(crate) fn ask_long(node: &Node, name: &str, question: &Question) -> Option<Vec<u8>> {
    let cluster = node.peers.as_ref()?.cluster.as_ref()?;
    let question = serde_json::to_vec(question).ok()?;
    cluster.inquire_within(NodeName::new(name).ok()?, question, LONG).wait()
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
        assert_eq!(serde_json::to_vec(&Question::Description).unwrap(), described::QUESTION);
        let description: described::Description =
            serde_json::from_slice(&asked(&Question::Description)).unwrap();
        assert_eq!(description, described::of_this_node(&broker, &app.0.node));
        assert!(asked(&Question::Listing(request("stop"))).is_empty());
        assert!(answer(&app, b"{}").is_empty());
        broker.shutdown();
    }
}
