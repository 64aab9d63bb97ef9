//! The options of a node that belongs to a cluster. Refuses to know where a value came from.

use stdx::Secret;

use super::values::{Listener, Switch};

/// The port of links between nodes: RabbitMQ's.
const CLUSTER_PORT: u16 = 25672;

/// Name of the node, and where other nodes are.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterOptions {
    /// The name that was given, with a host or without. Default none.
    pub node: Option<String>,
    /// Whether a name without a host gets the whole name of this machine. Default off: up to the first dot.
    pub long_names: Switch,
    /// Where other nodes reach this one; `None` listens nowhere, unless nodes are named. Default none.
    pub listen: Option<Listener>,
    /// The port of [`ClusterOptions::listen`] where it is not set, and of nodes without one. Default 25,672.
    pub port: u16,
    /// `HOST:PORT` that others are told to dial. Default the host of the node's name, and the port.
    pub advertise: Option<String>,
    /// `HOST:PORT` of nodes. Default none.
    pub seeds: Vec<String>,
    /// The way to find nodes. Default [`Discovery::ClassicConfig`].
    pub discovery: Discovery,
    /// Names of nodes. Default none.
    pub nodes: Vec<String>,
    /// A host whose addresses are those of all nodes. Default none.
    pub dns_hostname: Option<String>,
    /// The shared secret; `None` looks for a file. Default none.
    pub cookie: Option<Secret>,
    /// Whether links are encrypted. Default off.
    pub tls: Switch,
}

/// The way to find the other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// Names in the configuration.
    ClassicConfig,
    /// The addresses of a host.
    Dns,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            node: None,
            long_names: Switch::Off,
            listen: None,
            port: CLUSTER_PORT,
            advertise: None,
            seeds: Vec::new(),
            discovery: Discovery::ClassicConfig,
            nodes: Vec::new(),
            dns_hostname: None,
            cookie: None,
            tls: Switch::Off,
        }
    }
}

impl ClusterOptions {
    /// Whether this node is to be linked with others. Without that it listens to none.
    pub fn is_wanted(&self) -> bool {
        self.listen.is_some() || !self.all_seeds().is_empty() || self.dns().is_some()
    }

    /// `HOST:PORT` of all nodes that are named.
    pub fn all_seeds(&self) -> Vec<String> {
        let nodes = self.nodes.iter().filter(|_| self.discovery == Discovery::ClassicConfig);
        let host = |node: &String| node.split_once('@').map_or(node.clone(), |(_, host)| host.to_owned());
        let nodes = nodes.map(|node| format!("{}:{}", host(node), self.port));
        self.seeds.iter().cloned().chain(nodes).collect()
    }

    /// The host whose addresses are nodes.
    pub fn dns(&self) -> Option<&str> {
        self.dns_hostname.as_deref().filter(|_| self.discovery == Discovery::Dns)
    }

    /// Where to listen.
    pub fn listener(&self) -> Listener {
        self.listen.unwrap_or(Listener::Everywhere(self.port))
    }
}

/// Reads `HOST:PORT`; a port alone is not enough.
///
/// # Errors
/// A text that says what was expected.
pub fn host_and_port(text: &str) -> Result<String, String> {
    let found = text.rsplit_once(':').filter(|(host, port)| {
        !host.is_empty()
            && port.parse::<u16>().is_ok()
            && !host.contains(|c: char| c.is_whitespace() || c == '/')
    });
    found
        .map(|_| text.to_owned())
        .ok_or_else(|| format!("'{text}': expected a host and a port (mq2.example:25672)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_come_from_addresses_names_and_dns() {
        let mut options = ClusterOptions::default();
        assert!(!options.is_wanted());
        options.nodes = vec!["rabbit@mq1".into(), "rabbit@mq2".into()];
        options.seeds = vec!["10.0.0.1:7".into()];
        assert_eq!(options.all_seeds(), ["10.0.0.1:7", "mq1:25672", "mq2:25672"]);
        options.discovery = Discovery::Dns;
        assert_eq!((options.all_seeds().len(), options.dns()), (1, None));
        options.dns_hostname = Some("nodes.example".into());
        assert_eq!(options.dns(), Some("nodes.example"));
        assert_eq!(options.listener(), Listener::Everywhere(CLUSTER_PORT));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for right in ["mq2:25672", "[::1]:1", "10.0.0.1:25672"] {
            assert_eq!(host_and_port(right).as_deref(), Ok(right));
        }
        for wrong in ["", "25672", "mq2", ":1", "mq2:x", "mq2:70000", "http://mq2:1"] {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }
}
