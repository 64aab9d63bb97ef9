//! Consumers of all queues that somebody may see.

use std::sync::Arc;

use broker::{ConnectionId, Queue};
use serde_json::Value;

use super::auth::Access;
use super::call::Call;
use super::listing;
use super::reply::Answer;
use super::shapes;
use super::table::{Method, Route, route};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/consumers", Access::Management, "Consumers of all queues.", list),
    route(
        Method::Get,
        "/api/consumers/{vhost}",
        Access::Vhost,
        "Consumers of the queues of a virtual host.",
        list,
    ),
];

/// Queues asked for their consumers before the first answer is awaited.
const BATCH: usize = 1024;

fn list(call: &Call) -> Answer {
    let mut consumers = Vec::new();
    for vhost in call.vhosts()? {
        let mut queues = vhost.queues();
        queues.sort_by(|one, other| one.name().cmp(other.name()));
        consumers.extend(of_queues(call, &queues));
    }
    listing::of_values(call, consumers)
}

fn of_queues(call: &Call, queues: &[Arc<Queue>]) -> Vec<Value> {
    let mut consumers = Vec::new();
    for batch in queues.chunks(BATCH) {
        let asked: Vec<_> = batch.iter().map(|queue| (queue, queue.stats())).collect();
        for (queue, stats) in asked {
            consumers.extend(shapes::consumers(call, queue, &stats.wait()));
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
