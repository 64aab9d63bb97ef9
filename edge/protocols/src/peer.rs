//! Peer at the other end of a connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use broker::TlsSession;

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
    /// The user name in the client's certificate, for logins with EXTERNAL.
    pub certificate_name: Option<Box<str>>,
    /// The client id of MQTT in the client's certificate, where the listener asks for one.
    pub certificate_client_id: Option<Box<str>>,
    /// A random number drawn for this connection; generated consumer tags come from it.
    pub seed: u64,
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
}
