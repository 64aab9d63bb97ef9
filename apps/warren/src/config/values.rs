//! Values of several parts of the configuration: listeners, switches, types of queues.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// One address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// All interfaces, IPv6 and IPv4, on this port; 0 lets the operating system choose.
    Everywhere(u16),
    /// One address and port; port 0 lets the operating system choose.
    At(SocketAddr),
}

impl Listener {
    /// Addresses to try in order: the first that binds is the listener. For [`Listener::Everywhere`] that is
    /// `[::]` (which takes IPv4 too where the system has dual-stack sockets), then `0.0.0.0` on hosts without IPv6.
    pub fn candidates(self) -> Vec<SocketAddr> {
        match self {
            Self::At(address) => vec![address],
            Self::Everywhere(port) => vec![
                SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
                SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            ],
        }
    }
}

impl FromStr for Listener {
    type Err = String;

    /// `5672`, `127.0.0.1:5672`, `::1:5672` (RabbitMQ's way of writing IPv6) or `[::1]:5672`. Host names are refused,
    /// as in RabbitMQ: their addresses may change between two starts.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SHAPE: &str = "expected a port (5672) or an IP address and a port (127.0.0.1:5672, [::1]:5672)";
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::Everywhere(port));
        }
        let (host, port) = text.rsplit_once(':').ok_or(SHAPE)?;
        let port = port.parse::<u16>().map_err(|_| SHAPE)?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let host = host.parse::<IpAddr>().map_err(|_| SHAPE)?;
        Ok(Self::At(SocketAddr::new(host, port)))
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere(port) => write!(f, "{port}"),
            Self::At(address) => write!(f, "{address}"),
        }
    }
}

/// Something that is either on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

impl From<bool> for Switch {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

/// A queue type that exists here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueType {
    /// One copy, on one node.
    Classic,
    /// Made to be replicated.
    Quorum,
    /// A log that many read.
    Stream,
}

impl QueueType {
    /// The value of `x-queue-type` that selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}
