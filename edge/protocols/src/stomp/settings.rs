//! Settings of STOMP connections.

/// Settings of STOMP connections. Defaults are RabbitMQ's unless said otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// User and password of clients that give neither; `None` refuses them. Default guest.
    pub default_login: Option<(String, String)>,
    /// The vhost of clients that name none. Default `/`.
    pub vhost: String,
    /// Whether a first frame other than CONNECT logs the default user in. Default false.
    pub implicit_connect: bool,
    /// Whether the name in a client's certificate is its user, without a password. Default false.
    pub certificate_login: bool,
    /// The exchange of `/topic/`. Default `amq.topic`.
    pub topic_exchange: String,
    /// Whether NACK without the header `requeue` puts the message back. Default true.
    pub nack_requeues: bool,
    /// Largest frame after CONNECT, bytes. Default 4 MiB.
    pub frame_bytes_max: usize,
    /// Largest frame before that, bytes. Default 64 KiB.
    pub frame_bytes_max_unauthenticated: usize,
    /// Time from accepting a connection to CONNECT, milliseconds. Default 10,000.
    pub connect_timeout_ms: u64,
    /// Whether CONNECTED says nothing about the server. Default false.
    pub hides_server: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            default_login: Some(("guest".into(), "guest".into())),
            vhost: "/".into(),
            implicit_connect: false,
            certificate_login: false,
            topic_exchange: "amq.topic".into(),
            nack_requeues: true,
            frame_bytes_max: 4 << 20,
            frame_bytes_max_unauthenticated: 64 << 10,
            connect_timeout_ms: 10_000,
            hides_server: false,
        }
    }
}
