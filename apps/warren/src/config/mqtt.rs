//! The options of MQTT. Refuses to know where a value came from.

use std::net::IpAddr;

use tls::{SanType, ServerOptions};

use super::options::{Listener, QueueType, Switch};
use super::tls::LoginFrom;

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

/// Listeners of MQTT over WebSocket.
#[derive(Debug, Clone, PartialEq)]
pub struct WebMqttOptions {
    /// Where it is spoken in clear text. Default nowhere.
    pub tcp: WebAddress,
    /// Where it is encrypted. Default nowhere.
    pub ssl: WebAddress,
    /// Certificate, key and rules of the encrypted listener.
    pub server: ServerOptions,
    /// Whether a PROXY header begins every connection. Default off.
    pub proxy_protocol: Switch,
    /// Path of the request. Default `/ws`.
    pub path: String,
    /// Largest frame and message of a WebSocket, bytes. Default 16 MiB and 64 KiB: the largest packet, and those around it.
    pub message_bytes_max: u64,
    /// Origins that browsers may come from; empty allows all. Default empty.
    pub origins: Vec<String>,
}

/// Where a listener is, if there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebAddress {
    /// Its port; 0 lets the operating system choose, and `None` is no such listener. Default `None`.
    pub port: Option<u16>,
    /// Its address; `None` is all interfaces. Default `None`.
    pub address: Option<IpAddr>,
}

impl WebAddress {
    /// The listener.
    pub fn listener(self) -> Option<Listener> {
        let everywhere = |port| Listener::Everywhere(port);
        let at = |port| self.address.map_or(everywhere(port), |ip| Listener::At((ip, port).into()));
        self.port.map(at)
    }
}

impl From<Listener> for WebAddress {
    fn from(listener: Listener) -> WebAddress {
        match listener {
            Listener::Everywhere(port) => WebAddress { port: Some(port), address: None },
            Listener::At(at) => WebAddress { port: Some(at.port()), address: Some(at.ip()) },
        }
    }
}

impl Default for WebMqttOptions {
    fn default() -> Self {
        Self {
            tcp: WebAddress::default(),
            ssl: WebAddress::default(),
            server: ServerOptions::default(),
            proxy_protocol: Switch::Off,
            path: "/ws".into(),
            message_bytes_max: (16 << 20) + (64 << 10),
            origins: Vec::new(),
        }
    }
}
