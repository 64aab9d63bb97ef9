//! Options of encrypted listeners. Refuses to know where a value came from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tls::{SanType, ServerOptions};

use super::values::Listener;

/// Which part of a client's certificate is its user name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginFrom {
    /// The whole distinguished name of its subject.
    DistinguishedName,
    /// The common name of its subject.
    CommonName,
    /// An alternative name.
    AlternativeName,
}

/// Encrypted listeners of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientTlsOptions {
    /// Where they are. Default none.
    pub listeners: Vec<Listener>,
    /// Certificate, key and rules.
    pub server: ServerOptions,
    /// Time for PROXY header and handshake, milliseconds. Default 5,000.
    pub handshake_timeout_ms: u64,
    /// The field that logins with EXTERNAL are named by. Default the distinguished name.
    pub login_from: LoginFrom,
    /// Which kind of alternative name that is. Default DNS.
    pub login_san_type: SanType,
    /// Which one of that kind, from 0. Default 0.
    pub login_san_index: usize,
}

impl Default for ClientTlsOptions {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            server: ServerOptions::default(),
            handshake_timeout_ms: 5_000,
            login_from: LoginFrom::DistinguishedName,
            login_san_type: SanType::Dns,
            login_san_index: 0,
        }
    }
}

/// An encrypted listener of HTTP.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HttpTlsOptions {
    /// Its port; 0 lets the operating system choose, and `None` is no such listener. Default `None`.
    pub port: Option<u16>,
    /// Its address; `None` is all interfaces. Default `None`.
    pub address: Option<IpAddr>,
    /// Certificate, key and rules.
    pub server: ServerOptions,
}

impl HttpTlsOptions {
    /// Addresses to try in order; none when there is no such listener.
    pub fn candidates(&self) -> Vec<SocketAddr> {
        match (self.port, self.address) {
            (None, _) => Vec::new(),
            (Some(port), Some(address)) => vec![SocketAddr::new(address, port)],
            (Some(port), None) => {
                let every = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
                every.map(|address| SocketAddr::new(address, port)).to_vec()
            }
        }
    }
}
