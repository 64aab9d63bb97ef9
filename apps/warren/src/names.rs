//! By which names the node of this machine may be meant: what the machine and the environment say. Refuses to know who asks for it.

use std::fs;

use management::NodeNames;

/// The environment variable that names a node: the server's own for the server, for RabbitMQ's tools the one they mean when `-n` does not say.
pub(crate) const NODE_VARIABLE: &str = "RABBITMQ_NODENAME";

/// What the environment says, if it says something.
pub(crate) fn node_of_environment() -> Option<String> {
    std::env::var(NODE_VARIABLE).ok().filter(|name| !name.is_empty())
}

/// Of this machine; the host is empty when nobody knows.
pub(crate) fn node_names() -> NodeNames {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    NodeNames { host, given: node_of_environment() }
}
