//! Lists of queues and of their consumers. Refuses to know how queues hold messages.

use std::sync::Arc;

use broker::{Broker, Condition, Queue, QueueStats};
use serde_json::Value;

use crate::columns::{Column, chosen, rows};
use crate::commands::Outcome;
use crate::connections::pid;
use crate::protocol::Request;
use crate::values::{table, text};

/// Queues asked for their contents before the first answer is awaited.
const BATCH: usize = 1024;

type Line = (Arc<Queue>, QueueStats);

const QUEUE_COLUMNS: &[Column<Line>] = &[
    ("name", |(it, _)| text(it.name())),
    ("vhost", |(it, _)| it.vhost_name().into()),
    ("durable", |(it, _)| it.is_durable().into()),
    ("auto_delete", |(it, _)| it.is_auto_delete().into()),
    ("exclusive", |(it, _)| it.exclusive_owner().is_some().into()),
    ("owner_pid", |(it, _)| it.exclusive_owner().map(|owner| pid(owner, 0)).unwrap_or_default().into()),
    ("arguments", |(it, _)| table(it.arguments().as_table().raw())),
    ("policy", |_| "".into()),
    ("operator_policy", |_| "".into()),
    ("effective_policy_definition", |_| Value::Array(Vec::new())),
    ("type", |_| "classic".into()),
    ("state", |(it, _)| state(it).into()),
    ("messages_ready", |(_, it)| it.ready.into()),
    ("messages_unacknowledged", |(_, it)| it.unacked.into()),
    ("messages", |(_, it)| (it.ready + it.unacked).into()),
    ("messages_persistent", |(_, it)| it.persistent.into()),
    ("message_bytes", |(_, it)| (it.ready_bytes + it.unacked_bytes).into()),
    ("message_bytes_ready", |(_, it)| it.ready_bytes.into()),
    ("message_bytes_unacknowledged", |(_, it)| it.unacked_bytes.into()),
    ("message_bytes_ram", |(_, it)| it.memory_bytes.into()),
    ("memory", |(_, it)| it.memory_bytes.into()),
    ("consumers", |(_, it)| it.consumers.len().into()),
    ("exclusive_consumer_tag", |(_, it)| text(it.exclusive_tag.as_deref().unwrap_or_default())),
    ("single_active_consumer_tag", |(_, it)| text(it.single_active_tag.as_deref().unwrap_or_default())),
];

/// Columns that are known without asking the queue.
const WITHOUT_CONTENTS: &[&str] = &[
    "name",
    "vhost",
    "durable",
    "auto_delete",
    "exclusive",
    "owner_pid",
    "arguments",
    "policy",
    "operator_policy",
    "effective_policy_definition",
    "type",
    "state",
];

/// RabbitMQ's word (B172).
fn state(queue: &Queue) -> &'static str {
    match queue.condition() {
        Condition::Running => "running",
        Condition::Deleted => "stopped",
        Condition::Crashed => "crashed",
    }
}

fn queues_of(broker: &Broker, vhost: &str) -> Vec<Arc<Queue>> {
    let mut all = broker.vhost(vhost).map(|vhost| vhost.queues()).unwrap_or_default();
    all.sort_by(|one, other| one.name().cmp(other.name()));
    all
}

fn with_contents(queues: &[Arc<Queue>]) -> Vec<Line> {
    let mut lines = Vec::with_capacity(queues.len());
    for batch in queues.chunks(BATCH) {
        let asked: Vec<_> = batch.iter().map(|queue| (queue, queue.stats())).collect();
        lines.extend(asked.into_iter().map(|(queue, stats)| (queue.clone(), stats.wait())));
    }
    lines
}

/// Queues of a vhost by name.
pub(crate) fn list_queues(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, QUEUE_COLUMNS, &["name", "messages"])?;
    let queues = queues_of(broker, request.vhost());
    if columns.iter().all(|(name, _)| WITHOUT_CONTENTS.contains(name)) {
        return Ok(rows(&columns, queues.into_iter().map(|queue| (queue, QueueStats::default()))));
    }
    Ok(rows(&columns, with_contents(&queues)))
}

/// A consumer of a queue.
struct Consumer {
    queue: Arc<Queue>,
    stats: Arc<QueueStats>,
    at: usize,
}

impl Consumer {
    fn spec(&self) -> &broker::ConsumerSpec {
        &self.stats.consumers[self.at].spec
    }

    fn is_active(&self) -> bool {
        self.stats.consumers[self.at].active
    }

    /// `up`, or with a single active consumer which of the two it is (B134).
    fn activity(&self) -> &'static str {
        match (&self.stats.single_active_tag, self.is_active()) {
            (None, true) => "up",
            (Some(_), true) => "single_active",
            (_, false) => "waiting",
        }
    }
}

const CONSUMER_COLUMNS: &[Column<Consumer>] = &[
    ("queue_name", |it| text(it.queue.name())),
    ("channel_pid", |it| pid(it.spec().id.connection, it.spec().channel).into()),
    ("consumer_tag", |it| text(&it.spec().tag)),
    ("ack_required", |it| it.spec().ack_required.into()),
    ("prefetch_count", |it| it.spec().prefetch.into()),
    ("active", |it| it.is_active().into()),
    ("activity_status", |it| it.activity().into()),
    ("exclusive", |it| it.spec().exclusive.into()),
    ("arguments", |it| table(&it.spec().arguments)),
];

const CONSUMER_DEFAULTS: &[&str] =
    &["queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments"];

/// Consumers of all queues of a vhost.
pub(crate) fn list_consumers(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, CONSUMER_COLUMNS, CONSUMER_DEFAULTS)?;
    let lines = with_contents(&queues_of(broker, request.vhost()));
    let consumers = lines.into_iter().flat_map(|(queue, stats)| {
        let stats = Arc::new(stats);
        (0..stats.consumers.len()).map(move |at| Consumer { queue: queue.clone(), stats: stats.clone(), at })
    });
    Ok(rows(&columns, consumers))
}
