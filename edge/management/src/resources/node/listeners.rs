//! Where a node listens.

use std::net::SocketAddr;

/// RabbitMQ's name of the protocol of AMQP listeners.
pub const LISTENER_PROTOCOL: &str = "amqp";

/// RabbitMQ's name of the protocol of the HTTP API.
pub const HTTP_PROTOCOL: &str = "http";

/// RabbitMQ's name of the protocol of its metrics.
pub const PROMETHEUS_PROTOCOL: &str = "http/prometheus";

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeListener {
    /// Where it is bound; port 0 never stands here.
    pub address: SocketAddr,
    /// RabbitMQ's short name, such as [`LISTENER_PROTOCOL`].
    pub protocol: &'static str,
    /// What it is for, for people.
    pub purpose: &'static str,
}
