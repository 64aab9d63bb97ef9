//! Users of the stream protocol: connections, publishers, consumers; super streams, and what streams keep by name.

use std::borrow::Cow;

use broker::{Permission, StreamConsumer, StreamPublisher, SuperStreamRefused};
use serde_json::{Map, Value, json};
use wire::amqp091::TableBuf;

use super::auth::Access;
use super::call::Call;
use super::connections;
use super::listing;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::connections::ConnectionRow;
use crate::resources::node::NODE_NAME;
use crate::resources::streams;

/// The name of the protocol in listings.
const STREAM: &str = "stream";

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/stream/connections",
        Access::Management,
        "Connections of the stream protocol.",
        list,
    ),
    route(
        Method::Get,
        "/api/stream/connections/{vhost}",
        Access::VhostSeen,
        "Connections of the stream protocol of a virtual host.",
        list,
    ),
    route(
        Method::Get,
        "/api/stream/connections/{vhost}/{name}",
        Access::Management,
        "One connection of the stream protocol.",
        show,
    ),
    route(
        Method::Delete,
        "/api/stream/connections/{vhost}/{name}",
        Access::Management,
        "Closes a connection of the stream protocol.",
        close,
    ),
    route(
        Method::Get,
        "/api/stream/connections/{vhost}/{name}/consumers",
        Access::Management,
        "Its consumers.",
        consumers_of,
    ),
    route(
        Method::Get,
        "/api/stream/connections/{vhost}/{name}/publishers",
        Access::Management,
        "Its publishers.",
        publishers_of,
    ),
    route(
        Method::Get,
        "/api/stream/consumers",
        Access::Management,
        "Consumers of the stream protocol.",
        consumers,
    ),
    route(
        Method::Get,
        "/api/stream/consumers/{vhost}",
        Access::VhostSeen,
        "Consumers of the stream protocol of a virtual host.",
        consumers,
    ),
    route(
        Method::Get,
        "/api/stream/publishers",
        Access::Management,
        "Publishers of the stream protocol.",
        publishers,
    ),
    route(
        Method::Get,
        "/api/stream/publishers/{vhost}",
        Access::VhostSeen,
        "Publishers of the stream protocol of a virtual host.",
        publishers,
    ),
    route(
        Method::Get,
        "/api/stream/publishers/{vhost}/{name}",
        Access::VhostSeen,
        "Publishers of a stream.",
        publishers,
    ),
    route(
        Method::Put,
        "/api/stream/super-streams/{vhost}/{name}",
        Access::Vhost,
        "Creates a super stream: `partitions`, a number, or `binding-keys`, texts between commas; `arguments` of the partitions.",
        put_super_stream,
    ),
    route(
        Method::Get,
        "/api/stream/{vhost}/{name}/tracking",
        Access::Vhost,
        "Offsets and publishing ids that a stream keeps by name; `type` chooses `offset` or `writer`.",
        tracking,
    ),
];

/// Connections of the protocol that the user may see.
fn visible(call: &Call) -> Result<Vec<ConnectionRow>, Problem> {
    let mut lines = connections::visible(call)?;
    lines.retain(|row| row.info.protocol == STREAM);
    Ok(lines)
}

/// The connection of the path.
fn find(call: &Call) -> Result<ConnectionRow, Problem> {
    let line = connections::find(call, call.part("name"))?;
    let is_meant = line.info.protocol == STREAM && line.info.vhost == call.part("vhost");
    if is_meant { Ok(line) } else { Err(Problem::missing()) }
}

fn list(call: &Call) -> Answer {
    connections::list_of(call, visible(call)?)
}

fn show(call: &Call) -> Answer {
    connections::show_one(call, &find(call)?)
}

fn close(call: &Call) -> Answer {
    connections::close_one(call, &find(call)?)
}

fn consumers(call: &Call) -> Answer {
    let lines = visible(call)?;
    listing::of_values(call, lines.iter().flat_map(consumer_objects).collect())
}

fn consumers_of(call: &Call) -> Answer {
    listing::of_values(call, consumer_objects(&find(call)?).collect())
}

fn publishers(call: &Call) -> Answer {
    let (lines, stream) = (visible(call)?, call.part_if("name"));
    let all = lines.iter().flat_map(publisher_objects);
    let is_meant = |(of, _): &(String, Value)| stream.is_none_or(|stream| stream == of);
    listing::of_values(call, all.filter(is_meant).map(|(_, value)| value).collect())
}

fn publishers_of(call: &Call) -> Answer {
    listing::of_values(call, publisher_objects(&find(call)?).map(|(_, value)| value).collect())
}

fn consumer_objects(line: &ConnectionRow) -> impl Iterator<Item = Value> + use<> {
    let (connection, vhost) = (details(line), line.info.vhost.clone());
    line.control.stream_consumers().into_iter().map(move |it| {
        let status = it.activity_status();
        let StreamConsumer {
            stream, id, credits, consumed, offset, offset_lag, is_active, properties, ..
        } = it;
        let properties: Map<String, Value> =
            properties.into_iter().map(|(name, value)| (name, value.into())).collect();
        json!({
            "active": is_active,
            "activity_status": status,
            "connection_details": connection,
            "consumed": consumed,
            "credits": credits,
            "offset": offset,
            "offset_lag": offset_lag,
            "properties": properties,
            "queue": {"name": stream, "vhost": vhost},
            "subscription_id": id,
        })
    })
}

/// With the name of the stream.
fn publisher_objects(line: &ConnectionRow) -> impl Iterator<Item = (String, Value)> + use<> {
    let (connection, vhost) = (details(line), line.info.vhost.clone());
    line.control.stream_publishers().into_iter().map(move |it| {
        let StreamPublisher { stream, id, reference, published, confirmed, errored } = it;
        let value = json!({
            "confirmed": confirmed,
            "connection_details": connection,
            "errored": errored,
            "published": published,
            "publisher_id": id,
            "queue": {"name": stream, "vhost": vhost},
            "reference": reference,
        });
        (stream, value)
    })
}

fn details(ConnectionRow { info, .. }: &ConnectionRow) -> Value {
    json!({
        "name": info.name,
        "node": NODE_NAME,
        "peer_host": info.peer_host,
        "peer_port": info.peer_port,
        "user": info.user,
    })
}

fn put_super_stream(call: &Call) -> Answer {
    let (principal, name) = (call.principal()?, call.part("name"));
    let object = call.object()?;
    let keys = object.get("binding-keys").map(text_of);
    let partitions = match (object.get("partitions"), keys) {
        (None, None) => return Err(Problem::bad("Must specify partitions or binding keys")),
        (Some(_), Some(_)) => return Err(Problem::bad("Specify partitions or binding keys, not both")),
        (None, Some(keys)) => match streams::keyed(name, &keys) {
            keyed if keyed.is_empty() => {
                return Err(Problem::bad("The number of binding keys must be greater than 0"));
            }
            keyed if keyed.len() > 1000 => {
                return Err(Problem::bad("The number of binding keys must not exceed 1000"));
            }
            keyed => keyed,
        },
        (Some(count), None) => match text_of(count).parse::<usize>() {
            Err(_) if text_of(count).starts_with('-') => {
                return Err(Problem::bad("The partition number must be greater than 0"));
            }
            Err(_) => return Err(Problem::bad("The partitions must be a number")),
            Ok(0) => return Err(Problem::bad("The partition number must be greater than 0")),
            Ok(count) if count > 1000 => {
                return Err(Problem::bad("The partition number must not exceed 1000"));
            }
            Ok(count) => streams::numbered(name, count),
        },
    };
    let arguments = arguments_of(object.get("arguments"))?;
    match streams::create(call.broker(), &principal, name, partitions, arguments) {
        Ok(()) => Ok(Reply::NoContent),
        Err(SuperStreamRefused::Refused(broker::Refused::Access { .. })) => {
            Err(Problem::forbidden("Access refused."))
        }
        Err(refused) => Err(Problem::bad(streams::refusal(refused))),
    }
}

fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// Arguments of streams, under their names in the stream protocol.
fn arguments_of(given: Option<&Value>) -> Result<TableBuf, Problem> {
    let mut table = TableBuf::new();
    let Some(Value::Object(given)) = given else { return Ok(table) };
    for (name, value) in given {
        let (key, value) = (format!("x-{name}"), text_of(value));
        match name.as_str() {
            "max-age" | "queue-leader-locator" => {
                table.push_str(&key, value.as_bytes());
            }
            "max-length-bytes"
            | "stream-max-segment-size-bytes"
            | "initial-cluster-size"
            | "stream-filter-size-bytes" => {
                let number = value.parse().map_err(|_| Problem::bad(format!("{name} must be a number")))?;
                table.push_i64(&key, number);
            }
            _ => {}
        }
    }
    Ok(table)
}

fn tracking(call: &Call) -> Answer {
    let principal = call.principal()?;
    let name = call.part("name");
    if principal.check_queue(Permission::Read, name.as_bytes()).is_err() {
        return Err(Problem::forbidden("Access refused."));
    }
    let log = streams::log_of(call.broker(), call.part("vhost"), name).ok_or_else(Problem::missing)?;
    let object = |all: Vec<(Box<[u8]>, u64)>| -> Value {
        let named =
            all.into_iter().map(|(name, it)| (String::from_utf8_lossy(&name).into_owned(), it.into()));
        Value::Object(named.collect())
    };
    let (offsets, writers) = (object(log.stored_offsets()), object(log.publishing_ids()));
    let value = match call.query("type") {
        Some("offset") => json!({"offsets": offsets}),
        Some("writer") => json!({"writers": writers}),
        _ => json!({"offsets": offsets, "writers": writers}),
    };
    listing::one(call, value)
}
