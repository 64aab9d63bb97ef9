//! Keys of the stream protocol.

use crate::config::key::{Key, Section, Take, Unit, narrow};

pub(super) static SECTION: Section = Section {
    title: "Stream protocol",
    about: "Listeners of the stream protocol, and how its clients are served. `docs/streams.md` tells more.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "stream.listeners.tcp.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.stream.listeners.clear(),
            add: |options, _, value| {
                options.stream.listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Listens for the stream protocol in clear text. The last word is a free name. Without such a line there is no stream protocol, where RabbitMQ listens on 5552 once its plugin is enabled.",
        example: "stream.listeners.tcp.default = 5552",
    },
    Key {
        name: "stream.listeners.tcp",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.stream.listeners.clear(),
        },
        default: "",
        doc: "Switches all listeners of the stream protocol in clear text off, whatever else is configured.",
        example: "stream.listeners.tcp = none",
    },
    Key {
        name: "stream.listeners.ssl.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.stream.tls_listeners.clear(),
            add: |options, _, value| {
                options.stream.tls_listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Listens for the stream protocol over TLS, with the certificate of `ssl_options`.",
        example: "stream.listeners.ssl.default = 5551",
    },
    Key {
        name: "stream.listeners.ssl",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.stream.tls_listeners.clear(),
        },
        default: "",
        doc: "Switches all listeners of the stream protocol over TLS off, whatever else is configured.",
        example: "stream.listeners.ssl = none",
    },
    Key {
        name: "stream.advertised_host",
        alias: None,
        take: Take::Text {
            shape: "host name or address",
            set: |options, value| host(&mut options.stream.advertised_host, value),
        },
        default: "",
        doc: "The host that clients are told to connect to. Unset it is the name of the machine.",
        example: "stream.advertised_host = broker.example.com",
    },
    Key {
        name: "stream.advertised_port",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 65535,
            unit: Unit::Count,
            set: |options, n| options.stream.advertised_port = Some(narrow(n)),
        },
        default: "",
        doc: "The port that clients are told to connect to. Unset it is the one at which the client came in.",
        example: "stream.advertised_port = 5552",
    },
    Key {
        name: "stream.advertised_tls_host",
        alias: None,
        take: Take::Text {
            shape: "host name or address",
            set: |options, value| host(&mut options.stream.advertised_tls_host, value),
        },
        default: "",
        doc: "As `stream.advertised_host`, for clients over TLS.",
        example: "stream.advertised_tls_host = broker.example.com",
    },
    Key {
        name: "stream.advertised_tls_port",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 65535,
            unit: Unit::Count,
            set: |options, n| options.stream.advertised_tls_port = Some(narrow(n)),
        },
        default: "",
        doc: "As `stream.advertised_port`, for clients over TLS.",
        example: "stream.advertised_tls_port = 5551",
    },
    Key {
        name: "stream.frame_max",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 268435456,
            unit: Unit::Bytes,
            set: |options, n| options.stream.frame_max = narrow(n),
        },
        default: "1048576",
        doc: "Largest frame that is proposed to clients; 0 is no limit but 256 MiB. It bounds a message, and what a connection takes of memory.",
        example: "stream.frame_max = 1MB",
    },
    Key {
        name: "stream.initial_frame_max",
        alias: None,
        take: Take::Integer {
            min: 512,
            max: 268435456,
            unit: Unit::Bytes,
            set: |options, n| options.stream.initial_frame_max = narrow(n),
        },
        default: "8192",
        doc: "Largest frame of a client that has not opened a vhost.",
        example: "stream.initial_frame_max = 8192",
    },
    Key {
        name: "stream.heartbeat",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 65535,
            unit: Unit::Seconds,
            set: |options, n| options.stream.heartbeat_s = narrow(n),
        },
        default: "60",
        doc: "Heartbeat that is proposed to clients; they decide. 0 is none.",
        example: "stream.heartbeat = 60",
    },
    Key {
        name: "stream.initial_credits",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 10000000,
            unit: Unit::Count,
            set: |options, n| options.stream.initial_credits = n,
        },
        default: "50000",
        doc: "Entries of a connection that wait for their confirm, at most. Then it is not read.",
        example: "stream.initial_credits = 50000",
    },
    Key {
        name: "stream.credits_required_for_unblocking",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 10000000,
            unit: Unit::Count,
            set: |options, n| options.stream.credits_required_for_unblocking = n,
        },
        default: "12500",
        doc: "Entries that must be confirmed before such a connection is read again.",
        example: "stream.credits_required_for_unblocking = 12500",
    },
    Key {
        name: "stream.max_uncompressed_sub_entry_batch_size",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 4294967295,
            unit: Unit::Bytes,
            set: |options, n| options.stream.sub_batch_bytes_max = narrow(n),
        },
        default: "67108864",
        doc: "Most bytes of a sub-batch once it is unpacked, as its publisher says. A larger one is refused.",
        example: "stream.max_uncompressed_sub_entry_batch_size = 64MB",
    },
    Key {
        name: "stream.max_super_stream_partitions",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: 1_000_000,
            unit: Unit::Count,
            set: |options, n| options.stream.partitions_max = n,
        },
        default: "1000",
        doc: "Most partitions of a super stream.",
        example: "stream.max_super_stream_partitions = 100",
    },
    Key {
        name: "stream.max_connections",
        alias: None,
        take: Take::Limit { min: 0, max: u64::MAX, unit: Unit::Count, set: |_, _| {} },
        default: "infinity",
        doc: "Accepted, without effect: connections of all protocols count against `connection_max`.",
        example: "stream.max_connections = infinity",
    },
    Key {
        name: "stream.ssl_cert_login",
        alias: None,
        take: Take::Boolean { set: |_, _| {} },
        default: "false",
        doc: "Accepted, without effect: clients log in with their certificate by EXTERNAL (`auth_mechanisms`).",
        example: "stream.ssl_cert_login = true",
    },
    Key {
        name: "stream.num_acceptors.tcp",
        alias: None,
        take: Take::Integer { min: 1, max: u64::MAX, unit: Unit::Count, set: |_, _| {} },
        default: "10",
        doc: "Accepted, without effect.",
        example: "stream.num_acceptors.tcp = 10",
    },
    Key {
        name: "stream.num_acceptors.ssl",
        alias: None,
        take: Take::Integer { min: 1, max: u64::MAX, unit: Unit::Count, set: |_, _| {} },
        default: "10",
        doc: "Accepted, without effect.",
        example: "stream.num_acceptors.ssl = 10",
    },
];

fn host(field: &mut Option<String>, value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > 255 || value.contains(char::is_whitespace) {
        return Err("expected a host name or address of 1 to 255 bytes".to_owned());
    }
    *field = Some(value.to_owned());
    Ok(())
}
