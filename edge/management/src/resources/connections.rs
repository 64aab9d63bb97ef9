//! Connections and channels, as listings and pages show them.

use std::sync::Arc;

use broker::{
    Broker, ChannelInfo, ConnectionControl, ConnectionId, ConnectionInfo, PeerCertificate, TlsSession,
};

use super::values::now_ms;

/// A connection of this node.
#[derive(Clone)]
pub(crate) struct ConnectionRow {
    pub(crate) id: ConnectionId,
    pub(crate) info: ConnectionInfo,
    pub(crate) control: Arc<dyn ConnectionControl>,
}

impl ConnectionRow {
    /// All connections of this node, as they are now.
    pub(crate) fn all(broker: &Broker) -> impl Iterator<Item = ConnectionRow> + use<> {
        let now_ms = now_ms();
        let all = broker.connections().all().into_iter();
        all.map(move |(id, control)| ConnectionRow { id, info: control.info().at(now_ms), control })
    }

    /// A fact that an encrypted connection has agreed on.
    pub(crate) fn agreed(&self, read: fn(&TlsSession) -> &'static str) -> Option<&'static str> {
        self.info.tls.as_deref().map(read)
    }

    /// A fact of the client's certificate.
    pub(crate) fn peer(&self, read: fn(&PeerCertificate) -> &String) -> Option<&str> {
        let certificate = self.info.tls.as_deref()?.peer.as_ref()?;
        Some(read(certificate).as_str())
    }

    /// Its channels.
    pub(crate) fn channels(&self) -> impl Iterator<Item = ChannelRow> + use<> {
        let connection = self.clone();
        let all = self.control.channels().into_iter();
        all.map(move |info| ChannelRow { connection: connection.clone(), info })
    }
}

/// A channel, and the connection it is on.
pub(crate) struct ChannelRow {
    pub(crate) connection: ConnectionRow,
    pub(crate) info: ChannelInfo,
}

impl ChannelRow {
    /// RabbitMQ's name: that of the connection, and the number of the channel.
    pub(crate) fn name(&self) -> String {
        format!("{} ({})", self.info.connection, self.info.number)
    }
}

/// The text that stands where RabbitMQ shows an Erlang process: a connection, or a channel of one.
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
