//! Metrics of queues. Refuses to know pages.

use std::io;
use std::sync::Arc;

use broker::{Queue, QueueGlance};

use super::families::Asked;
use super::metric::{Metric, counter, deliveries, gauge, share, write_objects};
use super::page::{Kind, Page, labels};

pub(crate) const COARSE: &[Metric<QueueGlance>] = &[
    gauge("queue_messages_ready", "Messages that wait for a consumer", |it| it.ready as f64),
    gauge("queue_messages_unacked", "Messages delivered and not settled", |it| it.unacked as f64),
    gauge("queue_messages", "Messages ready and unacked", |it| (it.ready + it.unacked) as f64),
];

pub(crate) const CONSUMERS: &[Metric<QueueGlance>] =
    &[gauge("queue_consumers", "Consumers of the queue", |it| f64::from(it.consumers))];

pub(crate) const DETAILS: &[Metric<QueueGlance>] = &[
    gauge("queue_consumers", "Consumers of the queue", |it| f64::from(it.consumers)),
    share(
        "queue_consumer_capacity",
        "Part of the latest seconds in which a consumer could have taken a message",
        |it| it.consumer_capacity,
    ),
    share("queue_consumer_utilisation", "The same as queue_consumer_capacity", |it| it.consumer_capacity),
    share(
        "queue_head_message_timestamp",
        "Timestamp of the first message in memory or of the oldest unacked one, seconds, where they have one",
        |it| it.head_timestamp_s.map_or(f64::NAN, |at_s| at_s as f64),
    ),
    gauge("queue_process_memory_bytes", "Bytes of messages in memory", |it| it.memory_bytes as f64),
    gauge("queue_messages_ram", "Messages in memory", |it| it.in_memory.messages() as f64),
    gauge("queue_messages_ram_bytes", "Bytes of bodies in memory", |it| it.in_memory.body_bytes as f64),
    gauge("queue_messages_ready_ram", "Ready messages in memory", |it| it.in_memory.ready as f64),
    gauge("queue_messages_unacked_ram", "Unacked messages in memory", |it| it.in_memory.unacked as f64),
    gauge("queue_messages_persistent", "Persistent messages", |it| it.persistent as f64),
    gauge("queue_messages_persistent_bytes", "Bytes of the bodies of persistent messages", |it| {
        it.persistent_bytes as f64
    }),
    gauge("queue_messages_bytes", "Bytes of the bodies of all messages", |it| {
        (it.ready_bytes + it.unacked_bytes) as f64
    }),
    gauge("queue_messages_ready_bytes", "Bytes of the bodies of ready messages", |it| it.ready_bytes as f64),
    gauge("queue_messages_unacked_bytes", "Bytes of the bodies of unacked messages", |it| {
        it.unacked_bytes as f64
    }),
    counter("queue_disk_reads_total", "Messages read back from segments", |it| it.totals.disk_reads as f64),
    counter("queue_disk_writes_total", "Messages written to the log and to segments", |it| {
        it.totals.disk_writes as f64
    }),
];

pub(crate) const DELIVERIES: &[Metric<QueueGlance>] = deliveries!("queue_", totals.deliveries);

/// Messages that came into queues. RabbitMQ tells them apart by channel and exchange too.
pub(crate) const PUBLISHES: &[Metric<QueueGlance>] =
    &[counter("queue_messages_published_total", "Messages that exchanges brought to queues", |it| {
        it.totals.published as f64
    })];

/// Metrics that RabbitMQ does not have: why messages left.
pub(crate) const LOSSES: &[Metric<QueueGlance>] = &[
    counter("queue_messages_expired_total", "Messages whose time to live ran out", |it| {
        it.totals.expired as f64
    }),
    counter("queue_messages_rejected_total", "Messages rejected without requeue", |it| {
        it.totals.rejected as f64
    }),
    counter("queue_messages_dropped_total", "Messages dropped or refused by a length limit", |it| {
        it.totals.dropped as f64
    }),
    gauge("queue_disk_bytes", "Bytes of messages in segments", |it| it.disk_bytes as f64),
    gauge("queue_disk_live_bytes", "Of those, bytes of messages that are not settled", |it| {
        it.live_disk_bytes as f64
    }),
];

fn labels_of(queue: &Queue) -> String {
    labels(&[("vhost", queue.vhost_name().as_bytes()), ("queue", queue.name())])
}

/// A sample per metric and queue.
pub(crate) fn each(
    asked: &Asked<'_>,
    page: &mut Page<'_>,
    metrics: &[Metric<QueueGlance>],
) -> io::Result<()> {
    let queues = asked.queues();
    write_objects(page, metrics, queues.iter().map(|queue| (labels_of(queue), queue.glance())))
}

/// As [`each`], under the labels that RabbitMQ has where the exchange is told too.
pub(crate) fn each_published(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let queues = asked.queues();
    let of =
        |queue: &Queue| labels(&[("queue_vhost", queue.vhost_name().as_bytes()), ("queue", queue.name())]);
    write_objects(page, PUBLISHES, queues.iter().map(|queue| (of(queue), queue.glance())))
}

/// Facts about each queue.
pub(crate) fn infos(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.head("queue_info", Kind::Gauge, "Type of the queue and what the node is to it")?;
    for queue in asked.queues() {
        let module = queue.queue_kind().module();
        let facts = format!("{},queue_type=\"{module}\",membership=\"leader\"", labels_of(&queue));
        page.sample("queue_info", &facts, 1.0)?;
    }
    Ok(())
}

/// Queues in the order of their names.
pub(crate) fn sorted(mut queues: Vec<Arc<Queue>>) -> Vec<Arc<Queue>> {
    queues.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    queues
}
