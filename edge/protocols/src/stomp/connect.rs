//! CONNECT: version, user, vhost, heart-beats.
//!
//! Refuses to know what follows.

use std::sync::Arc;

use broker::{Broker, ConnectionInfo, LoginOutcome, OpenError, User};
use wire::stomp::{Headers, Version};

use super::errors::Trouble;
use super::settings::Settings;
use crate::refusals::open_text;
use crate::{Peer, RequestLogin};

/// Shortest interval of heart-beats that the server agrees on, milliseconds.
const HEART_BEAT_MS_MIN: u64 = 1_000;

/// Longest interval that is asked for, milliseconds: a day.
const HEART_BEAT_MS_MAX: u64 = 86_400_000;

/// The intervals of heart-beats, milliseconds; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeartBeats {
    /// Of the server's.
    pub(crate) send_ms: u64,
    /// Of the client's.
    pub(crate) receive_ms: u64,
}

impl HeartBeats {
    /// As the client offers and wants them.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn of(headers: Headers<'_>) -> Result<HeartBeats, Trouble> {
        let Some(value) = headers.get(b"heart-beat") else { return Ok(HeartBeats::default()) };
        let bad = || Trouble::ending("Invalid header", "the value of 'heart-beat' cannot be read\n");
        let text = std::str::from_utf8(&value).map_err(|_| bad())?;
        let (client, server) = text.split_once(',').ok_or_else(bad)?;
        let interval_ms = |text: &str| match text.trim().parse::<u64>() {
            Ok(0) => Ok(0),
            Ok(ms) => Ok(ms.clamp(HEART_BEAT_MS_MIN, HEART_BEAT_MS_MAX)),
            Err(_) => Err(bad()),
        };
        Ok(HeartBeats { receive_ms: interval_ms(client)?, send_ms: interval_ms(server)? })
    }

    /// As CONNECTED says them.
    pub(crate) fn text(self) -> String {
        format!("{},{}", self.send_ms, self.receive_ms)
    }
}

/// The version that both sides speak.
///
/// # Errors
/// There is none.
pub(crate) fn negotiate(headers: Headers<'_>) -> Result<Version, Trouble> {
    let Some(names) = headers.get(b"accept-version") else { return Ok(Version::V10) };
    let mismatch = || Trouble::ending("Version mismatch", "Supported versions are 1.0,1.1,1.2\n");
    Version::newest_in(&names).ok_or_else(mismatch)
}

/// Logs a client in. Without user and password it is the one in its certificate, or the default user.
/// A login in the request for a WebSocket counts instead, where the listener asks for one.
///
/// # Errors
/// It is not let in.
pub(crate) fn login(
    broker: &Broker,
    settings: &Settings,
    peer: &Peer,
    (login, passcode): (Option<&[u8]>, Option<&[u8]>),
    info: &ConnectionInfo,
) -> Result<Arc<User>, Trouble> {
    let certificate = peer.certificate_name.as_deref().filter(|_| settings.certificate_login);
    let (login, passcode, certificate) = match &peer.request_login {
        RequestLogin::NotAsked => (login, passcode, certificate),
        RequestLogin::Absent => (None, None, None),
        RequestLogin::Given(given) => (Some(given.0.as_bytes()), Some(given.1.expose().as_bytes()), None),
    };
    let (name, mechanism, known) = match (login, passcode, certificate, &settings.default_login) {
        (None, None, Some(name), _) => {
            (name.into(), "EXTERNAL", broker.authenticate_proved(name, peer.is_loopback()))
        }
        (None, None, None, Some((name, password))) => {
            let known = broker.authenticate(name, password.as_bytes(), peer.is_loopback());
            (name.as_str().into(), "PLAIN", known)
        }
        (name, password, ..) => {
            let name = String::from_utf8_lossy(name.unwrap_or_default());
            let known = broker.authenticate(&name, password.unwrap_or_default(), peer.is_loopback());
            (name, "PLAIN", known)
        }
    };
    let outcome = if known.is_some() { LoginOutcome::Succeeded } else { LoginOutcome::Refused };
    broker.login_tried(info, &name, mechanism, outcome);
    known.ok_or_else(|| Trouble::ending("Bad CONNECT", format!("Access refused for user '{name}'")))
}

/// Why a vhost is not opened.
pub(crate) fn not_opened(error: &OpenError, user: &str, vhost: &str) -> Trouble {
    let text = match error {
        OpenError::VhostNotFound(_) | OpenError::AccessRefused => {
            format!("Virtual host '{vhost}' access denied")
        }
        OpenError::NodeLimit(_) | OpenError::VhostLimit(_) | OpenError::UserLimit(_) => {
            open_text(error, user, vhost)
        }
    };
    Trouble::ending("Bad CONNECT", text)
}

#[cfg(test)]
mod tests {
    use wire::stomp::{Limits, Parsed, parse_frame};

    use super::*;

    fn beats(value: &str) -> Result<HeartBeats, Trouble> {
        let limits = Limits { frame_bytes_max: 1000, head_bytes_max: 1000 };
        let bytes = format!("CONNECT\nheart-beat:{value}\n\n\0");
        match parse_frame(bytes.as_bytes(), Version::V12, limits) {
            Ok(Parsed::Complete { frame, .. }) => HeartBeats::of(frame.headers),
            other => panic!("no frame: {other:?}"),
        }
    }

    #[test]
    fn heart_beats_are_as_the_client_wants_them_within_bounds() {
        assert_eq!(beats("3000,2000"), Ok(HeartBeats { send_ms: 2000, receive_ms: 3000 }));
        assert_eq!(beats("3000,2000").unwrap().text(), "2000,3000");
        assert_eq!(beats("0,0"), Ok(HeartBeats::default()));
        assert_eq!(beats("1, 99999999999"), Ok(HeartBeats { send_ms: 86_400_000, receive_ms: 1000 }));
        for bad in ["a,b", "1", "", "-1,0"] {
            assert!(beats(bad).is_err());
        }
    }
}
