//! The node's status; queues emptied and deleted by an operator. Refuses to know how.

use std::sync::Arc;

use broker::control::operator::DeleteConditions;
use broker::{Broker, Queue};
use serde_json::json;

use crate::alarms;
use crate::commands::{Outcome, arguments, refused};
use crate::node::{NODE_NAME, Node, listener_lines, status_object};
use crate::protocol::{Answer, Exit, Failure, Request};
use crate::{plugins, stages};

/// What is running.
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
         Virtual host count: {}\nDelivery stalls: {}\n\n{}\n\nListeners\n\n{}",
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
        listener_lines(node),
    );
    let mut json = status_object(node);
    json["totals"] = json!({
        "connection_count": connections, "queue_count": queues, "virtual_host_count": vhosts.len(),
    });
    json["active_plugins"] = plugins.into();
    json["delivery_stalls"] = broker.delivery_stalls().into();
    json["stages"] = stages::status_entry(broker);
    for (name, value) in alarms::status_entries(broker) {
        json[name] = value;
    }
    Answer::Facts { text, json }
}

fn find(broker: &Broker, vhost: &str, queue: &str) -> Option<Arc<Queue>> {
    broker.vhost(vhost)?.queue(queue.as_bytes())
}

/// `--if-unused` and `--if-empty` as with queue.delete (B78).
pub(crate) fn delete_queue(broker: &Broker, request: &Request) -> Outcome {
    let [queue] = arguments(request)?;
    let missing = || Failure::new(Exit::USAGE, "Error:\nNo such queue was found");
    let queue = find(broker, request.vhost(), queue).ok_or_else(missing)?;
    let when = DeleteConditions { if_unused: request.has("if-unused"), if_empty: request.has("if-empty") };
    let deleted = queue.delete_by_operator(when).wait().map_err(|problem| not_deleted(problem, request))?;
    Ok(Answer::Done { ok: format!("Queue was successfully deleted with {} ready messages", deleted.ready) })
}

/// As the broker would tell a client (B78).
fn not_deleted(problem: broker::Refused, request: &Request) -> Failure {
    let why = match &problem {
        broker::Refused::InUse(_) => "in use",
        broker::Refused::NotEmpty(_) => "not empty",
        _ => return refused(problem),
    };
    let (queue, vhost) = (request.args.first().map_or("", String::as_str), request.vhost());
    let text = format!(
        "Error:\n{{:amqp_error, :precondition_failed, ~c\"queue '{queue}' in vhost '{vhost}' {why}\", :none}}"
    );
    Failure::new(Exit::UNAVAILABLE, text)
}

/// Ready messages only (B80).
pub(crate) fn purge_queue(broker: &Broker, request: &Request) -> Outcome {
    let [queue] = arguments(request)?;
    let missing = || Failure::new(Exit::DATA, "Object (queue, stream, exchange, etc) was not found");
    let queue = find(broker, request.vhost(), queue).ok_or_else(missing)?;
    queue.purge_by_operator().wait();
    Ok(Answer::done())
}
