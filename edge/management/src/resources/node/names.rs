//! By which names tools may mean this node. Refuses to know what they ask it.

use super::NODE_NAME;

/// Names before the host that mean a server of its machine: RabbitMQ's default, and this one's.
const SERVERS: [&str; 2] = ["rabbit", "warren"];

/// The names that the node may have beside [`NODE_NAME`]. Tools make the name of a RabbitMQ node from that of its host, such as
/// `rabbit@mq1`, and scripts have the one that the broker had before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNames {
    /// Of this machine, with its domain or without; may be empty.
    pub host: String,
    /// The name that the server was told (`RABBITMQ_NODENAME`), with a host or without.
    pub given: Option<String>,
}

impl NodeNames {
    /// Whether a name means this node, and no other that may be somewhere.
    #[must_use]
    pub fn mean(&self, name: &str) -> bool {
        let given = self.given.as_deref();
        if name == NODE_NAME || given == Some(name) {
            return true;
        }
        let Some((server, host)) = name.split_once('@') else { return false };
        (SERVERS.contains(&server) || given == Some(server)) && self.is_here(host)
    }

    /// Whether a host is this machine, whose name may be given with its domain or without.
    #[must_use]
    pub fn is_here(&self, host: &str) -> bool {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let host = short(host);
        host == "localhost" || host == "127" || (!host.is_empty() && host == short(&self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_another_host_or_server_is_another_node() {
        let names =
            |given: Option<&str>| NodeNames { host: "mq1.internal".into(), given: given.map(Into::into) };
        let (plain, old, short) = (names(None), names(Some("rabbit@old.example")), names(Some("shop")));
        for here in
            ["warren@localhost", "rabbit@mq1", "rabbit@MQ1.example.org", "rabbit@127.0.0.1", "warren@mq1"]
        {
            assert!(plain.mean(here) && old.mean(here) && short.mean(here), "{here}");
        }
        for elsewhere in
            ["", "rabbit", "rabbit@", "@", "rabbit@mq2", "other@mq1", "rabbit@mq1x", "mq1", "x@localhost"]
        {
            assert!(!plain.mean(elsewhere) && !old.mean(elsewhere) && !short.mean(elsewhere), "{elsewhere}");
        }
        assert!(
            old.mean("rabbit@old.example") && !old.mean("rabbit@old") && !plain.mean("rabbit@old.example")
        );
        assert!(short.mean("shop") && short.mean("shop@mq1") && !short.mean("shop@mq2"));
        assert!(!NodeNames::default().mean("rabbit@") && NodeNames::default().mean("rabbit@localhost"));
    }
}
