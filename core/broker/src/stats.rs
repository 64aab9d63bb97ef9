//! Counts of connections, vhosts and the node, under the names of RabbitMQ's `message_stats`.
//!
//! Connections count for themselves, each counter with one writer at a time; sums over vhosts and the node are made when
//! somebody asks, from the open connections and what the closed ones left behind. So publishers share no counter but those
//! of an exchange, which they raise once per batch. Everything here only grows, from the start of the process on.
//!
//! Refuses to know rates, formats, and callers.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use queues::{DeadReason, DeliveryTotals, QueueTotals};
use stdx::ConnectionId;

use crate::connection_lines::ConnectionLines;
use crate::login_lines::RefusalLines;
use crate::logins::Logins;

/// The work of one channel, connection or vhost, or the node, with messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Messages received from publishers.
    pub published: u64,
    /// Published messages that came on a channel with confirms or transactions.
    pub published_for_confirm: u64,
    /// Publishes confirmed with an ack.
    pub confirmed: u64,
    /// Mandatory messages that went nowhere and were returned.
    pub returned: u64,
    /// Other messages that went nowhere.
    pub dropped: u64,
    /// The deliveries to clients.
    pub deliveries: DeliveryTotals,
}

impl TrafficTotals {
    /// Messages that reached at least one queue or reply consumer.
    #[must_use]
    pub fn routed(&self) -> u64 {
        self.published.saturating_sub(self.returned + self.dropped)
    }
}

impl AddAssign<&TrafficTotals> for TrafficTotals {
    fn add_assign(&mut self, other: &TrafficTotals) {
        self.published += other.published;
        self.published_for_confirm += other.published_for_confirm;
        self.confirmed += other.confirmed;
        self.returned += other.returned;
        self.dropped += other.dropped;
        self.deliveries += &other.deliveries;
    }
}

/// The work of one connection, or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// Bytes received: RabbitMQ's `recv_oct`.
    pub received_bytes: u64,
    /// Reads from the socket that brought something: `recv_cnt`.
    pub received_count: u64,
    /// Bytes sent: `send_oct`.
    pub sent_bytes: u64,
    /// Writes to the socket: `send_cnt`.
    pub sent_count: u64,
    /// Messages on all channels, closed ones included.
    pub traffic: TrafficTotals,
}

impl AddAssign<&ConnectionTotals> for ConnectionTotals {
    fn add_assign(&mut self, other: &ConnectionTotals) {
        self.received_bytes += other.received_bytes;
        self.received_count += other.received_count;
        self.sent_bytes += other.sent_bytes;
        self.sent_count += other.sent_count;
        self.traffic += &other.traffic;
    }
}

/// Counts of connections, by the protocol that listings show.
pub type ByProtocol = BTreeMap<&'static str, ConnectionTotals>;

/// The things that have come and gone on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChurnTotals {
    /// Connections that opened a vhost.
    pub connections_created: u64,
    /// Connections that ended.
    pub connections_closed: u64,
    /// Channels opened.
    pub channels_created: u64,
    /// Channels closed.
    pub channels_closed: u64,
    /// queue.declare that succeeded, of queues that existed too.
    pub queues_declared: u64,
    /// Queues that did not exist before.
    pub queues_created: u64,
    /// Queues deleted.
    pub queues_deleted: u64,
}

/// Messages that died in queues with a dead-letter exchange and were sent there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterTotals {
    /// Their time to live ran out.
    pub expired: u64,
    /// They were rejected without requeue.
    pub rejected: u64,
    /// A length limit dropped or refused them.
    pub dropped: u64,
    /// Failed more often than their queue lets them.
    pub failed: u64,
}

/// A counter of the node that anybody may raise, seldom.
#[derive(Debug, Default)]
pub(crate) struct Tick(AtomicU64);

impl Tick {
    /// One more.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_back(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The node's own counters, and the counts of objects that are gone.
#[derive(Debug, Default)]
pub(crate) struct NodeCounters {
    pub(crate) connections_created: Tick,
    pub(crate) connections_closed: Tick,
    pub(crate) channels_created: Tick,
    pub(crate) channels_closed: Tick,
    pub(crate) queues_declared: Tick,
    pub(crate) queues_created: Tick,
    pub(crate) queues_deleted: Tick,
    pub(crate) logins: Logins,
    pub(crate) refusal_lines: RefusalLines,
    pub(crate) connection_lines: ConnectionLines,
    pub(crate) expired_sent: AtomicU64,
    pub(crate) rejected_sent: AtomicU64,
    pub(crate) dropped_sent: AtomicU64,
    pub(crate) failed_sent: AtomicU64,
    pub(crate) message_sizes: MessageSizes,
    /// Of connections that are closed, by protocol.
    pub(crate) connections_gone: Mutex<ByProtocol>,
    /// Of queues that are deleted or have crashed.
    pub(crate) queues_gone: Mutex<QueueTotals>,
}

impl NodeCounters {
    /// A dead letter was sent.
    pub(crate) fn count_letter(&self, reason: DeadReason) {
        let counter = match reason {
            DeadReason::Expired => &self.expired_sent,
            DeadReason::Rejected => &self.rejected_sent,
            DeadReason::MaxLength => &self.dropped_sent,
            DeadReason::DeliveryLimit => &self.failed_sent,
            DeadReason::Due => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Upper bounds of the classes of message sizes, bytes: RabbitMQ's. A last class holds what is larger.
pub const SIZE_CLASSES: [u64; 8] =
    [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

/// How many messages of which size came from publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Messages per class of [`SIZE_CLASSES`]; the last one is those above all of them.
    pub counts: [u64; SIZE_CLASSES.len() + 1],
    /// Bytes of all bodies.
    pub bytes: u64,
}

impl Sizes {
    /// One more message.
    #[inline]
    pub(crate) fn add(&mut self, body_bytes: usize) {
        let bytes = body_bytes as u64;
        let class = SIZE_CLASSES.iter().position(|most| bytes <= *most).unwrap_or(SIZE_CLASSES.len());
        self.counts[class] += 1;
        self.bytes += bytes;
    }
}

/// Sizes of all messages; connections share the places so that few of them meet in one.
#[derive(Debug, Default)]
pub(crate) struct MessageSizes([SizePlace; 16]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct SizePlace {
    counts: [AtomicU64; SIZE_CLASSES.len() + 1],
    bytes: AtomicU64,
}

impl MessageSizes {
    /// Adds what a publisher has brought.
    pub(crate) fn count(&self, publisher: ConnectionId, sizes: &Sizes) {
        let place = &self.0[publisher.count as usize % self.0.len()];
        for (counter, by) in place.counts.iter().zip(sizes.counts).filter(|(_, by)| *by > 0) {
            counter.fetch_add(by, Ordering::Relaxed);
        }
        place.bytes.fetch_add(sizes.bytes, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Sizes {
        let mut sum = Sizes::default();
        for place in &self.0 {
            sum.bytes += place.bytes.load(Ordering::Relaxed);
            let counts = sum.counts.iter_mut().zip(&place.counts);
            counts.for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
        }
        sum
    }
}

/// The messages that a channel has published. Written by one thread at a time, read by any.
#[derive(Debug, Default)]
pub struct PublishCounters {
    published: AtomicU64,
    published_for_confirm: AtomicU64,
    returned: AtomicU64,
    dropped: AtomicU64,
}

/// Raises a counter of which no other thread is a writer.
#[inline]
fn raise(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// The fate of a message that no queue gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stray {
    Returned,
    Dropped,
}

impl PublishCounters {
    /// So many more messages.
    #[inline]
    pub(crate) fn count(&self, messages: u64, are_confirmed: bool) {
        raise(&self.published, messages);
        if are_confirmed {
            raise(&self.published_for_confirm, messages);
        }
    }

    /// The latest message went nowhere.
    pub(crate) fn count_stray(&self, stray: Stray) {
        raise(if stray == Stray::Returned { &self.returned } else { &self.dropped }, 1);
    }

    /// The counters now; the others of a channel are 0.
    #[must_use]
    pub fn now(&self) -> TrafficTotals {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TrafficTotals {
            published: now(&self.published),
            published_for_confirm: now(&self.published_for_confirm),
            returned: now(&self.returned),
            dropped: now(&self.dropped),
            ..TrafficTotals::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_in_the_class_they_fit_into() {
        let (sizes, mut batch) = (MessageSizes::default(), Sizes::default());
        [0, 100, 101, 1_000_000, 100_000_001].into_iter().for_each(|bytes| batch.add(bytes));
        sizes.count(ConnectionId::alone(3), &batch);
        sizes.count(ConnectionId::alone(4), &batch);
        assert_eq!(sizes.now().counts, [4, 2, 0, 0, 2, 0, 0, 0, 2]);
        assert_eq!(sizes.now().bytes, 2 * 101_000_202);
    }

    #[test]
    fn counters_of_a_channel_add_up() {
        let counters = PublishCounters::default();
        counters.count(1, false);
        counters.count(2, true);
        counters.count_stray(Stray::Returned);
        counters.count_stray(Stray::Dropped);
        let mut sum = counters.now();
        let deliveries = DeliveryTotals { delivered: 1, got: 4, ..DeliveryTotals::NONE };
        sum += &TrafficTotals { deliveries, ..counters.now() };
        assert_eq!((sum.published, sum.published_for_confirm), (6, 4));
        assert_eq!((sum.returned, sum.dropped, sum.routed(), sum.deliveries.handed_out()), (2, 2, 2, 5));
    }
}
