//! Peer at the other end of a connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use broker::{ConnectionInfo, TlsSession};
use stdx::Secret;

use crate::basic_login;

/// The two ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The client.
    pub remote: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// The encryption of the connection; `None` if there is none.
    pub tls: Option<Arc<TlsSession>>,
    /// Bytes come in the messages of a WebSocket.
    pub is_web_socket: bool,
    /// The login in the request for the WebSocket.
    pub request_login: RequestLogin,
    /// The user name in the client's certificate, for logins with EXTERNAL.
    pub certificate_name: Option<Box<str>>,
    /// The client id of MQTT in the client's certificate, where the listener asks for one.
    pub certificate_client_id: Option<Box<str>>,
    /// A random number drawn for this connection; generated consumer tags come from it.
    pub seed: u64,
}

/// The login that a request for a WebSocket gives in its header `Authorization`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestLogin {
    /// The listener does not ask for one: the protocol has its own.
    #[default]
    NotAsked,
    /// It has none: the client is the default user.
    Absent,
    /// Name and password, which count instead of the protocol's.
    Given(Box<(String, Secret)>),
}

impl RequestLogin {
    /// The login by the header's value; `None` if it cannot be read.
    #[must_use]
    pub fn of_header(value: Option<&[u8]>) -> Option<RequestLogin> {
        let Some(value) = value else { return Some(RequestLogin::Absent) };
        let (name, password) = basic_login(std::str::from_utf8(value).ok()?)?;
        Some(RequestLogin::Given(Box::new((name, Secret::new(String::from_utf8(password).ok()?)))))
    }
}

impl Peer {
    /// Both ends of an unencrypted connection.
    #[must_use]
    pub fn plain(remote: SocketAddr, local: SocketAddr, seed: u64) -> Peer {
        Peer {
            remote,
            local,
            tls: None,
            is_web_socket: false,
            request_login: RequestLogin::NotAsked,
            certificate_name: None,
            certificate_client_id: None,
            seed,
        }
    }

    /// Whether the client is on this machine; IPv4 loopback mapped into IPv6 counts (B16).
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.remote.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        }
    }

    /// The facts of a connection that was accepted at this time, milliseconds since 1970.
    pub(crate) fn connection_info(
        &self,
        protocol: &'static str,
        state: &'static str,
        connected_at_ms: u64,
    ) -> ConnectionInfo {
        ConnectionInfo {
            name: self.connection_name(),
            peer_host: self.remote.ip().to_string(),
            peer_port: self.remote.port(),
            host: self.local.ip().to_string(),
            port: self.local.port(),
            protocol,
            state,
            connected_at_ms,
            tls: self.tls.clone(),
            ..ConnectionInfo::default()
        }
    }

    /// Name of the connection in listings: `127.0.0.1:50000 -> 127.0.0.1:5672`.
    #[must_use]
    pub fn connection_name(&self) -> String {
        format!("{} -> {}", self.remote, self.local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_loopback_counts_as_loopback() {
        let peer = |remote: &str| Peer::plain(remote.parse().unwrap(), "127.0.0.1:5672".parse().unwrap(), 0);
        assert!(peer("127.0.0.1:1").is_loopback());
        assert!(peer("127.8.0.1:1").is_loopback());
        assert!(peer("[::1]:1").is_loopback());
        assert!(peer("[::ffff:127.0.0.1]:1").is_loopback());
        assert!(!peer("10.0.0.1:1").is_loopback());
        assert_eq!(peer("10.0.0.1:1").connection_name(), "10.0.0.1:1 -> 127.0.0.1:5672");
    }

    #[test]
    fn a_request_has_a_login_or_none_or_one_that_cannot_be_read() {
        let given = RequestLogin::Given(Box::new(("guest".into(), Secret::new("guest"))));
        assert_eq!(RequestLogin::of_header(Some(b"Basic Z3Vlc3Q6Z3Vlc3Q=")), Some(given));
        assert_eq!(RequestLogin::of_header(None), Some(RequestLogin::Absent));
        for bad in ["", "Bearer x", "Basic !", "Basic Z3Vlc3Q="] {
            assert_eq!(RequestLogin::of_header(Some(bad.as_bytes())), None, "{bad}");
        }
    }
}
