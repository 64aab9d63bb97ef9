//! Facts that the running server tells management of itself. Refuses to know the caller.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use management::{
    CLUSTER_PROTOCOL, Doors, HTTP_PROTOCOL, LISTENER_PROTOCOL, Maintenance, Node, NodeListener, NodeNames,
    TLS_LISTENER_PROTOCOL,
};
use net::Gate;
use protocols::amqp091::Settings;

use crate::cluster::Joined;
use crate::config::{Options, Switch};
use crate::logging;
use crate::names::node_names;
use crate::server::Bound;

/// The listeners of clients.
#[derive(Debug)]
struct Gates(Vec<Gate>);

impl Doors for Gates {
    fn close(&self) -> io::Result<()> {
        self.0.iter().try_for_each(Gate::close)
    }

    fn open(&self) -> io::Result<()> {
        self.0.iter().try_for_each(Gate::open)
    }
}

/// The description of a server that listens there since now, for clients behind these gates.
pub(crate) fn describe(
    options: &Options,
    bound: &[Bound],
    gates: Vec<Gate>,
    http: Option<SocketAddr>,
) -> Node {
    let listener = |one: &Bound| {
        let (protocol, purpose) = match one.is_encrypted {
            true => (TLS_LISTENER_PROTOCOL, "AMQP 0-9-1 over TLS"),
            false => (LISTENER_PROTOCOL, "AMQP 0-9-1"),
        };
        NodeListener { address: one.address, protocol, purpose }
    };
    let http =
        http.map(|address| NodeListener { address, protocol: HTTP_PROTOCOL, purpose: "RabbitMQ Management" });
    let data_dir = &options.node.data_dir;
    Node {
        listeners: bound.iter().map(listener).chain(http).collect(),
        data_dir: std::fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.clone()),
        log_locations: log_locations(options),
        names: NodeNames { given: options.cluster.node.clone(), ..node_names() },
        tags: options.node.tags.clone(),
        journal: logging::journal(),
        options: format!("{options:#?}"),
        rabbitmq_version: Settings::default().product.version,
        version: env!("CARGO_PKG_VERSION"),
        started: Instant::now(),
        shovels: None,
        peers: None,
        set_log_level: |level| crate::logging::set_level(level).map_err(drop),
        consumer_timeout_ms: options.queues.consumer_timeout_ms,
        certificates: Vec::new(),
        maintenance: Arc::new(Maintenance::new(Box::new(Gates(gates)))),
        stop: Arc::default(),
    }
}

/// Shows the links to other nodes, if there are any.
pub(crate) fn show_links(node: &mut Node, joined: Option<&Joined>) {
    let Some(joined) = joined else { return };
    let purpose = "inter-node and CLI tool communication";
    node.listeners.push(NodeListener {
        address: joined.links().local_address(),
        protocol: CLUSTER_PROTOCOL,
        purpose,
    });
    node.peers = Some(joined.shown());
}

/// Where log lines go.
pub(crate) fn log_locations(options: &Options) -> Vec<String> {
    let file = options.log.file.path().map(|path| path.display().to_string());
    let console = (options.log.console.switch == Switch::On).then(|| "<stderr>".to_owned());
    file.into_iter().chain(console).collect()
}
