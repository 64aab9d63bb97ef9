//! Commands about the members of quorum queues, as RabbitMQ's `rabbitmq-queues` has them. A quorum queue has one member, on this node.
//!
//! Refuses to know how queues hold messages.

use std::sync::Arc;

use broker::{Broker, Kind, Queue};
use regex::Regex;
use serde_json::{Value, json};

use crate::ctl::columns::{Column, rows};
use crate::ctl::commands::{Commands, Outcome, arguments};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::members;
use crate::resources::node::{NODE_NAME, Node};
use crate::resources::values::text;

/// Commands about members.
pub(crate) const COMMANDS: Commands = &[
    ("quorum_status", |it| quorum_status(it.broker, it.request)),
    ("add_member", |it| add_member(it.broker, it.node, it.request)),
    ("delete_member", |it| delete_member(it.broker, it.node, it.request)),
    ("grow", |it| grow(it.node, it.request)),
    ("grow_to_count", |it| grow_to_count(it.request)),
    ("shrink", |it| shrink(it.broker, it.node, it.request)),
    ("reclaim_quorum_memory", |it| reclaim(it.broker, it.request)),
    ("force_checkpoint", |it| force_checkpoint(it.broker, it.request)),
    ("transfer_leadership", |it| transfer_leadership(it.broker, it.node, it.request)),
    ("rebalance", |it| rebalance(it.broker, it.request)),
];

/// Why a command about members does not go on.
enum Missing {
    /// There is no such queue.
    Queue,
    /// It is a classic queue.
    Members,
}

fn quorum_queue(broker: &Broker, vhost: &str, name: &str) -> Result<Arc<Queue>, Missing> {
    let queue = broker.vhost(vhost).and_then(|vhost| vhost.queue(name.as_bytes()));
    let queue = queue.ok_or(Missing::Queue)?;
    if queue.queue_kind() == Kind::Quorum { Ok(queue) } else { Err(Missing::Members) }
}

fn unavailable(text: &str) -> Failure {
    Failure::new(Exit::UNAVAILABLE, format!("Error:\n{text}"))
}

fn not_found(request: &Request, name: &str) -> Failure {
    let text = format!("queue '{name}' was not found in virtual host '{}'", request.vhost());
    Failure::new(Exit::DATA, text)
}

fn not_a_node(name: &str) -> Failure {
    Failure::new(Exit::USAGE, format!("Error: node {name} is not a member of the cluster"))
}

fn check_node(node: &Node, name: &str) -> Result<(), Failure> {
    if node.names.mean(name) { Ok(()) } else { Err(not_a_node(name)) }
}

fn quorum_status(broker: &Broker, request: &Request) -> Outcome {
    const COLUMNS: &[Column<Value>] = &[
        ("Node Name", |it| it["Node Name"].clone()),
        ("Raft State", |it| it["Raft State"].clone()),
        ("Membership", |it| it["Membership"].clone()),
        ("Last Log Index", |it| it["Last Log Index"].clone()),
        ("Last Written", |it| it["Last Written"].clone()),
        ("Last Applied", |it| it["Last Applied"].clone()),
        ("Commit Index", |it| it["Commit Index"].clone()),
        ("Snapshot Index", |it| it["Snapshot Index"].clone()),
        ("Term", |it| it["Term"].clone()),
        ("Machine Version", |it| it["Machine Version"].clone()),
    ];
    let [name] = arguments(request)?;
    match quorum_queue(broker, request.vhost(), name) {
        Ok(queue) => Ok(rows(COLUMNS, [members::status(&queue)])),
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("Cannot get quorum status of a classic queue")),
    }
}

/// The member is there already.
fn add_member(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [name, on] = arguments(request)?;
    check_node(node, on)?;
    match quorum_queue(broker, request.vhost(), name) {
        Ok(_) => Ok(Answer::done()),
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("Cannot add members to a classic queue")),
    }
}

/// The last member cannot go. On a node that is none there is nothing to remove.
fn delete_member(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [name, on] = arguments(request)?;
    match quorum_queue(broker, request.vhost(), name) {
        Ok(_) if node.names.mean(on) => Err(unavailable("last_node")),
        Ok(_) => Ok(Answer::done()),
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("Cannot delete members from a classic queue")),
    }
}

fn check_strategy(strategy: &str) -> Result<(), Failure> {
    if ["all", "even"].contains(&strategy) {
        return Ok(());
    }
    let text = format!("Error (argument validation): \"strategy '{strategy}' is not recognised.\"");
    Err(Failure::new(Exit::USAGE, text))
}

/// All queues have their member on this node.
fn grow(node: &Node, request: &Request) -> Outcome {
    let [on, strategy] = arguments(request)?;
    check_strategy(strategy)?;
    check_node(node, on)?;
    Ok(Answer::facts(String::new(), json!([])))
}

/// There is one node to have members on.
fn grow_to_count(request: &Request) -> Outcome {
    let [count, strategy] = arguments(request)?;
    if count.parse::<u32>().is_err() {
        return Err(Failure::new(
            Exit::USAGE,
            "Error (argument validation): node count must be a positive integer",
        ));
    }
    check_strategy(strategy)?;
    Ok(Answer::facts(String::new(), json!([])))
}

/// The queues whose names and vhosts match.
fn matching(broker: &Broker, request: &Request) -> Result<Vec<Arc<Queue>>, Failure> {
    let pattern = |option: &str| {
        let text = request.options.get(option).map_or(".*", String::as_str);
        Regex::new(text).map_err(|_| unavailable(&format!("'{text}' is not a regular expression")))
    };
    let (of_vhosts, of_queues) = (pattern("vhost-pattern")?, pattern("queue-pattern")?);
    let vhosts = broker.vhosts().into_iter().filter(|vhost| of_vhosts.is_match(vhost.name()));
    let queues = vhosts.flat_map(|vhost| vhost.queues());
    Ok(queues
        .filter(|queue| queue.queue_kind() == Kind::Quorum)
        .filter(|queue| of_queues.is_match(&String::from_utf8_lossy(queue.name())))
        .collect())
}

type Outcomes = (Arc<Queue>, &'static str);

/// The last members of queues cannot go.
fn shrink(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    const COLUMNS: &[Column<Outcomes>] = &[
        ("vhost", |it| it.0.vhost_name().into()),
        ("name", |it| text(it.0.name())),
        ("size", |_| 1.into()),
        ("result", |it| it.1.into()),
    ];
    let [on] = arguments(request)?;
    if !node.names.mean(on) {
        return Ok(rows(COLUMNS, []));
    }
    let queues = matching(broker, request)?;
    Ok(rows(COLUMNS, queues.into_iter().map(|queue| (queue, "error: last_node"))))
}

/// There is no memory to reclaim: what is settled is given up at once.
fn reclaim(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    match quorum_queue(broker, request.vhost(), name) {
        Ok(_) => Ok(Answer::done()),
        Err(Missing::Queue) => {
            let text = format!("Target queue was not found in virtual host '{}'", request.vhost());
            Err(unavailable(&text))
        }
        Err(Missing::Members) => Err(unavailable("This operation is not supported for classic queues")),
    }
}

/// The node's checkpointer decides by itself when a queue's state is written.
fn force_checkpoint(broker: &Broker, request: &Request) -> Outcome {
    const COLUMNS: &[Column<Outcomes>] = &[
        ("vhost", |it| it.0.vhost_name().into()),
        ("name", |it| text(it.0.name())),
        ("result", |it| it.1.into()),
    ];
    let [] = arguments(request)?;
    let queues = matching(broker, request)?;
    Ok(rows(COLUMNS, queues.into_iter().map(|queue| (queue, "ok"))))
}

fn transfer_leadership(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [name, on] = arguments(request)?;
    match quorum_queue(broker, request.vhost(), name) {
        Ok(_) if node.names.mean(on) => {
            Err(unavailable("The target node is already the leader of this queue"))
        }
        Ok(_) => Err(not_a_node(on)),
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("This operation is not supported for classic queues")),
    }
}

/// All leaders are on this node, and stay there.
fn rebalance(broker: &Broker, request: &Request) -> Outcome {
    const COLUMNS: &[Column<usize>] =
        &[("Node name", |_| NODE_NAME.into()), ("Number of quorum queues", |it| (*it).into())];
    let [kind] = arguments(request)?;
    if !["all", "quorum", "stream"].contains(&kind) {
        let text = format!("type {kind} is not supported. Try one of all, quorum, stream.");
        return Err(unavailable(&text));
    }
    let count = if kind == "stream" { 0 } else { matching(broker, request)?.len() };
    if count == 0 {
        return Ok(Answer::facts("No queue has leaders to move".into(), json!([])));
    }
    Ok(rows(COLUMNS, [count]))
}
