//! The node's status; queues emptied and deleted by an operator. Refuses to know how.

use std::sync::Arc;

use broker::control::operator::DeleteConditions;
use broker::{Broker, Queue};

use crate::commands::{Outcome, arguments, refused};
use crate::protocol::{Answer, Exit, Failure, Request};

/// What is running, as text.
pub(crate) fn status(broker: &Broker) -> Answer {
    let vhosts = broker.vhosts();
    let queues: usize = vhosts.iter().map(|vhost| vhost.queue_count()).sum();
    let ok = format!(
        "Runtime\n\nOS PID: {}\nWarren version: {}\nCluster name: {}\n\n{}\n\nTotals\n\nConnection count: {}\n\
         Queue count: {queues}\nVirtual host count: {}",
        std::process::id(),
        env!("CARGO_PKG_VERSION"),
        broker.cluster_name(),
        crate::alarms::status(broker),
        broker.connections().count(),
        vhosts.len(),
    );
    Answer::Done { ok }
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
    let deleted = queue.delete_by_operator(when).wait().map_err(refused)?;
    Ok(Answer::Done { ok: format!("Queue was successfully deleted with {} ready messages", deleted.ready) })
}

/// Ready messages only (B80).
pub(crate) fn purge_queue(broker: &Broker, request: &Request) -> Outcome {
    let [queue] = arguments(request)?;
    let missing = || Failure::new(Exit::DATA, "Object (queue, stream, exchange, etc) was not found");
    let queue = find(broker, request.vhost(), queue).ok_or_else(missing)?;
    queue.purge_by_operator().wait();
    Ok(Answer::done())
}
