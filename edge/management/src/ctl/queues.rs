//! Queues and their consumers: listed, emptied, deleted. Refuses to know how queues hold messages.

use std::sync::Arc;
use std::time::Duration;

use broker::control::operator::DeleteConditions;
use broker::{Broker, Kind, Queue, Refused};
use serde_json::Value;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Outcome, arguments, refused, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::connections::pid;
use crate::resources::consumers::ConsumerRow;
use crate::resources::members::nodes_of;
use crate::resources::node::NODE_NAME;
use crate::resources::queues::QueueRow;
use crate::resources::values::{text, typed};

pub(crate) const QUEUE_COLUMNS: &[Column<QueueRow>] = &[
    ("name", |it| it.name()),
    ("vhost", |it| it.queue.vhost_name().into()),
    ("durable", |it| it.queue.is_durable().into()),
    ("auto_delete", |it| it.queue.is_auto_delete().into()),
    ("exclusive", |it| it.queue.exclusive_owner().is_some().into()),
    ("owner_pid", |it| it.queue.exclusive_owner().map(|owner| pid(owner, 0)).unwrap_or_default().into()),
    ("arguments", |it| typed(it.queue.arguments().as_table().raw())),
    ("policy", |it| it.policy().unwrap_or_default().into()),
    ("operator_policy", |it| it.operator_policy().unwrap_or_default().into()),
    ("effective_policy_definition", |it| it.definition()),
    ("type", |it| it.queue.queue_kind().name().into()),
    ("state", |it| it.state().into()),
    ("messages_ready", |it| it.counts.ready.into()),
    ("messages_unacknowledged", |it| it.counts.unacked.into()),
    ("messages", |it| (it.counts.ready + it.counts.unacked).into()),
    ("messages_persistent", |it| it.counts.persistent.into()),
    ("message_bytes", |it| (it.counts.ready_bytes + it.counts.unacked_bytes).into()),
    ("message_bytes_ready", |it| it.counts.ready_bytes.into()),
    ("message_bytes_unacknowledged", |it| it.counts.unacked_bytes.into()),
    ("messages_ram", |it| it.counts.in_memory.messages().into()),
    ("messages_ready_ram", |it| it.counts.in_memory.ready.into()),
    ("messages_unacknowledged_ram", |it| it.counts.in_memory.unacked.into()),
    ("message_bytes_ram", |it| it.counts.in_memory.body_bytes.into()),
    ("message_bytes_persistent", |it| it.counts.persistent_bytes.into()),
    ("memory", |it| it.counts.memory_bytes.into()),
    ("disk_bytes", |it| it.disk_bytes().into()),
    ("disk_live_ratio", |it| {
        it.live_ratio().map_or("".into(), |part| ((part * 100.0).round() / 100.0).into())
    }),
    ("consumers", |it| it.counts.consumers.into()),
    ("consumer_utilisation", |it| it.capacity()),
    ("consumer_capacity", |it| it.capacity()),
    ("head_message_timestamp", |it| it.counts.head_timestamp_s.map_or("".into(), Value::from)),
    ("disk_reads", |it| it.counts.totals.disk_reads.into()),
    ("disk_writes", |it| it.counts.totals.disk_writes.into()),
    ("pid", |it| pid_of_queue(&it.queue).into()),
    ("leader", |it| nodes_of(&it.queue).leader.into()),
    ("members", |it| nodes_of(&it.queue).members.into()),
    ("online", |it| match it.queue.queue_kind() {
        Kind::Classic => "".into(),
        Kind::Quorum | Kind::Stream => nodes_of(&it.queue).online.into(),
    }),
    // Warren's own.
    ("in_sync", |it| match it.queue.queue_kind() {
        Kind::Quorum => nodes_of(&it.queue).in_sync.into(),
        Kind::Classic | Kind::Stream => "".into(),
    }),
    ("exclusive_consumer_pid", |it| exclusive_pid(it).into()),
    ("exclusive_consumer_tag", |it| text(it.exclusive_tag().unwrap_or_default())),
    ("single_active_consumer_tag", |it| text(it.single_active_tag().unwrap_or_default())),
];

/// The stand-in for RabbitMQ's process of a queue: the same as long as the queue has its name.
fn pid_of_queue(queue: &Queue) -> String {
    let name = [queue.vhost_name().as_bytes(), b"/", queue.name()].concat();
    let number = name.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    format!("<{NODE_NAME}.2.{number}.0>")
}

fn exclusive_pid(row: &QueueRow) -> String {
    let (Some(tag), Some(stats)) = (row.exclusive_tag(), &row.stats) else { return String::new() };
    let holder = stats.consumers.iter().find(|it| *it.spec.tag == *tag);
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

fn queues_of(broker: &Broker, vhost: &str) -> Vec<Arc<Queue>> {
    let mut all = broker.vhost(vhost).map(|vhost| vhost.queues()).unwrap_or_default();
    all.sort_by(|one, other| one.name().cmp(other.name()));
    all
}

/// Queues of a vhost by name.
pub(crate) fn list_queues(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, QUEUE_COLUMNS, &["name", "messages"])?;
    let offline = request.has("offline") && !request.has("online") && !request.has("local");
    let queues = if offline { Vec::new() } else { queues_of(broker, request.vhost()) };
    if columns.iter().all(|(name, _)| WITHOUT_CONTENTS.contains(name)) {
        return Ok(rows(&columns, queues.iter().map(QueueRow::unasked)));
    }
    Ok(rows(&columns, QueueRow::asked(&queues)))
}

/// Queues that do not answer within `--queue-timeout` seconds (15), all asked at once.
pub(crate) fn list_unresponsive_queues(broker: &Broker, request: &Request) -> Outcome {
    let known: Vec<Column<QueueRow>> =
        QUEUE_COLUMNS.iter().filter(|(name, _)| WITHOUT_CONTENTS.contains(name)).copied().collect();
    let columns = chosen(request, &known, &["name"])?;
    let text = request.options.get("queue-timeout").map_or("15", String::as_str);
    let seconds = text.parse::<u32>().map_err(|_| usage("--queue-timeout is a number of seconds"))?;
    let silent = unresponsive(queues_of(broker, request.vhost()), Duration::from_secs(seconds.into()));
    Ok(rows(&columns, silent.iter().map(QueueRow::unasked)))
}

/// The queues that do not answer in time. Only on a thread that may block.
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

pub(crate) const CONSUMER_COLUMNS: &[Column<ConsumerRow>] = &[
    ("queue_name", |it| text(it.queue.name())),
    ("channel_pid", |it| pid(it.spec.id.connection, it.spec.channel).into()),
    ("consumer_tag", |it| text(&it.spec.tag)),
    ("ack_required", |it| it.spec.ack_required.into()),
    ("prefetch_count", |it| it.spec.prefetch.into()),
    ("active", |it| it.is_active.into()),
    ("activity_status", |it| it.activity().into()),
    ("exclusive", |it| it.spec.exclusive.into()),
    ("arguments", |it| typed(&it.spec.arguments)),
];

pub(crate) const CONSUMER_DEFAULTS: &[&str] =
    &["queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments"];

/// Consumers of all queues of a vhost.
pub(crate) fn list_consumers(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, CONSUMER_COLUMNS, CONSUMER_DEFAULTS)?;
    Ok(rows(&columns, ConsumerRow::of_queues(&queues_of(broker, request.vhost()))))
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
