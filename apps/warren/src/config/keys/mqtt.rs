//! Keys of MQTT.

use crate::config::key::{Key, Section, Take, Unit, narrow};
use tls::SanType;

use crate::config::tls::LoginFrom;
use crate::config::values::QueueType;

pub(super) static SECTION: Section = Section {
    title: "MQTT",
    about: "Listeners of MQTT 3.1, 3.1.1 and 5, and how its clients are served. `docs/mqtt.md` tells more.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "mqtt.listeners.tcp.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.mqtt.listeners.clear(),
            add: |options, _, value| {
                options.mqtt.listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Listens for MQTT in clear text. The last word is a free name. Without such a line there is no MQTT, where RabbitMQ listens on 1883 once its \
              plugin is enabled.",
        example: "mqtt.listeners.tcp.default = 1883",
    },
    Key {
        name: "mqtt.listeners.tcp",
        alias: None,
        take: Take::Choice { of: &["none"], not_yet: &[], set: |options, _| options.mqtt.listeners.clear() },
        default: "",
        doc: "Switches all clear-text listeners of MQTT off, whatever else is configured.",
        example: "mqtt.listeners.tcp = none",
    },
    Key {
        name: "mqtt.listeners.ssl.$name",
        alias: None,
        take: Take::List {
            shape: "a port (all interfaces), or an IP address and a port",
            clear: |options| options.mqtt.tls_listeners.clear(),
            add: |options, _, value| {
                options.mqtt.tls_listeners.push(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Listens for MQTT over TLS, with the certificate of `ssl_options`.",
        example: "mqtt.listeners.ssl.default = 8883",
    },
    Key {
        name: "mqtt.listeners.ssl",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.mqtt.tls_listeners.clear(),
        },
        default: "",
        doc: "Switches all encrypted listeners of MQTT off, whatever else is configured.",
        example: "mqtt.listeners.ssl = none",
    },
    Key {
        name: "mqtt.proxy_protocol",
        alias: None,
        take: Take::Boolean { set: |options, on| options.mqtt.proxy_protocol = on.into() },
        default: "false",
        doc: "Whether a PROXY header, version 1 or 2, begins every connection of MQTT.",
        example: "mqtt.proxy_protocol = true",
    },
    Key {
        name: "mqtt.vhost",
        alias: None,
        take: Take::Text {
            shape: "name, 1 to 255 bytes",
            set: |options, value| name(&mut options.mqtt.vhost, value),
        },
        default: "/",
        doc: "The vhost of clients for which neither user name, certificate nor port names one.",
        example: "mqtt.vhost = devices",
    },
    Key {
        name: "mqtt.exchange",
        alias: None,
        take: Take::Text {
            shape: "name, 1 to 255 bytes",
            set: |options, value| name(&mut options.mqtt.exchange, value),
        },
        default: "amq.topic",
        doc: "The topic exchange that messages of MQTT go to and come from, in every vhost.",
        example: "mqtt.exchange = amq.topic",
    },
    Key {
        name: "mqtt.allow_anonymous",
        alias: None,
        take: Take::Boolean { set: |options, on| options.mqtt.allow_anonymous = on.into() },
        default: "true",
        doc: "Whether a client may give neither user name nor password. It then acts as `anonymous_login_user`.",
        example: "mqtt.allow_anonymous = false",
    },
    Key {
        name: "mqtt.ssl_cert_login",
        alias: None,
        take: Take::Boolean { set: |options, on| options.mqtt.certificate_login = on.into() },
        default: "false",
        doc: "Whether a client without user name and password acts as the user in its certificate (`ssl_cert_login_from`).",
        example: "mqtt.ssl_cert_login = true",
    },
    Key {
        name: "mqtt.ssl_cert_client_id_from",
        alias: None,
        take: Take::Choice {
            of: &["distinguished_name", "subject_alternative_name"],
            not_yet: &[],
            set: |options, word| {
                let is_name = word == "distinguished_name";
                options.mqtt.client_id_from =
                    Some(if is_name { LoginFrom::DistinguishedName } else { LoginFrom::AlternativeName });
            },
        },
        default: "",
        doc: "Which part of a client's certificate must be its client id. Without it, certificates and client ids have nothing to do with \
              each other.",
        example: "mqtt.ssl_cert_client_id_from = subject_alternative_name",
    },
    Key {
        name: "mqtt.ssl_cert_login_san_type",
        alias: None,
        take: Take::Choice {
            of: &["dns", "ip", "email", "uri", "other_name"],
            not_yet: &[],
            set: |options, word| {
                options.mqtt.client_id_san_type = SanType::from_name(word).unwrap_or(SanType::Dns);
            },
        },
        default: "dns",
        doc: "Which kind of alternative name is the client id, where `mqtt.ssl_cert_client_id_from` is `subject_alternative_name`.",
        example: "mqtt.ssl_cert_login_san_type = email",
    },
    Key {
        name: "mqtt.ssl_cert_login_san_index",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 255,
            unit: Unit::Count,
            set: |options, n| options.mqtt.client_id_san_index = narrow(n),
        },
        default: "0",
        doc: "Which alternative name of that kind it is, counted from 0.",
        example: "mqtt.ssl_cert_login_san_index = 1",
    },
    Key {
        name: "mqtt.prefetch",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 65535,
            unit: Unit::Count,
            set: |options, n| options.mqtt.prefetch = narrow(n),
        },
        default: "10",
        doc: "Most unacknowledged messages of QoS 1 and 2 on the way to one client. A client may ask for fewer by Receive Maximum.",
        example: "mqtt.prefetch = 100",
    },
    Key {
        name: "mqtt.max_session_expiry_interval_seconds",
        alias: None,
        take: Take::Limit {
            min: 0,
            max: 4_294_967_294,
            unit: Unit::Seconds,
            set: |options, n| options.mqtt.session_expiry_max_s = n,
        },
        default: "86400",
        doc: "Longest time that a session outlives its connection. Sessions that are not clean have this time before version 5; 0 ends all with \
              their connection.",
        example: "mqtt.max_session_expiry_interval_seconds = 604800",
    },
    Key {
        name: "mqtt.max_packet_size_unauthenticated",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 268_435_455,
            unit: Unit::Bytes,
            set: |options, n| options.mqtt.packet_bytes_max_unauthenticated = n,
        },
        default: "65536",
        doc: "Largest packet of a client that is not logged in, without type and length.",
        example: "mqtt.max_packet_size_unauthenticated = 64KB",
    },
    Key {
        name: "mqtt.max_packet_size_authenticated",
        alias: None,
        take: Take::Integer {
            min: 1,
            max: 268_435_455,
            unit: Unit::Bytes,
            set: |options, n| options.mqtt.packet_bytes_max = n,
        },
        default: "16777216",
        doc: "Largest packet of a client, without type and length.",
        example: "mqtt.max_packet_size_authenticated = 1MB",
    },
    Key {
        name: "mqtt.topic_alias_maximum",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 65535,
            unit: Unit::Count,
            set: |options, n| options.mqtt.topic_alias_max = narrow(n),
        },
        default: "16",
        doc: "Topic aliases that a client of version 5 may set, and the most that are set for it.",
        example: "mqtt.topic_alias_maximum = 32",
    },
    Key {
        name: "mqtt.durable_queue_type",
        alias: None,
        take: Take::Choice {
            of: &["classic", "quorum"],
            not_yet: &[],
            set: |options, word| {
                let is_quorum = word == "quorum";
                options.mqtt.durable_queue_type =
                    if is_quorum { QueueType::Quorum } else { QueueType::Classic };
            },
        },
        default: "classic",
        doc: "Type of the queues of sessions that outlive their connection.",
        example: "mqtt.durable_queue_type = quorum",
    },
    Key {
        name: "mqtt.disconnect_on_unauthorized",
        alias: None,
        take: Take::Boolean { set: |options, on| options.mqtt.disconnect_on_unauthorized = on.into() },
        default: "true",
        doc: "Whether a client of version 5 is disconnected that publishes what its user may not. Otherwise PUBACK says so.",
        example: "mqtt.disconnect_on_unauthorized = false",
    },
    Key {
        name: "mqtt.retained_message_store.max_messages",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 100_000_000,
            unit: Unit::Count,
            set: |options, n| options.mqtt.retained_count_max = n,
        },
        default: "100000",
        doc: "Most retained messages of a vhost. A further one is refused with reason code 0x97.",
        example: "mqtt.retained_message_store.max_messages = 10000",
    },
    Key {
        name: "mqtt.retained_message_store.max_size_bytes",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 1 << 40,
            unit: Unit::Bytes,
            set: |options, n| options.mqtt.retained_bytes_max = n,
        },
        default: "1073741824",
        doc: "Most bytes of retained messages of a vhost.",
        example: "mqtt.retained_message_store.max_size_bytes = 128MB",
    },
    Key {
        name: "mqtt.mailbox_soft_limit",
        alias: None,
        take: Take::Integer { min: 1, max: u64::MAX, unit: Unit::Count, set: |_, _| {} },
        default: "200",
        doc: "Accepted, without effect: messages of QoS 0 are dropped when 1 MiB waits for the client.",
        example: "mqtt.mailbox_soft_limit = 200",
    },
];

fn name(field: &mut String, value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > 255 {
        return Err("expected a name of 1 to 255 bytes".to_owned());
    }
    value.clone_into(field);
    Ok(())
}
