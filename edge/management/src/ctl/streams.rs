//! Connections of the stream protocol, groups of its consumers, super streams, stored offsets.

use broker::streams::{GroupInfo, GroupMemberInfo, GroupStanding};
use broker::{
    Broker, ConnectionId, ConnectionInfo, StreamConsumer, StreamPublisher, SuperStreamRefused, size_bytes,
};
use serde_json::{Map, Value, json};
use wire::amqp091::TableBuf;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Outcome, arguments, refused, usage};
use crate::ctl::connections::CONNECTION_COLUMNS;
use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};
use crate::resources::connections::{ConnectionRow, pid};
use crate::resources::node::NODE_NAME;
use crate::resources::streams;
use crate::resources::values::text;

/// The name of the protocol in listings.
const STREAM: &str = "stream";
/// Partitions of a super stream unless a number is given.
const PARTITIONS: usize = 3;

/// Columns that connections of streams have beside those of all.
const STREAM_COLUMNS: &[Column<ConnectionRow>] = &[
    ("conn_name", |it| it.info.name.as_str().into()),
    ("node", |_| NODE_NAME.into()),
    ("connection_state", |it| it.info.state.into()),
    ("subscriptions", |it| it.control.stream_consumers().len().into()),
    ("heartbeat", |it| it.info.heartbeat_s.into()),
];

pub(crate) const CONNECTION_DEFAULTS: &[&str] = &["conn_name"];

/// The columns of connections of the stream protocol.
pub(crate) fn connection_columns() -> Vec<Column<ConnectionRow>> {
    [STREAM_COLUMNS, CONNECTION_COLUMNS].concat()
}

/// The names of columns after the first few.
fn names_of<T>(known: &[Column<T>], from: usize) -> Vec<&'static str> {
    known.iter().skip(from).map(|(name, _)| *name).collect()
}

/// All connections of the stream protocol.
pub(crate) fn list_stream_connections(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, &connection_columns(), CONNECTION_DEFAULTS)?;
    Ok(rows(&columns, connections(broker, None)))
}

/// Connections of the protocol in a vhost, or in all.
fn connections(broker: &Broker, vhost: Option<&str>) -> Vec<ConnectionRow> {
    let is_meant =
        |info: &ConnectionInfo| info.protocol == STREAM && vhost.is_none_or(|vhost| vhost == info.vhost);
    ConnectionRow::all(broker).filter(|row| is_meant(&row.info)).collect()
}

pub(crate) const CONSUMER_COLUMNS: &[Column<(ConnectionId, StreamConsumer)>] = &[
    ("connection_pid", |(id, _)| pid(*id, 0).into()),
    ("node", |_| NODE_NAME.into()),
    ("subscription_id", |(_, it)| it.id.into()),
    ("stream", |(_, it)| it.stream.as_str().into()),
    ("messages_consumed", |(_, it)| it.consumed.into()),
    ("offset", |(_, it)| it.offset.into()),
    ("offset_lag", |(_, it)| it.offset_lag.into()),
    ("credits", |(_, it)| it.credits.into()),
    ("active", |(_, it)| it.is_active.into()),
    ("activity_status", |(_, it)| it.activity_status().into()),
    ("properties", |(_, it)| {
        let all = it.properties.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        Value::Object(all.collect::<Map<String, Value>>())
    }),
];

pub(crate) fn consumer_defaults() -> Vec<&'static str> {
    names_of(CONSUMER_COLUMNS, 2)
}

/// Consumers of the stream protocol in a vhost.
pub(crate) fn list_stream_consumers(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, CONSUMER_COLUMNS, &consumer_defaults())?;
    let all = connections(broker, Some(request.vhost())).into_iter();
    let of = |row: ConnectionRow| row.control.stream_consumers().into_iter().map(move |it| (row.id, it));
    Ok(rows(&columns, all.flat_map(of)))
}

pub(crate) const PUBLISHER_COLUMNS: &[Column<(ConnectionId, StreamPublisher)>] = &[
    ("connection_pid", |(id, _)| pid(*id, 0).into()),
    ("node", |_| NODE_NAME.into()),
    ("publisher_id", |(_, it)| it.id.into()),
    ("stream", |(_, it)| it.stream.as_str().into()),
    ("reference", |(_, it)| it.reference.as_str().into()),
    ("messages_published", |(_, it)| it.published.into()),
    ("messages_confirmed", |(_, it)| it.confirmed.into()),
    ("messages_errored", |(_, it)| it.errored.into()),
];

pub(crate) fn publisher_defaults() -> Vec<&'static str> {
    names_of(PUBLISHER_COLUMNS, 2)
}

/// Publishers of the stream protocol in a vhost.
pub(crate) fn list_stream_publishers(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, PUBLISHER_COLUMNS, &publisher_defaults())?;
    let all = connections(broker, Some(request.vhost())).into_iter();
    let of = |row: ConnectionRow| row.control.stream_publishers().into_iter().map(move |it| (row.id, it));
    Ok(rows(&columns, all.flat_map(of)))
}

pub(crate) const GROUP_COLUMNS: &[Column<GroupInfo>] = &[
    ("stream", |it| text(&it.stream)),
    ("reference", |it| (*it.name).into()),
    ("partition_index", |it| it.partition.map_or(-1, i64::from).into()),
    ("consumers", |it| it.members.len().into()),
];

pub(crate) fn group_defaults() -> Vec<&'static str> {
    names_of(GROUP_COLUMNS, 0)
}

/// Groups of consumers of which one is active.
pub(crate) fn list_stream_consumer_groups(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, GROUP_COLUMNS, &group_defaults())?;
    let all = broker.stream_groups().all().into_iter();
    Ok(rows(&columns, all.filter(|group| &*group.vhost == request.vhost())))
}

pub(crate) const MEMBER_COLUMNS: &[Column<GroupMemberInfo>] = &[
    ("subscription_id", |it| it.subscription.into()),
    ("connection_name", |it| (*it.connection_name).into()),
    ("state", |it| match it.standing {
        GroupStanding::Active => "active".into(),
        GroupStanding::SteppingDown => "deactivating".into(),
        GroupStanding::Waiting => "waiting".into(),
    }),
];

pub(crate) fn member_defaults() -> Vec<&'static str> {
    names_of(MEMBER_COLUMNS, 0)
}

/// The members of one group.
pub(crate) fn list_stream_group_consumers(broker: &Broker, request: &Request) -> Outcome {
    let (stream, reference) = stream_and_reference(request)?;
    let columns = chosen(request, MEMBER_COLUMNS, &member_defaults())?;
    let is_meant = |group: &GroupInfo| {
        &*group.vhost == request.vhost() && *group.stream == *stream.as_bytes() && &*group.name == reference
    };
    let found = broker.stream_groups().all().into_iter().find(is_meant);
    let group = found.ok_or_else(|| failed("The group does not exist"))?;
    Ok(rows(&columns, group.members))
}

fn failed(text: &str) -> Failure {
    Failure::new(Exit::DATA, format!("Error:\n{text}"))
}

fn stream_and_reference(request: &Request) -> Result<(&str, &str), Failure> {
    let option = |name: &str| {
        let given = request.options.get(name).filter(|it| !it.is_empty());
        given.ok_or_else(|| usage(&format!("the option --{name} is needed.")))
    };
    Ok((option("stream")?, option("reference")?))
}

/// Stored offsets, and publishing ids of named publishers.
pub(crate) fn list_stream_tracking(broker: &Broker, request: &Request) -> Outcome {
    let [stream] = arguments(request)?;
    let log = streams::log_of(broker, request.vhost(), stream);
    let log = log.ok_or_else(|| failed("The stream does not exist."))?;
    let is_all = !request.has("offset") && !request.has("writer");
    let mut all = Vec::new();
    let row = |kind: &str, name: &[u8], value: u64| vec![json!(kind), text(name), json!(value)];
    if is_all || request.has("offset") {
        all.extend(log.stored_offsets().iter().map(|(name, offset)| row("offset", name, *offset)));
    }
    if is_all || request.has("writer") {
        all.extend(log.publishing_ids().iter().map(|(name, id)| row("writer", name, *id)));
    }
    all.sort_by_key(|row| format!("{}{}", row[0], row[1]));
    let columns = ["type", "name", "tracking_value"].map(String::from).to_vec();
    Ok(Answer::Rows(Rows { columns, rows: all }))
}

/// An offset that is stored becomes 0.
pub(crate) fn reset_offset(broker: &Broker, request: &Request) -> Outcome {
    let (stream, reference) = stream_and_reference(request)?;
    if reference.len() > 255 {
        return Err(usage(&format!("Reference is too long to store offset: {}", reference.len())));
    }
    let log = streams::log_of(broker, request.vhost(), stream);
    let log = log.ok_or_else(|| failed("The stream does not exist"))?;
    if log.stored_offset(reference.as_bytes()).is_none() {
        return Err(failed("No offset is stored under that reference"));
    }
    log.store_offset(reference.as_bytes(), 0);
    Ok(Answer::done())
}

fn of_super(done: Result<(), SuperStreamRefused>) -> Outcome {
    done.map(|()| Answer::done()).map_err(|why| match why {
        SuperStreamRefused::Refused(why) => refused(why),
        why => failed(&streams::refusal(why)),
    })
}

/// Creates a super stream by a number of partitions, or by binding keys.
pub(crate) fn add_super_stream(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let principal = streams::operator(broker, request.vhost());
    let principal = principal.ok_or_else(|| failed("The virtual host does not exist."))?;
    let partitions = match (request.options.get("partitions"), request.options.get("binding-keys")) {
        (Some(_), Some(_)) => return Err(usage("Specify --partitions or --binding-keys, not both.")),
        (None, Some(keys)) => streams::keyed(name, keys),
        (count, None) => {
            let count = count.map_or(Some(PARTITIONS), |count| count.parse().ok().filter(|it| *it > 0));
            let count = count.ok_or_else(|| usage("The partition number must be greater than 0"))?;
            if count > 1000 {
                return Err(usage("The partition number must not exceed 1000"));
            }
            streams::numbered(name, count)
        }
    };
    of_super(streams::create(broker, &principal, name, partitions, stream_arguments(request)?))
}

/// Arguments of the partitions, of options.
fn stream_arguments(request: &Request) -> Result<TableBuf, Failure> {
    let mut table = TableBuf::new();
    for name in ["max-length-bytes", "stream-max-segment-size-bytes"] {
        if let Some(value) = request.options.get(name) {
            let bytes = size_bytes(value).and_then(|bytes| i64::try_from(bytes).ok());
            let bytes = bytes.ok_or_else(|| usage(&format!("Invalid value for --{name}: {value}")))?;
            table.push_i64(format!("x-{name}"), bytes);
        }
    }
    if let Some(value) = request.options.get("max-age") {
        let seconds =
            seconds_of(value).ok_or_else(|| usage(&format!("Invalid value for --max-age: {value}")))?;
        table.push_str("x-max-age", format!("{seconds}s"));
    }
    if let Some(locator) = request.options.get("leader-locator") {
        table.push_str("x-queue-leader-locator", locator.as_str());
    }
    if let Some(size) = request.options.get("initial-cluster-size") {
        let size = size.parse().map_err(|_| usage("Invalid value for --initial-cluster-size"))?;
        table.push_i64("x-initial-cluster-size", size);
    }
    Ok(table)
}

/// A duration of ISO 8601, such as `PT10M30S`, in seconds.
fn seconds_of(text: &str) -> Option<u64> {
    let (mut seconds, mut number, mut is_time, mut has_some) = (0_u64, String::new(), false, false);
    for letter in text.strip_prefix('P')?.chars() {
        let unit: u64 = match (letter, is_time) {
            ('0'..='9', _) => {
                number.push(letter);
                continue;
            }
            ('T', false) => {
                is_time = true;
                continue;
            }
            ('Y', false) => 365 * 86_400,
            ('M', false) => 30 * 86_400,
            ('W', false) => 7 * 86_400,
            ('D', false) => 86_400,
            ('H', true) => 3600,
            ('M', true) => 60,
            ('S', true) => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        (number, has_some) = (String::new(), true);
    }
    (has_some && number.is_empty()).then_some(seconds)
}

/// Deletes a super stream with its partitions.
pub(crate) fn delete_super_stream(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let principal = streams::operator(broker, request.vhost());
    let principal = principal.ok_or_else(|| failed("The virtual host does not exist."))?;
    of_super(streams::delete(broker, &principal, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_iso_8601() {
        assert_eq!(seconds_of("PT10M30S"), Some(630));
        assert_eq!((seconds_of("P5DT1H"), seconds_of("P1M")), (Some(5 * 86_400 + 3600), Some(30 * 86_400)));
        for text in ["", "P", "PT", "10M", "PT10", "P1H", "PTM"] {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }
}
