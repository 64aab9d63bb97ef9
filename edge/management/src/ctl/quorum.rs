//! Commands about the members of quorum queues, as RabbitMQ's `rabbitmq-queues` has them. Refuses to know how members agree.

mod peeking;

use std::sync::Arc;

use broker::{Broker, Kind, Queue};
use regex::Regex;
use serde_json::{Value, json};

use crate::ctl::columns::{Column, rows};
use crate::ctl::commands::{Commands, Outcome, arguments};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::members;
use crate::resources::membership::{self, Changed, Target};
use crate::resources::node::{Node, cluster};
use crate::resources::values::text;

/// Commands about members.
pub(crate) const COMMANDS: Commands = &[
    ("quorum_status", |it| quorum_status(it.broker, it.request)),
    ("add_member", |it| add_member(it.broker, it.node, it.request)),
    ("delete_member", |it| delete_member(it.broker, it.node, it.request)),
    ("grow", |it| grow(it.broker, it.node, it.request)),
    ("grow_to_count", |it| grow_to_count(it.broker, it.node, it.request)),
    ("shrink", |it| shrink(it.broker, it.node, it.request)),
    ("reclaim_quorum_memory", |it| reclaim(it.broker, it.request)),
    ("force_checkpoint", |it| force_checkpoint(it.broker, it.request)),
    ("transfer_leadership", |it| transfer_leadership(it.broker, it.node, it.request)),
    ("rebalance", |it| rebalance(it.broker, it.node, it.request)),
    ("peek", |it| peeking::peek(it.broker, it.node, it.request)),
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

fn target(broker: &Broker, node: &Node, name: &str) -> Result<Target, Failure> {
    membership::target(broker, node, name).ok_or_else(|| not_a_node(name))
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
        Ok(queue) => Ok(rows(COLUMNS, members::status(&queue))),
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("Cannot get quorum status of a classic queue")),
    }
}

/// Gives a node a copy of a queue.
fn add_member(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [name, on] = arguments(request)?;
    let on = target(broker, node, on)?;
    match quorum_queue(broker, request.vhost(), name) {
        Ok(queue) => membership::add(&queue, on).map(|()| Answer::done()).map_err(unavailable),
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("Cannot add members to a classic queue")),
    }
}

/// Takes a node's copy away. The last member cannot go. On a node that is none there is nothing to remove.
fn delete_member(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [name, on] = arguments(request)?;
    match (quorum_queue(broker, request.vhost(), name), membership::target(broker, node, on)) {
        (Ok(queue), Some(on)) => membership::remove(&queue, on).map(|()| Answer::done()).map_err(unavailable),
        (Ok(_), None) => Ok(Answer::done()),
        (Err(Missing::Queue), _) => Err(not_found(request, name)),
        (Err(Missing::Members), _) => Err(unavailable("Cannot delete members from a classic queue")),
    }
}

fn check_strategy(strategy: &str) -> Result<(), Failure> {
    if ["all", "even"].contains(&strategy) {
        return Ok(());
    }
    let text = format!("Error (argument validation): \"strategy '{strategy}' is not recognised.\"");
    Err(Failure::new(Exit::USAGE, text))
}

const CHANGED: &[Column<Changed>] = &[
    ("vhost", |it| it.queue.vhost_name().into()),
    ("name", |it| text(it.queue.name())),
    ("size", |it| it.size.into()),
    ("result", |it| it.outcome.map_or_else(|why| format!("error: {why}"), |()| "ok".into()).into()),
];

fn changed(request: &Request, mut changed: Vec<Changed>) -> Answer {
    if request.has("errors-only") {
        changed.retain(|it| it.outcome.is_err());
    }
    rows(CHANGED, changed)
}

/// Gives a node a copy of every queue that matches and that it has none of.
fn grow(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [on, strategy] = arguments(request)?;
    check_strategy(strategy)?;
    let on = target(broker, node, on)?;
    let grown = membership::grow(matching(broker, request)?, on, strategy == "even");
    if grown.is_empty() {
        return Ok(Answer::facts(String::new(), json!([])));
    }
    Ok(changed(request, grown))
}

/// Gives queues copies on nodes that run until each has so many, or no such node is left.
fn grow_to_count(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [count, strategy] = arguments(request)?;
    let Ok(count) = count.parse::<u32>() else {
        return Err(Failure::new(
            Exit::USAGE,
            "Error (argument validation): node count must be a positive integer",
        ));
    };
    check_strategy(strategy)?;
    let mut grown = Vec::new();
    for on in cluster::names(node, |member| member.is_running) {
        let is_small = |queue: &Arc<Queue>| membership::size(queue) < count as usize;
        let queues: Vec<_> = matching(broker, request)?.into_iter().filter(is_small).collect();
        if let Some(on) = membership::target(broker, node, &on).filter(|_| !queues.is_empty()) {
            grown.extend(membership::grow(queues, on, strategy == "even"));
        }
    }
    if grown.is_empty() {
        return Ok(Answer::facts(String::new(), json!([])));
    }
    Ok(changed(request, grown))
}

/// The queues whose names and vhosts match.
fn matching(broker: &Broker, request: &Request) -> Result<Vec<Arc<Queue>>, Failure> {
    let pattern = |option: &str| {
        let text = request.options.get(option).map_or(".*", String::as_str);
        Regex::new(text).map_err(|_| unavailable(&format!("'{text}' is not a regular expression")))
    };
    Ok(membership::matching(broker, &pattern("vhost-pattern")?, &pattern("queue-pattern")?))
}

type Outcomes = (Arc<Queue>, &'static str);

/// Takes a node's copies away. The last members of queues cannot go.
fn shrink(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [on] = arguments(request)?;
    let Some(on) = membership::target(broker, node, on) else {
        return Ok(rows(CHANGED, []));
    };
    Ok(changed(request, membership::shrink(matching(broker, request)?, on)))
}

/// There is no memory to reclaim: settled messages are given up at once.
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
        Ok(queue) => match membership::lead(&queue, target(broker, node, on)?) {
            Ok(()) => Ok(Answer::done()),
            Err(membership::ALREADY_LEADER) => {
                Err(unavailable("The target node is already the leader of this queue"))
            }
            Err(why) => Err(unavailable(why)),
        },
        Err(Missing::Queue) => Err(not_found(request, name)),
        Err(Missing::Members) => Err(unavailable("This operation is not supported for classic queues")),
    }
}

/// Evens out how many queues each node leads. Streams have one member.
fn rebalance(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    const COLUMNS: &[Column<(String, usize)>] =
        &[("Node name", |it| (&*it.0).into()), ("Number of quorum queues", |it| it.1.into())];
    let [kind] = arguments(request)?;
    if !["all", "quorum", "stream"].contains(&kind) {
        let text = format!("type {kind} is not supported. Try one of all, quorum, stream.");
        return Err(unavailable(&text));
    }
    let queues = if kind == "stream" { Vec::new() } else { matching(broker, request)? };
    if queues.is_empty() {
        return Ok(Answer::facts("No queue has leaders to move".into(), json!([])));
    }
    Ok(rows(COLUMNS, membership::rebalance(broker, node, &queues)))
}
