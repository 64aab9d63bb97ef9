//! Commands about the cluster as a whole.

use broker::Broker;
use broker::cluster::NodeName;
use serde_json::{Map, Value, json};

use super::listeners::{line_of, object_of};
use crate::ctl::commands::{Outcome, arguments};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::membership;
use crate::resources::node::asking;
use crate::resources::node::cluster::{FEATURE_FLAGS, is_critical, names};
use crate::resources::node::described::{self, Described, DescribedListener, Description};
use crate::resources::node::{NODE_NAME, Node};

/// RabbitMQ's page. Nodes that are up describe themselves; one that does not answer has no listeners, and its maintenance status is unknown.
pub(super) fn status(broker: &Broker, node: &Node) -> Answer {
    let own = described::of_this_node(broker, node);
    let nodes = described::of_all(node, &own, &asking::ask_others(node, described::QUESTION));
    let disk_nodes = names(node, |_| true);
    Answer::facts(
        status_text(&broker.cluster_name(), node, &disk_nodes, &nodes),
        status_json(&broker.cluster_name(), node, &disk_nodes, &nodes),
    )
}

fn status_text(name: &str, node: &Node, disk_nodes: &[String], nodes: &[Described]) -> String {
    let total: usize = nodes.iter().map(cpu_cores).sum();
    let lines = |line: &dyn Fn(&Described) -> String| nodes.iter().map(line).collect::<Vec<_>>();
    let tags = node.tags.cluster.iter().map(|(tag, value)| format!("{tag}: {value}")).collect();
    let flags = FEATURE_FLAGS.iter().map(|flag| format!("Flag: {}, state: {}", flag.name, flag.state(node)));
    let sections = [
        ("Cluster Tags", tags),
        ("Disk Nodes", disk_nodes.to_vec()),
        ("Running Nodes", lines(&|it| it.name.clone())),
        ("Versions", lines(&version_line)),
        ("CPU Cores", lines(&|it| format!("Node: {}, available CPU cores: {}", it.name, cpu_cores(it)))),
        ("Maintenance status", lines(&|it| format!("Node: {}, status: {}", it.name, maintenance(it)))),
        ("Alarms", nodes.iter().flat_map(Described::alarms).collect()),
        ("Network Partitions", Vec::new()),
        ("Listeners", nodes.iter().flat_map(listener_lines).collect()),
        ("Feature flags", flags.collect()),
    ];
    let basics = format!("Basics\n\nCluster name: {name}\nTotal CPU cores available cluster-wide: {total}");
    sections.into_iter().fold(basics, |text, (title, lines)| {
        let lines = if lines.is_empty() { "(none)".into() } else { lines.join("\n") };
        format!("{text}\n\n{title}\n\n{lines}")
    })
}

fn status_json(name: &str, node: &Node, disk_nodes: &[String], nodes: &[Described]) -> Value {
    let by_node = |value: &dyn Fn(&Described) -> Value| {
        Value::Object(nodes.iter().map(|it| (it.name.clone(), value(it))).collect::<Map<_, _>>())
    };
    let tags = &node.tags.cluster;
    json!({
        "alarms": nodes.iter().flat_map(alarm_objects).collect::<Value>(),
        "cluster_name": name,
        "cluster_tags": if tags.is_empty() { json!([]) } else { json!(tags) },
        "cpu_cores": by_node(&|it| cpu_cores(it).into()),
        "disk_nodes": disk_nodes,
        "feature_flags": FEATURE_FLAGS.map(|flag| json!({"name": flag.name, "state": flag.state(node)})),
        "listeners": by_node(&|it| listeners(it).map(|that| object_of(&it.name, that.address, &that.protocol, &that.purpose)).collect()),
        "maintenance_status": by_node(&|it| maintenance(it).into()),
        "partitions": {},
        "running_nodes": nodes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        "versions": by_node(&version_object),
    })
}

fn cpu_cores(node: &Described) -> usize {
    node.said.as_ref().map_or(0, |said| said.cpu_cores)
}

fn maintenance(node: &Described) -> &str {
    node.said.as_ref().map_or("unknown", |said| &said.maintenance)
}

fn version_line(node: &Described) -> String {
    match &node.said {
        Some(said) => {
            format!("{}: RabbitMQ {} as Warren {}", node.name, said.rabbitmq_version, said.warren_version)
        }
        None => format!("{}: unknown", node.name),
    }
}

fn version_object(node: &Described) -> Value {
    let (name, version) = node.said.as_ref().map_or(("", ""), |said| ("Warren", &said.rabbitmq_version));
    json!({"rabbitmq_name": name, "rabbitmq_version": version, "erlang_version": ""})
}

fn listeners(node: &Described) -> impl Iterator<Item = &DescribedListener> {
    node.said.iter().flat_map(|said: &Description| &said.listeners)
}

fn listener_lines(node: &Described) -> Vec<String> {
    let line = |it: &DescribedListener| {
        format!("Node: {}, {}", node.name, line_of(it.address, &it.protocol, &it.purpose))
    };
    listeners(node).map(line).collect()
}

/// RabbitMQ's description of an alarm.
fn alarm_objects(node: &Described) -> Vec<Value> {
    let object = |resource| json!({"type": "resource_limit", "resource": resource, "node": node.name});
    node.short().into_iter().map(object).collect()
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
