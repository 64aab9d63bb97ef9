//! What RabbitMQ's API has for members of quorum queues: each queue has one, on this node.

use broker::Kind;
use serde_json::json;

use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::members;

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
        "Adds replicas on a node: `{\"vhost_pattern\", \"queue_pattern\", \"strategy\"}`; there is nothing to do.",
        grow,
    ),
    route(
        Method::Delete,
        "/api/queues/quorum/replicas/on/{node}/shrink",
        Access::Administrator,
        "Removes the replicas on a node; there is nothing to do.",
        shrink,
    ),
];

/// RabbitMQ's word for a queue that has no replicas.
const NOT_SUPPORTED: &str = "classic_queue_not_supported";

fn status(call: &Call) -> Answer {
    let queue = call.queue()?;
    if queue.queue_kind() == Kind::Quorum {
        return Ok(Reply::Json(json!([members::status(&queue)])));
    }
    Ok(Reply::Status(503, json!({"status": "failed", "reason": NOT_SUPPORTED})))
}

/// `management.restrictions.quorum_queue_replica_operations.disabled`
fn check_changes(call: &Call) -> Result<(), Problem> {
    call.app.options.replicas.check("quorum queue replica operations")
}

/// The member is there already.
fn add(call: &Call) -> Answer {
    match change(call)? {
        Kind::Quorum => Ok(Reply::NoContent),
        Kind::Classic | Kind::Stream => Err(Problem::new(503, "service_unavailable", NOT_SUPPORTED)),
    }
}

/// The last member cannot go.
fn remove(call: &Call) -> Answer {
    let reason = match change(call)? {
        Kind::Quorum => "last_node",
        Kind::Classic | Kind::Stream => NOT_SUPPORTED,
    };
    Err(Problem::new(503, "service_unavailable", reason))
}

/// The type of the queue whose members on this node are to change.
fn change(call: &Call) -> Result<Kind, Problem> {
    check_changes(call)?;
    let object = call.object_with(&["node"])?;
    if !object["node"].as_str().is_some_and(|name| call.node().names.mean(name)) {
        return Err(Problem::bad("Node is not a cluster member"));
    }
    let queue = call.queue().map_err(|_| Problem::new(503, "service_unavailable", "not_found"))?;
    Ok(queue.queue_kind())
}

fn check(call: &Call) -> Result<(), Problem> {
    call.check_node(call.part("node"))
}

fn grow(call: &Call) -> Answer {
    check_changes(call)?;
    call.object_with(&["vhost_pattern", "queue_pattern", "strategy"])?;
    check(call)?;
    Ok(Reply::NoContent)
}

fn shrink(call: &Call) -> Answer {
    check_changes(call)?;
    check(call)?;
    Ok(Reply::Status(202, json!([])))
}
