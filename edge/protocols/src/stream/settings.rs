//! Settings of connections of the stream protocol.

use crate::{Logins, Product};

/// Settings of connections of the stream protocol. Defaults are RabbitMQ's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest frame proposed, bytes; 0 is no limit but [`FRAME_BYTES_MAX`]. Default 1 MiB.
    pub frame_max: u32,
    /// Largest frame before a vhost is open, bytes. Default 8192.
    pub initial_frame_max: u32,
    /// Heartbeat proposed, seconds; 0 is none. Default 60.
    pub heartbeat_s: u32,
    /// Entries of a connection that wait for their confirm, at most; then it is not read. Default 50,000.
    pub initial_credits: usize,
    /// Confirms after which it is read again. Default 12,500.
    pub credits_required_for_unblocking: usize,
    /// Most bytes of a sub-batch once it is unpacked, as its publisher says. Default 64 MiB.
    pub sub_batch_bytes_max: u32,
    /// Most partitions of a super stream; `None` is no limit. Default 1000.
    pub partitions_max: Option<usize>,
    /// The host that clients are told to connect to.
    pub advertised_host: String,
    /// The port that they are told; `None` is the one at which the client came in.
    pub advertised_port: Option<u16>,
    /// The host for clients that came in over TLS.
    pub advertised_tls_host: String,
    /// The port for them.
    pub advertised_tls_port: Option<u16>,
    /// How clients may log in.
    pub logins: Logins,
    /// Time for each step from the first byte to the open vhost, milliseconds. Default 10,000.
    pub step_timeout_ms: u64,
    /// Time that a client has to answer, milliseconds. Default 60,000.
    pub request_timeout_ms: u64,
    /// The server in the words of its properties.
    pub product: Product,
}

/// Largest frame where no limit is set, bytes.
pub(crate) const FRAME_BYTES_MAX: u32 = 256 << 20;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            frame_max: 1 << 20,
            initial_frame_max: 8192,
            heartbeat_s: 60,
            initial_credits: 50_000,
            credits_required_for_unblocking: 12_500,
            sub_batch_bytes_max: 64 << 20,
            partitions_max: Some(1000),
            advertised_host: "localhost".into(),
            advertised_port: None,
            advertised_tls_host: "localhost".into(),
            advertised_tls_port: None,
            logins: Logins::default(),
            step_timeout_ms: 10_000,
            request_timeout_ms: 60_000,
            product: Product::default(),
        }
    }
}
