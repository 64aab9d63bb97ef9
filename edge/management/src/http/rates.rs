//! Counters of each kind of thing under RabbitMQ's names, with their rates. Refuses to know how rates are remembered.

use std::sync::Arc;

use broker::{
    Broker, ChannelInfo, ConnectionId, ConnectionInfo, Queue, QueueGlance, QueueTotals, TrafficTotals, Vhost,
};
use serde_json::{Map, Value};

use super::app::Inner;
use super::call::Call;
use super::samples::{Key, Range};
use crate::node::resident_bytes;

/// Names and values.
type Counters = Vec<(&'static str, u64)>;

/// What a request wants to know of the past.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ranges {
    lengths: Option<Range>,
    messages: Option<Range>,
    data: Option<Range>,
    node: Option<Range>,
}

impl Ranges {
    /// `lengths_age` and `lengths_incr`, and so on.
    pub(crate) fn of(call: &Call) -> Self {
        let range =
            |name: &str| Range::new(call.query(&format!("{name}_age")), call.query(&format!("{name}_incr")));
        Self {
            lengths: range("lengths"),
            messages: range("msg_rates"),
            data: range("data_rates"),
            node: range("node_stats"),
        }
    }
}

/// Whether anything was ever counted: RabbitMQ shows no statistics of what never had traffic.
fn is_quiet(counters: &[(&'static str, u64)]) -> bool {
    counters.iter().all(|(_, count)| *count == 0)
}

fn publishing(totals: &TrafficTotals) -> Counters {
    vec![
        ("publish", totals.published),
        ("confirm", totals.confirmed),
        ("return_unroutable", totals.returned),
        ("drop_unroutable", totals.dropped),
    ]
}

fn consuming(totals: &TrafficTotals) -> Counters {
    vec![
        ("ack", totals.acked),
        ("deliver", totals.delivered),
        ("deliver_get", totals.handed_out()),
        ("deliver_no_ack", totals.delivered_no_ack),
        ("get", totals.got),
        ("get_empty", totals.got_empty),
        ("get_no_ack", totals.got_no_ack),
        ("redeliver", totals.redelivered),
    ]
}

fn traffic(totals: &TrafficTotals) -> Counters {
    [publishing(totals), consuming(totals)].concat()
}

fn of_queue(totals: &QueueTotals) -> Counters {
    vec![
        ("publish", totals.published),
        ("ack", totals.acked),
        ("deliver", totals.delivered),
        ("deliver_get", totals.delivered + totals.delivered_no_ack + totals.got + totals.got_no_ack),
        ("deliver_no_ack", totals.delivered_no_ack),
        ("get", totals.got),
        ("get_empty", totals.got_empty),
        ("get_no_ack", totals.got_no_ack),
        ("redeliver", totals.redelivered),
    ]
}

fn lengths(glance: &QueueGlance) -> [(&'static str, u64); 3] {
    [
        ("messages", glance.ready + glance.unacked),
        ("messages_ready", glance.ready),
        ("messages_unacknowledged", glance.unacked),
    ]
}

fn insert_stats(json: &mut Map<String, Value>, stats: Map<String, Value>) {
    json.insert("message_stats".into(), Value::Object(stats));
}

/// `message_stats` and the lengths of a queue.
pub(crate) fn add_queue(
    app: &Inner,
    json: &mut Map<String, Value>,
    queue: &Arc<Queue>,
    glance: &QueueGlance,
    ranges: Ranges,
) {
    let at = Arc::as_ptr(queue).addr();
    json.extend(app.samples.with_rates(Key::QueueLengths(at), &lengths(glance), ranges.lengths));
    let counters = of_queue(&glance.totals);
    if !is_quiet(&counters) {
        insert_stats(json, app.samples.with_rates(Key::Queue(at), &counters, ranges.messages));
    }
}

/// Bytes of a connection.
pub(crate) fn add_connection(
    app: &Inner,
    json: &mut Map<String, Value>,
    id: ConnectionId,
    info: &ConnectionInfo,
    ranges: Ranges,
) {
    let bytes = [("recv_oct", info.totals.received_bytes), ("send_oct", info.totals.sent_bytes)];
    json.extend(app.samples.with_rates(Key::Connection(id.0), &bytes, ranges.data));
}

/// `message_stats` of a channel: what it never did is not in them.
pub(crate) fn add_channel(
    app: &Inner,
    json: &mut Map<String, Value>,
    id: ConnectionId,
    info: &ChannelInfo,
    ranges: Ranges,
) {
    let (published, consumed) = (publishing(&info.traffic), consuming(&info.traffic));
    let (has_published, has_consumed) = (!is_quiet(&published), !is_quiet(&consumed));
    if !has_published && !has_consumed {
        return;
    }
    let mut stats =
        app.samples.with_rates(Key::Channel(id.0, info.number), &traffic(&info.traffic), ranges.messages);
    let unused = [(has_published, published), (has_consumed, consumed)];
    for (name, _) in unused.iter().filter(|(used, _)| !used).flat_map(|(_, counters)| counters) {
        stats.remove(*name);
        stats.remove(&format!("{name}_details"));
    }
    insert_stats(json, stats);
}

/// `message_stats`, bytes and lengths of a vhost.
pub(crate) fn add_vhost(call: &Call, json: &mut Map<String, Value>, vhost: &Arc<Vhost>, ranges: Ranges) {
    let app = &call.app;
    let totals = app.broker.vhost_traffic(vhost);
    let name: Arc<str> = vhost.name().into();
    let mut glance = QueueGlance::default();
    vhost.queues().iter().for_each(|queue| glance.add(&queue.glance()));
    let mut lengths: Counters = lengths(&glance).to_vec();
    lengths.extend([("recv_oct", totals.received_bytes), ("send_oct", totals.sent_bytes)]);
    json.extend(app.samples.with_rates(Key::VhostLengths(name.clone()), &lengths, ranges.lengths));
    let counters = traffic(&totals.traffic);
    if !is_quiet(&counters) {
        insert_stats(json, app.samples.with_rates(Key::Vhost(name), &counters, ranges.messages));
    }
}

/// `message_stats` of an exchange.
pub(crate) fn add_exchange(
    app: &Inner,
    json: &mut Map<String, Value>,
    id: u64,
    passage: &broker::Passage,
    ranges: Ranges,
) {
    let counters = [("publish_in", passage.arrived), ("publish_out", passage.left)];
    if !is_quiet(&counters) {
        insert_stats(json, app.samples.with_rates(Key::Exchange(id), &counters, ranges.messages));
    }
}

fn node_traffic(broker: &Broker, queues: &QueueTotals) -> Counters {
    let mut counters = traffic(&broker.traffic().traffic);
    counters.extend([("disk_reads", queues.disk_reads), ("disk_writes", queues.disk_writes)]);
    counters
}

fn churn(broker: &Broker) -> Counters {
    let churn = broker.churn();
    vec![
        ("connection_created", churn.connections_created),
        ("connection_closed", churn.connections_closed),
        ("channel_created", churn.channels_created),
        ("channel_closed", churn.channels_closed),
        ("queue_declared", churn.queues_declared),
        ("queue_created", churn.queues_created),
        ("queue_deleted", churn.queues_deleted),
    ]
}

/// What the overview shows of the node.
pub(crate) fn overview(call: &Call) -> [(&'static str, Map<String, Value>); 3] {
    let (app, ranges) = (&call.app, Ranges::of(call));
    let sums = app.broker.queue_sums();
    let counters = node_traffic(&app.broker, &sums.totals);
    let stats = match is_quiet(&counters) {
        true => Map::new(),
        false => app.samples.with_rates(Key::NodeTraffic, &counters, ranges.messages),
    };
    let churn = app.samples.with_rates(Key::NodeChurn, &churn(&app.broker), ranges.messages);
    let lengths = app.samples.with_rates(Key::NodeQueues, &lengths(&sums), ranges.lengths);
    [("message_stats", stats), ("churn_rates", churn), ("queue_totals", lengths)]
}

/// Counters of the page of a node: churn, and what the process uses.
pub(crate) fn node(call: &Call, used: &[(&'static str, u64)]) -> Map<String, Value> {
    let (app, ranges) = (&call.app, Ranges::of(call));
    let mut shown = app.samples.with_rates(Key::NodeChurn, &churn(&app.broker), ranges.node);
    shown.extend(app.samples.with_rates(Key::Process, used, ranges.node));
    shown
}

/// Queues up to which their sums are taken all the time; beyond, only while somebody looks.
const SUMMED_ALWAYS_MAX: usize = 10_000;

/// Takes the samples of the node.
pub(crate) fn sample(app: &Inner) {
    let broker = &app.broker;
    let queues: usize = broker.vhosts().iter().map(|vhost| vhost.queue_count()).sum();
    if queues <= SUMMED_ALWAYS_MAX || app.samples.is_watched(&Key::NodeQueues) {
        let sums = broker.queue_sums();
        app.samples.take(Key::NodeTraffic, &node_traffic(broker, &sums.totals));
        app.samples.take(Key::NodeQueues, &lengths(&sums));
    }
    app.samples.take(Key::NodeChurn, &churn(broker));
    let levels = broker.alarms().levels();
    let memory = levels.memory_used_bytes.unwrap_or_else(resident_bytes);
    let used = super::nodes::used(memory, levels.disk_free_bytes.unwrap_or(0));
    app.samples.take(Key::Process, &used);
}
