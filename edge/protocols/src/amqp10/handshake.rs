//! From the SASL header to the open frame.
//!
//! Refuses to know users and vhosts beyond asking the broker.

use std::sync::Arc;

use broker::{Broker, ConnectionInfo, User};
use wire::amqp10::{
    CompositeError, FRAME_SASL, FRAME_SIZE_MAX_MIN, Frame, Map, Open, SaslCode, SaslMechanisms, SaslOutcome,
    SaslPerformative, Symbols, Value, Writer, conditions,
};

use super::errors::{Failure, Outcome, Trouble};
use super::settings::Settings;
use crate::Peer;
use crate::login::{Attempt, LoginRefused, Mechanism};

/// Extensions that RabbitMQ has, and Warren.
const CAPABILITIES: &[&str] = &["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"];

/// Shortest silence that a client may ask to be spared, milliseconds.
const IDLE_MS_MIN: u32 = 1000;

/// Appends the mechanisms offered, after the header that was answered.
pub(crate) fn encode_mechanisms(settings: &Settings, peer: &Peer, out: &mut Vec<u8>) {
    let names: Vec<&str> = settings.logins.offered(peer).collect();
    SaslMechanisms { sasl_server_mechanisms: Symbols::of(&names) }.encode_frame(0, out);
}

/// How a login ended.
pub(crate) enum Login {
    /// The client is let in.
    In(Arc<User>, Mechanism),
    /// It is not; told with the outcome.
    Refused,
}

/// A SASL frame: the choice of a mechanism with its response.
pub(crate) fn login(
    broker: &Broker,
    settings: &Settings,
    peer: &Peer,
    frame: &Frame<'_>,
    info: &ConnectionInfo,
) -> Outcome<Login> {
    if frame.kind != FRAME_SASL {
        let text = format!("unexpected frame type {} in sasl mode (expected 1)", frame.kind);
        return Err(Failure::connection(conditions::FRAMING_ERROR, text));
    }
    let malformed = |error: CompositeError| Failure::connection(conditions::DECODE_ERROR, error.to_string());
    let (performative, _) = SaslPerformative::decode(frame.body).map_err(malformed)?;
    let SaslPerformative::SaslInit(init) = performative else {
        let text = format!("unexpected SASL frame {}", performative.name());
        return Err(Failure::connection(conditions::NOT_ALLOWED, text));
    };
    let attempt =
        Attempt { mechanism: init.mechanism.0, response: init.initial_response.unwrap_or_default() };
    match settings.logins.login(broker, peer, attempt, info) {
        Ok((user, mechanism)) => Ok(Login::In(user, mechanism)),
        Err(LoginRefused::Refused(_)) => Ok(Login::Refused),
        Err(LoginRefused::UnknownMechanism) => {
            let name = String::from_utf8_lossy(init.mechanism.0);
            let text = format!("unknown authentication mechanism '{name}'");
            Err(Failure::connection(conditions::NOT_FOUND, text))
        }
        Err(LoginRefused::Malformed(mechanism, error)) => {
            let text = format!("{} authentication: {error}", mechanism.name());
            Err(Failure::connection(conditions::DECODE_ERROR, text))
        }
    }
}

/// Appends how a login ended.
pub(crate) fn encode_outcome(code: SaslCode, out: &mut Vec<u8>) {
    SaslOutcome { code, additional_data: None }.encode_frame(0, out);
}

/// The negotiated limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Largest frame that the client takes, bytes.
    pub(crate) frame_size_max: usize,
    /// Highest channel.
    pub(crate) channel_max: u16,
    /// Silence after which the client ends the connection, milliseconds; 0 is never.
    pub(crate) client_idle_ms: u32,
}

/// Judges the client's open frame.
pub(crate) fn negotiate(settings: &Settings, open: &Open<'_>) -> Outcome<Limits> {
    if open.max_frame_size < FRAME_SIZE_MAX_MIN {
        let text = format!(
            "max_frame_size ({}) < minimum maximum frame size ({FRAME_SIZE_MAX_MIN})",
            open.max_frame_size
        );
        return Err(Failure::connection(conditions::FRAME_SIZE_TOO_SMALL, text));
    }
    let client_idle_ms = open.idle_time_out.unwrap_or(0);
    if (1..IDLE_MS_MIN).contains(&client_idle_ms) {
        let text = format!("idle-time-out ({client_idle_ms} ms) < minimum idle-time-out ({IDLE_MS_MIN} ms)");
        return Err(Failure::connection(conditions::NOT_ALLOWED, text));
    }
    Ok(Limits {
        frame_size_max: open.max_frame_size as usize,
        channel_max: open.channel_max.min(settings.sessions_max.saturating_sub(1)),
        client_idle_ms,
    })
}

/// The vhost that a client names: `vhost:NAME`.
pub(crate) fn vhost_of<'a>(settings: &'a Settings, open: &Open<'a>) -> &'a str {
    open.hostname.and_then(|host| host.strip_prefix("vhost:")).unwrap_or(&settings.default_vhost)
}

/// Appends the server's open frame. RabbitMQ's own clients look for the name of the node in it.
pub(crate) fn encode_open(settings: &Settings, limits: &Limits, broker: &Broker, out: &mut Vec<u8>) {
    let cluster_name = broker.cluster_name();
    let mut properties = Vec::new();
    Writer::new(&mut properties).map(|writer| {
        let names = [("cluster_name", &*cluster_name), ("node", &broker.options().node_name)];
        for (name, text) in names.into_iter().chain(settings.product.properties()) {
            writer.symbol(name.as_bytes());
            writer.string(text.as_bytes());
        }
    });
    let properties = match Value::parse(&properties) {
        Ok((Value::Map(map), _)) => map,
        _ => Map::EMPTY,
    };
    let idle_ms = u32::from(settings.heartbeat_s) * 500;
    let open = Open {
        container_id: &cluster_name,
        hostname: None,
        max_frame_size: settings.frame_size_max,
        channel_max: limits.channel_max,
        idle_time_out: (idle_ms != 0).then_some(idle_ms),
        outgoing_locales: Symbols::EMPTY,
        incoming_locales: Symbols::EMPTY,
        offered_capabilities: Symbols::of(CAPABILITIES),
        desired_capabilities: Symbols::EMPTY,
        properties,
    };
    open.encode_frame(0, out);
}

/// Why a connection cannot be opened, in RabbitMQ's words.
pub(crate) fn open_trouble(error: &broker::OpenError, user: &str, vhost: &str) -> Trouble {
    let condition = match error {
        broker::OpenError::VhostNotFound(_) => conditions::NOT_FOUND,
        broker::OpenError::AccessRefused => conditions::UNAUTHORIZED_ACCESS,
        _ => conditions::RESOURCE_LIMIT_EXCEEDED,
    };
    Trouble::new(condition, crate::refusals::open_text(error, user, vhost))
}
