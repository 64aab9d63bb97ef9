//! Traffic in and out of a queue machine: messages, deliveries, settlements.

use std::ops::AddAssign;
use std::sync::Arc;

use message::{Filter, Format, InAmqp091, MessageView};
use stdx::ConnectionId;

use crate::body::HeldBody;
use crate::service::totals::QueueTotals;

/// A message's place in its queue: priority level in the top byte, then a number that grows with every enqueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageSeq(pub u64);

impl MessageSeq {
    const LEVEL_SHIFT: u32 = 56;
    /// No level has messages with greater numbers.
    pub(crate) const NUMBER_MAX: u64 = (1 << Self::LEVEL_SHIFT) - 1;

    /// The `number`th message of a priority level (0 is the lowest).
    pub fn new(level: u8, number: u64) -> MessageSeq {
        debug_assert!(number < 1 << Self::LEVEL_SHIFT);
        MessageSeq(u64::from(level) << Self::LEVEL_SHIFT | number)
    }

    /// Priority level.
    pub fn level(self) -> u8 {
        (self.0 >> Self::LEVEL_SHIFT) as u8
    }

    /// Number within the level.
    pub fn number(self) -> u64 {
        self.0 & Self::NUMBER_MAX
    }

    /// The one after it in the same level.
    pub fn next(self) -> MessageSeq {
        MessageSeq(self.0 + 1)
    }
}

/// A message on its way to a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Its place in the queue; handed back to settle it.
    pub seq: MessageSeq,
    /// It was delivered before and came back (B130).
    pub redelivered: bool,
    /// The message.
    pub message: MessageView<'a>,
    /// Annotations that the broker keeps beside the message; empty for most.
    pub annotations: &'a [u8],
}

/// A message handed in by a publisher, with what the machine needs to know already read from the properties.
#[derive(Clone, Copy, Debug)]
pub struct IncomingMessage<'a> {
    /// The bytes.
    pub message: MessageView<'a>,
    /// delivery-mode 2.
    pub persistent: bool,
    /// `priority`, 0 when absent.
    pub priority: u8,
    /// `expiration` in milliseconds, if any (already validated, B99).
    pub ttl_ms: Option<u64>,
    /// Broker-side death history, encoded by the broker; empty for fresh messages.
    pub annotations: &'a [u8],
    /// The body of `message`, when other queues have it, too.
    pub shared: Option<&'a HeldBody>,
    /// It differs from the one before it in its batch in nothing but the body. May be false where that is so.
    pub is_alike: bool,
}

/// Messages that a publisher hands in together, in their order.
pub trait IncomingMessages<'a> {
    /// How many.
    fn count(&self) -> usize;

    /// One of them.
    fn message(&self, nth: usize) -> IncomingMessage<'a>;

    /// The body of one that differs from the one before it in nothing else, unless other queues have it, too: all that has to be known
    /// of most.
    fn alike(&self, nth: usize) -> Option<&'a [u8]>;
}

impl<'a> IncomingMessages<'a> for [IncomingMessage<'a>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn message(&self, nth: usize) -> IncomingMessage<'a> {
        self[nth]
    }

    fn alike(&self, nth: usize) -> Option<&'a [u8]> {
        let incoming = &self[nth];
        (incoming.is_alike && incoming.shared.is_none()).then_some(incoming.message.body)
    }
}

/// A consumer, unique in the node: its connection and a number the session chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId {
    /// The connection it lives on.
    pub connection: ConnectionId,
    /// Chosen by the session; never reused on the same connection while deliveries may be outstanding.
    pub token: u32,
}

/// How a consumer wants to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Identity.
    pub id: ConsumerId,
    /// Tag shown in listings.
    pub tag: Box<[u8]>,
    /// Channel number shown in listings.
    pub channel: u16,
    /// Deliveries need settling (`no-ack` false).
    pub ack_required: bool,
    /// Largest number of unsettled deliveries; 0 is no limit. Ignored when `ack_required` is false.
    pub prefetch: u32,
    /// It takes as many deliveries as it has asked for (see [`crate::Machine::credit`]), whatever `prefetch` says: a link of AMQP 1.0.
    pub by_credit: bool,
    /// Deliveries that it has got from other leaders of its queue, if it is served by credit: its credit is counted from the first of them.
    /// Wraps around.
    pub delivered_before: u32,
    /// Messages that it wants; `None` is all. Only streams look at it.
    pub filter: Option<Arc<Filter>>,
    /// `x-priority`, higher first.
    pub priority: i64,
    /// No other consumer allowed.
    pub exclusive: bool,
    /// Raw consumer arguments, for listings.
    pub arguments: Box<[u8]>,
}

/// How far a consumer that asks for its deliveries may be served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Number of the delivery up to which it takes them, counted from the first one it ever got; wraps around. One that is not ahead of what
    /// was delivered is no credit.
    pub limit: u32,
    /// Credit that cannot be used now is given up.
    pub drain: bool,
}

/// News of the credit that a consumer has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditNews {
    /// It is noted, and the ready messages are delivered. So many messages are ready.
    Noted {
        /// Ready messages.
        available: u64,
    },
    /// Whether it is the active consumer of its queue; so many messages are ready for it. Told by quorum queues, when it asks and when that
    /// changes.
    Activity {
        /// It is.
        is_active: bool,
        /// Ready messages; none are for a consumer that is not active.
        available: u64,
    },
    /// The rest of it is given up: as if all had been delivered, up to this limit.
    Drained {
        /// The limit that it was asked with.
        limit: u32,
    },
}

/// The fate of settled deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleHow {
    /// basic.ack.
    Ack,
    /// basic.nack with requeue, or recover: back to the original position (B129).
    Requeue,
    /// basic.reject with requeue, or the channel is gone: as [`SettleHow::Requeue`], and it counts as a failure where failures count (B131).
    Fail,
    /// basic.nack / reject without requeue: dead-letter or drop.
    Reject,
}

/// Consecutive deliveries of one consumer, settled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettleRun {
    /// The consumer that had them; `None` for basic.get.
    pub consumer: Option<ConsumerId>,
    /// First of the run.
    pub first: MessageSeq,
    /// Number of consecutive sequence numbers, at least 1.
    pub count: u32,
}

/// A message that somebody looks at, and that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// There is none at that position.
    Nothing,
    /// It is being read from disk: to be asked for again.
    Waits,
    /// The message.
    Message {
        /// Exchange.
        exchange: Box<[u8]>,
        /// Routing key.
        routing_key: Box<[u8]>,
        /// Raw properties.
        properties: Box<[u8]>,
        /// Body.
        body: Box<[u8]>,
        /// How often it failed.
        failed: u32,
    },
}

/// A message fetched by basic.get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotMessage {
    /// Place in the queue, to settle it.
    pub seq: MessageSeq,
    /// Delivered before.
    pub redelivered: bool,
    /// Exchange.
    pub exchange: Box<[u8]>,
    /// Routing key.
    pub routing_key: Box<[u8]>,
    /// Raw properties.
    pub properties: Box<[u8]>,
    /// Body.
    pub body: Box<[u8]>,
    /// Annotations that the broker keeps beside the message.
    pub annotations: Box<[u8]>,
    /// Ready messages left in the queue.
    pub ready_left: u64,
}

impl GotMessage {
    /// Properties and body become those that a client of AMQP 0-9-1 gets. Copies nothing of a message that came by AMQP 0-9-1.
    pub fn convert_to_amqp091(&mut self) {
        let GotMessage { exchange, routing_key, properties, body, .. } = self;
        let view = MessageView { exchange, routing_key, properties, body };
        if view.format() != Format::Amqp091 {
            let InAmqp091 { properties, body } = view.in_amqp091();
            (self.properties, self.body) = (properties.into(), body.into());
        }
    }
}

/// How fast a queue takes and gives, and whether it has fallen behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Messages published since start.
    pub published: u64,
    /// Messages delivered since start, redeliveries included.
    pub delivered: u64,
    /// Messages that are ready now.
    pub ready: u64,
    /// There are consumers, and more messages than the queue likes to keep in memory.
    pub is_lagging: bool,
}

/// The counts that declare-ok tells (B70).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Ready messages, unacked ones not counted.
    pub ready: u64,
    /// Consumers.
    pub consumers: u32,
}

/// Everything listings show of a queue's contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueStats {
    /// Messages ready for delivery.
    pub ready: u64,
    /// Delivered and not yet settled.
    pub unacked: u64,
    /// Bytes of bodies ready.
    pub ready_bytes: u64,
    /// Bytes of bodies unacked.
    pub unacked_bytes: u64,
    /// Persistent messages among ready and unacked.
    pub persistent: u64,
    /// Bytes of their bodies.
    pub persistent_bytes: u64,
    /// Which of its messages are in memory.
    pub in_memory: InMemory,
    /// Bytes of memory that it takes in all.
    pub memory_bytes: u64,
    /// Of those, bytes of messages.
    pub resident_bytes: u64,
    /// Bytes of message data on disk in segments, of blocks in which something is not settled.
    pub disk_bytes: u64,
    /// Of those, bytes of messages that are not settled.
    pub live_disk_bytes: u64,
    /// Bytes of all blocks in the segments that are needed for those.
    pub segment_bytes: u64,
    /// `timestamp` of the message that comes next or of the oldest unacked one, seconds since 1970, whichever is less; of those
    /// that have one and are in memory.
    pub head_timestamp_s: Option<u64>,
    /// When a message or a consumer last came or went, milliseconds since 1970; 0 when none has since the node started.
    pub active_ms: u64,
    /// Consumers, with what listings show of each.
    pub consumers: Vec<ConsumerStats>,
    /// Tag of the single active consumer.
    pub single_active_tag: Option<Box<[u8]>>,
    /// Tag of the exclusive consumer.
    pub exclusive_tag: Option<Box<[u8]>>,
    /// The totals that the queue has counted.
    pub totals: QueueTotals,
    /// Fraction of the latest seconds in which some consumer could have taken a message; 0 to 1, 0 without consumers.
    pub consumer_capacity: f64,
    /// Ready messages by priority, of priorities that have some.
    pub ready_by_priority: Vec<(u8, u64)>,
    /// Of the ready messages, those that came back and go out before all others.
    pub ready_returned: u64,
    /// Messages that came back and wait for their time.
    pub delayed: u64,
    /// Its leader's knowledge of the nodes that have it; empty of a queue that one node has.
    pub members: Vec<MemberStanding>,
}

/// A node that has a queue, as the leader of the queue knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStanding {
    /// Its number.
    pub node: u16,
    /// Turns of the leader that it has not confirmed to have on its disk. 0 of the leader itself.
    pub lag: u64,
    /// The last turn that it has confirmed. Turns count what changes the queue under its present leader.
    pub has: u64,
    /// Whether it gets every record as it is logged. One that does not is away, or is sent what it lacks.
    pub is_following: bool,
}

/// Messages whose content is in memory; the others are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InMemory {
    /// Messages ready for delivery.
    pub ready: u64,
    /// Delivered and not yet settled.
    pub unacked: u64,
    /// Bytes of the bodies of both.
    pub body_bytes: u64,
}

impl InMemory {
    /// Messages ready or unacked.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.ready + self.unacked
    }
}

impl AddAssign for InMemory {
    fn add_assign(&mut self, other: InMemory) {
        self.ready += other.ready;
        self.unacked += other.unacked;
        self.body_bytes += other.body_bytes;
    }
}

impl QueueGlance {
    /// Adds another queue's; the capacity of consumers and the time of the head stay.
    pub fn add(&mut self, other: &QueueGlance) {
        self.ready += other.ready;
        self.unacked += other.unacked;
        self.ready_bytes += other.ready_bytes;
        self.unacked_bytes += other.unacked_bytes;
        self.persistent += other.persistent;
        self.persistent_bytes += other.persistent_bytes;
        self.in_memory += other.in_memory;
        self.memory_bytes += other.memory_bytes;
        self.disk_bytes += other.disk_bytes;
        self.live_disk_bytes += other.live_disk_bytes;
        self.consumers += other.consumers;
        self.totals += &other.totals;
    }
}

/// The figures that lists of many queues show of each: plain numbers, nothing allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueGlance {
    /// Messages ready for delivery.
    pub ready: u64,
    /// Delivered and not yet settled.
    pub unacked: u64,
    /// Bytes of bodies ready.
    pub ready_bytes: u64,
    /// Bytes of bodies unacked.
    pub unacked_bytes: u64,
    /// Persistent messages among ready and unacked.
    pub persistent: u64,
    /// Bytes of their bodies.
    pub persistent_bytes: u64,
    /// Which of its messages are in memory.
    pub in_memory: InMemory,
    /// Bytes of message data in memory, without their bookkeeping.
    pub memory_bytes: u64,
    /// Bytes of message data on disk in segments.
    pub disk_bytes: u64,
    /// Of those, bytes of messages that are not settled.
    pub live_disk_bytes: u64,
    /// As in [`QueueStats::head_timestamp_s`].
    pub head_timestamp_s: Option<u64>,
    /// Consumers.
    pub consumers: u32,
    /// The totals that the queue has counted.
    pub totals: QueueTotals,
    /// Fraction of the latest seconds in which some consumer could have taken a message; 0 to 1, 0 without consumers.
    pub consumer_capacity: f64,
}

/// One line of `list_consumers`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerStats {
    /// The consumer.
    pub spec: ConsumerSpec,
    /// Deliveries it has not settled.
    pub unacked: u32,
    /// It may be served (not waiting behind a single active consumer).
    pub active: bool,
    /// Its place in a stream; none in other queues.
    pub in_stream: Option<InStream>,
}

/// The place of a consumer in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InStream {
    /// Messages between it and the end, about.
    pub behind: u64,
    /// Messages that it passed over, because no client of its protocol can read them.
    pub skipped: u64,
}
