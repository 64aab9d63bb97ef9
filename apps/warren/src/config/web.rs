//! The options of protocols over WebSocket: the same for each. Refuses to know where a value came from.

use std::net::IpAddr;

use tls::ServerOptions;

use super::values::{Listener, Switch};

/// Listeners of a protocol over WebSocket.
#[derive(Debug, Clone, PartialEq)]
pub struct WebListeners {
    /// Where it is spoken in clear text. Default nowhere.
    pub tcp: WebAddress,
    /// Where it is encrypted. Default nowhere.
    pub ssl: WebAddress,
    /// Certificate, key and rules of the encrypted listener.
    pub server: ServerOptions,
    /// Whether a PROXY header begins every connection. Default off.
    pub proxy_protocol: Switch,
    /// Connections of a listener at once; `None` is without a bound. Default `None`.
    pub connections_max: Option<u64>,
    /// Path of the request. Default `/ws`.
    pub path: String,
    /// Largest frame and message of a WebSocket, bytes; `None` is 64 KiB more than the protocol's largest frame. Default `None`.
    pub message_bytes_max: Option<u64>,
    /// Origins that browsers may come from; empty allows all. Default empty.
    pub origins: Vec<String>,
}

/// Where a listener is, if there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebAddress {
    /// Its port; 0 lets the operating system choose, and `None` is no such listener. Default `None`.
    pub port: Option<u16>,
    /// Its address; `None` is all interfaces. Default `None`.
    pub address: Option<IpAddr>,
}

impl WebAddress {
    /// The listener.
    pub fn listener(self) -> Option<Listener> {
        let everywhere = |port| Listener::Everywhere(port);
        let at = |port| self.address.map_or(everywhere(port), |ip| Listener::At((ip, port).into()));
        self.port.map(at)
    }
}

impl From<Listener> for WebAddress {
    fn from(listener: Listener) -> WebAddress {
        match listener {
            Listener::Everywhere(port) => WebAddress { port: Some(port), address: None },
            Listener::At(at) => WebAddress { port: Some(at.port()), address: Some(at.ip()) },
        }
    }
}

impl Default for WebListeners {
    fn default() -> Self {
        Self {
            tcp: WebAddress::default(),
            ssl: WebAddress::default(),
            server: ServerOptions::default(),
            proxy_protocol: Switch::Off,
            connections_max: None,
            path: "/ws".into(),
            message_bytes_max: None,
            origins: Vec::new(),
        }
    }
}
