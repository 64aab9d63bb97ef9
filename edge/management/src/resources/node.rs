//! The node as management sees it: its names, listeners, folders, log, and whether it is in maintenance.

pub(crate) mod asking;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod described;
mod journal;
mod listeners;
mod maintenance;
mod memory;
mod names;
mod own_name;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

pub use certificates::NodeCertificates;
pub use cluster::NodePeers;
pub use journal::{Journal, JournalLine};
pub use listeners::{
    CLUSTER_PROTOCOL, HTTP_PROTOCOL, HTTPS_PROTOCOL, LISTENER_PROTOCOL, MQTT_LISTENER_PROTOCOL,
    MQTT_TLS_LISTENER_PROTOCOL, NodeListener, PROMETHEUS_PROTOCOL, PROMETHEUS_TLS_PROTOCOL,
    STOMP_LISTENER_PROTOCOL, STOMP_TLS_LISTENER_PROTOCOL, STREAM_LISTENER_PROTOCOL,
    STREAM_TLS_LISTENER_PROTOCOL, TLS_LISTENER_PROTOCOL, WEB_MQTT_LISTENER_PROTOCOL,
    WEB_MQTT_TLS_LISTENER_PROTOCOL, WEB_STOMP_LISTENER_PROTOCOL, WEB_STOMP_TLS_LISTENER_PROTOCOL,
};
pub use maintenance::{Doors, Maintenance};
pub(crate) use memory::{memory, resident_bytes};
pub use names::NodeNames;
pub use own_name::{DEFAULT_NODE_NAME, NODE_NAME, OwnName, set_node_name};

/// Words of an operator, shown to people and tools (`cluster_tags.*`, `node_tags.*`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTags {
    /// About the cluster.
    pub cluster: BTreeMap<String, String>,
    /// About the node.
    pub node: BTreeMap<String, String>,
}

/// The facts that the process knows and the broker does not.
#[derive(Clone, Debug)]
pub struct Node {
    /// Open listeners.
    pub listeners: Vec<NodeListener>,
    /// Folder of everything that lasts.
    pub data_dir: PathBuf,
    /// Where log lines go: files, or `<stderr>`.
    pub log_locations: Vec<String>,
    /// Every option in effect, one a line, secrets left out.
    pub options: String,
    /// Which RabbitMQ clients take this for (B9).
    pub rabbitmq_version: String,
    /// Its own version.
    pub version: &'static str,
    /// The names that it may have.
    pub names: NodeNames,
    /// The tags that an operator gives the cluster, and the node, by name.
    pub tags: NodeTags,
    /// The last lines of its log.
    pub journal: Arc<Journal>,
    /// When it was ready.
    pub started: Instant,
    /// The other nodes; `None` when it belongs to no cluster.
    pub peers: Option<NodePeers>,
    /// Shovels; `None` when nothing runs them.
    pub shovels: Option<shovel::Shovels>,
    /// Sets the least important level that is logged, by RabbitMQ's name of it; an error when there is no such level.
    pub set_log_level: fn(&str) -> Result<(), ()>,
    /// How long deliveries of queues that do not say so themselves may stay unacked, milliseconds.
    pub consumer_timeout_ms: u64,
    /// The certificates of encrypted listeners; nothing where none is encrypted.
    pub certificates: Vec<NodeCertificates>,
    /// Whether clients are let in.
    pub maintenance: Arc<Maintenance>,
    /// Told when an operator asks the server to stop; one waiter is enough.
    pub stop: Arc<Notify>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A node with one listener on a port that nobody listens on.
    pub(crate) fn sample() -> Node {
        let address = "127.0.0.1:1".parse().unwrap();
        Node {
            listeners: vec![NodeListener { address, protocol: LISTENER_PROTOCOL, purpose: "AMQP 0-9-1" }],
            data_dir: "/d".into(),
            log_locations: vec!["<stdout>".into()],
            names: NodeNames::default(),
            tags: NodeTags::default(),
            journal: Arc::default(),
            options: String::new(),
            rabbitmq_version: "4.3.6".into(),
            version: "0.0.1",
            started: Instant::now(),
            peers: None,
            shovels: None,
            set_log_level: |_| Err(()),
            consumer_timeout_ms: 1_800_000,
            certificates: Vec::new(),
            maintenance: Arc::default(),
            stop: Arc::default(),
        }
    }
}
