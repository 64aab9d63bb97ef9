//! Settings of AMQP 0-9-1 connections.

use std::sync::Arc;

use crate::{Budget, Logins, Product};

/// The meaning of `basic.qos` with global=true (B121).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalQos {
    /// A limit for the whole channel, as RabbitMQ had it until 4.2.
    #[default]
    Honoured,
    /// The same as global=false, as RabbitMQ 4.3 has it.
    PerConsumer,
}

/// Settings of AMQP 0-9-1 connections. Defaults are RabbitMQ's unless said otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Heartbeat interval proposed, seconds; the client's answer wins (B18, B21). Default 60.
    pub heartbeat_s: u16,
    /// Largest frame proposed and accepted, bytes with 8 bytes of overhead; 0 is no limit (B18, B20). Default 131,072.
    pub frame_size_max: u32,
    /// Smallest `frame_max` a client may choose, bytes (B19). Default 4096 as before RabbitMQ 4.1; strict is 8192.
    pub frame_size_min: u32,
    /// Largest frame payload before the client is authenticated, bytes (B22). Default 8192.
    pub initial_frame_size_max: u32,
    /// Largest number of channels proposed and accepted; 0 is no limit (B18, B20). Default 2047.
    pub channel_max: u16,
    /// Time for everything from the first byte to connection.open, milliseconds (B5). Default 10,000.
    pub handshake_timeout_ms: u64,
    /// How long the client may take to end a connection that is closing, milliseconds; its heartbeat interval bounds it too. Default 30,000.
    pub close_timeout_ms: u64,
    /// How long a delivery may stay unacked, milliseconds; `None` for ever (B135). Default 1,800,000.
    pub consumer_timeout_ms: Option<u64>,
    /// Largest number of consumers on one channel; `None` is no limit (B136). Default none.
    pub consumers_per_channel_max: Option<usize>,
    /// Memory for incomplete bodies and open transactions of all connections with these settings. A connection that holds
    /// more than is left loses its channel with 406 where a transaction grows. Where a body does, it is not read until there is
    /// room; one connection at a time may finish a body all the same, and is closed with 506 when it does not.
    /// RabbitMQ has no such bound. Default 1 GiB.
    pub unfinished: Arc<Budget>,
    /// Memory for deliveries of more than 1 MiB that sockets have not taken, of all connections with these settings. Further ones
    /// wait in their queues, but for one at a time; a client that does not read that one while others wait is closed with 506.
    /// RabbitMQ has no such bound. Default 1 GiB.
    pub large_deliveries: Arc<Budget>,
    /// How clients may log in.
    pub logins: Logins,
    /// The effect of `basic.qos` global=true. Default: honoured.
    pub global_qos: GlobalQos,
    /// The server in the words of its properties.
    pub product: Product,
    /// Further server properties: name and text (B7).
    pub server_properties: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            heartbeat_s: 60,
            frame_size_max: 131_072,
            frame_size_min: 4096,
            initial_frame_size_max: 8192,
            channel_max: 2047,
            handshake_timeout_ms: 10_000,
            close_timeout_ms: 30_000,
            consumer_timeout_ms: Some(1_800_000),
            consumers_per_channel_max: None,
            unfinished: Budget::new(1 << 30),
            large_deliveries: Budget::new(1 << 30),
            logins: Logins::default(),
            global_qos: GlobalQos::default(),
            product: Product::default(),
            server_properties: Vec::new(),
        }
    }
}
