//! From the first byte to the open vhost: properties, login, limits.
//!
//! Refuses to know what comes afterwards.

use std::sync::Arc;

use broker::{Broker, ConnectionInfo, User};
use wire::amqp091::TableBuf;
use wire::stream::requests::{PeerProperties, SaslAuthenticate};
use wire::stream::{ListBuf, ResponseCode, responses};

use super::settings::{FRAME_BYTES_MAX, Settings};
use crate::Peer;
use crate::login::{Attempt, LoginRefused, Mechanism};

/// Longest name of a connection that its client gives it, bytes.
const NAME_BYTES_MAX: usize = 1024;

/// Notes what the client says of itself.
pub(crate) fn note_client(properties: &PeerProperties<'_>, info: &mut ConnectionInfo) {
    let mut table = TableBuf::new();
    let mut all: Vec<(&str, &str)> =
        properties.properties.iter().filter(|(name, _)| name.len() <= 255).collect();
    all.sort_unstable();
    all.dedup_by_key(|(name, _)| *name);
    for (name, value) in &all {
        table.push_str(name, value.as_bytes());
    }
    info.client_properties = table.into_raw();
    let name = properties.properties.get("connection_name");
    info.user_provided_name = name.filter(|name| name.len() <= NAME_BYTES_MAX).map(str::to_owned);
}

/// The server's description of itself.
pub(crate) fn server_properties(settings: &Settings, cluster_name: &str) -> ListBuf {
    ListBuf::of([("cluster_name", cluster_name)].into_iter().chain(settings.product.properties()))
}

/// Names of the mechanisms that this client may use.
pub(crate) fn mechanisms(settings: &Settings, peer: &Peer) -> ListBuf {
    ListBuf::of(settings.logins.offered(peer))
}

/// How a login ended.
pub(crate) type Login = Result<(Arc<User>, Mechanism), ResponseCode>;

/// A login, the first one or a later one.
pub(crate) fn login(
    broker: &Broker,
    settings: &Settings,
    peer: &Peer,
    asked: &SaslAuthenticate<'_>,
    info: &ConnectionInfo,
) -> Login {
    let attempt =
        Attempt { mechanism: asked.mechanism.as_bytes(), response: asked.response.unwrap_or_default() };
    settings.logins.login(broker, peer, attempt, info).map_err(|refused| match refused {
        LoginRefused::UnknownMechanism => ResponseCode::SASL_MECHANISM_NOT_SUPPORTED,
        LoginRefused::Malformed(..) => ResponseCode::SASL_ERROR,
        LoginRefused::Refused(_) => ResponseCode::AUTHENTICATION_FAILURE,
    })
}

/// Answers a login.
pub(crate) fn answer(code: ResponseCode) -> responses::SaslAuthenticate<'static> {
    responses::SaslAuthenticate { code, ..responses::SaslAuthenticate::default() }
}

/// The largest frame of both sides; 0 is no limit on either.
pub(crate) fn frame_max(ours: u32, theirs: u32) -> u32 {
    match (ours, theirs) {
        (0, 0) => FRAME_BYTES_MAX,
        (0, one) | (one, 0) => one.min(FRAME_BYTES_MAX),
        (ours, theirs) => ours.min(theirs),
    }
}

/// Where clients are told to connect to, by whether they came in over TLS.
pub(crate) fn advertised<'a>(settings: &'a Settings, peer: &Peer) -> (&'a str, u16) {
    let (host, port) = match peer.tls {
        None => (&settings.advertised_host, settings.advertised_port),
        Some(_) => (&settings.advertised_tls_host, settings.advertised_tls_port),
    };
    (host, port.unwrap_or(peer.local.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_on_one_side_is_the_limit_of_the_other() {
        assert_eq!(frame_max(1 << 20, 0), 1 << 20);
        assert_eq!(frame_max(0, 8192), 8192);
        assert_eq!((frame_max(1 << 20, 4096), frame_max(4096, 1 << 20)), (4096, 4096));
        assert_eq!((frame_max(0, 0), frame_max(0, u32::MAX)), (FRAME_BYTES_MAX, FRAME_BYTES_MAX));
    }
}
