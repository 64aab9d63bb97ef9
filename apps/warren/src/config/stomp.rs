//! The options of STOMP. Refuses to know where a value came from.

use stdx::Secret;

use super::values::{Listener, Switch};

/// Listeners of STOMP, and how its clients are served.
#[derive(Debug, Clone, PartialEq)]
pub struct StompOptions {
    /// Addresses that accept STOMP in clear text. Default none.
    pub listeners: Vec<Listener>,
    /// Addresses that accept STOMP over TLS. Default none.
    pub tls_listeners: Vec<Listener>,
    /// Whether a PROXY header begins every connection. Default off.
    pub proxy_protocol: Switch,
    /// Connections of a listener at once; `None` is without a bound. Default `None`.
    pub connections_max: Option<u64>,
    /// The user of clients that name none. Default `guest`.
    pub default_user: String,
    /// Its password. Default `guest`.
    pub default_pass: Secret,
    /// The vhost of clients that name none. Default `/`.
    pub vhost: String,
    /// Whether a first frame other than CONNECT logs the default user in. Default off.
    pub implicit_connect: Switch,
    /// Whether the name in a client's certificate is its user. Default off.
    pub certificate_login: Switch,
    /// The exchange of `/topic/`. Default `amq.topic`.
    pub topic_exchange: String,
    /// Whether NACK without the header `requeue` puts the message back. Default on.
    pub nack_requeues: Switch,
    /// Largest frame, bytes. Default 4 MiB.
    pub frame_bytes_max: u64,
    /// Time to CONNECT, milliseconds. Default 10,000.
    pub login_timeout_ms: u64,
    /// Whether CONNECTED says nothing about the server. Default off.
    pub hides_server: Switch,
    /// Whether frames go out over WebSocket as binary messages, rather than as texts. Default off.
    pub web_binary: Switch,
    /// Whether the request for a WebSocket gives the login, rather than CONNECT. Default off.
    pub web_request_login: Switch,
}

impl Default for StompOptions {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            tls_listeners: Vec::new(),
            proxy_protocol: Switch::Off,
            connections_max: None,
            default_user: "guest".into(),
            default_pass: Secret::new("guest"),
            vhost: "/".into(),
            implicit_connect: Switch::Off,
            certificate_login: Switch::Off,
            topic_exchange: "amq.topic".into(),
            nack_requeues: Switch::On,
            frame_bytes_max: 4 << 20,
            login_timeout_ms: 10_000,
            hides_server: Switch::Off,
            web_binary: Switch::Off,
            web_request_login: Switch::Off,
        }
    }
}
