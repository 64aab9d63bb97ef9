//! From the protocol header to connection.open (B1-B26).
//!
//! Refuses to know users and vhosts beyond asking the broker. RabbitMQ drops connections that fail before open without a
//! word after three seconds, except for failed logins of clients that asked to be told. Here all are told at once in the
//! words of RabbitMQ's log, except for failed logins of clients that did not ask.

use std::sync::Arc;

use broker::{Broker, ConnectionInfo, User};
use wire::amqp091::methods::connection::{Start, StartOk, Tune, TuneOk};
use wire::amqp091::sasl::SaslError;
use wire::amqp091::{PROTOCOL_HEADER, Table, TableBuf, Value};

use super::errors::{Failure, Outcome, ReplyCode};
use super::settings::Settings;
use crate::login::{Attempt, LoginRefused, Mechanism};
use crate::{Peer, Product};

/// The header that a client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// AMQP 0-9-1, or 0-9, which is treated the same (B1).
    Accepted,
    /// Write these bytes and close (B2-B4).
    Refused([u8; 8]),
}

/// AMQP 1.0's SASL header: RabbitMQ's answer to everything it does not know.
const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// Judges the first eight bytes.
pub(crate) fn greet(header: [u8; 8]) -> Greeting {
    match header {
        [b'A', b'M', b'Q', b'P', 0, 0, 9, 1] | [b'A', b'M', b'Q', b'P', 1, 1, 0, 9] => Greeting::Accepted,
        [b'A', b'M', b'Q', b'P', 0, 0, minor, _] if minor >= 9 => Greeting::Refused(PROTOCOL_HEADER),
        // AMQP 1.0 is not spoken yet: answering its SASL header with itself would invite the client to go on.
        SASL_HEADER => Greeting::Refused(PROTOCOL_HEADER),
        _ => Greeting::Refused(SASL_HEADER),
    }
}

/// Server capabilities (B8).
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// Appends connection.start (B6-B9). The keys are RabbitMQ's and no others, because test suites compare them.
/// EXTERNAL is offered only where the client could use it: over TLS.
pub(crate) fn encode_start(settings: &Settings, peer: &Peer, cluster_name: &str, out: &mut Vec<u8>) {
    let mut capabilities = TableBuf::new();
    for name in CAPABILITIES {
        capabilities.push_bool(name, true);
    }
    let mut properties = TableBuf::new();
    properties.push_table("capabilities", capabilities.as_table());
    properties.push_str("cluster_name", cluster_name);
    properties.push_str("copyright", Product::COPYRIGHT);
    let product = &settings.product;
    let information = format!("Warren {}. Licensed under the Apache License 2.0", product.warren_version);
    properties.push_str("information", information);
    properties.push_str("platform", &product.platform);
    properties.push_str("product", &product.name);
    properties.push_str("version", &product.version);
    for (name, text) in &settings.server_properties {
        properties.push_str(name, text);
    }
    let names = settings.logins.offered(peer).collect::<Vec<_>>().join(" ");
    let start = Start {
        version_major: 0,
        version_minor: 9,
        server_properties: properties.as_table(),
        mechanisms: names.as_bytes(),
        locales: b"en_US",
    };
    start.encode_frame(0, out);
}

/// The capabilities of a client that count (B10), and its name (B11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) authentication_failure_close: bool,
    pub(crate) blocked: bool,
    pub(crate) consumer_cancel_notify: bool,
    pub(crate) connection_name: Option<String>,
}

impl Client {
    pub(crate) fn of(properties: Table<'_>) -> Client {
        let capabilities = properties.get("capabilities").and_then(|value| value.as_table());
        let has = |name: &str| capabilities.and_then(|table| table.get(name)) == Some(Value::Bool(true));
        let name = properties.get("connection_name").and_then(|value| value.as_long_str());
        Client {
            authentication_failure_close: has("authentication_failure_close"),
            blocked: has("connection.blocked"),
            consumer_cancel_notify: has("consumer_cancel_notify"),
            connection_name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// Why a client is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The response or mechanism is wrong.
    Malformed(Failure),
    /// User, password or address are wrong; the text does not say which (B15, B16).
    Refused(Failure),
}

/// Authenticates (B12-B16).
pub(crate) fn login(
    broker: &Broker,
    settings: &Settings,
    peer: &Peer,
    start_ok: &StartOk<'_>,
    info: &ConnectionInfo,
) -> Result<(Arc<User>, Mechanism), LoginError> {
    let attempt = Attempt { mechanism: start_ok.mechanism.as_bytes(), response: start_ok.response };
    settings.logins.login(broker, peer, attempt, info).map_err(|refused| match refused {
        LoginRefused::UnknownMechanism => {
            let text = format!("unknown authentication mechanism '{}'", start_ok.mechanism.str_lossy());
            LoginError::Malformed(Failure::new(ReplyCode::CommandInvalid, text).in_method(StartOk::ID))
        }
        LoginRefused::Malformed(mechanism, error) => malformed_response(mechanism, error),
        LoginRefused::Refused(mechanism) => refused_login(mechanism),
    })
}

fn refused_login(mechanism: Mechanism) -> LoginError {
    let name = mechanism.name();
    let text = format!(
        "Login was refused using authentication mechanism {name}. For details see the broker logfile."
    );
    LoginError::Refused(Failure::new(ReplyCode::AccessRefused, text))
}

fn malformed_response(mechanism: Mechanism, error: SaslError) -> LoginError {
    let text = format!("{} authentication: {error}", mechanism.name());
    LoginError::Malformed(Failure::new(ReplyCode::SyntaxError, text).in_method(StartOk::ID))
}

/// The negotiated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Number of channels; 0 is no limit.
    pub(crate) channel_max: u16,
    /// Bytes of a frame with overhead; 0 is no limit.
    pub(crate) frame_size_max: u32,
    /// Heartbeat interval in seconds; 0 is none.
    pub(crate) heartbeat_s: u16,
}

/// Appends connection.tune (B18).
pub(crate) fn encode_tune(settings: &Settings, out: &mut Vec<u8>) {
    let tune = Tune {
        channel_max: settings.channel_max,
        frame_max: settings.frame_size_max,
        heartbeat: settings.heartbeat_s,
    };
    tune.encode_frame(0, out);
}

/// Judges the client's answer (B19-B21).
pub(crate) fn negotiate(settings: &Settings, tune_ok: &TuneOk) -> Outcome<Limits> {
    let refuse = |text: String| Err(Failure::new(ReplyCode::NotAllowed, text).in_method(TuneOk::ID));
    let (frame_max, min) = (tune_ok.frame_max, settings.frame_size_min);
    if frame_max != 0 && frame_max < min {
        return refuse(format!(
            "negotiated frame_max = {frame_max} is lower than the minimum allowed value ({min})"
        ));
    }
    let limits = [
        ("channel_max", u32::from(tune_ok.channel_max), u32::from(settings.channel_max)),
        ("frame_max", frame_max, settings.frame_size_max),
    ];
    for (name, client, server) in limits {
        if server != 0 && (client == 0 || client > server) {
            let unlimited = if client == 0 { " (no limit)" } else { "" };
            return refuse(format!(
                "negotiated {name} = {client}{unlimited} is higher than the maximum allowed value ({server})"
            ));
        }
    }
    let (channel_max, heartbeat_s) = (tune_ok.channel_max, tune_ok.heartbeat);
    Ok(Limits { channel_max, frame_size_max: frame_max, heartbeat_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_0_9_1_and_0_9_are_spoken() {
        let greeting = |bytes: &[u8; 8]| greet(*bytes);
        assert_eq!(greeting(b"AMQP\x00\x00\x09\x01"), Greeting::Accepted);
        assert_eq!(greeting(b"AMQP\x01\x01\x00\x09"), Greeting::Accepted);
        assert_eq!(greeting(b"AMQP\x00\x00\x09\x02"), Greeting::Refused(PROTOCOL_HEADER));
        assert_eq!(greeting(b"AMQP\x00\x00\x0a\x00"), Greeting::Refused(PROTOCOL_HEADER));
        for other in [b"AMQP\x01\x01\x08\x00", b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00", b"GET / HT"]
        {
            assert_eq!(greeting(other), Greeting::Refused(SASL_HEADER));
        }
    }

    #[test]
    fn capabilities_count_only_as_true_inside_their_table() {
        let mut capabilities = TableBuf::new();
        capabilities.push_bool("connection.blocked", true).push_i32("consumer_cancel_notify", 1);
        let mut properties = TableBuf::new();
        properties.push_bool("authentication_failure_close", true);
        properties.push_table("capabilities", capabilities.as_table());
        properties.push_str("connection_name", "worker 1");
        let client = Client::of(properties.as_table());
        assert!(client.blocked && !client.consumer_cancel_notify && !client.authentication_failure_close);
        assert_eq!(client.connection_name.as_deref(), Some("worker 1"));
    }

    fn tuned(channel_max: u16, frame_max: u32) -> Result<Limits, String> {
        let settings = Settings { frame_size_min: 8192, ..Settings::default() };
        let tune_ok = TuneOk { channel_max, frame_max, heartbeat: 7 };
        negotiate(&settings, &tune_ok).map_err(|failure| failure.reply_text())
    }

    #[test]
    fn limits_within_the_servers_are_taken_as_they_are() {
        let limits = Limits { channel_max: 1, frame_size_max: 8192, heartbeat_s: 7 };
        assert_eq!(tuned(1, 8192), Ok(limits));
    }

    #[test]
    fn limits_outside_the_servers_are_refused_in_rabbitmqs_words() {
        for (channel_max, frame_max, text) in [
            (1, 4096, "negotiated frame_max = 4096 is lower than the minimum allowed value (8192)"),
            (1, 131_073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
            (1, 0, "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
            (
                0,
                8192,
                "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
            ),
            (2048, 8192, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        ] {
            assert_eq!(tuned(channel_max, frame_max), Err(format!("NOT_ALLOWED - {text}")));
        }
    }
}
