//! Keys of listeners, frames, heartbeats and sockets.

use crate::config::key::{Key, Section, Take, Unit, narrow};

/// Largest frame size that can be configured, bytes: a frame is buffered whole, so it needs a bound.
const FRAME_BYTES_MAX: u64 = 128 << 20;

pub(super) static SECTION: Section = Section {
    title: "Network",
    about: "Where the broker listens and what it negotiates with clients.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "listeners.tcp.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.network.listeners.clear(),
            add: |options, _, value| {
                options.network.listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "127.0.0.1:5672",
        doc: "Listens for AMQP 0-9-1 in clear text. The last word is a free name; several lines make several listeners. \
              Port 0 lets the operating system choose. With no such line Warren listens on 127.0.0.1 only, where RabbitMQ \
              listens on all interfaces: write `listeners.tcp.default = 5672` for RabbitMQ's behaviour.",
        example: "listeners.tcp.default = 5672",
    },
    Key {
        name: "listeners.tcp",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.network.listeners.clear(),
        },
        default: "",
        doc: "Switches all clear-text listeners off, whatever else is configured.",
        example: "listeners.tcp = none",
    },
    Key {
        name: "handshake_timeout",
        alias: None,
        take: Take::Limit {
            min: 1,
            max: u64::MAX,
            unit: Unit::Milliseconds,
            set: |options, n| options.network.handshake_timeout_ms = n,
        },
        default: "10000",
        doc: "How long a client may take from connecting to `connection.open` before the socket is closed.",
        example: "handshake_timeout = 20000",
    },
    Key {
        name: "heartbeat",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 65_535,
            unit: Unit::Seconds,
            set: |options, n| options.network.heartbeat_s = narrow(n),
        },
        default: "60",
        doc: "Heartbeat interval offered to clients; 0 offers none. A connection that was silent for two intervals is closed.",
        example: "heartbeat = 30",
    },
    Key {
        name: "frame_max",
        alias: None,
        take: Take::Integer {
            min: 4_096,
            max: FRAME_BYTES_MAX,
            unit: Unit::Bytes,
            set: |options, n| options.network.frame_size_max = narrow(n),
        },
        default: "131072",
        doc: "Largest frame offered to clients. RabbitMQ's 0 (no limit) is refused: a frame is buffered whole.",
        example: "frame_max = 128KB",
    },
    Key {
        name: "initial_frame_max",
        alias: None,
        take: Take::Integer {
            min: 4_096,
            max: FRAME_BYTES_MAX,
            unit: Unit::Bytes,
            set: |options, n| options.network.frame_size_initial_max = narrow(n),
        },
        default: "8192",
        doc: "Largest frame accepted before the frame size is negotiated; raise it for logins with long tokens.",
        example: "initial_frame_max = 16384",
    },
    Key {
        name: "warren.frame_max_min",
        alias: None,
        take: Take::Integer {
            min: 4_096,
            max: FRAME_BYTES_MAX,
            unit: Unit::Bytes,
            set: |options, n| options.network.frame_size_negotiable_min = narrow(n),
        },
        default: "4096",
        doc: "Smallest `frame_max` a client may ask for. 4096 is the specification's minimum and lets old clients in; \
              8192 refuses them as RabbitMQ 4.1 and later do.",
        example: "warren.frame_max_min = 8192",
    },
    Key {
        name: "max_channels_per_connection",
        alias: Some("channel_max"),
        take: Take::Integer {
            min: 0,
            max: 65_535,
            unit: Unit::Count,
            set: |options, n| options.network.channels_per_connection_max = narrow(n),
        },
        default: "2047",
        doc: "Channels of one connection offered to clients; 0 means the protocol's own limit of 65535.",
        example: "max_channels_per_connection = 128",
    },
    Key {
        name: "tcp_listen_options.backlog",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 65_535,
            unit: Unit::Count,
            set: |options, n| options.network.tcp.backlog = narrow(n),
        },
        default: "128",
        doc: "Connections that may wait in the kernel to be accepted; the kernel's own limit (`somaxconn`) still holds.",
        example: "tcp_listen_options.backlog = 4096",
    },
    Key {
        name: "tcp_listen_options.nodelay",
        alias: None,
        take: Take::Boolean { set: |options, on| options.network.tcp.nodelay = on.into() },
        default: "true",
        doc: "Sends small segments at once (`TCP_NODELAY`).",
        example: "tcp_listen_options.nodelay = true",
    },
    Key {
        name: "tcp_listen_options.keepalive",
        alias: None,
        take: Take::Boolean { set: |options, on| options.network.tcp.keepalive = on.into() },
        default: "false",
        doc: "Lets the kernel probe idle connections (`SO_KEEPALIVE`). Heartbeats find dead peers sooner.",
        example: "tcp_listen_options.keepalive = true",
    },
    Key {
        name: "tcp_listen_options.linger.on",
        alias: None,
        take: Take::Boolean { set: |_, _| {} },
        default: "true",
        doc: "Accepted and without effect: sockets are closed in order, so that a client can read the last `connection.close`.",
        example: "tcp_listen_options.linger.on = true",
    },
    Key {
        name: "tcp_listen_options.linger.timeout",
        alias: None,
        take: Take::Integer { min: 0, max: 65_535, unit: Unit::Seconds, set: |_, _| {} },
        default: "0",
        doc: "Accepted and without effect, as `tcp_listen_options.linger.on`.",
        example: "tcp_listen_options.linger.timeout = 0",
    },
    Key {
        name: "tcp_listen_options.sndbuf",
        alias: None,
        take: Take::Integer {
            min: 1_024,
            max: 1 << 30,
            unit: Unit::Bytes,
            set: |options, n| options.network.tcp.send_buffer_bytes = Some(narrow(n)),
        },
        default: "",
        doc: "Size of the kernel's send buffer per connection; unset lets the kernel tune it.",
        example: "tcp_listen_options.sndbuf = 196608",
    },
    Key {
        name: "tcp_listen_options.recbuf",
        alias: None,
        take: Take::Integer {
            min: 1_024,
            max: 1 << 30,
            unit: Unit::Bytes,
            set: |options, n| options.network.tcp.receive_buffer_bytes = Some(narrow(n)),
        },
        default: "",
        doc: "Size of the kernel's receive buffer per connection; unset lets the kernel tune it.",
        example: "tcp_listen_options.recbuf = 196608",
    },
    Key {
        name: "tcp_listen_options.exit_on_close",
        alias: None,
        take: Take::Boolean { set: |_, _| {} },
        default: "false",
        doc: "Accepted and without effect: it concerns Erlang's sockets only, and stands in many configuration files.",
        example: "tcp_listen_options.exit_on_close = false",
    },
];
