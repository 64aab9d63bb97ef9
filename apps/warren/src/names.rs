//! Names by which the node of this machine may be meant, from the machine and the environment. Refuses to know the caller.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use management::NodeNames;

/// The environment variable that names a node: the server's own for the server, for RabbitMQ's tools the one they mean when `-n` does not say.
pub(crate) const NODE_VARIABLE: &str = "RABBITMQ_NODENAME";

/// The node name of the environment, if it has one.
pub(crate) fn node_of_environment() -> Option<String> {
    std::env::var(NODE_VARIABLE).ok().filter(|name| !name.is_empty())
}

/// In a server's data folder, for the commands that run beside it: the name that it was told, if it was.
const NAME_FILE: &str = "ctl.node";

/// Leaves the name that the server was told in its folder, or takes away what an earlier one left.
pub(crate) fn leave_name(folder: &Path, told: Option<&str>) {
    let file = folder.join(NAME_FILE);
    let left = match told {
        Some(name) => fs::write(file, name),
        None => fs::remove_file(file),
    };
    if let Err(error) = left
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, "commands do not know the node's name: use --data-dir without -n");
    }
}

/// As [`node_names`], of the server of this folder.
pub(crate) fn names_of_server(folder: &Path) -> NodeNames {
    NodeNames { given: fs::read_to_string(folder.join(NAME_FILE)).ok(), ..node_names() }
}

/// How the server of this folder calls its node; [`management::DEFAULT_NODE_NAME`] when it was not told.
pub(crate) fn shown_name(folder: &Path) -> String {
    let names = names_of_server(folder);
    match names.given {
        Some(name) if name.contains('@') => name,
        Some(name) => {
            let host = names
                .host
                .split('.')
                .next()
                .filter(|host| !host.is_empty())
                .unwrap_or("localhost")
                .to_owned();
            format!("{name}@{host}")
        }
        None => management::DEFAULT_NODE_NAME.to_owned(),
    }
}

/// Of this machine; the host is empty when nobody knows.
pub(crate) fn node_names() -> NodeNames {
    NodeNames { host: host_name(), given: node_of_environment() }
}

/// The name of this machine; empty when nobody knows.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
