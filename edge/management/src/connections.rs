//! Connections and channels: listed and closed. Refuses to know their protocol.

use broker::{Broker, ChannelInfo, CloseReason, ConnectionId, ConnectionInfo};

use crate::columns::{Column, chosen, rows};
use crate::commands::{Outcome, arguments};
use crate::protocol::{Answer, Exit, Failure, Request};
use crate::values::table;

/// What stands where RabbitMQ shows an Erlang process: a connection, or a channel of one.
pub(crate) fn pid(connection: ConnectionId, channel: u16) -> String {
    format!("<warren@localhost.1.{}.{channel}>", connection.0)
}

/// The connection in such a text.
fn connection_of(pid: &str) -> Option<ConnectionId> {
    let mut parts = pid.strip_prefix('<')?.strip_suffix('>')?.rsplit('.');
    let _channel: u16 = parts.next()?.parse().ok()?;
    parts.next()?.parse().ok().map(ConnectionId)
}

type Connection = (ConnectionId, ConnectionInfo);

const CONNECTION_COLUMNS: &[Column<Connection>] = &[
    ("pid", |(id, _)| pid(*id, 0).into()),
    ("name", |(_, it)| it.name.as_str().into()),
    ("user_provided_name", |(_, it)| it.user_provided_name.as_deref().unwrap_or_default().into()),
    ("user", |(_, it)| it.user.as_str().into()),
    ("vhost", |(_, it)| it.vhost.as_str().into()),
    ("host", |(_, it)| it.host.as_str().into()),
    ("port", |(_, it)| it.port.into()),
    ("peer_host", |(_, it)| it.peer_host.as_str().into()),
    ("peer_port", |(_, it)| it.peer_port.into()),
    ("state", |(_, it)| it.state.as_str().into()),
    ("protocol", |(_, it)| it.protocol.as_str().into()),
    ("auth_mechanism", |(_, it)| it.auth_mechanism.as_str().into()),
    ("ssl", |_| false.into()),
    ("channels", |(_, it)| it.channels.into()),
    ("channel_max", |(_, it)| it.channel_max.into()),
    ("frame_max", |(_, it)| it.frame_max.into()),
    ("timeout", |(_, it)| it.heartbeat_s.into()),
    ("client_properties", |(_, it)| table(&it.client_properties)),
    ("connected_at", |(_, it)| it.connected_at_ms.into()),
    ("recv_oct", |(_, it)| it.recv_bytes.into()),
    ("send_oct", |(_, it)| it.send_bytes.into()),
    ("send_pend", |(_, it)| it.send_pending_bytes.into()),
];

/// All connections of the node.
pub(crate) fn list_connections(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, CONNECTION_COLUMNS, &["user", "peer_host", "peer_port", "state"])?;
    let all = broker.connections().all().into_iter().map(|(id, control)| (id, control.info()));
    Ok(rows(&columns, all))
}

type Channel = (ConnectionId, ChannelInfo);

const CHANNEL_COLUMNS: &[Column<Channel>] = &[
    ("pid", |(id, it)| pid(*id, it.number).into()),
    ("connection", |(id, _)| pid(*id, 0).into()),
    ("name", |(_, it)| format!("{} ({})", it.connection, it.number).into()),
    ("number", |(_, it)| it.number.into()),
    ("user", |(_, it)| it.user.as_str().into()),
    ("vhost", |(_, it)| it.vhost.as_str().into()),
    ("transactional", |(_, it)| it.transactional.into()),
    ("confirm", |(_, it)| it.confirm.into()),
    ("consumer_count", |(_, it)| it.consumer_count.into()),
    ("messages_unacknowledged", |(_, it)| it.messages_unacknowledged.into()),
    ("messages_uncommitted", |(_, it)| it.messages_uncommitted.into()),
    ("acks_uncommitted", |(_, it)| it.acks_uncommitted.into()),
    ("messages_unconfirmed", |(_, it)| it.messages_unconfirmed.into()),
    ("prefetch_count", |(_, it)| it.prefetch_count.into()),
    ("global_prefetch_count", |(_, it)| it.global_prefetch_count.into()),
    ("state", |_| "running".into()),
];

/// All channels of the node.
pub(crate) fn list_channels(broker: &Broker, request: &Request) -> Outcome {
    let defaults = &["pid", "user", "consumer_count", "messages_unacknowledged"];
    let columns = chosen(request, CHANNEL_COLUMNS, defaults)?;
    let connections = broker.connections().all();
    let all = connections
        .iter()
        .flat_map(|(id, control)| control.channels().into_iter().map(|channel| (*id, channel)));
    Ok(rows(&columns, all))
}

/// By the pid of a listing; the client reads the reason (B28).
pub(crate) fn close_connection(broker: &Broker, request: &Request) -> Outcome {
    let [text, reason] = arguments(request)?;
    let invalid = || Failure::new(Exit::UNAVAILABLE, format!("Error:\n{{:invalid_pid_syntax, \"{text}\"}}"));
    let wanted = connection_of(text).ok_or_else(invalid)?;
    // RabbitMQ does not mind a connection that is gone.
    if let Some((_, control)) = broker.connections().all().into_iter().find(|(id, _)| *id == wanted) {
        control.close(CloseReason::Operator(reason.into()));
    }
    Ok(Answer::done())
}

/// Of one vhost with `-p`, or of the node.
pub(crate) fn close_all_connections(broker: &Broker, request: &Request) -> Outcome {
    let [reason] = arguments(request)?;
    let vhost = request.options.get("vhost");
    let reason = CloseReason::Operator(reason.into());
    broker.connections().close_where(&reason, |info| vhost.is_none_or(|vhost| info.vhost == *vhost));
    Ok(Answer::done())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_names_its_connection_whichever_channel_it_is_of() {
        assert_eq!(connection_of(&pid(ConnectionId(7), 0)), Some(ConnectionId(7)));
        assert_eq!(connection_of(&pid(ConnectionId(9), 3)), Some(ConnectionId(9)));
        assert_eq!(connection_of("<a.b>"), None);
        assert_eq!(connection_of("7"), None);
    }
}
