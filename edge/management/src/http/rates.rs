//! Counters of each kind of thing under RabbitMQ's names, with their rates. Refuses to know how rates are remembered.

use std::cmp::Reverse;
use std::sync::Arc;

use broker::{
    Broker, ChannelInfo, ConnectionId, ConnectionInfo, DeliveryTotals, Queue, QueueGlance, QueueTotals,
    TrafficTotals, Vhost,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::app::Inner;
use super::auth::{is_monitor, sees_vhost};
use super::call::Call;
use super::listing::Wanted;
use super::samples::{ALWAYS_MAX, Key, Range, Samples};
use crate::resources::node::resident_bytes;

/// Names and values.
type Counters = Vec<(&'static str, u64)>;

/// The wishes of a request about the past.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Ranges {
    lengths: Option<Range>,
    messages: Option<Range>,
    data: Option<Range>,
    node: Option<Range>,
}

/// Most steps of a range, as with RabbitMQ.
const RANGE_STEPS_MAX: i64 = 500;

impl Ranges {
    /// The fault of the ranges asked for, in RabbitMQ's words; a value that is no number does not count.
    pub(crate) fn problem(call: &Call) -> Option<String> {
        ["lengths", "msg_rates", "data_rates", "node_stats"].iter().find_map(|name| {
            let number = |part: &str| call.query(&format!("{name}_{part}"))?.parse::<i64>().ok();
            let (age, step) = (number("age")?, number("incr")?);
            let is_fine = age > 0 && step > 0 && age / step <= RANGE_STEPS_MAX;
            (!is_fine).then(|| format!("Invalid range parameters: age {age}, incr {step}"))
        })
    }

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

fn consuming(totals: &DeliveryTotals) -> Counters {
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
    [publishing(totals), consuming(&totals.deliveries)].concat()
}

fn of_queue(totals: &QueueTotals) -> Counters {
    let mut counters = consuming(&totals.deliveries);
    counters.push(("publish", totals.published));
    counters
}

fn lengths(glance: &QueueGlance) -> [(&'static str, u64); 3] {
    [
        ("messages", glance.ready + glance.unacked),
        ("messages_ready", glance.ready),
        ("messages_unacknowledged", glance.unacked),
    ]
}

/// `message_stats`, unless there never was anything to count; a first sample is taken all the same.
fn insert_stats(
    app: &Inner,
    json: &mut Map<String, Value>,
    key: Key,
    counters: &[(&'static str, u64)],
    range: Option<Range>,
) {
    let stats = app.samples.with_rates(key, counters, range);
    if !is_quiet(counters) {
        json.insert("message_stats".into(), Value::Object(stats));
    }
}

/// `message_stats` and the lengths of a queue.
pub(crate) fn add_queue(
    app: &Inner,
    json: &mut Map<String, Value>,
    queue: &Arc<Queue>,
    glance: &QueueGlance,
    wanted: &Wanted,
    ranges: Ranges,
) {
    let wants_rates = wanted.mentions("message_stats") || wanted.mentions("_details");
    if !wants_rates {
        json.extend(lengths(glance).map(|(name, length)| (name.to_owned(), length.into())));
        return;
    }
    let at = queue.id().0;
    json.extend(app.samples.with_rates(Key::QueueLengths(at), &lengths(glance), ranges.lengths));
    insert_stats(app, json, Key::Queue(at), &of_queue(&glance.totals), ranges.messages);
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
    json.extend(app.samples.with_rates(Key::Connection(id.count), &bytes, ranges.data));
}

/// `message_stats` of a channel, without operations that it never did.
pub(crate) fn add_channel(
    app: &Inner,
    json: &mut Map<String, Value>,
    id: ConnectionId,
    info: &ChannelInfo,
    ranges: Ranges,
) {
    let (published, consumed) = (publishing(&info.traffic), consuming(&info.traffic.deliveries));
    let (has_published, has_consumed) = (!is_quiet(&published), !is_quiet(&consumed));
    if !has_published && !has_consumed {
        return;
    }
    let mut stats =
        app.samples.with_rates(Key::Channel(id.count, info.number), &traffic(&info.traffic), ranges.messages);
    let unused = [(has_published, published), (has_consumed, consumed)];
    for (name, _) in unused.iter().filter(|(used, _)| !used).flat_map(|(_, counters)| counters) {
        stats.remove(*name);
        stats.remove(&format!("{name}_details"));
    }
    json.insert("message_stats".into(), Value::Object(stats));
}

/// `message_stats`, bytes and lengths of a vhost.
pub(crate) fn add_vhost(call: &Call, json: &mut Map<String, Value>, vhost: &Arc<Vhost>, ranges: Ranges) {
    let app = &call.app;
    let mut glance = QueueGlance::default();
    vhost.queues().iter().for_each(|queue| glance.add(&queue.glance()));
    let [(lengths_key, lengths), (key, traffic)] = of_vhost_now(&app.broker, vhost, &glance);
    json.extend(app.samples.with_rates(lengths_key, &lengths, ranges.lengths));
    insert_stats(app, json, key, &traffic, ranges.messages);
}

/// Counters of a vhost whose queues hold this together.
fn of_vhost_now(broker: &Broker, vhost: &Arc<Vhost>, glance: &QueueGlance) -> [(Key, Counters); 2] {
    let totals = broker.vhost_traffic(vhost);
    let name: Arc<str> = vhost.name().into();
    let mut lengths: Counters = lengths(glance).to_vec();
    lengths.extend([("recv_oct", totals.received_bytes), ("send_oct", totals.sent_bytes)]);
    [(Key::VhostLengths(name.clone()), lengths), (Key::Vhost(name), traffic(&totals.traffic))]
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
    insert_stats(app, json, Key::Exchange(id), &counters, ranges.messages);
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

/// Sums of the vhosts that a user sees who does not see the node.
fn seen(call: &Call) -> (Key, Key, QueueGlance, Counters) {
    let (mut sums, mut totals) = (QueueGlance::default(), TrafficTotals::default());
    let broker = call.broker();
    for vhost in broker.vhosts().iter().filter(|vhost| sees_vhost(&call.user, vhost.name())) {
        totals += &broker.vhost_traffic(vhost).traffic;
        vhost.queues().iter().for_each(|queue| sums.add(&queue.glance()));
    }
    let user: Arc<str> = (*call.user.name).into();
    (Key::Seen(user.clone()), Key::SeenQueues(user), sums, traffic(&totals))
}

/// The part of the overview about what this node counts.
pub(crate) fn overview(call: &Call) -> [(&'static str, Map<String, Value>); 3] {
    let (app, ranges) = (&call.app, Ranges::of(call));
    let (traffic_key, queues_key, sums, counters) = match is_monitor(&call.user) {
        true => {
            let sums = app.broker.queue_sums();
            let counters = node_traffic(&app.broker, &sums.totals);
            (Key::NodeTraffic, Key::NodeQueues, sums, counters)
        }
        false => seen(call),
    };
    let stats = match is_quiet(&counters) {
        true => Map::new(),
        false => app.samples.with_rates(traffic_key, &counters, ranges.messages),
    };
    let churn = app.samples.with_rates(Key::NodeChurn, &churn(&app.broker), ranges.messages);
    let lengths = app.samples.with_rates(queues_key, &lengths(&sums), ranges.lengths);
    [("message_stats", stats), ("churn_rates", churn), ("queue_totals", lengths)]
}

/// Counters of the page of a node: churn, and what the process uses.
pub(crate) fn node(call: &Call, used: &[(&'static str, u64)]) -> Map<String, Value> {
    let (app, ranges) = (&call.app, Ranges::of(call));
    let mut shown = app.samples.with_rates(Key::NodeChurn, &churn(&app.broker), ranges.node);
    shown.extend(app.samples.with_rates(Key::Process, used, ranges.node));
    shown
}

/// Objects of a kind up to which they are looked at all the time; beyond, only while somebody asks for them.
const LOOKED_AT_ALWAYS_MAX: usize = 10_000;

/// Objects with their keys, and how much they have done so far.
type Ranked<T> = Vec<(u64, Key, T)>;

/// All objects, or those that somebody looks at and the busiest ones, where there are too many to sample them all.
fn busiest<T>(samples: &Samples, mut all: Ranked<T>) -> Ranked<T> {
    if all.len() > ALWAYS_MAX {
        for (done, key, _) in &mut all {
            if samples.is_watched(key) {
                *done = u64::MAX;
            }
        }
        all.select_nth_unstable_by_key(ALWAYS_MAX, |(done, ..)| Reverse(*done));
        all.truncate(ALWAYS_MAX);
    }
    all
}

/// Counters of the objects that are sampled all the time.
fn objects(app: &Inner) -> Vec<(Key, Counters)> {
    let (broker, mut objects) = (&app.broker, Vec::new());
    let vhosts = broker.vhosts();
    if vhosts.iter().map(|vhost| vhost.queue_count()).sum::<usize>() <= LOOKED_AT_ALWAYS_MAX {
        let mut queues = Vec::new();
        for vhost in &vhosts {
            let of_vhost: Ranked<_> = vhost.queues().iter().map(of_glance).collect();
            if vhosts.len() <= ALWAYS_MAX {
                let mut sum = QueueGlance::default();
                of_vhost.iter().for_each(|(.., (_, glance))| sum.add(glance));
                objects.extend(of_vhost_now(broker, vhost, &sum));
            }
            queues.extend(of_vhost);
        }
        for (_, key, (id, glance)) in busiest(&app.samples, queues) {
            objects.push((Key::QueueLengths(id), lengths(&glance).to_vec()));
            objects.push((key, of_queue(&glance.totals)));
        }
    }
    let exchanges: Vec<_> = vhosts.iter().flat_map(|vhost| vhost.exchanges()).collect();
    if exchanges.len() <= LOOKED_AT_ALWAYS_MAX {
        let of = |(_, key, passage): (u64, Key, broker::Passage)| {
            (key, vec![("publish_in", passage.arrived), ("publish_out", passage.left)])
        };
        let ranked = exchanges.iter().map(|one| (one.id, one.passed.now()));
        let ranked = ranked.map(|(id, passage)| (passage.arrived, Key::Exchange(id), passage)).collect();
        objects.extend(busiest(&app.samples, ranked).into_iter().map(of));
    }
    if broker.connections().count() <= LOOKED_AT_ALWAYS_MAX {
        let all = broker.connections().all().into_iter().map(|(id, control)| (id, control.totals()));
        let ranked = all
            .map(|(id, totals)| {
                (totals.received_bytes + totals.sent_bytes, Key::Connection(id.count), totals)
            })
            .collect();
        for (_, key, totals) in busiest(&app.samples, ranked) {
            objects.push((key, vec![("recv_oct", totals.received_bytes), ("send_oct", totals.sent_bytes)]));
        }
    }
    objects
}

fn of_glance(queue: &Arc<Queue>) -> (u64, Key, (u64, QueueGlance)) {
    let (id, glance) = (queue.id().0, queue.glance());
    let done = glance.totals.published + glance.totals.deliveries.handed_out();
    (done, Key::Queue(id), (id, glance))
}

/// Takes the samples of the node, and of objects while there are few of them.
pub(crate) fn sample(app: &Inner) {
    let broker = &app.broker;
    app.samples.take_all(&objects(app));
    let queues: usize = broker.vhosts().iter().map(|vhost| vhost.queue_count()).sum();
    if queues <= LOOKED_AT_ALWAYS_MAX || app.samples.is_watched(&Key::NodeQueues) {
        let sums = broker.queue_sums();
        app.samples.take(Key::NodeTraffic, &node_traffic(broker, &sums.totals));
        app.samples.take(Key::NodeQueues, &lengths(&sums));
    }
    app.samples.take(Key::NodeChurn, &churn(broker));
    let levels = broker.alarms().levels();
    let memory = levels.memory_used_bytes.unwrap_or_else(resident_bytes);
    let used = super::node_facts::used(memory, levels.disk_free_bytes.unwrap_or(0));
    app.samples.take(Key::Process, &used);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_objects_those_that_somebody_looks_at_and_the_busiest_are_sampled() {
        let samples = Samples::default();
        drop(samples.with_rates(Key::Queue(0), &[("publish", 0)], None));
        let all: Ranked<()> = (0..=ALWAYS_MAX as u64).map(|id| (id, Key::Queue(id), ())).collect();
        let chosen: Vec<Key> = busiest(&samples, all.clone()).into_iter().map(|(_, key, ())| key).collect();
        assert_eq!(chosen.len(), ALWAYS_MAX);
        assert!(chosen.contains(&Key::Queue(0)), "somebody looks at it");
        assert!(!chosen.contains(&Key::Queue(1)), "it has done least of all others");
        assert_eq!(busiest(&samples, all[..ALWAYS_MAX].to_vec()).len(), ALWAYS_MAX);
    }
}
