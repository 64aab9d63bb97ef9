//! Settings of MQTT connections.

use std::sync::Arc;

use broker::Broker;
use platform::{Clock, RealClock};

use super::shared::Shared;

/// Which type of queue persistent sessions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionQueueType {
    /// Classic.
    #[default]
    Classic,
    /// Quorum.
    Quorum,
}

impl SessionQueueType {
    /// Its name in the queue's arguments.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            SessionQueueType::Classic => "classic",
            SessionQueueType::Quorum => "quorum",
        }
    }
}

/// The keys by which the vhost of a client is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VhostKey<'a> {
    /// The port that the client came to.
    Port(u16),
    /// The user name in its certificate.
    Certificate(&'a str),
}

/// The vhosts of ports and certificates, as operators have set them.
pub trait VhostMaps: Send + Sync {
    /// The vhost of a key; `None` if there is no entry.
    fn vhost(&self, broker: &Broker, key: VhostKey<'_>) -> Option<String>;
}

/// Settings of MQTT connections. Defaults are RabbitMQ's unless said otherwise.
#[derive(Clone)]
pub struct Settings {
    /// The vhost of clients whose user name says none. Default `/`.
    pub vhost: String,
    /// The vhosts of ports and certificates. Default none.
    pub vhosts: Option<Arc<dyn VhostMaps>>,
    /// The exchange that topics go to and come from. Default `amq.topic`.
    pub exchange: String,
    /// User and password of clients that give neither; `None` refuses them. Default guest.
    pub anonymous: Option<(String, String)>,
    /// Unacknowledged messages of QoS 1 and 2 on the way to a client, at most; the client may ask for fewer. Default 10.
    pub prefetch: u16,
    /// Longest time that a session outlives its connection, seconds; `None` is for ever. Default 86,400.
    pub session_expiry_max_s: Option<u32>,
    /// Largest packet before CONNECT is accepted, bytes without its first 2 to 5. Default 65,536.
    pub packet_bytes_max_unauthenticated: usize,
    /// Largest packet after that, bytes without its first 2 to 5. Default 16,777,216.
    pub packet_bytes_max: usize,
    /// Topic aliases of a client, and at most as many of the server. Default 16.
    pub topic_alias_max: u16,
    /// Type of the queues of sessions that outlive their connection. Default classic.
    pub session_queue_type: SessionQueueType,
    /// Whether version 5 is disconnected for what its user may not do. Otherwise the answer to the packet says so. Default true.
    pub disconnect_on_unauthorized: bool,
    /// Whether the name in a client's certificate is its user, without a password. Default false.
    pub certificate_login: bool,
    /// Time from accepting a connection to CONNECT, milliseconds. Default 10,000.
    pub connect_timeout_ms: u64,
    /// Retained messages of a vhost, at most. Default 100,000.
    pub retained_count_max: usize,
    /// Their bytes, at most. Default 1 GiB.
    pub retained_bytes_max: usize,
    /// Tells how long messages have waited.
    pub clock: Arc<dyn Clock>,
    /// The state that all connections with these settings share.
    pub shared: Arc<Shared>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            vhost: "/".into(),
            vhosts: None,
            exchange: "amq.topic".into(),
            anonymous: Some(("guest".into(), "guest".into())),
            prefetch: 10,
            session_expiry_max_s: Some(86_400),
            packet_bytes_max_unauthenticated: 65_536,
            packet_bytes_max: 16 << 20,
            topic_alias_max: 16,
            session_queue_type: SessionQueueType::Classic,
            disconnect_on_unauthorized: true,
            certificate_login: false,
            connect_timeout_ms: 10_000,
            retained_count_max: 100_000,
            retained_bytes_max: 1 << 30,
            clock: Arc::new(RealClock::new()),
            shared: Arc::default(),
        }
    }
}
