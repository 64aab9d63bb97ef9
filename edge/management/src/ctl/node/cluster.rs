//! Commands about the cluster as a whole.

use broker::Broker;
use broker::cluster::NodeName;
use serde_json::{Map, Value, json};

use super::listeners::{listener_lines, listener_objects};
use crate::ctl::commands::{Outcome, arguments};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::membership;
use crate::resources::node::cluster::{FEATURE_FLAGS, alarm_lines, is_critical, names};
use crate::resources::node::{NODE_NAME, Node};

/// RabbitMQ's page. Of other nodes it has what their links tell: names, whether they run, alarms.
pub(super) fn status(broker: &Broker, node: &Node) -> Answer {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let name = broker.cluster_name();
    let version = &node.rabbitmq_version;
    let (all, running) = (names(node, |_| true), names(node, |member| member.is_running));
    let alarms = [crate::resources::alarms::lines(broker), alarm_lines(node)].concat();
    let listeners: Vec<String> =
        listener_lines(node).lines().map(|line| format!("Node: {NODE_NAME}, i{}", &line[1..])).collect();
    let text = format!(
        "Basics\n\nCluster name: {name}\nTotal CPU cores available cluster-wide: {cores}\n\nDisk Nodes\n\n{}\n\n\
         Running Nodes\n\n{}\n\nVersions\n\n{NODE_NAME}: RabbitMQ {version} as Warren {}\n\nCPU Cores\n\n\
         Node: {NODE_NAME}, available CPU cores: {cores}\n\nMaintenance status\n\nNode: {NODE_NAME}, status: {}\n\nAlarms\n\n{}\n\nNetwork Partitions\n\n(none)\n\nListeners\n\n{}\n\nFeature flags\n\n(none)",
        all.join("\n"),
        running.join("\n"),
        node.version,
        node.maintenance.status(),
        if alarms.is_empty() { "(none)".into() } else { alarms.join("\n") },
        listeners.join("\n"),
    );
    let json = json!({
        "alarms": alarms,
        "cluster_name": *name,
        "cluster_tags": [],
        "cpu_cores": of_this_node(cores.into()),
        "disk_nodes": all,
        "feature_flags": FEATURE_FLAGS.map(|flag| json!({"name": flag.name, "state": flag.state(node)})),
        "listeners": of_this_node(listener_objects(node)),
        "maintenance_status": of_this_node(node.maintenance.status().into()),
        "partitions": {},
        "running_nodes": running,
        "versions": of_this_node(json!({"rabbitmq_name": "Warren", "rabbitmq_version": version, "erlang_version": ""})),
    });
    Answer::facts(text, json)
}

fn of_this_node(value: Value) -> Value {
    Value::Object(Map::from_iter([(NODE_NAME.into(), value)]))
}

/// Takes a node that is down out of the cluster for ever.
pub(super) fn forget(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let failed = |text: String| Failure::new(Exit::UNAVAILABLE, format!("Error:\n{text}"));
    let cluster = broker.cluster().ok_or_else(|| failed("this node belongs to no cluster".into()))?;
    let name = NodeName::new(name).map_err(|error| failed(error.to_string()))?;
    cluster.forget(name).wait().map_err(failed)?;
    Ok(Answer::done())
}

/// Whether the others could still decide without this node, and all quorum queues could still confirm.
pub(super) fn check_critical(broker: &Broker, node: &Node) -> Outcome {
    let queues = membership::critical(broker);
    check_with(node, queues.iter().map(|queue| membership::readable(queue)).collect())
}

/// The same, as it is now: the client asks again until the time is over.
pub(super) fn quorum_plus_one(broker: &Broker, node: &Node) -> Outcome {
    if is_critical(node).is_none() {
        return Ok(Answer::message(
            "Target node seems to be the only one in a single node cluster, the command does not apply",
        ));
    }
    check_critical(broker, node).map(|_| Answer::done())
}

fn check_with(node: &Node, mut needed_by: Vec<String>) -> Outcome {
    match is_critical(node) {
        None => {
            return Ok(Answer::message(&format!(
                "Node {NODE_NAME} seems to be the only one in a single node cluster, the check does not apply"
            )));
        }
        Some(false) => {}
        Some(true) => needed_by.push("rabbitmq_metadata".into()),
    }
    if needed_by.is_empty() {
        return Ok(Answer::message(&format!(
            "Node {NODE_NAME} reported no queues/streams with minimum quorum"
        )));
    }
    let line = |name: &String| format!("{name} would lose quorum if node {NODE_NAME} is stopped");
    let lines: Vec<String> = needed_by.iter().map(line).collect();
    Err(Failure::new(Exit::UNAVAILABLE, format!("Error:\n{}", lines.join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::node::cluster::tests::with_two;
    use crate::resources::node::tests::sample;

    #[test]
    fn whoever_is_needed_for_a_majority_is_critical() {
        let (node, net) = with_two();
        assert!(check_with(&node, Vec::new()).unwrap_err().error.contains("rabbitmq_metadata"));
        let own = broker::cluster::NodeName::new(&NODE_NAME).unwrap();
        net.heal(&own, &broker::cluster::NodeName::new("z@x").unwrap());
        assert!(check_with(&node, Vec::new()).is_ok());
        let error = check_with(&node, vec!["queue 'q' in vhost '/'".into()]).unwrap_err().error;
        assert!(error.contains("queue 'q' in vhost '/' would lose quorum"), "{error}");
        assert!(check_with(&sample(), Vec::new()).is_ok());
    }
}
