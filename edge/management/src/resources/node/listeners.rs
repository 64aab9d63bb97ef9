//! Where a node listens.

use std::net::SocketAddr;

/// RabbitMQ's name of the protocol of AMQP listeners.
pub const LISTENER_PROTOCOL: &str = "amqp";

/// RabbitMQ's name of the protocol of the HTTP API.
pub const HTTP_PROTOCOL: &str = "http";

/// RabbitMQ's name of the protocol between nodes.
pub const CLUSTER_PROTOCOL: &str = "clustering";

/// RabbitMQ's name of the protocol of its metrics.
pub const PROMETHEUS_PROTOCOL: &str = "http/prometheus";

/// RabbitMQ's short name of AMQP listeners over TLS.
pub const TLS_LISTENER_PROTOCOL: &str = "amqp/ssl";

/// RabbitMQ's short name of MQTT listeners.
pub const MQTT_LISTENER_PROTOCOL: &str = "mqtt";

/// RabbitMQ's short name of MQTT listeners over TLS.
pub const MQTT_TLS_LISTENER_PROTOCOL: &str = "mqtt/ssl";

/// RabbitMQ's short name of listeners of MQTT over WebSocket.
pub const WEB_MQTT_LISTENER_PROTOCOL: &str = "http/web-mqtt";

/// RabbitMQ's short name of listeners of MQTT over WebSocket and TLS.
pub const WEB_MQTT_TLS_LISTENER_PROTOCOL: &str = "https/web-mqtt";

/// RabbitMQ's short name of STOMP listeners.
pub const STOMP_LISTENER_PROTOCOL: &str = "stomp";

/// RabbitMQ's short name of STOMP listeners over TLS.
pub const STOMP_TLS_LISTENER_PROTOCOL: &str = "stomp/ssl";

/// RabbitMQ's short name of listeners of STOMP over WebSocket.
pub const WEB_STOMP_LISTENER_PROTOCOL: &str = "http/web-stomp";

/// RabbitMQ's short name of listeners of STOMP over WebSocket and TLS.
pub const WEB_STOMP_TLS_LISTENER_PROTOCOL: &str = "https/web-stomp";

/// RabbitMQ's short name of listeners of the stream protocol.
pub const STREAM_LISTENER_PROTOCOL: &str = "stream";

/// RabbitMQ's short name of them over TLS.
pub const STREAM_TLS_LISTENER_PROTOCOL: &str = "stream/ssl";

/// RabbitMQ's short name of the HTTP API over TLS.
pub const HTTPS_PROTOCOL: &str = "https";

/// RabbitMQ's short name of the pages of metrics over TLS.
pub const PROMETHEUS_TLS_PROTOCOL: &str = "https/prometheus";

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeListener {
    /// Where it is bound; port 0 never stands here.
    pub address: SocketAddr,
    /// RabbitMQ's short name, such as [`LISTENER_PROTOCOL`].
    pub protocol: &'static str,
    /// Its purpose, for people.
    pub purpose: &'static str,
}
