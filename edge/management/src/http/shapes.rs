//! Pieces of JSON that several resources share: names, times, the details of connections and consumers.

use broker::{Broker, ConnectionControl, ConnectionId, ConnectionInfo};
use serde_json::{Map, Value, json};

use super::call::Call;
use crate::resources::consumers::ConsumerRow;
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

/// The details that others show of a connection.
pub(crate) fn connection_details(info: &ConnectionInfo) -> Value {
    json!({"name": info.name, "peer_host": info.peer_host, "peer_port": info.peer_port})
}

/// A consumer as RabbitMQ's lists show it.
pub(crate) fn consumer_object(call: &Call, row: &ConsumerRow) -> Value {
    let (queue, spec) = (&row.queue, &row.spec);
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
        "active": row.is_active,
        "activity_status": row.activity(),
        "arguments": table(&spec.arguments),
        "channel_details": channel_details,
        "consumer_tag": text(&spec.tag),
        "consumer_timeout": queue.consumer_timeout_ms(Some(call.node().consumer_timeout_ms)),
        "exclusive": spec.exclusive,
        "prefetch_count": spec.prefetch,
        "queue": {"name": text(queue.name()), "vhost": queue.vhost_name()},
    })
}
