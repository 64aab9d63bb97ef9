//! Commands about the node: whether it runs, its listeners, its log, its status.

mod certificates;
mod cluster;
mod listeners;
mod log_lines;
mod memory;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use broker::Broker;
use serde_json::json;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Commands, Outcome, arguments};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::ctl::queues::unresponsive;
use crate::ctl::{alarms, interfaces};
use crate::resources::node::cluster::{FEATURE_FLAGS, FeatureFlag, enable_feature_flag as enable_flag};
use crate::resources::node::{NODE_NAME, Node};
use listeners::{listeners, port_connectivity, port_listener, protocol_listener};
use log_lines::{log_after, log_tail};
use memory::memory_breakdown;

/// Commands about the node.
pub(crate) const COMMANDS: Commands = &[
    ("is_running", |it| Ok(running(it.request))),
    ("check_running", |it| alarms::check_running(it.broker).map(|_| running(it.request))),
    ("is_booting", |_| Ok(booting())),
    ("check_virtual_hosts", |_| {
        Ok(Answer::facts(format!("Node {NODE_NAME} reported all vhosts as running"), json!({"result": "ok"})))
    }),
    ("check_port_listener", |it| port_listener(it.node, it.request)),
    ("check_protocol_listener", |it| protocol_listener(it.node, it.request)),
    ("check_port_connectivity", |it| port_connectivity(it.node, it.request)),
    ("check_if_any_deprecated_features_are_used", |_| {
        Ok(Answer::message("Cluster reported no deprecated features in use"))
    }),
    ("check_if_node_is_quorum_critical", |it| cluster::check_critical(it.broker, it.node)),
    ("await_online_quorum_plus_one", |it| cluster::quorum_plus_one(it.broker, it.node)),
    ("certificates", |it| Ok(certificates::certificates(it.node))),
    ("check_certificate_expiration", |it| certificates::check_expiration(it.node, it.request)),
    ("reload_certificates", |it| certificates::reload(it.broker, it.node)),
    ("cipher_suites", |_| Ok(certificates::cipher_suites())),
    ("tls_versions", |_| Ok(certificates::versions())),
    ("status", |it| Ok(status::status(it.broker, it.node))),
    ("listeners", |it| Ok(listeners(it.node))),
    ("server_version", |it| Ok(value(&it.node.rabbitmq_version))),
    ("erlang_version", |it| Ok(value(&format!("none: Warren {} is a native program", it.node.version)))),
    ("environment", |it| Ok(Answer::facts(it.node.options.clone(), json!({"options": it.node.options})))),
    ("os_env", |_| Ok(environment_variables())),
    ("command_line_arguments", |_| Ok(Answer::message(&std::env::args().collect::<Vec<_>>().join(" ")))),
    ("log_location", |it| {
        Ok(Answer::facts(it.node.log_locations.join("\n"), json!({"paths": it.node.log_locations})))
    }),
    ("log_tail", |it| log_tail(it.node, it.request)),
    ("log_tail_stream", |it| log_after(it.node, it.request)),
    ("maybe_stuck", |it| Ok(maybe_stuck(it.broker))),
    ("memory_breakdown", |it| memory_breakdown(it.broker, it.request)),
    ("forget_cluster_node", |it| cluster::forget(it.broker, it.request)),
    ("cluster_status", |it| Ok(cluster::status(it.broker, it.node))),
    ("list_network_interfaces", |_| Ok(interfaces::listed())),
    ("node_health_check", |_| Ok(Answer::done())),
    ("rotate_logs", |_| {
        let text = "Error:\nThis command does not rotate logs anymore [deprecated]";
        Err(Failure::new(Exit::UNAVAILABLE, text))
    }),
    ("restart_vhost", |it| restart_vhost(it.broker, it.request)),
    ("list_feature_flags", |it| list_feature_flags(it.node, it.request)),
    ("enable_feature_flag", |it| enable_feature_flag(it.node, it.request)),
];

fn value(text: &str) -> Answer {
    Answer::facts(text.into(), json!({"value": text, "result": "ok"}))
}

fn running(request: &Request) -> Answer {
    let text = format!("RabbitMQ on node {NODE_NAME} is fully booted and running");
    let json = match request.command.as_str() {
        "is_running" => json!({"message": text, "result": true}),
        _ => json!({"message": text}),
    };
    Answer::facts(text, json)
}

pub(crate) fn booting() -> Answer {
    let text = format!(
        "RabbitMQ on node {NODE_NAME} is fully booted (check with is_running), stopped or has not started booting yet"
    );
    let json = json!({"message": text, "result": false});
    Answer::facts(text, json)
}

/// Asks every queue for a sign of life, for five seconds at most.
fn maybe_stuck(broker: &Broker) -> Answer {
    let queues: Vec<_> = broker.vhosts().into_iter().flat_map(|vhost| vhost.queues()).collect();
    let asked = queues.len();
    let stuck = unresponsive(queues, Duration::from_secs(5)).len();
    Answer::message(&format!("There are {asked} queues. {stuck} of them did not answer within 5000ms."))
}

/// Variables that this program reads.
fn environment_variables() -> Answer {
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| name.starts_with("WARREN_") || name.starts_with("RABBITMQ_"))
        .collect();
    let lines: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Answer::facts(lines.join("\n"), json!({"node": NODE_NAME, "result": "ok", "variables": variables}))
}

/// A vhost does not fail on its own: one that is there runs.
fn restart_vhost(broker: &Broker, request: &Request) -> Outcome {
    let vhost = request.vhost();
    if broker.vhost(vhost).is_none() {
        let text = format!(
            "Error:\nFailed to start vhost '{vhost}' on node '{NODE_NAME}'Reason: {{:no_such_vhost, \"{vhost}\"}}"
        );
        return Err(Failure::new(Exit::SOFTWARE, text));
    }
    let said = format!("Vhost '{vhost}' is already running on node '{NODE_NAME}'");
    Ok(Answer::facts(said.clone(), json!({"message": said})))
}

pub(crate) const FEATURE_FLAG_COLUMNS: [&str; 6] =
    ["name", "state", "stability", "provided_by", "desc", "doc_url"];

/// The columns are RabbitMQ's.
fn list_feature_flags(node: &Node, request: &Request) -> Outcome {
    type Flag = (FeatureFlag, &'static str);
    let known: [Column<Flag>; 6] = [
        ("name", |(flag, _)| flag.name.into()),
        ("state", |(_, state)| (*state).into()),
        ("stability", |_| "required".into()),
        ("provided_by", |_| "warren".into()),
        ("desc", |(flag, _)| flag.about.into()),
        ("doc_url", |_| "".into()),
    ];
    let flags = FEATURE_FLAGS.map(|flag| (flag, flag.state(node)));
    Ok(rows(&chosen(request, &known, &["name", "state"])?, flags))
}

/// RabbitMQ's guides for upgrades end with `enable_feature_flag all`. Flags are enabled by themselves as soon as all nodes have them.
fn enable_feature_flag(node: &Node, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let refused = |text| Failure::new(Exit::UNAVAILABLE, format!("Error:\n{text}"));
    enable_flag(node, name).map(|()| Answer::done()).map_err(refused)
}
