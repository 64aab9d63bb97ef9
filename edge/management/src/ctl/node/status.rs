//! `status`: the running parts, for people and for programs. Knows RabbitMQ's words.

use broker::Broker;
use serde_json::json;

use super::certificates;
use super::listeners::{listener_lines, listener_objects};
use crate::ctl::protocol::Answer;
use crate::ctl::{alarms, plugins, stages};
use crate::resources::node::{NODE_NAME, Node};

/// The running parts of the node.
pub(crate) fn status(broker: &Broker, node: &Node) -> Answer {
    let vhosts = broker.vhosts();
    let queues: usize = vhosts.iter().map(|vhost| vhost.queue_count()).sum();
    let connections = broker.connections().count();
    let log_lines: Vec<String> = node.log_locations.iter().map(|place| format!(" * {place}")).collect();
    let plugins: Vec<&str> = plugins::on(broker, node).collect();
    let text = format!(
        "Runtime\n\nOS PID: {}\nOS: Linux\nUptime (seconds): {}\nIs under maintenance?: {}\nRabbitMQ version: {}\n\
         Warren version: {}\nNode name: {NODE_NAME}\nCluster name: {}\n\nPlugins\n\nEnabled plugins:\n\n{}\n\nData directory\n\nNode data directory: {}\n\n\
         Log file(s)\n\n{}\n\n{}\n\nTotals\n\nConnection count: {connections}\nQueue count: {queues}\n\
         Virtual host count: {}\nDelivery stalls: {}\n\n{}\n\n{}Listeners\n\n{}",
        std::process::id(),
        node.started.elapsed().as_secs(),
        node.maintenance.is_on(),
        node.rabbitmq_version,
        node.version,
        broker.cluster_name(),
        plugins.iter().map(|name| format!(" * {name}")).collect::<Vec<_>>().join("\n"),
        node.data_dir.display(),
        log_lines.join("\n"),
        alarms::status(broker),
        vhosts.len(),
        broker.delivery_stalls(),
        stages::status(broker),
        certificates::section(node),
        listener_lines(node),
    );
    let mut json = json!({
        "pid": std::process::id(),
        "os": std::env::consts::OS,
        "uptime": node.started.elapsed().as_secs(),
        "is_under_maintenance": node.maintenance.is_on(),
        "rabbitmq_version": node.rabbitmq_version,
        "product_name": "Warren",
        "product_version": node.version,
        "data_directory": node.data_dir,
        "log_files": node.log_locations,
        "listeners": listener_objects(node),
        "certificates": certificates::objects(node),
        "tags": [],
        "totals": {
            "connection_count": connections, "queue_count": queues, "virtual_host_count": vhosts.len(),
        },
        "active_plugins": plugins,
        "delivery_stalls": broker.delivery_stalls(),
        "stages": crate::resources::stages::status_entry(broker),
    });
    for (name, value) in alarms::status_entries(broker) {
        json[name] = value;
    }
    Answer::facts(text, json)
}
