//! Pieces of JSON that several resources share: names, times, the details of connections and consumers.

use broker::{Broker, ConnectionControl, ConnectionId, ConnectionInfo, Queue, QueueStats};
use serde_json::{Map, Value, json};

use super::call::Call;
use crate::resources::node::NODE_NAME;
use crate::resources::values::{iso_time, now_ms, table, text};

/// Bytes as text, for filters and texts.
pub(crate) fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The object that [`json!`] makes of an object.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => unreachable!("{other} stands as an object in this crate"),
    }
}

/// How long a queue or channel is not used before it counts as idle, milliseconds: RabbitMQ's processes rest after about as much.
const IDLE_MS: u64 = 1_000;

/// Since when something is idle that was last used then, milliseconds since 1970; 0 is never.
pub(crate) fn add_idle_since(json: &mut Map<String, Value>, used_ms: u64) {
    if used_ms > 0 && now_ms().saturating_sub(used_ms) >= IDLE_MS {
        json.insert("idle_since".into(), iso_time(used_ms).into());
    }
}

/// A connection by its number.
pub(crate) fn connection(broker: &Broker, id: ConnectionId) -> Option<std::sync::Arc<dyn ConnectionControl>> {
    broker.connections().get(id)
}

/// What others show of a connection.
pub(crate) fn connection_details(info: &ConnectionInfo) -> Value {
    json!({"name": info.name, "peer_host": info.peer_host, "peer_port": info.peer_port})
}

/// Consumers of a queue as RabbitMQ's lists show them.
pub(crate) fn consumers(call: &Call, queue: &Queue, stats: &QueueStats) -> Vec<Value> {
    stats.consumers.iter().map(|consumer| consumer_object(call, queue, stats, consumer)).collect()
}

fn consumer_object(
    call: &Call,
    queue: &Queue,
    stats: &QueueStats,
    consumer: &broker::ConsumerStats,
) -> Value {
    let spec = &consumer.spec;
    let info = connection(call.broker(), spec.id.connection).map(|control| control.info());
    let channel_details = info.map_or_else(
        || json!({}),
        |info| {
            json!({
                "connection_name": info.name,
                "name": format!("{} ({})", info.name, spec.channel),
                "node": NODE_NAME,
                "number": spec.channel,
                "peer_host": info.peer_host,
                "peer_port": info.peer_port,
                "user": info.user,
            })
        },
    );
    json!({
        "ack_required": spec.ack_required,
        "active": consumer.active,
        "activity_status": activity(stats, consumer.active),
        "arguments": table(&spec.arguments),
        "channel_details": channel_details,
        "consumer_tag": text(&spec.tag),
        "consumer_timeout": queue.consumer_timeout_ms(Some(call.node().consumer_timeout_ms)),
        "exclusive": spec.exclusive,
        "prefetch_count": spec.prefetch,
        "queue": {"name": text(queue.name()), "vhost": queue.vhost_name()},
    })
}

/// `up`, or with a single active consumer which of the two it is (B134).
fn activity(stats: &QueueStats, is_active: bool) -> &'static str {
    match (&stats.single_active_tag, is_active) {
        (None, true) => "up",
        (Some(_), true) => "single_active",
        (_, false) => "waiting",
    }
}
