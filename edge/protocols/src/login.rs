//! Logins: the SASL mechanisms that all AMQP protocols offer.
//!
//! Refuses to know in which frames mechanism and response travel, and how a refusal is told.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::{Broker, ConnectionInfo, LoginOutcome, User};
use wire::amqp091::sasl::{SaslError, parse_amqplain, parse_plain};

use crate::Peer;

/// Name and password of a header `Authorization: Basic ...`, by its value; `None` if it is another header, or cannot be read.
#[must_use]
pub fn basic_login(header: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = STANDARD.decode(encoded.trim()).ok()?;
    let colon = plain.iter().position(|byte| *byte == b':')?;
    Some((String::from_utf8(plain[..colon].to_vec()).ok()?, plain[colon + 1..].to_vec()))
}

/// SASL mechanisms (B6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// User and password as `NUL user NUL password` (B13).
    Plain,
    /// User and password in a field table (B14).
    AmqPlain,
    /// No credentials: the anonymous user of [`Logins::anonymous`].
    Anonymous,
    /// The name in the certificate that the client showed.
    External,
}

impl Mechanism {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::AmqPlain => "AMQPLAIN",
            Mechanism::Anonymous => "ANONYMOUS",
            Mechanism::External => "EXTERNAL",
        }
    }

    /// Whether a client may use it: EXTERNAL over TLS only, as in RabbitMQ.
    fn is_offered(self, peer: &Peer) -> bool {
        self != Mechanism::External || peer.tls.is_some()
    }
}

/// As whom clients act that log in with ANONYMOUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anonymous {
    /// User name; `guest` in RabbitMQ.
    pub user: String,
    /// Password.
    pub password: String,
}

/// How clients may log in.
#[derive(Clone, Debug)]
pub struct Logins {
    /// Mechanisms offered, in the order offered. Default as RabbitMQ 4.3: ANONYMOUS, AMQPLAIN, PLAIN.
    pub mechanisms: Vec<Mechanism>,
    /// The anonymous user; `None` refuses them even if the mechanism is offered. Default guest.
    pub anonymous: Option<Anonymous>,
}

impl Default for Logins {
    fn default() -> Self {
        Logins {
            mechanisms: vec![Mechanism::Anonymous, Mechanism::AmqPlain, Mechanism::Plain],
            anonymous: Some(Anonymous { user: "guest".into(), password: "guest".into() }),
        }
    }
}

/// A client's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    /// Name of the mechanism.
    pub(crate) mechanism: &'a [u8],
    /// Its response, in the mechanism's own form.
    pub(crate) response: &'a [u8],
}

/// Why a client is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginRefused {
    /// No such mechanism, or none that is offered.
    UnknownMechanism,
    /// The response is not in the mechanism's form.
    Malformed(Mechanism, SaslError),
    /// User, password or address are wrong; nobody is told which (B15, B16).
    Refused(Mechanism),
}

impl Logins {
    /// Names of the mechanisms that a client may use.
    pub(crate) fn offered(&self, peer: &Peer) -> impl Iterator<Item = &'static str> {
        let offered = self.mechanisms.iter().filter(|mechanism| mechanism.is_offered(peer));
        offered.map(|mechanism| mechanism.name())
    }

    /// Authenticates, and records the attempt.
    pub(crate) fn login(
        &self,
        broker: &Broker,
        peer: &Peer,
        attempt: Attempt<'_>,
        info: &ConnectionInfo,
    ) -> Result<(Arc<User>, Mechanism), LoginRefused> {
        let is_meant = |mechanism: &&Mechanism| {
            mechanism.name().as_bytes() == attempt.mechanism && mechanism.is_offered(peer)
        };
        let mechanism = *self.mechanisms.iter().find(is_meant).ok_or(LoginRefused::UnknownMechanism)?;
        let credentials = match mechanism {
            Mechanism::Plain => parse_plain(attempt.response).map(Some),
            Mechanism::AmqPlain => parse_amqplain(attempt.response).map(Some),
            Mechanism::Anonymous | Mechanism::External => Ok(None),
        };
        let credentials = credentials.map_err(|error| LoginRefused::Malformed(mechanism, error))?;
        if mechanism == Mechanism::External {
            return by_certificate(broker, peer, info);
        }
        let (user, password) = match (&credentials, &self.anonymous) {
            (Some(credentials), _) => (std::str::from_utf8(credentials.user).ok(), credentials.password),
            (None, Some(anonymous)) => (Some(anonymous.user.as_str()), anonymous.password.as_bytes()),
            (None, None) => (None, &b""[..]),
        };
        let known = user.and_then(|user| broker.authenticate(user, password, peer.is_loopback()));
        let outcome = if known.is_some() { LoginOutcome::Succeeded } else { LoginOutcome::Refused };
        broker.login_tried(info, user.unwrap_or_default(), mechanism.name(), outcome);
        known.map(|user| (user, mechanism)).ok_or(LoginRefused::Refused(mechanism))
    }
}

/// EXTERNAL: the name in the client's certificate, which the TLS handshake has checked.
fn by_certificate(
    broker: &Broker,
    peer: &Peer,
    info: &ConnectionInfo,
) -> Result<(Arc<User>, Mechanism), LoginRefused> {
    let mechanism = Mechanism::External;
    let name = peer.certificate_name.as_deref();
    if name.is_none() {
        let why = if peer.tls.is_none() {
            "connection not over TLS"
        } else {
            "no peer certificate, or no such name in it"
        };
        tracing::warn!(connection = %info.name, "login with EXTERNAL refused: {why}");
    }
    let known = name.and_then(|name| broker.authenticate_proved(name, peer.is_loopback()));
    let outcome = if known.is_some() { LoginOutcome::Succeeded } else { LoginOutcome::Refused };
    broker.login_tried(info, name.unwrap_or_default(), mechanism.name(), outcome);
    known.map(|user| (user, mechanism)).ok_or(LoginRefused::Refused(mechanism))
}
