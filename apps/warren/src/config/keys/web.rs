//! Keys of protocols over WebSocket, the same for each, but for those of certificates.

use super::tls::address;
use crate::config::key::{Key, Section, Take, Unit, narrow};
use crate::config::options::Options;
use crate::config::values::Listener;
use crate::config::web::{WebAddress, WebListeners};

pub(super) static MQTT: Section = Section {
    title: "MQTT over WebSockets",
    about: "Listeners of MQTT in the messages of a WebSocket, for browsers. The keys `mqtt.*` hold for their clients, too.",
    keys: MQTT_KEYS,
};

pub(super) static STOMP: Section = Section {
    title: "STOMP over WebSockets",
    about: "Listeners of STOMP in the messages of a WebSocket, for browsers. The keys `stomp.*` hold for their clients, too.",
    keys: STOMP_KEYS,
};

/// The keys of the listeners of one protocol: `$set` is the prefix of their names, `$of` leads to the listeners within the options.
macro_rules! web_keys {
    (
        $set:literal, $of:expr, $protocol:literal, ports $port:literal $ssl_port:literal, alias $alias:expr,
        frames $frame_max:literal, beats $beats:literal, [$($own:expr),* $(,)?]
    ) => {
        &[
            Key {
                name: concat!($set, ".tcp.port"),
                alias: $alias,
                take: Take::Integer {
                    min: 0,
                    max: 65_535,
                    unit: Unit::Count,
                    set: |options, port| $of(options).tcp.port = Some(narrow(port)),
                },
                default: "",
                doc: concat!(
                    "Listens for ", $protocol, " over WebSocket on this port. Without it there is no such listener, where RabbitMQ listens on ",
                    $port, " once its plugin is enabled."
                ),
                example: concat!($set, ".tcp.port = ", $port),
            },
            Key {
                name: concat!($set, ".tcp.ip"),
                alias: None,
                take: Take::Text {
                    shape: "IP address",
                    set: |options, value| {
                        $of(options).tcp.address = address(value)?;
                        Ok(())
                    },
                },
                default: "",
                doc: "Address of that listener; all interfaces where it is not set.",
                example: concat!($set, ".tcp.ip = 127.0.0.1"),
            },
            Key {
                name: concat!($set, ".tcp.listener"),
                alias: None,
                take: Take::Text {
                    shape: "`none`, a port, or an IP address and a port",
                    set: |options, value| {
                        $of(options).tcp = match value {
                            "none" => WebAddress::default(),
                            _ => value.parse::<Listener>()?.into(),
                        };
                        Ok(())
                    },
                },
                default: "",
                doc: "Address and port in one.",
                example: concat!($set, ".tcp.listener = 127.0.0.1:", $port),
            },
            Key {
                name: concat!($set, ".ssl.listener"),
                alias: None,
                take: Take::Text {
                    shape: "`none`, a port, or an IP address and a port",
                    set: |options, value| {
                        $of(options).ssl = match value {
                            "none" => WebAddress::default(),
                            _ => value.parse::<Listener>()?.into(),
                        };
                        Ok(())
                    },
                },
                default: "",
                doc: "Address and port of the encrypted listener in one.",
                example: concat!($set, ".ssl.listener = 0.0.0.0:", $ssl_port),
            },
            Key {
                name: concat!($set, ".ws_path"),
                alias: None,
                take: Take::Text {
                    shape: "path that begins with a slash",
                    set: |options, value| {
                        if !value.starts_with('/') {
                            return Err("expected a path that begins with a slash".to_owned());
                        }
                        value.clone_into(&mut $of(options).path);
                        Ok(())
                    },
                },
                default: "/ws",
                doc: "Path that clients ask for. Others are answered with 404.",
                example: concat!($set, ".ws_path = /messages"),
            },
            Key {
                name: concat!($set, ".ws_opts.max_frame_size"),
                alias: None,
                take: Take::Integer {
                    min: 128,
                    max: 1 << 30,
                    unit: Unit::Bytes,
                    set: |options, n| $of(options).message_bytes_max = Some(n),
                },
                default: "",
                doc: concat!(
                    "Largest frame and message of a WebSocket. It is in memory before what is in it is looked at. Without this key it is 64 KiB more \
                     than `", $frame_max, "`."
                ),
                example: concat!($set, ".ws_opts.max_frame_size = 1MB"),
            },
            Key {
                name: concat!($set, ".allow_origins.$name"),
                alias: None,
                take: Take::List {
                    shape: "origin: scheme, host and port if it is not the scheme's",
                    clear: |options| $of(options).origins.clear(),
                    add: |options, _, value| {
                        $of(options).origins.push(value.to_owned());
                        Ok(())
                    },
                },
                default: "",
                doc: "Origins of the pages that browsers may connect from. Without such a line all may.",
                example: concat!($set, ".allow_origins.1 = https://example.com"),
            },
            Key {
                name: concat!($set, ".allow_origins"),
                alias: None,
                take: Take::Choice { of: &["none"], not_yet: &[], set: |options, _| $of(options).origins.clear() },
                default: "",
                doc: "Lets pages of all origins connect, whatever else is configured.",
                example: concat!($set, ".allow_origins = none"),
            },
            Key {
                name: concat!($set, ".proxy_protocol"),
                alias: None,
                take: Take::Boolean { set: |options, on| $of(options).proxy_protocol = on.into() },
                default: "false",
                doc: "Whether a PROXY header, version 1 or 2, begins every connection.",
                example: concat!($set, ".proxy_protocol = true"),
            },
            Key {
                name: concat!($set, ".max_connections"),
                alias: None,
                take: Take::Limit {
                    min: 0,
                    max: u64::MAX,
                    unit: Unit::Count,
                    set: |options, n| $of(options).connections_max = n,
                },
                default: "infinity",
                doc: "Most connections of each listener at once. Further clients wait until others leave.",
                example: concat!($set, ".max_connections = 1000"),
            },
            Key {
                name: concat!($set, ".ws_opts.compress"),
                alias: None,
                take: Take::Boolean { set: |_, _| {} },
                default: "false",
                doc: "Accepted, without effect: frames are not compressed, and clients do without.",
                example: concat!($set, ".ws_opts.compress = false"),
            },
            Key {
                name: concat!($set, ".ws_opts.idle_timeout"),
                alias: None,
                take: Take::Integer { min: 0, max: u64::MAX, unit: Unit::Count, set: |_, _| {} },
                default: "60000",
                doc: concat!("Accepted, without effect: ", $beats, " end silent connections."),
                example: concat!($set, ".ws_opts.idle_timeout = 60000"),
            },
            $($own,)*
        ]
    };
}

const MQTT_KEYS: &[Key] = web_keys!(
    "web_mqtt", mqtt, "MQTT", ports "15675" "15676", alias None,
    frames "mqtt.max_packet_size_authenticated", beats "keep alives of MQTT", []
);

fn mqtt(options: &mut Options) -> &mut WebListeners {
    &mut options.web_mqtt
}

const STOMP_KEYS: &[Key] = web_keys!(
    "web_stomp", stomp, "STOMP", ports "15674" "15673", alias Some("web_stomp.port"),
    frames "stomp.max_frame_size", beats "heart-beats of STOMP",
    [
        Key {
            name: "web_stomp.ws_frame",
            alias: None,
            take: Take::Choice {
                of: &["text", "binary"],
                not_yet: &[],
                set: |options, value| options.stomp.web_binary = (value == "binary").into(),
            },
            default: "text",
            doc: "The kind of messages that frames go out in. With `text`, frames that are not UTF-8 go out as binary messages. Clients may send \
                  both.",
            example: "web_stomp.ws_frame = binary",
        },
        Key {
            name: "web_stomp.use_http_auth",
            alias: None,
            take: Take::Boolean { set: |options, on| options.stomp.web_request_login = on.into() },
            default: "false",
            doc: "Whether the request for a WebSocket gives the login in its header `Authorization`, and CONNECT's `login` and `passcode` do not \
                  count. A client whose request has none is `stomp.default_user`.",
            example: "web_stomp.use_http_auth = true",
        },
    ]
);

fn stomp(options: &mut Options) -> &mut WebListeners {
    &mut options.web_stomp
}
