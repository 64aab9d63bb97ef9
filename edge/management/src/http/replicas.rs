//! The routes of RabbitMQ's API for members of quorum queues. Refuses to know how members agree.

use broker::{Kind, Queue};
use regex::Regex;
use serde_json::json;

use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::members;
use crate::resources::membership::{self, Target};
use crate::resources::values::text;

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/queues/quorum/{vhost}/{name}/status",
        Access::Vhost,
        "The replicas of a quorum queue; classic queues have none.",
        status,
    ),
    route(
        Method::Post,
        "/api/queues/quorum/{vhost}/{name}/replicas/add",
        Access::Administrator,
        "Adds a replica of a quorum queue: `{\"node\"}`; classic queues have none.",
        add,
    ),
    route(
        Method::Delete,
        "/api/queues/quorum/{vhost}/{name}/replicas/delete",
        Access::Administrator,
        "Removes a replica of a quorum queue: `{\"node\"}`; classic queues have none.",
        remove,
    ),
    route(
        Method::Post,
        "/api/queues/quorum/replicas/on/{node}/grow",
        Access::Administrator,
        "Adds replicas on a node: `{\"vhost_pattern\", \"queue_pattern\", \"strategy\"}`.",
        grow,
    ),
    route(
        Method::Delete,
        "/api/queues/quorum/replicas/on/{node}/shrink",
        Access::Administrator,
        "Removes the replicas on a node.",
        shrink,
    ),
    route(
        Method::Post,
        "/api/rebalance/queues",
        Access::Administrator,
        "Evens out how many quorum queues each node leads.",
        rebalance,
    ),
];

/// RabbitMQ's word for a queue that has no replicas.
const NOT_SUPPORTED: &str = "classic_queue_not_supported";

fn status(call: &Call) -> Answer {
    let queue = call.queue()?;
    if queue.queue_kind() == Kind::Quorum {
        return Ok(Reply::Json(members::status(&queue).into()));
    }
    Ok(Reply::Status(503, json!({"status": "failed", "reason": NOT_SUPPORTED})))
}

/// `management.restrictions.quorum_queue_replica_operations.disabled`
fn check_changes(call: &Call) -> Result<(), Problem> {
    call.app.options.replicas.check("quorum queue replica operations")
}

fn unavailable(reason: &str) -> Problem {
    Problem::new(503, "service_unavailable", reason)
}

fn target(call: &Call, name: Option<&str>) -> Result<Target, Problem> {
    let target = name.and_then(|name| membership::target(call.broker(), call.node(), name));
    target.ok_or_else(|| Problem::bad("Node is not a cluster member"))
}

fn add(call: &Call) -> Answer {
    change(call, membership::add)
}

/// The last member cannot go.
fn remove(call: &Call) -> Answer {
    change(call, membership::remove)
}

/// Changes the queue's member on a node.
fn change(call: &Call, change: fn(&Queue, Target) -> Result<(), &'static str>) -> Answer {
    check_changes(call)?;
    let object = call.object_with(&["node"])?;
    let on = target(call, object["node"].as_str())?;
    let queue = call.queue().map_err(|_| unavailable("not_found"))?;
    match queue.queue_kind() {
        Kind::Quorum => change(&queue, on).map_err(unavailable)?,
        Kind::Classic | Kind::Stream => return Err(unavailable(NOT_SUPPORTED)),
    }
    Ok(Reply::NoContent)
}

/// The node of the path.
fn of_path(call: &Call) -> Result<Target, Problem> {
    let name = call.part("node");
    membership::target(call.broker(), call.node(), name).ok_or_else(Problem::missing)
}

fn grow(call: &Call) -> Answer {
    check_changes(call)?;
    let object = call.object_with(&["vhost_pattern", "queue_pattern", "strategy"])?;
    let on = of_path(call)?;
    let pattern = |key: &str| {
        let text = object[key].as_str().unwrap_or(".*");
        Regex::new(text).map_err(|_| Problem::bad(format!("'{text}' is not a regular expression")))
    };
    let only_even = match object["strategy"].as_str() {
        Some("all") => false,
        Some("even") => true,
        _ => return Err(Problem::bad("strategy is all or even")),
    };
    let queues = membership::matching(call.broker(), &pattern("vhost_pattern")?, &pattern("queue_pattern")?);
    membership::grow(queues, on, only_even);
    Ok(Reply::NoContent)
}

fn shrink(call: &Call) -> Answer {
    check_changes(call)?;
    let on = of_path(call)?;
    let shrunk = membership::shrink(membership::quorum_queues(call.broker()), on);
    let rows = shrunk.iter().map(|it| {
        let result = it.outcome.map_or_else(|why| format!("error: {why}"), |()| "ok".into());
        json!({"vhost": it.queue.vhost_name(), "name": text(it.queue.name()), "size": it.size, "result": result})
    });
    Ok(Reply::Status(202, rows.collect()))
}

fn rebalance(call: &Call) -> Answer {
    membership::rebalance(call.broker(), call.node(), &membership::quorum_queues(call.broker()));
    Ok(Reply::NoContent)
}
