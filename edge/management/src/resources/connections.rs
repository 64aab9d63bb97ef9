//! How connections and channels are called where RabbitMQ shows an Erlang process.

use broker::ConnectionId;

/// What stands where RabbitMQ shows an Erlang process: a connection, or a channel of one.
pub(crate) fn pid(connection: ConnectionId, channel: u16) -> String {
    format!("<warren@localhost.1.{}.{channel}>", connection.count)
}

/// The count of the connection in such a text; three numbers stand behind the node's name.
pub(crate) fn connection_of(pid: &str) -> Option<u64> {
    let mut parts = pid.strip_prefix('<')?.strip_suffix('>')?.rsplitn(4, '.');
    let _channel: u16 = parts.next()?.parse().ok()?;
    let connection = parts.next()?.parse().ok();
    let _creation: u64 = parts.next()?.parse().ok()?;
    parts.next().filter(|node| !node.is_empty())?;
    connection
}
