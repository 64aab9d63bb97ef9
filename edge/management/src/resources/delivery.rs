//! `explain_delivery`: why the consumers of a queue get messages or do not. Refuses to know how a queue delivers, and changes
//! nothing.

mod reasons;

use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Condition, ConnectionControl, Examined, Kind, Queue, StreamConsumer};
use serde::Serialize;

use crate::resources::{alarms, members};

/// How long a queue may take to answer before that is the explanation.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Consumers shown at most in text; JSON has all.
const CONSUMERS_SHOWN_MAX: usize = 100;

/// Queues named that hold messages where room is wanted.
const FULLEST_MAX: usize = 3;

/// Why a queue delivers or does not; see [`explain_delivery`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DeliveryExplanation {
    /// Its name.
    pub(crate) queue: String,
    /// Its vhost.
    pub(crate) vhost: String,
    /// `running`, `crashed`, `stopped`, `silent` when it did not answer in time, `elsewhere` when another node leads it, or `leaderless`.
    pub(crate) state: &'static str,
    /// The most important thing in one sentence.
    pub(crate) verdict: String,
    /// Messages that could be delivered.
    pub(crate) ready: u64,
    /// Messages delivered and not settled.
    pub(crate) unacked: u64,
    /// Messages that came, were delivered, acked and delivered again since the node started.
    pub(crate) published_total: u64,
    /// Deliveries since the node started.
    pub(crate) delivered_total: u64,
    /// Acks since the node started.
    pub(crate) acked_total: u64,
    /// Messages that left because their time to live was over, since the node started.
    pub(crate) expired_total: u64,
    /// Messages that a length limit dropped or refused, since the node started.
    pub(crate) dropped_total: u64,
    /// How long messages live in the queue at most, by argument or policy, milliseconds; each may say less for itself.
    pub(crate) message_ttl_ms: Option<u64>,
    /// Where the next message is: `none`, `memory` or `disk`.
    pub(crate) head: &'static str,
    /// Requests to the disk that have no answer yet.
    pub(crate) disk_requests: u32,
    /// For how long messages have waited though consumers could take them, milliseconds; 0 when they do not.
    pub(crate) stalled_ms: u64,
    /// For how long nothing was delivered though messages wait, milliseconds, before that is a fault too; 0 when they do not.
    pub(crate) still_ms: u64,
    /// Messages that are to be dead-lettered, or that are due, wait until a full disk has room for their copies.
    pub(crate) letters_await_room: bool,
    /// Then: the other queues of the vhost that hold the most messages, which is where room can be made, at most three.
    pub(crate) room_held_by: Vec<String>,
    /// Each consumer, in order of registration.
    pub(crate) consumers: Vec<ConsumerExplanation>,
    /// The things that publishers to this queue wait for; empty when they need not.
    pub(crate) publishers_held_by: Vec<&'static str>,
    /// Why a queue that several nodes have delivers nothing to anybody for now; `None` when it may deliver.
    pub(crate) delivery_waits_for: Option<String>,
    /// Nodes that publishers wait for before they get confirms, with what each lacks; of a queue that several nodes have.
    pub(crate) confirms_wait_for: Vec<String>,
    /// Nodes that have the queue and lack messages, with what each lacks. Publishers do not wait for them.
    pub(crate) members_behind: Vec<String>,
    /// Alarms that are on, in words.
    pub(crate) alarms: Vec<String>,
    /// The state of the message log.
    pub(crate) log: LogExplanation,
}

/// One consumer and what it waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ConsumerExplanation {
    /// Its tag.
    pub(crate) tag: String,
    /// Name of its connection; empty when that has just ended.
    pub(crate) connection: String,
    /// Its channel; 0 of the stream protocol.
    pub(crate) channel: u16,
    /// The id of its subscription, if it is one of the stream protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscription: Option<u8>,
    /// Chunks that it may be sent, if it is one of the stream protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credits: Option<u32>,
    /// Messages between it and the end of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset_lag: Option<u64>,
    /// Messages of a stream that it passed over, because they are in compressed batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skipped: Option<u64>,
    /// Deliveries it has not settled.
    pub(crate) unacked: u32,
    /// How many it may have unsettled; 0 is no limit.
    pub(crate) prefetch: u32,
    /// Whether it has to settle deliveries.
    pub(crate) ack_required: bool,
    /// It gets the next message, or would if there were one.
    pub(crate) is_served: bool,
    /// Why, as a word for programs: `in_line`, `prefetch_full`, `channel_prefetch_full`, `socket_full`, `large_messages`, `inactive`,
    /// `lower_priority`, `starting`, `gone`, `paused`, `no_credit`.
    pub(crate) reason: &'static str,
    /// Why, and what to do about it, for people.
    pub(crate) text: String,
}

/// The state of the message log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LogExplanation {
    /// The step that persistent messages wait for before they are confirmed: `fsync` or `write`.
    pub(crate) confirms_after: &'static str,
    /// Bytes that are not durable yet.
    pub(crate) pending_bytes: u64,
    /// Bytes of backlogs on their way to or from disk.
    pub(crate) segment_pending_bytes: u64,
    /// Why nothing gets written, or why storage has failed.
    pub(crate) problem: Option<String>,
}

/// Why a queue delivers or does not; none if there is no such vhost or queue. Blocks for at most five seconds; only on a thread of a
/// runtime that may.
pub(crate) fn explain_delivery(broker: &Broker, vhost: &str, queue: &str) -> Option<DeliveryExplanation> {
    let found = broker.vhost(vhost)?.queue(queue.as_bytes())?;
    if let Some((state, verdict)) = members::led_elsewhere(&found) {
        return Some(DeliveryExplanation { state, verdict, ..silent(broker, &found) });
    }
    let mut explained = match examine(&found) {
        Some(examined) => explain(broker, &found, &examined),
        None => silent(broker, &found),
    };
    explained.verdict = reasons::verdict(&explained);
    Some(explained)
}

fn examine(queue: &Arc<Queue>) -> Option<Examined> {
    let asked = queue.examine();
    tokio::runtime::Handle::current()
        .block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, asked).await.ok() })
}

fn explain(broker: &Broker, queue: &Queue, examined: &Examined) -> DeliveryExplanation {
    let stats = &examined.view.stats;
    let connections = broker.connections().all();
    let consumers = stats.consumers.iter().zip(&examined.holds).map(|(consumer, hold)| {
        let id = consumer.spec.id.connection;
        let control = connections.binary_search_by_key(&id, |(id, _)| *id).map(|at| &connections[at].1);
        let (reason, text) = reasons::of_consumer(consumer, *hold);
        ConsumerExplanation {
            tag: String::from_utf8_lossy(&consumer.spec.tag).into_owned(),
            connection: control.map(|control| control.info().name).unwrap_or_default(),
            channel: consumer.spec.channel,
            subscription: None,
            credits: None,
            offset_lag: consumer.in_stream.map(|place| place.behind),
            skipped: consumer.in_stream.map(|place| place.skipped),
            unacked: consumer.unacked,
            prefetch: consumer.spec.prefetch,
            ack_required: consumer.spec.ack_required,
            is_served: hold.could_be_served(),
            reason,
            text,
        }
    });
    let mut explained = DeliveryExplanation {
        state: match examined.condition {
            Condition::Running => "running",
            Condition::Deleted => "stopped",
            Condition::Crashed => "crashed",
        },
        ready: stats.ready,
        unacked: stats.unacked,
        published_total: stats.totals.published,
        delivered_total: stats.totals.deliveries.handed_out(),
        acked_total: stats.totals.deliveries.acked,
        expired_total: stats.totals.expired,
        dropped_total: stats.totals.dropped,
        message_ttl_ms: examined.view.message_ttl_ms,
        head: reasons::head(examined.view.head),
        disk_requests: examined.disk_requests,
        stalled_ms: examined.stalled_ms,
        still_ms: examined.still_ms,
        letters_await_room: examined.view.deaths_await_room,
        consumers: consumers.collect(),
        ..silent(broker, queue)
    };
    if queue.queue_kind() == Kind::Stream {
        let connections = connections.iter().map(|(_, control)| control);
        explained.consumers.extend(connections.flat_map(|control| of_protocol(&**control, queue)));
    }
    explained.publishers_held_by.extend(reasons::of_intake(examined.intake));
    if explained.letters_await_room {
        explained.room_held_by = fullest(broker, queue);
    }
    explained
}

/// Consumers of the stream protocol that a connection has on a stream.
fn of_protocol(control: &dyn ConnectionControl, queue: &Queue) -> Vec<ConsumerExplanation> {
    let mut consumers = control.stream_consumers();
    consumers.retain(|it| it.stream.as_bytes() == queue.name());
    if consumers.is_empty() {
        return Vec::new();
    }
    let info = control.info();
    if info.vhost != queue.vhost_name() {
        return Vec::new();
    }
    let explained = |it: StreamConsumer| {
        let (reason, text) = reasons::of_subscription(&it, info.send_pending_bytes);
        let name = it.properties.iter().find(|(key, _)| key == "name").map(|(_, name)| name.clone());
        ConsumerExplanation {
            tag: name.unwrap_or_else(|| format!("subscription {}", it.id)),
            connection: info.name.clone(),
            channel: 0,
            subscription: Some(it.id),
            credits: Some(it.credits),
            offset_lag: Some(it.offset_lag),
            skipped: None,
            unacked: 0,
            prefetch: 0,
            ack_required: false,
            is_served: reason == "in_line",
            reason,
            text,
        }
    };
    consumers.into_iter().map(explained).collect()
}

/// The queues of the same vhost beside this one that hold the most messages, with how many. The caller need not have rights on other
/// vhosts.
fn fullest(broker: &Broker, beside: &Queue) -> Vec<String> {
    let queues = broker.vhost(beside.vhost_name()).into_iter().flat_map(|vhost| vhost.queues());
    let others = queues.filter(|queue| queue.is_durable() && queue.id() != beside.id());
    let messages = |queue: Arc<Queue>| {
        let glance = queue.glance();
        (glance.ready + glance.unacked, queue)
    };
    let mut holding: Vec<(u64, Arc<Queue>)> = others.map(messages).filter(|(count, _)| *count > 0).collect();
    holding.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let line = |(count, queue): &(u64, Arc<Queue>)| {
        format!("'{}' ({count} messages)", String::from_utf8_lossy(queue.name()))
    };
    holding.iter().take(FULLEST_MAX).map(line).collect()
}

/// The facts that are known without an answer of the queue.
fn silent(broker: &Broker, queue: &Queue) -> DeliveryExplanation {
    let storage = broker.storage_state();
    DeliveryExplanation {
        queue: String::from_utf8_lossy(queue.name()).into_owned(),
        vhost: queue.vhost_name().to_owned(),
        state: "silent",
        verdict: String::new(),
        ready: 0,
        unacked: 0,
        published_total: 0,
        delivered_total: 0,
        acked_total: 0,
        expired_total: 0,
        dropped_total: 0,
        message_ttl_ms: None,
        head: "none",
        disk_requests: 0,
        stalled_ms: 0,
        still_ms: 0,
        letters_await_room: false,
        room_held_by: Vec::new(),
        consumers: Vec::new(),
        publishers_held_by: reasons::of_node(broker.alarms().raised(), &storage),
        delivery_waits_for: queue.delivery_waits_for(),
        confirms_wait_for: queue.confirms_wait_for(),
        members_behind: queue.members_behind(),
        alarms: alarms::lines(broker),
        log: LogExplanation {
            confirms_after: if storage.fsync { "fsync" } else { "write" },
            pending_bytes: storage.log_pending_bytes,
            segment_pending_bytes: storage.segment_pending_bytes,
            problem: storage.failure.or(storage.waits_for_room),
        },
    }
}

impl DeliveryExplanation {
    /// For people: the verdict, then what it rests on.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.verdict.clone(), String::new()];
        lines.push(format!("Queue '{}' in vhost '{}': {}", self.queue, self.vhost, self.state));
        if self.state == "running" {
            lines.push(format!(
                "  {} ready, {} unacked; since the node started {} came, {} deliveries, {} acks",
                self.ready, self.unacked, self.published_total, self.delivered_total, self.acked_total
            ));
            lines.extend(reasons::left_without_delivery(self).map(|it| format!("  {it}")));
            if self.head == "disk" {
                lines.push(format!(
                    "  the next message is on disk; {} requests to the disk are under way",
                    self.disk_requests
                ));
            }
        }
        lines.push(format!("Consumers: {}", self.consumers.len()));
        lines.extend(self.consumers.iter().take(CONSUMERS_SHOWN_MAX).map(ConsumerExplanation::line));
        if self.consumers.len() > CONSUMERS_SHOWN_MAX {
            lines.push(format!(
                "  and {} more (--formatter json lists all)",
                self.consumers.len() - CONSUMERS_SHOWN_MAX
            ));
        }
        let or_none = |words: String| if words.is_empty() { "none".to_owned() } else { words };
        let held = self.publishers_held_by.join(", ");
        lines.push(format!(
            "Publishers: {}",
            if held.is_empty() { "not held".into() } else { format!("held: {held}") }
        ));
        lines.extend(self.confirms_wait_for.iter().map(|it| format!("  confirms wait for {it}")));
        lines.extend(self.members_behind.iter().map(|it| format!("  not in sync: {it}")));
        lines.push(format!("Alarms: {}", or_none(self.alarms.join("; "))));
        lines.push(format!(
            "Log: persistent messages are confirmed after {}; {} bytes are not durable yet, {} bytes of backlogs on their way",
            self.log.confirms_after, self.log.pending_bytes, self.log.segment_pending_bytes
        ));
        if let Some(problem) = &self.log.problem {
            lines.push(format!("  {problem}"));
        }
        lines.join("\n")
    }
}

impl ConsumerExplanation {
    fn line(&self) -> String {
        let at = if self.connection.is_empty() { "a connection that has ended" } else { &self.connection };
        let place = match (self.offset_lag, self.skipped.unwrap_or(0)) {
            (None, _) => String::new(),
            (Some(lag), 0) => format!("; {lag} messages behind"),
            (Some(lag), skipped) => {
                format!("; {lag} messages behind; {skipped} in compressed batches were passed over")
            }
        };
        let way = self
            .subscription
            .map_or_else(|| format!("channel {}", self.channel), |id| format!("subscription {id}"));
        format!("  '{}' on {at} ({way}): {}{place}", self.tag, self.text)
    }
}

#[cfg(test)]
mod tests;
