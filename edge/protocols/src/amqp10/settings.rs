//! Settings of AMQP 1.0 connections.

use std::sync::Arc;

use crate::{Budget, Logins, Product};

/// Settings of AMQP 1.0 connections. Defaults are RabbitMQ's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a client may be silent, seconds; it is told half of that. 0 is for ever. Default 60.
    pub heartbeat_s: u16,
    /// Largest frame taken, bytes. Default 131,072.
    pub frame_size_max: u32,
    /// Largest frame before the client is authenticated, bytes. Default 8192.
    pub initial_frame_size_max: u32,
    /// Sessions on one connection. Default 64.
    pub sessions_max: u16,
    /// Links in one session. Default 256.
    pub links_max: u32,
    /// Time for everything from the first byte to the open frame, milliseconds. Default 10,000.
    pub handshake_timeout_ms: u64,
    /// How long the client may take to end a connection that is closing, milliseconds. Default 30,000.
    pub close_timeout_ms: u64,
    /// How long a delivery from a quorum queue may stay unsettled, milliseconds, unless its queue or link says otherwise; `None` is for
    /// ever. Default 1,800,000.
    pub consumer_timeout_ms: Option<u64>,
    /// The vhost of clients that name none. Default `/`.
    pub default_vhost: String,
    /// Memory for messages of several frames that are not complete, of all connections with these settings. A connection for which there is
    /// none is not read until there is. Default 1 GiB.
    pub unfinished: Arc<Budget>,
    /// How clients may log in.
    pub logins: Logins,
    /// The server in the words of its properties.
    pub product: Product,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            heartbeat_s: 60,
            frame_size_max: 131_072,
            initial_frame_size_max: 8192,
            sessions_max: 64,
            links_max: 256,
            handshake_timeout_ms: 10_000,
            close_timeout_ms: 30_000,
            consumer_timeout_ms: Some(1_800_000),
            default_vhost: "/".into(),
            unfinished: Budget::new(1 << 30),
            logins: Logins::default(),
            product: Product::default(),
        }
    }
}
