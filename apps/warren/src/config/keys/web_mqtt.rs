//! Keys of MQTT over WebSocket, but for those of its certificate.

use super::tls::address;
use crate::config::key::{Key, Section, Take, Unit, narrow};
use crate::config::mqtt::WebAddress;
use crate::config::options::Listener;

pub(super) static SECTION: Section = Section {
    title: "MQTT over WebSockets",
    about: "Listeners of MQTT in the messages of a WebSocket, for browsers. The keys `mqtt.*` hold for their clients, too.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "web_mqtt.tcp.port",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 65_535,
            unit: Unit::Count,
            set: |options, port| options.web_mqtt.tcp.port = Some(narrow(port)),
        },
        default: "",
        doc: "Listens for MQTT over WebSocket on this port. Without it there is no such listener, where RabbitMQ listens on 15675 once its \
              plugin is enabled.",
        example: "web_mqtt.tcp.port = 15675",
    },
    Key {
        name: "web_mqtt.tcp.ip",
        alias: None,
        take: Take::Text {
            shape: "IP address",
            set: |options, value| {
                options.web_mqtt.tcp.address = address(value)?;
                Ok(())
            },
        },
        default: "",
        doc: "Address of that listener; all interfaces where it is not set.",
        example: "web_mqtt.tcp.ip = 127.0.0.1",
    },
    Key {
        name: "web_mqtt.tcp.listener",
        alias: None,
        take: Take::Text {
            shape: "`none`, a port, or an IP address and a port",
            set: |options, value| {
                options.web_mqtt.tcp = match value {
                    "none" => WebAddress::default(),
                    _ => value.parse::<Listener>()?.into(),
                };
                Ok(())
            },
        },
        default: "",
        doc: "Address and port in one.",
        example: "web_mqtt.tcp.listener = 127.0.0.1:15675",
    },
    Key {
        name: "web_mqtt.ssl.listener",
        alias: None,
        take: Take::Text {
            shape: "`none`, a port, or an IP address and a port",
            set: |options, value| {
                options.web_mqtt.ssl = match value {
                    "none" => WebAddress::default(),
                    _ => value.parse::<Listener>()?.into(),
                };
                Ok(())
            },
        },
        default: "",
        doc: "Address and port of the encrypted listener in one.",
        example: "web_mqtt.ssl.listener = 0.0.0.0:15676",
    },
    Key {
        name: "web_mqtt.ws_path",
        alias: None,
        take: Take::Text {
            shape: "path that begins with a slash",
            set: |options, value| {
                if !value.starts_with('/') {
                    return Err("expected a path that begins with a slash".to_owned());
                }
                value.clone_into(&mut options.web_mqtt.path);
                Ok(())
            },
        },
        default: "/ws",
        doc: "Path that clients ask for. Others are answered with 404.",
        example: "web_mqtt.ws_path = /mqtt",
    },
    Key {
        name: "web_mqtt.ws_opts.max_frame_size",
        alias: None,
        take: Take::Integer {
            min: 128,
            max: 1 << 30,
            unit: Unit::Bytes,
            set: |options, n| options.web_mqtt.message_bytes_max = n,
        },
        default: "16842752",
        doc: "Largest frame and message of a WebSocket. It is in memory before the packets in it are looked at.",
        example: "web_mqtt.ws_opts.max_frame_size = 1MB",
    },
    Key {
        name: "web_mqtt.allow_origins.$name",
        alias: None,
        take: Take::List {
            shape: "origin: scheme, host and port if it is not the scheme's",
            clear: |options| options.web_mqtt.origins.clear(),
            add: |options, _, value| {
                options.web_mqtt.origins.push(value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "Origins of the pages that browsers may connect from. Without such a line all may.",
        example: "web_mqtt.allow_origins.1 = https://example.com",
    },
    Key {
        name: "web_mqtt.proxy_protocol",
        alias: None,
        take: Take::Boolean { set: |options, on| options.web_mqtt.proxy_protocol = on.into() },
        default: "false",
        doc: "Whether a PROXY header, version 1 or 2, begins every connection.",
        example: "web_mqtt.proxy_protocol = true",
    },
    Key {
        name: "web_mqtt.ws_opts.compress",
        alias: None,
        take: Take::Boolean { set: |_, _| {} },
        default: "false",
        doc: "Accepted, without effect: frames are not compressed, and clients do without.",
        example: "web_mqtt.ws_opts.compress = false",
    },
    Key {
        name: "web_mqtt.ws_opts.idle_timeout",
        alias: None,
        take: Take::Integer { min: 0, max: u64::MAX, unit: Unit::Count, set: |_, _| {} },
        default: "60000",
        doc: "Accepted, without effect: the keep alive of MQTT ends silent connections.",
        example: "web_mqtt.ws_opts.idle_timeout = 60000",
    },
];
