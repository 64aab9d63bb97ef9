//! Metrics that stand on every page or on none but the first: identity of the node, alarms, totals, messages per protocol.

use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;

use broker::{Broker, Raised, SIZE_CLASSES, TrafficTotals};

use super::clients::Channels;
use super::families::Asked;
use super::metric::{Metric, counter};
use super::page::{Kind, Page, labels};
use super::streams;
use crate::resources::node::NODE_NAME;
use crate::resources::node::cluster::members;
use crate::resources::parameters::{CLUSTER_ID, global_text};

/// The label of what came over AMQP 0-9-1.
const AMQP: &str = "protocol=\"amqp091\"";

/// The value of that label of the stream protocol.
const STREAM: &str = "stream";

/// Further labels of what queues gave or took, whatever their type.
const QUEUES: &str = ",queue_type=\"rabbit_classic_queue\"";

/// As [`QUEUES`], of a protocol that has streams only.
const STREAMS: &str = ",queue_type=\"rabbit_stream_queue\"";

/// Further labels of the rest.
const NONE: &str = "";

/// The counters, and their labels beside the protocol.
const PASSED: &[(Metric<TrafficTotals>, &str)] = &[
    (counter("messages_received_total", "Messages from publishers", |it| it.published as f64), NONE),
    (
        counter("messages_received_confirm_total", "Messages from publishers that want confirms", |it| {
            it.published_for_confirm as f64
        }),
        NONE,
    ),
    (counter("messages_routed_total", "Messages that went to queues", |it| it.routed() as f64), NONE),
    (
        counter("messages_unroutable_returned_total", "Mandatory messages that went nowhere", |it| {
            it.returned as f64
        }),
        NONE,
    ),
    (
        counter("messages_unroutable_dropped_total", "Other messages that went nowhere", |it| {
            it.dropped as f64
        }),
        NONE,
    ),
    (counter("messages_confirmed_total", "Publishes confirmed", |it| it.confirmed as f64), NONE),
    (
        counter("messages_delivered_total", "Messages given to clients", |it| {
            it.deliveries.handed_out() as f64
        }),
        QUEUES,
    ),
    (
        counter("messages_delivered_consume_manual_ack_total", "Deliveries to consumers that ack", |it| {
            it.deliveries.delivered as f64
        }),
        QUEUES,
    ),
    (
        counter(
            "messages_delivered_consume_auto_ack_total",
            "Deliveries to consumers that do not ack",
            |it| it.deliveries.delivered_no_ack as f64,
        ),
        QUEUES,
    ),
    (
        counter(
            "messages_delivered_get_manual_ack_total",
            "Messages fetched with basic.get, to be acked",
            |it| it.deliveries.got as f64,
        ),
        QUEUES,
    ),
    (
        counter(
            "messages_delivered_get_auto_ack_total",
            "Messages fetched with basic.get without ack",
            |it| it.deliveries.got_no_ack as f64,
        ),
        QUEUES,
    ),
    (
        counter("messages_get_empty_total", "basic.get that found nothing", |it| {
            it.deliveries.got_empty as f64
        }),
        QUEUES,
    ),
    (
        counter("messages_redelivered_total", "Deliveries of messages delivered before", |it| {
            it.deliveries.redelivered as f64
        }),
        QUEUES,
    ),
    (counter("messages_acknowledged_total", "Deliveries acked", |it| it.deliveries.acked as f64), QUEUES),
];

/// RabbitMQ's label of a protocol that listings call so; `None` for one that has none.
fn label(shown: &str) -> Option<&'static str> {
    Some(match shown {
        "AMQP 0-9-1" | "Direct 0-9-1" => "amqp091",
        "AMQP 1-0" => "amqp10",
        "MQTT 3-1" | "Web MQTT 3-1" => "mqtt310",
        "MQTT 3-1-1" | "Web MQTT 3-1-1" => "mqtt311",
        "MQTT 5-0" | "Web MQTT 5-0" => "mqtt50",
        _ if shown.trim_start_matches("Web ").starts_with("STOMP ") => "stomp",
        _ if shown.starts_with(STREAM) => STREAM,
        _ => return None,
    })
}

/// Messages that have passed since the start.
pub(crate) fn passed(asked: &Asked<'_>, page: &mut Page<'_>, channels: &Channels) -> io::Result<()> {
    let before = page.set_prefix("rabbitmq_global_");
    let mut sums = BTreeMap::from([("amqp091", TrafficTotals::default())]);
    for (shown, totals) in asked.broker.traffic_by_protocol() {
        if let Some(label) = label(shown) {
            *sums.entry(label).or_default() += &totals.traffic;
        }
    }
    for (metric, further) in PASSED {
        page.head(metric.name, metric.kind, metric.help)?;
        for (protocol, traffic) in &sums {
            let further = if *protocol == STREAM && *further == QUEUES { STREAMS } else { further };
            let of = format!("protocol=\"{protocol}\"{further}");
            page.sample(metric.name, &of, (metric.value)(traffic))?;
        }
    }
    let (publishers, consumers) = streams::users(asked.broker);
    for (name, help, count, of_streams) in [
        ("publishers", "Channels and publishers of streams that publish", channels.publishers, publishers),
        ("consumers", "Consumers", channels.sum.consumer_count as u64, consumers),
    ] {
        page.head(name, Kind::Gauge, help)?;
        page.sample(name, AMQP, count as f64)?;
        if sums.contains_key(STREAM) {
            page.sample(name, "protocol=\"stream\"", of_streams as f64)?;
        }
    }
    if sums.contains_key(STREAM) {
        streams::errors(asked.broker, page)?;
    }
    dead_letters(asked, page)?;
    page.set_prefix(before);
    sizes(asked.broker, page)
}

/// Messages that died, by whether they had somewhere to go.
fn dead_letters(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let (totals, sent) = (&asked.queue_sum().totals, asked.broker.dead_lettered());
    let sent_of_limit = sent.failed;
    for (name, help, died, sent) in [
        ("messages_dead_lettered_expired_total", "Messages that expired", totals.expired, sent.expired),
        ("messages_dead_lettered_rejected_total", "Messages rejected", totals.rejected, sent.rejected),
        (
            "messages_dead_lettered_maxlen_total",
            "Messages dropped or refused by a length limit",
            totals.dropped,
            sent.dropped,
        ),
    ] {
        page.head(name, Kind::Counter, help)?;
        for (strategy, count) in [("at_most_once", sent), ("disabled", died.saturating_sub(sent))] {
            let of = format!("queue_type=\"rabbit_classic_queue\",dead_letter_strategy=\"{strategy}\"");
            page.sample(name, &of, count as f64)?;
        }
    }
    page.head(
        "messages_dead_lettered_delivery_limit_total",
        Kind::Counter,
        "Messages that failed more often than their queue lets them",
    )?;
    let of = "queue_type=\"rabbit_quorum_queue\",dead_letter_strategy=\"at_most_once\"";
    page.sample("messages_dead_lettered_delivery_limit_total", of, sent_of_limit as f64)
}

fn sizes(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    let sizes = broker.message_sizes();
    page.head("message_size_bytes", Kind::Histogram, "Sizes of the bodies of messages from publishers")?;
    let mut count = 0;
    let bounds = SIZE_CLASSES.iter().map(u64::to_string).chain(["+Inf".to_owned()]);
    for (bound, in_class) in bounds.zip(sizes.counts) {
        count += in_class;
        page.sample("message_size_bytes_bucket", &format!("{AMQP},le=\"{bound}\""), count as f64)?;
    }
    page.sample("message_size_bytes_count", AMQP, count as f64)?;
    page.sample("message_size_bytes_sum", AMQP, sizes.bytes as f64)
}

/// How many objects there are.
pub(crate) fn totals(asked: &Asked<'_>, page: &mut Page<'_>, channels: &Channels) -> io::Result<()> {
    let queues: usize = asked.broker.vhosts().iter().map(|vhost| vhost.queue_count()).sum();
    for (name, help, count) in [
        ("connections", "Open connections", asked.broker.connections().count() as u64),
        ("channels", "Open channels", channels.count),
        ("consumers", "Consumers", channels.sum.consumer_count as u64),
        ("queues", "Queues", queues as u64),
    ] {
        page.single(name, Kind::Gauge, help, count as f64)?;
    }
    Ok(())
}

/// The identity of the node and of the page: dashboards join the rest with it (B181).
pub(crate) fn identity(asked: &Asked<'_>, page: &mut Page<'_>, endpoint: &str) -> io::Result<()> {
    let before = page.set_prefix("rabbitmq_");
    let version = asked.node.rabbitmq_version.as_bytes();
    page.head("build_info", Kind::Untyped, "Versions")?;
    let build = labels(&[
        ("rabbitmq_version", version),
        ("prometheus_plugin_version", version),
        ("prometheus_client_version", b"none"),
        ("erlang_version", b"none"),
        ("product_name", b"Warren"),
        ("product_version", asked.node.version.as_bytes()),
    ]);
    page.sample("build_info", &build, 1.0)?;
    page.head("identity_info", Kind::Untyped, "The node and its cluster")?;
    let cluster_id = global_text(asked.broker, CLUSTER_ID).unwrap_or_default();
    let identity = labels(&[
        ("rabbitmq_node", NODE_NAME.as_bytes()),
        ("rabbitmq_cluster", asked.broker.cluster_name().as_bytes()),
        ("rabbitmq_cluster_permanent_id", cluster_id.as_bytes()),
        ("rabbitmq_endpoint", endpoint.as_bytes()),
    ]);
    page.sample("identity_info", &identity, 1.0)?;
    page.set_prefix(before);
    Ok(())
}

/// Alarms, and when the process began.
pub(crate) fn alarms(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let raised = asked.broker.alarms().raised();
    for (name, help, alarm) in [
        ("alarms_free_disk_space_watermark", "1 while too little disk space is free", Raised::DISK),
        ("alarms_memory_used_watermark", "1 while too much memory is used", Raised::MEMORY),
    ] {
        page.single(name, Kind::Untyped, help, f64::from(u8::from(raised.has(alarm))))?;
    }
    let unreachable = members(asked.node).iter().filter(|member| !member.is_running).count();
    page.single(
        "unreachable_cluster_peers_count",
        Kind::Gauge,
        "Nodes that cannot be reached",
        unreachable as f64,
    )?;
    let before = page.set_prefix("warren_");
    let failed = raised.has(Raised::STORAGE_FAILED);
    page.single("storage_failed", Kind::Gauge, "1 after a sync has failed", f64::from(u8::from(failed)))?;
    let help =
        "Times a queue delivered nothing for long though messages were ready and a consumer could take them";
    page.single("delivery_stalls_total", Kind::Counter, help, asked.broker.delivery_stalls() as f64)?;
    let storage = asked.broker.storage_state();
    let help = "Bytes of messages in segments of all queues that are not settled";
    page.single("segments_live_bytes", Kind::Gauge, help, storage.segment_live_bytes as f64)?;
    let help = "Other bytes there: they go when they are too many";
    page.single("segments_dead_bytes", Kind::Gauge, help, storage.segment_dead_bytes as f64)?;
    page.set_prefix("");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let started_s = now.saturating_sub(asked.node.started.elapsed()).as_secs();
    let help = "When the process began, seconds since 1970";
    page.single("process_start_time_seconds", Kind::Gauge, help, started_s as f64)?;
    page.set_prefix(before);
    Ok(())
}
