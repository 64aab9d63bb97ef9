//! Connections and channels: listed and closed. Refuses to know their protocol.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use broker::{Broker, CloseReason, ConnectionId, MqttInfo, PeerCertificate, TlsSession};
use serde_json::Value;
use wire::amqp091::{Table, Value as Field};

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Outcome, arguments, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::connections::{ChannelRow, ConnectionRow, connection_of, pid};
use crate::resources::values::typed;

/// Longest pause between two connections that are closed, milliseconds.
const DELAY_MS_MAX: u64 = 10_000;

/// The numbers of an IP address, as RabbitMQ's tools write it in JSON; a text that is none stays.
fn address(text: &str) -> Value {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.octets().to_vec().into(),
        Ok(IpAddr::V6(address)) => address.segments().to_vec().into(),
        Err(_) => text.into(),
    }
}

/// The numbers of both versions of AMQP; other protocols by name and version.
fn protocol(name: &str) -> Value {
    match name {
        "AMQP 0-9-1" => vec![0, 9, 1].into(),
        "AMQP 1-0" => vec![1, 0].into(),
        _ => stomp_protocol(name, "\"").unwrap_or_else(|| mqtt_protocol(name).into()),
    }
}

pub(crate) const CONNECTION_DEFAULTS: &[&str] = &["user", "peer_host", "peer_port", "state"];

pub(crate) const CONNECTION_COLUMNS: &[Column<ConnectionRow>] = &[
    ("pid", |it| pid(it.id, 0).into()),
    ("name", |it| it.info.name.as_str().into()),
    ("user_provided_name", |it| it.info.user_provided_name.as_deref().unwrap_or_default().into()),
    ("user", |it| it.info.user.as_str().into()),
    ("vhost", |it| it.info.vhost.as_str().into()),
    ("host", |it| address(&it.info.host)),
    ("port", |it| it.info.port.into()),
    ("peer_host", |it| address(&it.info.peer_host)),
    ("peer_port", |it| it.info.peer_port.into()),
    ("state", |it| it.info.state.into()),
    ("protocol", |it| protocol(it.info.protocol)),
    ("auth_mechanism", |it| it.info.auth_mechanism.as_str().into()),
    ("ssl", |it| it.info.tls.is_some().into()),
    ("ssl_protocol", |it| agreed(it, |tls| tls.protocol)),
    ("ssl_key_exchange", |it| agreed(it, |tls| tls.key_exchange)),
    ("ssl_cipher", |it| agreed(it, |tls| tls.cipher)),
    ("ssl_hash", |it| agreed(it, |tls| tls.hash)),
    ("peer_cert_subject", |it| peer(it, |certificate| &certificate.subject)),
    ("peer_cert_issuer", |it| peer(it, |certificate| &certificate.issuer)),
    ("peer_cert_validity", |it| peer(it, |certificate| &certificate.validity)),
    ("peer_cert_serial_number", |it| peer(it, |certificate| &certificate.serial)),
    ("container_id", |it| it.info.container_id.as_deref().unwrap_or_default().into()),
    ("channels", |it| it.info.channels.into()),
    ("channel_max", |it| it.info.channel_max.into()),
    ("frame_max", |it| it.info.frame_max.into()),
    ("timeout", |it| it.info.heartbeat_s.into()),
    ("client_properties", |it| typed(&it.info.client_properties)),
    ("connected_at", |it| it.info.connected_at_ms.into()),
    ("recv_cnt", |it| it.info.totals.received_count.into()),
    ("send_cnt", |it| it.info.totals.sent_count.into()),
    ("recv_oct", |it| it.info.totals.received_bytes.into()),
    ("send_oct", |it| it.info.totals.sent_bytes.into()),
    ("send_pend", |it| it.info.send_pending_bytes.into()),
    ("memory", |it| it.control.memory().total().into()),
];

fn agreed(row: &ConnectionRow, read: fn(&TlsSession) -> &'static str) -> Value {
    row.agreed(read).unwrap_or_default().into()
}

fn peer(row: &ConnectionRow, read: fn(&PeerCertificate) -> &String) -> Value {
    row.peer(read).unwrap_or_default().into()
}

/// All connections of the node.
pub(crate) fn list_connections(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, CONNECTION_COLUMNS, CONNECTION_DEFAULTS)?;
    Ok(rows(&columns, ConnectionRow::all(broker)))
}

/// RabbitMQ's columns of connections of MQTT that are not among those of all, or are written in another way.
const MQTT_COLUMNS: &[Column<ConnectionRow>] = &[
    ("client_id", |it| client_id(it).into()),
    ("conn_name", |it| it.info.name.as_str().into()),
    ("connection_state", |it| it.info.state.into()),
    ("clean_sess", |it| of_mqtt(it, |mqtt| mqtt.is_clean.into())),
    ("exchange", |it| of_mqtt(it, |mqtt| mqtt.exchange.as_str().into())),
    ("prefetch", |it| of_mqtt(it, |mqtt| mqtt.prefetch.into())),
    ("messages_unacknowledged", |it| of_mqtt(it, |mqtt| mqtt.unacknowledged.into())),
    ("messages_unconfirmed", |it| of_mqtt(it, |mqtt| mqtt.unconfirmed.into())),
    ("protocol", |it| mqtt_protocol(it.info.protocol).into()),
    ("host", |it| it.info.host.as_str().into()),
    ("peer_host", |it| it.info.peer_host.as_str().into()),
];

/// Fields that connections of MQTT share with others.
const MQTT_COLUMNS_OF_ALL: &[&str] = &[
    "peer_port",
    "pid",
    "port",
    "recv_cnt",
    "recv_oct",
    "send_cnt",
    "send_oct",
    "send_pend",
    "ssl",
    "ssl_cipher",
    "ssl_hash",
    "ssl_key_exchange",
    "ssl_protocol",
    "user",
    "vhost",
];

fn of_mqtt(row: &ConnectionRow, read: fn(&MqttInfo) -> Value) -> Value {
    row.info.mqtt.as_ref().map_or(Value::Null, read)
}

/// RabbitMQ's text of a version.
fn mqtt_protocol(name: &str) -> &str {
    match name {
        "MQTT 3-1" => "{'MQTT', {3,1,0}}",
        "MQTT 3-1-1" => "{'MQTT', {3,1,1}}",
        "MQTT 5-0" => "{'MQTT', {5, 0}}",
        "Web MQTT 3-1" => "{'Web MQTT', {3,1,0}}",
        "Web MQTT 3-1-1" => "{'Web MQTT', {3,1,1}}",
        "Web MQTT 5-0" => "{'Web MQTT', {5, 0}}",
        _ => name,
    }
}

fn client_id(row: &ConnectionRow) -> String {
    match Table::from_raw(&row.info.client_properties).get("client_id") {
        Some(Field::LongStr(id)) => String::from_utf8_lossy(id).into_owned(),
        _ => String::new(),
    }
}

pub(crate) const MQTT_DEFAULTS: &[&str] = &["client_id", "conn_name"];

/// The columns of connections of MQTT.
pub(crate) fn mqtt_columns() -> Vec<Column<ConnectionRow>> {
    let mut known = MQTT_COLUMNS.to_vec();
    known.extend(CONNECTION_COLUMNS.iter().filter(|column| MQTT_COLUMNS_OF_ALL.contains(&column.0)));
    known
}

/// All connections of MQTT whose protocol begins with this word.
fn mqtt_connections(broker: &Broker, request: &Request, word: &str) -> Outcome {
    let columns = chosen(request, &mqtt_columns(), MQTT_DEFAULTS)?;
    Ok(rows(&columns, ConnectionRow::all(broker).filter(|it| it.info.protocol.starts_with(word))))
}

/// All connections of MQTT that do not come over WebSocket.
pub(crate) fn list_mqtt_connections(broker: &Broker, request: &Request) -> Outcome {
    mqtt_connections(broker, request, "MQTT")
}

/// All connections of MQTT over WebSocket.
pub(crate) fn list_web_mqtt_connections(broker: &Broker, request: &Request) -> Outcome {
    mqtt_connections(broker, request, "Web MQTT")
}

/// RabbitMQ's columns of connections of STOMP that are not among those of all, or are written in another way.
const STOMP_COLUMNS: &[Column<ConnectionRow>] = &[
    ("session_id", |it| session_id(it).into()),
    ("conn_name", |it| it.info.name.as_str().into()),
    ("connection", |it| pid(it.id, 0).into()),
    ("connection_state", |it| it.info.state.into()),
    ("version", |it| it.info.protocol.rsplit_once(' ').map_or("", |(_, version)| version).into()),
    ("protocol", |it| stomp_protocol(it.info.protocol, "").unwrap_or_else(|| it.info.protocol.into())),
    ("host", |it| it.info.host.as_str().into()),
    ("peer_host", |it| it.info.peer_host.as_str().into()),
];

/// RabbitMQ's text of a version of STOMP: the listing of all connections has it in quotation marks.
fn stomp_protocol(name: &str, quote: &str) -> Option<Value> {
    let (kind, version) = name.rsplit_once(' ').filter(|(kind, _)| kind.ends_with("STOMP"))?;
    Some(format!("{{'{kind}', {quote}{version}{quote}}}").into())
}

/// The name that CONNECTED gave the session.
fn session_id(row: &ConnectionRow) -> String {
    match Table::from_raw(&row.info.client_properties).get("session") {
        Some(Field::LongStr(id)) => String::from_utf8_lossy(id).into_owned(),
        _ => String::new(),
    }
}

pub(crate) const STOMP_DEFAULTS: &[&str] = &["session_id", "conn_name"];

/// The columns of connections of STOMP.
pub(crate) fn stomp_columns() -> Vec<Column<ConnectionRow>> {
    let mut known = STOMP_COLUMNS.to_vec();
    known.extend(CONNECTION_COLUMNS.iter().filter(|column| MQTT_COLUMNS_OF_ALL.contains(&column.0)));
    known
}

/// All connections of STOMP. Those over WebSocket are among them, unlike with RabbitMQ, which lists them nowhere by themselves.
pub(crate) fn list_stomp_connections(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, &stomp_columns(), STOMP_DEFAULTS)?;
    let is_stomp = |it: &ConnectionRow| it.info.protocol.trim_start_matches("Web ").starts_with("STOMP");
    Ok(rows(&columns, ConnectionRow::all(broker).filter(is_stomp)))
}

pub(crate) const CHANNEL_COLUMNS: &[Column<ChannelRow>] = &[
    ("pid", |it| pid(it.connection.id, it.info.number).into()),
    ("connection", |it| pid(it.connection.id, 0).into()),
    ("name", |it| it.name().into()),
    ("number", |it| it.info.number.into()),
    ("user", |it| it.info.user.as_str().into()),
    ("vhost", |it| it.info.vhost.as_str().into()),
    ("transactional", |it| it.info.transactional.into()),
    ("confirm", |it| it.info.confirm.into()),
    ("consumer_count", |it| it.info.consumer_count.into()),
    ("messages_unacknowledged", |it| it.info.messages_unacknowledged.into()),
    ("messages_uncommitted", |it| it.info.messages_uncommitted.into()),
    ("acks_uncommitted", |it| it.info.acks_uncommitted.into()),
    ("messages_unconfirmed", |it| it.info.messages_unconfirmed.into()),
    ("prefetch_count", |it| it.info.prefetch_count.into()),
    ("global_prefetch_count", |it| it.info.global_prefetch_count.into()),
    ("state", |_| "running".into()),
];

pub(crate) const CHANNEL_DEFAULTS: &[&str] = &["pid", "user", "consumer_count", "messages_unacknowledged"];

/// All channels of the node.
pub(crate) fn list_channels(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, CHANNEL_COLUMNS, CHANNEL_DEFAULTS)?;
    Ok(rows(&columns, ConnectionRow::all(broker).flat_map(|connection| connection.channels())))
}

/// By the pid of a listing; the client reads the reason (B28).
pub(crate) fn close_connection(broker: &Broker, request: &Request) -> Outcome {
    let [text, reason] = arguments(request)?;
    let invalid =
        || Failure::new(Exit::UNAVAILABLE, format!("Error:\nError:\n{{:invalid_pid_syntax, \"{text}\"}}"));
    let wanted = connection_of(text).ok_or_else(invalid)?;
    // RabbitMQ does not mind a connection that is gone.
    let id = broker.connection_id(wanted);
    if let Some(control) = broker.connections().get(id) {
        control.close(CloseReason::Operator(reason.into()));
        until_gone(broker, id);
    }
    Ok(Answer::done())
}

/// The next command does not list a connection that this one closed. One that does not hear of it within a second is left.
fn until_gone(broker: &Broker, id: ConnectionId) {
    let end = Instant::now() + Duration::from_secs(1);
    while broker.connections().get(id).is_some() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Of one vhost with `-p`, or of the node; `--limit` ends after so many, `--per-connection-delay` waits that many
/// milliseconds between two.
pub(crate) fn close_all_connections(broker: &Broker, request: &Request) -> Outcome {
    let [reason] = arguments(request)?;
    let vhost = request.options.get("vhost");
    let reason = CloseReason::Operator(reason.into());
    let (limit, delay_ms) = (number(request, "limit")?, number(request, "per-connection-delay")?);
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let mut closed = 0;
    for (_, control) in broker.connections().all() {
        if closed < limit && vhost.is_none_or(|vhost| control.info().vhost == *vhost) {
            control.close(reason.clone());
            closed += 1;
            std::thread::sleep(Duration::from_millis(delay_ms.min(DELAY_MS_MAX)));
        }
    }
    Ok(Answer::Done { ok: format!("Closed {closed} connections") })
}

/// The number behind an option, 0 without.
fn number(request: &Request, option: &str) -> Result<u64, Failure> {
    let text = request.options.get(option).map_or("0", String::as_str);
    text.parse().map_err(|_| usage(&format!("Invalid options for this command:\n--{option} : {text}")))
}

/// Whatever their vhost.
pub(crate) fn close_all_user_connections(broker: &Broker, request: &Request) -> Outcome {
    let [user, reason] = arguments(request)?;
    broker.connections().close_where(&CloseReason::Operator(reason.into()), |info| info.user == user);
    Ok(Answer::done())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_protocols_are_numbers() {
        assert_eq!(address("127.0.0.1").to_string(), "[127,0,0,1]");
        assert_eq!(address("::1").to_string(), "[0,0,0,0,0,0,0,1]");
        assert_eq!(protocol("AMQP 0-9-1").to_string(), "[0,9,1]");
        assert_eq!(protocol("AMQP 1-0").to_string(), "[1,0]");
    }

    #[test]
    fn a_pid_names_its_connection_whichever_channel_it_is_of() {
        assert_eq!(connection_of(&pid(ConnectionId::alone(7), 0)), Some(7));
        assert_eq!(connection_of(&pid(ConnectionId::alone(9), 3)), Some(9));
        for bad in ["<a.b>", "<0.1.0>", "<1.2.3>", "<.1.2.3>", "<warren@localhost.1.x.0>"] {
            assert_eq!(connection_of(bad), None, "{bad}");
        }
        assert_eq!(connection_of("7"), None);
    }
}
