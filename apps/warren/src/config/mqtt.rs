//! The options of MQTT. Refuses to know where a value came from.

use tls::SanType;

use super::tls::LoginFrom;
use super::values::{Listener, QueueType, Switch};

/// Listeners of MQTT, and how its clients are served.
#[derive(Debug, Clone, PartialEq)]
pub struct MqttOptions {
    /// Addresses that accept MQTT in clear text. Default none.
    pub listeners: Vec<Listener>,
    /// Addresses that accept MQTT over TLS. Default none.
    pub tls_listeners: Vec<Listener>,
    /// Whether a PROXY header begins every connection. Default off.
    pub proxy_protocol: Switch,
    /// The vhost of clients whose user name says none. Default `/`.
    pub vhost: String,
    /// The exchange of topics. Default `amq.topic`.
    pub exchange: String,
    /// Whether clients may give neither user nor password. Default on.
    pub allow_anonymous: Switch,
    /// Whether the name in a client's certificate is its user. Default off.
    pub certificate_login: Switch,
    /// Which part of a client's certificate is its client id; `None` is no part. Default `None`.
    pub client_id_from: Option<LoginFrom>,
    /// Which kind of alternative name that is. Default DNS.
    pub client_id_san_type: SanType,
    /// Which one of that kind, from 0. Default 0.
    pub client_id_san_index: usize,
    /// Unacknowledged messages on the way to a client, at most. Default 10.
    pub prefetch: u16,
    /// Longest time that a session outlives its connection, seconds; `None` is for ever. Default 86,400.
    pub session_expiry_max_s: Option<u64>,
    /// Largest packet before the client is logged in, bytes. Default 65,536.
    pub packet_bytes_max_unauthenticated: u64,
    /// Largest packet after that, bytes. Default 16,777,216.
    pub packet_bytes_max: u64,
    /// Topic aliases in each direction. Default 16.
    pub topic_alias_max: u16,
    /// Type of the queues of sessions that outlive their connection. Default classic.
    pub durable_queue_type: QueueType,
    /// Whether version 5 is disconnected for what its user may not do. Default on.
    pub disconnect_on_unauthorized: Switch,
    /// Retained messages of a vhost, at most. Default 100,000.
    pub retained_count_max: u64,
    /// Their bytes, at most. Default 1 GiB.
    pub retained_bytes_max: u64,
}

impl Default for MqttOptions {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            tls_listeners: Vec::new(),
            proxy_protocol: Switch::Off,
            vhost: "/".into(),
            exchange: "amq.topic".into(),
            allow_anonymous: Switch::On,
            certificate_login: Switch::Off,
            client_id_from: None,
            client_id_san_type: SanType::Dns,
            client_id_san_index: 0,
            prefetch: 10,
            session_expiry_max_s: Some(86_400),
            packet_bytes_max_unauthenticated: 65_536,
            packet_bytes_max: 16 << 20,
            topic_alias_max: 16,
            durable_queue_type: QueueType::Classic,
            disconnect_on_unauthorized: Switch::On,
            retained_count_max: 100_000,
            retained_bytes_max: 1 << 30,
        }
    }
}
