//! The options of the stream protocol. Refuses to know where a value came from.

use super::values::Listener;

/// Listeners of the stream protocol, and how its clients are served.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOptions {
    /// Addresses that accept the protocol in clear text. Default none.
    pub listeners: Vec<Listener>,
    /// Addresses that accept it over TLS. Default none.
    pub tls_listeners: Vec<Listener>,
    /// Largest frame, bytes; 0 is no limit. Default 1,048,576.
    pub frame_max: u32,
    /// Largest frame before a vhost is open, bytes. Default 8192.
    pub initial_frame_max: u32,
    /// Heartbeat, seconds; 0 is none. Default 60.
    pub heartbeat_s: u32,
    /// Entries of a connection that wait for their confirm, at most. Default 50,000.
    pub initial_credits: u64,
    /// Confirms after which a connection is read again. Default 12,500.
    pub credits_required_for_unblocking: u64,
    /// Most bytes of a sub-batch once it is unpacked. Default 67,108,864.
    pub sub_batch_bytes_max: u32,
    /// Most partitions of a super stream; `None` is no limit. Default 1000.
    pub partitions_max: Option<u64>,
    /// The host that clients are told to connect to; `None` is the machine's name.
    pub advertised_host: Option<String>,
    /// The port that they are told; `None` is the one at which the client came in.
    pub advertised_port: Option<u16>,
    /// The host for clients over TLS; `None` is the machine's name.
    pub advertised_tls_host: Option<String>,
    /// The port for them.
    pub advertised_tls_port: Option<u16>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            tls_listeners: Vec::new(),
            frame_max: 1 << 20,
            initial_frame_max: 8192,
            heartbeat_s: 60,
            initial_credits: 50_000,
            credits_required_for_unblocking: 12_500,
            sub_batch_bytes_max: 64 << 20,
            partitions_max: Some(1000),
            advertised_host: None,
            advertised_port: None,
            advertised_tls_host: None,
            advertised_tls_port: None,
        }
    }
}
