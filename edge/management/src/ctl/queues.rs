//! Queues and their consumers: listed, emptied, deleted. Refuses to know how queues hold messages.

use std::sync::Arc;
use std::time::Duration;

use broker::control::operator::DeleteConditions;
use broker::{Broker, Condition, Kind, Queue, QueueStats, Refused};
use serde_json::Value;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Outcome, arguments, refused, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::connections::pid;
use crate::resources::members::{self, nodes_of};
use crate::resources::node::NODE_NAME;
use crate::resources::policies::definition_object;
use crate::resources::values::{text, typed};

/// Queues asked for their contents before the first answer is awaited.
const BATCH: usize = 1024;

type Line = (Arc<Queue>, QueueStats);

pub(crate) const QUEUE_COLUMNS: &[Column<Line>] = &[
    ("name", |(it, _)| text(it.name())),
    ("vhost", |(it, _)| it.vhost_name().into()),
    ("durable", |(it, _)| it.is_durable().into()),
    ("auto_delete", |(it, _)| it.is_auto_delete().into()),
    ("exclusive", |(it, _)| it.exclusive_owner().is_some().into()),
    ("owner_pid", |(it, _)| it.exclusive_owner().map(|owner| pid(owner, 0)).unwrap_or_default().into()),
    ("arguments", |(it, _)| typed(it.arguments().as_table().raw())),
    ("policy", |(it, _)| it.policies().policy().map(|it| &*it.name).unwrap_or_default().into()),
    ("operator_policy", |(it, _)| {
        it.policies().operator_policy().map(|it| &*it.name).unwrap_or_default().into()
    }),
    ("effective_policy_definition", |(it, _)| definition_object(&it.policies().definition())),
    ("type", |(it, _)| it.queue_kind().name().into()),
    ("state", |(it, _)| state(it).into()),
    ("messages_ready", |(_, it)| it.ready.into()),
    ("messages_unacknowledged", |(_, it)| it.unacked.into()),
    ("messages", |(_, it)| (it.ready + it.unacked).into()),
    ("messages_persistent", |(_, it)| it.persistent.into()),
    ("message_bytes", |(_, it)| (it.ready_bytes + it.unacked_bytes).into()),
    ("message_bytes_ready", |(_, it)| it.ready_bytes.into()),
    ("message_bytes_unacknowledged", |(_, it)| it.unacked_bytes.into()),
    ("messages_ram", |(_, it)| it.in_memory.messages().into()),
    ("messages_ready_ram", |(_, it)| it.in_memory.ready.into()),
    ("messages_unacknowledged_ram", |(_, it)| it.in_memory.unacked.into()),
    ("message_bytes_ram", |(_, it)| it.in_memory.body_bytes.into()),
    ("message_bytes_persistent", |(_, it)| it.persistent_bytes.into()),
    ("memory", |(_, it)| it.memory_bytes.into()),
    ("disk_bytes", |(_, it)| it.segment_bytes.into()),
    ("disk_live_ratio", |(_, it)| live_ratio(it)),
    ("consumers", |(_, it)| it.consumers.len().into()),
    ("consumer_utilisation", |(_, it)| capacity(it)),
    ("consumer_capacity", |(_, it)| capacity(it)),
    ("head_message_timestamp", |(_, it)| it.head_timestamp_s.map_or("".into(), Value::from)),
    ("disk_reads", |(_, it)| it.totals.disk_reads.into()),
    ("disk_writes", |(_, it)| it.totals.disk_writes.into()),
    ("pid", |(it, _)| pid_of_queue(it).into()),
    ("leader", |(it, _)| nodes_of(it).leader.into()),
    ("members", |(it, _)| nodes_of(it).members.into()),
    ("online", |(it, _)| match it.queue_kind() {
        Kind::Classic => "".into(),
        Kind::Quorum | Kind::Stream => nodes_of(it).online.into(),
    }),
    // Warren's own.
    ("in_sync", |(it, _)| match it.queue_kind() {
        Kind::Quorum => nodes_of(it).in_sync.into(),
        Kind::Classic | Kind::Stream => "".into(),
    }),
    ("exclusive_consumer_pid", |(_, it)| exclusive_pid(it).into()),
    ("exclusive_consumer_tag", |(_, it)| text(it.exclusive_tag.as_deref().unwrap_or_default())),
    ("single_active_consumer_tag", |(_, it)| text(it.single_active_tag.as_deref().unwrap_or_default())),
];

/// For which part of the time consumers kept up; a whole 0 when there are none.
fn capacity(stats: &QueueStats) -> Value {
    if stats.consumers.is_empty() { 0.into() } else { stats.consumer_capacity.into() }
}

/// Which part of what a queue has on disk is of messages that are not settled; empty for a queue that has nothing there.
fn live_ratio(stats: &QueueStats) -> Value {
    match stats.segment_bytes {
        0 => "".into(),
        all => ((stats.live_disk_bytes.min(all) as f64 / all as f64 * 100.0).round() / 100.0).into(),
    }
}

/// What stands where RabbitMQ shows the process of a queue: the same as long as the queue has its name.
fn pid_of_queue(queue: &Queue) -> String {
    let name = [queue.vhost_name().as_bytes(), b"/", queue.name()].concat();
    let number = name.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    format!("<{NODE_NAME}.2.{number}.0>")
}

fn exclusive_pid(stats: &QueueStats) -> String {
    let tag = stats.exclusive_tag.as_deref();
    let holder = stats.consumers.iter().find(|it| tag == Some(&*it.spec.tag));
    holder.map(|it| pid(it.spec.id.connection, it.spec.channel)).unwrap_or_default()
}

/// Columns that are known without asking the queue.
pub(crate) const WITHOUT_CONTENTS: &[&str] = &[
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
    "pid",
    "leader",
    "members",
    "online",
    "in_sync",
];

/// RabbitMQ's word (B172).
fn state(queue: &Queue) -> &'static str {
    match queue.condition() {
        Condition::Running if !members::has_leader(queue) => "down",
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
        let answers = members::stats_of(batch).into_iter().map(Option::unwrap_or_default);
        lines.extend(batch.iter().cloned().zip(answers));
    }
    lines
}

/// Queues of a vhost by name.
pub(crate) fn list_queues(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, QUEUE_COLUMNS, &["name", "messages"])?;
    let offline = request.has("offline") && !request.has("online") && !request.has("local");
    let queues = if offline { Vec::new() } else { queues_of(broker, request.vhost()) };
    if columns.iter().all(|(name, _)| WITHOUT_CONTENTS.contains(name)) {
        return Ok(rows(&columns, queues.into_iter().map(|queue| (queue, QueueStats::default()))));
    }
    Ok(rows(&columns, with_contents(&queues)))
}

/// Queues that do not answer within `--queue-timeout` seconds (15), all asked at once.
pub(crate) fn list_unresponsive_queues(broker: &Broker, request: &Request) -> Outcome {
    let known: Vec<Column<Line>> =
        QUEUE_COLUMNS.iter().filter(|(name, _)| WITHOUT_CONTENTS.contains(name)).copied().collect();
    let columns = chosen(request, &known, &["name"])?;
    let text = request.options.get("queue-timeout").map_or("15", String::as_str);
    let seconds = text.parse::<u32>().map_err(|_| usage("--queue-timeout is a number of seconds"))?;
    let silent = unresponsive(queues_of(broker, request.vhost()), Duration::from_secs(seconds.into()));
    Ok(rows(&columns, silent.into_iter().map(|queue| (queue, QueueStats::default()))))
}

/// Those that do not answer in time. Only on a thread that may block.
pub(crate) fn unresponsive(queues: Vec<Arc<Queue>>, within: Duration) -> Vec<Arc<Queue>> {
    let asked: Vec<_> = queues.into_iter().map(|queue| (queue.stats(), queue)).collect();
    tokio::runtime::Handle::current().block_on(async {
        let end = tokio::time::Instant::now() + within;
        let mut silent = Vec::new();
        for (stats, queue) in asked {
            if tokio::time::timeout_at(end, stats).await.is_err() {
                silent.push(queue);
            }
        }
        silent
    })
}

/// A consumer of a queue.
pub(crate) struct Consumer {
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

pub(crate) const CONSUMER_COLUMNS: &[Column<Consumer>] = &[
    ("queue_name", |it| text(it.queue.name())),
    ("channel_pid", |it| pid(it.spec().id.connection, it.spec().channel).into()),
    ("consumer_tag", |it| text(&it.spec().tag)),
    ("ack_required", |it| it.spec().ack_required.into()),
    ("prefetch_count", |it| it.spec().prefetch.into()),
    ("active", |it| it.is_active().into()),
    ("activity_status", |it| it.activity().into()),
    ("exclusive", |it| it.spec().exclusive.into()),
    ("arguments", |it| typed(&it.spec().arguments)),
];

pub(crate) const CONSUMER_DEFAULTS: &[&str] =
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
fn not_deleted(problem: Refused, request: &Request) -> Failure {
    let why = match &problem {
        Refused::InUse(_) => "in use",
        Refused::NotEmpty(_) => "not empty",
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
