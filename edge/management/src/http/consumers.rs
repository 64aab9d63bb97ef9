//! Consumers: all of them for monitors, for others those of their own connections.

use std::collections::HashSet;
use std::sync::Arc;

use broker::{ConnectionId, Queue, Vhost};
use serde_json::Value;

use super::auth::{Access, is_monitor};
use super::call::Call;
use super::connections;
use super::listing;
use super::problem::Problem;
use super::reply::Answer;
use super::route::{Method, Route, route};
use super::shapes;

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/consumers", Access::Management, "Consumers of all queues.", list),
    route(
        Method::Get,
        "/api/consumers/{vhost}",
        Access::VhostSeen,
        "Consumers of the queues of a virtual host.",
        list,
    ),
];

/// Queues asked for their consumers before the first answer is awaited.
const BATCH: usize = 1024;

/// Whose consumers somebody may see, and in which vhosts those are.
enum Seen {
    All(Vec<Arc<Vhost>>),
    /// Those of the user's own connections. No other queues are asked.
    Own(HashSet<ConnectionId>, Vec<Arc<Vhost>>),
}

fn seen(call: &Call) -> Result<Seen, Problem> {
    let in_path = call.part_if("vhost").map(|_| call.vhost()).transpose()?;
    if is_monitor(&call.user) {
        return Ok(Seen::All(in_path.map_or_else(|| call.broker().vhosts(), |vhost| vec![vhost])));
    }
    let lines = connections::visible(call)?;
    let names: HashSet<&str> = lines.iter().map(|(_, _, info)| &*info.vhost).collect();
    let mut vhosts = call.broker().vhosts();
    vhosts.retain(|vhost| names.contains(vhost.name()));
    Ok(Seen::Own(lines.iter().map(|(id, _, _)| *id).collect(), vhosts))
}

fn list(call: &Call) -> Answer {
    let (own, vhosts) = match seen(call)? {
        Seen::All(vhosts) => (None, vhosts),
        Seen::Own(connections, vhosts) => (Some(connections), vhosts),
    };
    let is_seen = |id: ConnectionId| own.as_ref().is_none_or(|own| own.contains(&id));
    let mut consumers = Vec::new();
    for vhost in vhosts {
        let mut queues = vhost.queues();
        queues.sort_by(|one, other| one.name().cmp(other.name()));
        consumers.extend(of_queues(call, &queues, is_seen));
    }
    listing::of_values(call, consumers)
}

fn of_queues(call: &Call, queues: &[Arc<Queue>], is_seen: impl Fn(ConnectionId) -> bool) -> Vec<Value> {
    let mut consumers = Vec::new();
    for batch in queues.chunks(BATCH) {
        let asked: Vec<_> = batch.iter().map(|queue| (queue, queue.stats())).collect();
        for (queue, stats) in asked {
            let mut stats = stats.wait();
            stats.consumers.retain(|it| is_seen(it.spec.id.connection));
            consumers.extend(shapes::consumers(call, queue, &stats));
        }
    }
    consumers
}

/// Those of one channel.
pub(crate) fn of_channel(call: &Call, vhost: &str, connection: ConnectionId, number: u16) -> Vec<Value> {
    let Some(vhost) = call.broker().vhost(vhost) else { return Vec::new() };
    let mut found = Vec::new();
    for batch in vhost.queues().chunks(BATCH) {
        let asked: Vec<_> = batch.iter().map(|queue| (queue, queue.stats())).collect();
        for (queue, stats) in asked {
            let mut stats = stats.wait();
            stats.consumers.retain(|it| it.spec.id.connection == connection && it.spec.channel == number);
            found.extend(shapes::consumers(call, queue, &stats));
        }
    }
    found
}
