//! Configuration of the pages of metrics. Refuses to know their content.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::tls::HttpTlsOptions;
use super::values::{Listener, Switch};

/// RabbitMQ's port of its metrics.
const PORT: u16 = 15_692;

/// The pages of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusOptions {
    /// Whether they are served. Default on.
    pub switch: Switch,
    /// Address; `None` is all interfaces. Default `127.0.0.1`.
    pub address: Option<IpAddr>,
    /// Port; 0 lets the operating system choose. Default 15692.
    pub port: u16,
    /// Path of the first page. Default `/metrics`.
    pub path: String,
    /// Whether the first page has a line per object. Default off.
    pub per_object: Switch,
    /// Whether a login is asked for. Default off.
    pub login: Switch,
    /// Where they are served over TLS, too. Default nowhere.
    pub tls: HttpTlsOptions,
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        Self {
            switch: Switch::On,
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: PORT,
            path: "/metrics".into(),
            per_object: Switch::Off,
            login: Switch::Off,
            tls: HttpTlsOptions::default(),
        }
    }
}

impl PrometheusOptions {
    /// Whether it is the address that nobody needs to ask for. Where that is taken, the pages are done without.
    pub fn has_default_address(&self) -> bool {
        let default = Self::default();
        (self.address, self.port) == (default.address, default.port)
    }

    /// Addresses to try in order; none when it is off.
    pub fn candidates(&self) -> Vec<SocketAddr> {
        match (self.switch, self.address) {
            (Switch::Off, _) => Vec::new(),
            (Switch::On, Some(address)) => vec![SocketAddr::new(address, self.port)],
            (Switch::On, None) => Listener::Everywhere(self.port).candidates(),
        }
    }
}
