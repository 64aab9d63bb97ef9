//! Resource alarms: shown, checked, and their thresholds moved. Knows RabbitMQ's texts and exit codes.

use std::sync::Arc;

use broker::cluster::peers::Vitals;
use broker::{Broker, Queue, Raised};

/// This node, in texts.
pub(crate) const NODE: crate::resources::node::OwnName = crate::resources::node::NODE_NAME;

/// The meaning of the disk alarm for messages that die, and ways to free room.
pub(crate) const LETTERS_WAIT: &str =
    "nothing is dead-lettered until it clears; consume, purge or delete queues, or lower disk_free_limit";

/// One line for each alarm that is on, in RabbitMQ's order and words; failed storage has words of our own.
pub(crate) fn lines(broker: &Broker) -> Vec<String> {
    let mut lines = lines_of(broker.alarms().raised(), broker.alarms().storage_failure());
    lines.extend(waiting(broker));
    lines
}

/// The queues that have messages to dead-letter, or that are due, when the disk alarm is off; `None` when there are none.
pub(crate) fn waiting(broker: &Broker) -> Option<String> {
    const NAMED_MAX: usize = 5;
    let queues = broker.queues_waiting_for_disk();
    let messages: u64 = queues.iter().map(|(_, count)| count).sum();
    let name = |(queue, count): &(Arc<Queue>, u64)| {
        let name = String::from_utf8_lossy(queue.name());
        format!("{count} in '{name}' of vhost '{}'", queue.vhost_name())
    };
    let mut named: Vec<String> = queues.iter().take(NAMED_MAX).map(name).collect();
    if queues.len() > NAMED_MAX {
        named.push(format!("{} other queues", queues.len() - NAMED_MAX));
    }
    (!queues.is_empty()).then(|| {
        let names = named.join(", ");
        format!("Up to {messages} messages of node {NODE} wait for the disk alarm ({names}): {LETTERS_WAIT}")
    })
}

/// The alarms of another node, as its link tells them.
pub(crate) fn lines_of_node(name: &str, vitals: Vitals) -> Vec<String> {
    let disk = vitals.is_disk_short.then(|| format!("Free disk space alarm on node {name}"));
    let memory = vitals.is_memory_short.then(|| format!("Memory alarm on node {name}"));
    disk.into_iter().chain(memory).collect()
}

pub(crate) fn lines_of(raised: Raised, storage_failure: Option<String>) -> Vec<String> {
    let mut lines = Vec::new();
    if raised.has(Raised::DISK) {
        lines.push(format!("Free disk space alarm on node {NODE}"));
    }
    if raised.has(Raised::MEMORY) {
        lines.push(format!("Memory alarm on node {NODE}"));
    }
    if let Some(why) = storage_failure {
        lines.push(format!("Storage has failed on node {NODE}, restart it once the disk is healthy: {why}"));
    }
    lines
}

/// Why the node does not do its work: its storage has failed.
pub(crate) fn failure(broker: &Broker) -> Option<String> {
    let why = broker.alarms().storage_failure()?;
    Some(format!("Storage has failed on node {NODE}: {why}"))
}
