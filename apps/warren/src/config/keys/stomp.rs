//! Keys of STOMP.

use super::access::secret;
use crate::config::key::{Key, Section, Take, Unit};

pub(super) static SECTION: Section = Section {
    title: "STOMP",
    about: "Listeners of STOMP 1.0, 1.1 and 1.2, and how its clients are served. `docs/stomp.md` tells more.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "stomp.listeners.tcp.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.stomp.listeners.clear(),
            add: |options, _, value| {
                options.stomp.listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Listens for STOMP in clear text. The last word is a free name. Without such a line there is no STOMP, where RabbitMQ listens on 61613 once its \
              plugin is enabled.",
        example: "stomp.listeners.tcp.default = 61613",
    },
    Key {
        name: "stomp.listeners.tcp",
        alias: None,
        take: Take::Choice { of: &["none"], not_yet: &[], set: |options, _| options.stomp.listeners.clear() },
        default: "",
        doc: "Switches all clear-text listeners of STOMP off, whatever else is configured.",
        example: "stomp.listeners.tcp = none",
    },
    Key {
        name: "stomp.listeners.ssl.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.stomp.tls_listeners.clear(),
            add: |options, _, value| {
                options.stomp.tls_listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Listens for STOMP over TLS, with the certificate of `ssl_options`.",
        example: "stomp.listeners.ssl.default = 61614",
    },
    Key {
        name: "stomp.listeners.ssl",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.stomp.tls_listeners.clear(),
        },
        default: "",
        doc: "Switches all encrypted listeners of STOMP off, whatever else is configured.",
        example: "stomp.listeners.ssl = none",
    },
    Key {
        name: "stomp.proxy_protocol",
        alias: None,
        take: Take::Boolean { set: |options, on| options.stomp.proxy_protocol = on.into() },
        default: "false",
        doc: "Whether a PROXY header, version 1 or 2, begins every connection of STOMP.",
        example: "stomp.proxy_protocol = true",
    },
    Key {
        name: "stomp.max_connections",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: u64::MAX,
            unit: Unit::Count,
            set: |options, n| options.stomp.connections_max = n,
        },
        default: "infinity",
        doc: "Most connections of each listener at once. Further clients wait until others leave.",
        example: "stomp.max_connections = 1000",
    },
    Key {
        name: "stomp.default_user",
        alias: None,
        take: Take::Text {
            shape: "name, up to 255 bytes",
            set: |options, value| name(&mut options.stomp.default_user, value),
        },
        default: "guest",
        doc: "The user of clients whose CONNECT has neither `login` nor `passcode`. Without a value they are refused.",
        example: "stomp.default_user = guest",
    },
    Key {
        name: "stomp.default_pass",
        alias: None,
        take: Take::Text {
            shape: "text",
            set: |options, value| secret(&mut options.stomp.default_pass, value),
        },
        default: "guest",
        doc: "Password of `stomp.default_user`.",
        example: "stomp.default_pass = guest",
    },
    Key {
        name: "stomp.default_vhost",
        alias: None,
        take: Take::Text {
            shape: "name, up to 255 bytes",
            set: |options, value| name(&mut options.stomp.vhost, value),
        },
        default: "/",
        doc: "The vhost of clients whose CONNECT has no `host`.",
        example: "stomp.default_vhost = shop",
    },
    Key {
        name: "stomp.implicit_connect",
        alias: None,
        take: Take::Boolean { set: |options, on| options.stomp.implicit_connect = on.into() },
        default: "false",
        doc: "Whether a client whose first frame is not CONNECT is logged in as `stomp.default_user`, without CONNECTED.",
        example: "stomp.implicit_connect = true",
    },
    Key {
        name: "stomp.ssl_cert_login",
        alias: None,
        take: Take::Boolean { set: |options, on| options.stomp.certificate_login = on.into() },
        default: "false",
        doc: "Whether the name in a client's certificate is its user, when CONNECT has neither `login` nor `passcode`.",
        example: "stomp.ssl_cert_login = true",
    },
    Key {
        name: "stomp.default_topic_exchange",
        alias: None,
        take: Take::Text {
            shape: "name, up to 255 bytes",
            set: |options, value| name(&mut options.stomp.topic_exchange, value),
        },
        default: "amq.topic",
        doc: "The topic exchange of destinations `/topic/KEY`, in every vhost.",
        example: "stomp.default_topic_exchange = amq.topic",
    },
    Key {
        name: "stomp.default_nack_requeue",
        alias: None,
        take: Take::Boolean { set: |options, on| options.stomp.nack_requeues = on.into() },
        default: "true",
        doc: "Whether NACK puts the message back into its queue when it has no header `requeue`. Otherwise the message is dead-lettered.",
        example: "stomp.default_nack_requeue = false",
    },
    Key {
        name: "stomp.max_frame_size",
        alias: None,
        take: Take::Integer {
            min: 8192,
            max: 536_870_912,
            unit: Unit::Bytes,
            set: |options, n| options.stomp.frame_bytes_max = n,
        },
        default: "4194304",
        doc: "Largest frame of a client, with its headers. Before CONNECT it is 64 KiB.",
        example: "stomp.max_frame_size = 1MB",
    },
    Key {
        name: "stomp.login_timeout",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 86_400_000,
            unit: Unit::Milliseconds,
            set: |options, n| options.stomp.login_timeout_ms = n,
        },
        default: "10000",
        doc: "Time from accepting a connection to its CONNECT.",
        example: "stomp.login_timeout = 5000",
    },
    Key {
        name: "stomp.hide_server_info",
        alias: None,
        take: Take::Boolean { set: |options, on| options.stomp.hides_server = on.into() },
        default: "false",
        doc: "Whether CONNECTED leaves out the header `server`.",
        example: "stomp.hide_server_info = true",
    },
];

fn name(field: &mut String, value: &str) -> Result<(), String> {
    if value.len() > 255 {
        return Err("expected a name of up to 255 bytes".to_owned());
    }
    value.clone_into(field);
    Ok(())
}
