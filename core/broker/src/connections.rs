//! Who is connected: what management lists and closes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use stdx::ConnectionId;

/// Why the broker closes a connection; the protocol makes its own close of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The node stops (B28): 320 `CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'`.
    Shutdown,
    /// An operator asked, with a reason: 320 `CONNECTION_FORCED - <reason>`.
    Operator(String),
    /// 320 `CONNECTION_FORCED - vhost 'v' is deleted` (B191).
    VhostDeleted(String),
    /// 320 `CONNECTION_FORCED - user 'u' is deleted` (B191).
    UserDeleted(String),
}

/// What a session offers to management.
pub trait ConnectionControl: Send + Sync {
    /// Asks the connection to close itself; returns at once.
    fn close(&self, reason: CloseReason);
    /// Something that the connection looks at has changed, such as the alarms; returns at once.
    fn wake(&self);
    /// What is known about the connection now.
    fn info(&self) -> ConnectionInfo;
    /// Its channels now.
    fn channels(&self) -> Vec<ChannelInfo>;
}

/// One line of `list_connections`. Names follow RabbitMQ's columns.
#[derive(Clone, Debug, Default)]
pub struct ConnectionInfo {
    /// `127.0.0.1:50000 -> 127.0.0.1:5672`.
    pub name: String,
    /// Address and port of the peer.
    pub peer_host: String,
    /// Port of the peer.
    pub peer_port: u16,
    /// Our address.
    pub host: String,
    /// Our port.
    pub port: u16,
    /// `AMQP 0-9-1`, ...
    pub protocol: String,
    /// `running`, `blocked`, `closing`, ...
    pub state: String,
    /// Authenticated user.
    pub user: String,
    /// The vhost opened.
    pub vhost: String,
    /// SASL mechanism used.
    pub auth_mechanism: String,
    /// Negotiated heartbeat interval, seconds; 0 is off.
    pub heartbeat_s: u16,
    /// Negotiated largest frame, bytes.
    pub frame_max: u32,
    /// Negotiated number of channels.
    pub channel_max: u16,
    /// Open channels.
    pub channels: usize,
    /// `connection_name` of the client's properties (B11).
    pub user_provided_name: Option<String>,
    /// Client properties as a raw AMQP field table.
    pub client_properties: Vec<u8>,
    /// Bytes received and sent, and output bytes waiting.
    pub recv_bytes: u64,
    /// Bytes sent.
    pub send_bytes: u64,
    /// Bytes in the outbox.
    pub send_pending_bytes: u64,
    /// Milliseconds since the epoch at which the connection was accepted.
    pub connected_at_ms: u64,
}

/// One line of `list_channels`.
#[derive(Clone, Debug, Default)]
pub struct ChannelInfo {
    /// Name of its connection.
    pub connection: String,
    /// Channel number.
    pub number: u16,
    /// User of the connection.
    pub user: String,
    /// Vhost of the connection.
    pub vhost: String,
    /// `tx.select` was done.
    pub transactional: bool,
    /// `confirm.select` was done.
    pub confirm: bool,
    /// Consumers on the channel.
    pub consumer_count: usize,
    /// Deliveries not yet settled.
    pub messages_unacknowledged: usize,
    /// Publishes not yet confirmed.
    pub messages_unconfirmed: usize,
    /// Publishes in the open transaction.
    pub messages_uncommitted: usize,
    /// Acks in the open transaction.
    pub acks_uncommitted: usize,
    /// Prefetch of later consumers.
    pub prefetch_count: u32,
    /// Prefetch of the whole channel.
    pub global_prefetch_count: u32,
}

/// All connections of the node.
#[derive(Default)]
pub struct Connections {
    open: RwLock<HashMap<ConnectionId, Arc<dyn ConnectionControl>>>,
}

impl Connections {
    /// Adds a connection that has finished its handshake.
    pub fn add(&self, id: ConnectionId, control: Arc<dyn ConnectionControl>) {
        self.open.write().insert(id, control);
    }

    /// Forgets a connection.
    pub fn remove(&self, id: ConnectionId) {
        self.open.write().remove(&id);
    }

    /// Number of open connections.
    pub fn count(&self) -> usize {
        self.open.read().len()
    }

    /// All of them, in order of their ids.
    pub fn all(&self) -> Vec<(ConnectionId, Arc<dyn ConnectionControl>)> {
        let mut all: Vec<_> = self.open.read().iter().map(|(id, control)| (*id, control.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Lets every connection look at what has changed.
    pub(crate) fn wake_all(&self) {
        self.open.read().values().for_each(|control| control.wake());
    }

    /// Asks every connection for which `pick` holds to close.
    pub fn close_where(&self, reason: &CloseReason, pick: impl Fn(&ConnectionInfo) -> bool) {
        for (_, control) in self.all() {
            if pick(&control.info()) {
                control.close(reason.clone());
            }
        }
    }
}
