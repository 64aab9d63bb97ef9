//! The delivery side of a connection: where messages come from, how they become packets, deliveries on their way. It lives under the
//! outbox's lock, so a queue cell hands over a whole run of deliveries with one lock.
//!
//! Refuses to know the broker: queues appear as numbers of sources only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use broker::{ConfirmRange, ConfirmSink, Delivery, DeliveryTotals, MessageSeq, SessionHold};
use message::Format;
use message::mqtt::{Mqtt, of_amqp091, push_topic};
use platform::Clock;
use wire::mqtt::{Properties, Property, Publish, Qos, VarNumber, Version, is_topic_name, reason};

use super::acks::{Acks, Confirmed};
use super::inflight::{Entry, Inflight, Stage};
use super::memory::{Got, Marks};
use super::seldom::Seldom;
use super::subscriptions::{Filters, Hit};
use crate::outbox::Outbox;

/// The source of messages for subscriptions of QoS 0.
pub(crate) const AT_MOST_ONCE: u32 = 1;
/// The source of messages for the others.
pub(crate) const AT_LEAST_ONCE: u32 = 2;
/// The first of those that sessions share.
pub(crate) const SHARED_FIRST: u32 = 3;

/// Where messages come from: a queue that the session consumes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its deliveries are settled.
    pub(crate) ack_required: bool,
    /// A message that does not fit into the output is dropped: the queue ends with the connection anyway.
    pub(crate) drops: bool,
    /// It was refused a delivery.
    pub(crate) paused: bool,
}

/// State that changes together with the output.
pub(crate) struct Side {
    pub(crate) version: Version,
    /// Largest packet that the client takes, bytes.
    pub(crate) packet_bytes_max: usize,
    /// Messages of QoS 1 and 2 on their way, at most.
    pub(crate) receive_max: u16,
    /// The exchange of topics.
    pub(crate) exchange: Box<[u8]>,
    /// The [`Mqtt::sender`] of the client's own messages.
    pub(crate) me: u64,
    pub(crate) filters: Filters,
    pub(crate) inflight: Inflight,
    pub(crate) acks: Acks,
    pub(crate) marks: Seldom<Marks>,
    /// Deliveries that need no answer of the client: to be settled.
    pub(crate) done: Vec<(u32, MessageSeq)>,
    /// The task that waits for answers to publishes of QoS 2, after the connection has ended.
    heir: Option<Waker>,
    /// Deliveries that no packet can be made of: to be rejected.
    pub(crate) unsendable: Vec<(u32, MessageSeq)>,
    /// The log has a line about such a delivery.
    has_told_unsendable: bool,
    /// Sources whose queue is gone.
    pub(crate) cancelled: Vec<u32>,
    pub(crate) counted: DeliveryTotals,
    sources: Vec<Option<Source>>,
    aliases: Aliases,
    /// `None` while nothing is delivered.
    scratch: Option<Box<Scratch>>,
}

/// Topic aliases for the client.
#[derive(Default)]
struct Aliases {
    max: u16,
    topics: Vec<Box<str>>,
}

impl Aliases {
    /// The topic as it is sent: empty if the client knows its alias, which is appended to the properties if there is one.
    fn shorten<'t>(&mut self, topic: &'t str, properties: &mut Vec<u8>) -> &'t str {
        if self.max == 0 {
            return topic;
        }
        let Some((alias, is_known)) = self.of(topic) else { return topic };
        Property::TopicAlias(alias).encode(properties);
        if is_known { "" } else { topic }
    }

    /// The alias of a topic, and whether the client knows it already.
    fn of(&mut self, topic: &str) -> Option<(u16, bool)> {
        if let Some(at) = self.topics.iter().position(|known| **known == *topic) {
            return Some((at as u16 + 1, true));
        }
        if self.topics.len() >= usize::from(self.max) {
            return None;
        }
        self.topics.push(topic.into());
        Some((self.topics.len() as u16, false))
    }
}

/// Buffers that are used again.
#[derive(Default)]
struct Scratch {
    topic: String,
    crossed: Vec<u8>,
    properties: Vec<u8>,
    ids: Vec<u32>,
}

/// Outcome of a delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pushed {
    /// It is on its way.
    Sent,
    /// It is not for the client, and done.
    Passed,
    /// No packet can be made of it.
    Unsendable,
    /// It has to wait.
    Refused,
}

impl Side {
    pub(crate) fn new() -> Side {
        Side {
            version: Version::V311,
            packet_bytes_max: usize::MAX,
            receive_max: u16::MAX,
            exchange: Box::default(),
            me: 0,
            filters: Filters::default(),
            inflight: Inflight::default(),
            acks: Acks::default(),
            marks: Seldom::default(),
            done: Vec::new(),
            heir: None,
            unsendable: Vec::new(),
            has_told_unsendable: false,
            cancelled: Vec::new(),
            counted: DeliveryTotals::default(),
            sources: Vec::new(),
            aliases: Aliases::default(),
            scratch: None,
        }
    }

    /// Aliases that the client takes.
    pub(crate) fn set_alias_max(&mut self, max: u16) {
        self.aliases.max = max;
    }

    /// Ready when all publishes of QoS 2 are answered. One may wait.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.acks.has_exactly_once() {
            return Poll::Ready(());
        }
        self.heir = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of_scratch = |scratch: &Scratch| {
            let Scratch { topic, crossed, properties, ids } = scratch;
            let texts = topic.capacity() + crossed.capacity() + properties.capacity();
            size_of::<Scratch>() + texts + ids.capacity() * size_of::<u32>()
        };
        self.filters.heap_bytes()
            + self.inflight.heap_bytes()
            + self.acks.heap_bytes()
            + self.sources.capacity() * size_of::<Option<Source>>()
            + self.scratch.as_deref().map_or(0, of_scratch)
    }

    /// Gives buffers back that nothing is in.
    pub(crate) fn release_scratch(&mut self) {
        self.scratch = None;
        self.marks.rest();
        (self.done, self.unsendable) = (Vec::new(), Vec::new());
    }

    /// A source from now on.
    pub(crate) fn attach(&mut self, token: u32, source: Source) {
        let at = token as usize - 1;
        if self.sources.len() <= at {
            self.sources.resize(at + 1, None);
        }
        self.sources[at] = Some(source);
    }

    /// It is none any more.
    pub(crate) fn detach(&mut self, token: u32) {
        if let Some(source) = self.sources.get_mut(token as usize - 1) {
            *source = None;
        }
    }

    /// A token for one more shared source.
    pub(crate) fn free_token(&self) -> u32 {
        let is_free = |token: &u32| self.sources.get(*token as usize - 1).is_none_or(Option::is_none);
        (SHARED_FIRST..).find(is_free).expect("fewer sources than numbers")
    }

    /// Takes the sources that were refused something, if there is room in the window.
    pub(crate) fn take_paused(&mut self, out: &mut Vec<u32>) {
        if self.inflight.len() >= usize::from(self.receive_max) {
            return;
        }
        for (token, source) in (1..).zip(&mut self.sources) {
            if let Some(source) = source
                && std::mem::take(&mut source.paused)
            {
                out.push(token);
            }
        }
    }

    /// Makes packets of the front of a run; how many were taken.
    fn deliver(
        &mut self,
        out: &mut Vec<u8>,
        limit: usize,
        token: u32,
        run: &[Delivery<'_>],
        clock: &dyn Clock,
    ) -> usize {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let mut taken = 0;
        for delivery in run {
            match self.push(out, limit, token, delivery, &mut scratch, clock) {
                Pushed::Refused => break,
                Pushed::Sent => {}
                Pushed::Passed if self.is_settled(token) => self.done.push((token, delivery.seq)),
                Pushed::Unsendable if self.is_settled(token) => self.unsendable.push((token, delivery.seq)),
                Pushed::Passed | Pushed::Unsendable => {}
            }
            taken += 1;
        }
        self.scratch = Some(scratch);
        taken
    }

    /// Whether deliveries of the source are settled.
    fn is_settled(&self, token: u32) -> bool {
        self.sources[token as usize - 1].is_some_and(|source| source.ack_required)
    }

    /// Whether clients take a topic: they end the connection for one that breaks the rules, and get it again with the next. The log has one
    /// line per connection: metrics count the messages.
    fn is_sendable(&mut self, topic: &str) -> bool {
        let is_topic = is_topic_name(topic);
        if !is_topic && !std::mem::replace(&mut self.has_told_unsendable, true) {
            tracing::warn!(
                topic,
                "messages are rejected for an MQTT client: their routing keys make no topics"
            );
        }
        is_topic
    }

    fn pause(&mut self, token: u32) -> Pushed {
        if let Some(Some(source)) = self.sources.get_mut(token as usize - 1) {
            source.paused = true;
        }
        Pushed::Refused
    }

    /// Makes the packet of one delivery.
    fn push(
        &mut self,
        out: &mut Vec<u8>,
        limit: usize,
        token: u32,
        delivery: &Delivery<'_>,
        scratch: &mut Scratch,
        clock: &dyn Clock,
    ) -> Pushed {
        let Some(Some(source)) = self.sources.get(token as usize - 1).copied() else {
            return Pushed::Refused;
        };
        let Scratch { topic, crossed, properties, ids } = scratch;
        let message = &delivery.message;
        crossed.clear();
        let carried;
        let mut body = message.body;
        let mqtt = match message.format() {
            Format::Mqtt => Mqtt::of(message.properties).unwrap_or_default(),
            Format::Amqp091 => of_amqp091(message.properties, crossed),
            Format::Amqp10 => {
                carried = message.in_amqp091();
                body = &carried.body;
                of_amqp091(&carried.properties, crossed)
            }
        };
        if out.len() >= limit {
            return if source.drops && !mqtt.is_copy { Pushed::Passed } else { self.pause(token) };
        }
        let topic = topic_of(&mqtt, message.routing_key, topic);
        if !self.is_sendable(topic) {
            return Pushed::Unsendable;
        }
        ids.clear();
        let is_foreign = !mqtt.is_copy && *message.exchange != *self.exchange;
        let Some(hit) = self.filters.look(token, topic, ids).or(is_foreign.then_some(FOREIGN)) else {
            return Pushed::Passed;
        };
        let left_s = mqtt.received_ms.and_then(|_| mqtt.expiry_left_s(clock.wall_ms()));
        if left_s == Some(0) || (hit.no_local && mqtt.sender == Some(self.me)) {
            return Pushed::Passed;
        }
        let qos = if source.ack_required { mqtt.qos.min(hit.qos) } else { Qos::AtMostOnce };
        let Some(packet_id) = self.packet_id(token, delivery.seq, qos) else { return self.pause(token) };
        if let Some(pushed) = self.known((token, qos), packet_id, delivery.seq) {
            return pushed;
        }
        properties.clear();
        if self.version == Version::V5 {
            push_properties(&mqtt, left_s, ids, properties);
        }
        let packet_bytes = body.len() + topic.len() + properties.len() + PACKET_BYTES;
        if packet_bytes > self.packet_bytes_max {
            return Pushed::Passed;
        }
        let topic = self.aliases.shorten(topic, properties);
        let publish = Publish {
            dup: delivery.redelivered && qos != Qos::AtMostOnce,
            qos,
            retain: mqtt.is_copy || (hit.retain_as_published && mqtt.retain),
            topic,
            packet_id,
            properties: Properties::from_raw(properties),
            payload: body,
        };
        publish.encode(self.version, out);
        self.note(token, source, delivery, qos, packet_id);
        Pushed::Sent
    }

    /// A message of the session's own queue that the client got from an earlier connection; `None` if it did not.
    fn known(&mut self, (token, qos): (u32, Qos), packet_id: u16, seq: MessageSeq) -> Option<Pushed> {
        if qos != Qos::ExactlyOnce || token != AT_LEAST_ONCE {
            return None;
        }
        match self.marks.get_mut().map_or(Got::Nothing, |marks| marks.of(seq)) {
            Got::Nothing => None,
            Got::Completed => Some(Pushed::Passed),
            Got::Released => {
                // PUBREL went out when the session was opened.
                self.inflight.add(packet_id, Entry { token: AT_LEAST_ONCE, seq, stage: Stage::Complete });
                Some(Pushed::Sent)
            }
        }
    }

    /// The id that a message of this QoS goes out with, 0 for QoS 0; `None` while the client has to acknowledge others first.
    fn packet_id(&mut self, token: u32, seq: MessageSeq, qos: Qos) -> Option<u16> {
        if qos == Qos::AtMostOnce {
            return Some(0);
        }
        let has_window = self.inflight.len() < usize::from(self.receive_max);
        if has_window { self.inflight.id_for(token == AT_LEAST_ONCE, seq) } else { None }
    }

    /// A packet is on its way.
    fn note(&mut self, token: u32, source: Source, delivery: &Delivery<'_>, qos: Qos, packet_id: u16) {
        let stage = match qos {
            Qos::AtMostOnce => None,
            Qos::AtLeastOnce => Some(Stage::Ack),
            Qos::ExactlyOnce => Some(Stage::Receive),
        };
        match stage {
            Some(stage) => {
                self.inflight.add(packet_id, Entry { token, seq: delivery.seq, stage });
                self.counted.delivered += 1;
            }
            None => {
                self.counted.delivered_no_ack += 1;
                if source.ack_required {
                    self.done.push((token, delivery.seq));
                }
            }
        }
        self.counted.redelivered += u64::from(delivery.redelivered);
    }
}

/// Bytes of a PUBLISH beside topic, properties and payload, at most: type, two lengths, packet id, length of the topic, topic alias.
const PACKET_BYTES: usize = 1 + 4 + 4 + 2 + 2 + 3;

/// The options for messages that came another way than by the exchange of topics.
const FOREIGN: Hit = Hit { qos: Qos::ExactlyOnce, retain_as_published: false, no_local: false };

/// The topic of a message, made of its routing key if it does not say its own.
fn topic_of<'t>(mqtt: &Mqtt<'t>, key: &[u8], buffer: &'t mut String) -> &'t str {
    mqtt.topic.unwrap_or_else(|| {
        buffer.clear();
        push_topic(key, false, buffer);
        buffer
    })
}

/// Properties as they are delivered: with what is left of the expiry, and the identifiers of the subscriptions.
fn push_properties(mqtt: &Mqtt<'_>, left_s: Option<u32>, ids: &[u32], out: &mut Vec<u8>) {
    for property in mqtt.properties.iter() {
        match (property, left_s) {
            (Property::MessageExpiryInterval(_), Some(left_s)) => {
                Property::MessageExpiryInterval(left_s).encode(out);
            }
            (other, _) => other.encode(out),
        }
    }
    ids.iter().for_each(|id| Property::SubscriptionIdentifier(VarNumber(*id)).encode(out));
}

/// Where the broker's queues hand deliveries over.
pub(crate) struct Sink {
    pub(crate) outbox: Arc<Outbox<Side>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The session is to look at [`Side::done`] and [`Side::cancelled`].
    pub(crate) has_news: AtomicBool,
}

impl Sink {
    fn tell(&self) {
        self.has_news.store(true, Ordering::Release);
        self.outbox.wake();
    }
}

impl broker::ConsumerSink for Sink {
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        let (taken, has_done) = self.outbox.write(|output| {
            let (bytes, side, limit) = output.parts();
            let before = bytes.len();
            let taken = side.deliver(bytes, limit, token, run, &*self.clock);
            let has_done = !side.done.is_empty() || !side.unsendable.is_empty();
            let delivered = bytes.len() - before;
            output.note_delivered(delivered);
            (taken, has_done)
        });
        if has_done {
            self.tell();
        }
        taken
    }

    fn cancelled(&self, token: u32) {
        self.outbox.lock().state().cancelled.push(token);
        self.tell();
    }

    fn hold(&self, token: u32) -> SessionHold {
        let mut output = self.outbox.lock();
        let side = output.state();
        let (unacked, prefetch) = (side.inflight.len(), side.receive_max);
        match side.sources.get(token as usize - 1).copied().flatten() {
            None => SessionHold::Gone,
            Some(Source { paused: false, .. }) => SessionHold::None,
            Some(_) if unacked >= usize::from(prefetch) => {
                SessionHold::ChannelPrefetch { unacked: unacked as u32, prefetch: prefetch.into() }
            }
            Some(_) => SessionHold::Output { pending_bytes: output.pending_bytes() as u64 },
        }
    }
}

/// Where confirms of a connection's publishes go.
pub(crate) struct Confirms {
    pub(crate) outbox: Arc<Outbox<Side>>,
    pub(crate) which: Confirmed,
}

impl ConfirmSink for Confirms {
    fn confirmed(&self, range: ConfirmRange) {
        self.outbox.write(|output| {
            let (bytes, side, _) = output.parts();
            side.acks.settle(self.which, &range);
            write_acks(side, bytes);
            if let Some(heir) = side.heir.take() {
                heir.wake();
            }
        });
    }
}

/// Writes acknowledgements that can be said. Messages of QoS 2 that were taken are remembered until they are released.
pub(crate) fn write_acks(side: &mut Side, out: &mut Vec<u8>) {
    let Side { acks, marks, version, .. } = side;
    acks.write(*version, out, |answered| {
        if answered.qos == Qos::ExactlyOnce && answered.code < reason::UNSPECIFIED_ERROR {
            marks.make().received.insert(answered.packet_id);
        }
    });
}
