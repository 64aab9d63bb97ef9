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
use crate::resources::consumers::ConsumerRow;

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

/// The consumers that a user may see, and the vhosts of these.
enum Seen {
    All(Vec<Arc<Vhost>>),
    /// Consumers of the user's own connections. No other queues are asked.
    Own(HashSet<ConnectionId>, Vec<Arc<Vhost>>),
}

fn seen(call: &Call) -> Result<Seen, Problem> {
    let in_path = call.part_if("vhost").map(|_| call.vhost()).transpose()?;
    if is_monitor(&call.user) {
        return Ok(Seen::All(in_path.map_or_else(|| call.broker().vhosts(), |vhost| vec![vhost])));
    }
    let lines = connections::visible(call)?;
    let names: HashSet<&str> = lines.iter().map(|row| &*row.info.vhost).collect();
    let mut vhosts = call.broker().vhosts();
    vhosts.retain(|vhost| names.contains(vhost.name()));
    Ok(Seen::Own(lines.iter().map(|row| row.id).collect(), vhosts))
}

fn list(call: &Call) -> Answer {
    let (own, vhosts) = match seen(call)? {
        Seen::All(vhosts) => (None, vhosts),
        Seen::Own(connections, vhosts) => (Some(connections), vhosts),
    };
    let is_seen = |row: &ConsumerRow| own.as_ref().is_none_or(|own| own.contains(&row.spec.id.connection));
    let mut consumers = Vec::new();
    for vhost in vhosts {
        let mut queues = vhost.queues();
        queues.sort_by(|one, other| one.name().cmp(other.name()));
        consumers.extend(objects(call, &queues, is_seen));
    }
    listing::of_values(call, consumers)
}

fn objects(call: &Call, queues: &[Arc<Queue>], is_wanted: impl Fn(&ConsumerRow) -> bool) -> Vec<Value> {
    let rows = ConsumerRow::of_queues(queues).filter(is_wanted);
    rows.map(|row| shapes::consumer_object(call, &row)).collect()
}

/// Consumers of one channel.
pub(crate) fn of_channel(call: &Call, vhost: &str, connection: ConnectionId, number: u16) -> Vec<Value> {
    let Some(vhost) = call.broker().vhost(vhost) else { return Vec::new() };
    let is_its = |row: &ConsumerRow| row.spec.id.connection == connection && row.spec.channel == number;
    objects(call, &vhost.queues(), is_its)
}
