//! The delivery side of a connection: consumers, the next delivery tags, unacked messages. It lives under the
//! outbox's lock, so a queue cell hands over a whole run of deliveries with one lock.
//!
//! Refuses to know the broker: queues appear as numbers of sources only. Nothing here allocates per message, except the
//! growth of the outbox and of the unacked list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use broker::{Delivery, GotMessage, LargeBody, PublishCounters, SessionHold, TrafficTotals};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use message::{Format, InAmqp091, MessageView};
use wire::amqp091::methods::basic;
use wire::amqp091::{BodyFrames, DeliverRun, ShortStr, encode_deliver_head, encode_get_ok};

use super::confirms::ConfirmProgress;
use crate::large::{LARGE_BYTES_MIN, LargeRoom, LargeShare};
use crate::outbox::{LateBytes, Outbox, Output};
use crate::unacked::{Entry, Unacked};

/// Token of sources that are not consumers (basic.get).
pub(crate) const NO_TOKEN: u32 = 0;

/// Where deliveries of this connection come from: a consumer, or basic.get on one queue by one channel.
#[derive(Debug)]
pub(crate) struct Source {
    token: u32,
    channel: u16,
    tag: Box<[u8]>,
    ack_required: bool,
    /// May get deliveries; `false` once cancelled. Unacked ones may still refer to it.
    attached: bool,
    /// consume-ok is written.
    announced: bool,
    /// The queue was deleted before consume-ok was written.
    cancelled_early: bool,
    paused: bool,
    outstanding: u32,
    /// How long a delivery may stay unacked, milliseconds (B135); 0 is for ever.
    pub(super) timeout_ms: u64,
}

/// A channel's share of the delivery side.
#[derive(Debug)]
pub(crate) struct ChannelOutput {
    /// Differs between two channels that used the same number one after the other.
    pub(crate) serial: u64,
    latest_tag: u64,
    pub(crate) unacked: Unacked,
    /// Unacked deliveries to consumers of the whole channel; 0 is no limit.
    global_prefetch: u32,
    global_outstanding: u32,
    pub(crate) confirms: ConfirmProgress,
    /// For listings.
    pub(crate) facts: ChannelFacts,
    /// The counts of deliveries, gets and acks on the channel.
    counted: TrafficTotals,
    /// When something last came in or was written, milliseconds since 1970.
    used_ms: u64,
    /// It stands among [`Deliveries::served`].
    is_served: bool,
}

/// The figures that listings show of a channel and only the session knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelFacts {
    pub(crate) transactional: bool,
    pub(crate) confirm: bool,
    pub(crate) consumer_count: usize,
    pub(crate) prefetch: u32,
    pub(crate) global_prefetch: u32,
    pub(crate) messages_uncommitted: usize,
    pub(crate) acks_uncommitted: usize,
    /// Number of the latest publish on a confirming channel.
    pub(crate) published_latest: Arc<AtomicU64>,
    pub(crate) published: Arc<PublishCounters>,
}

/// A consumer that its queue cancelled; the session forgets it at its next turn.
#[derive(Debug)]
pub(crate) struct CancelledConsumer {
    pub(crate) channel: u16,
    pub(crate) token: u32,
    pub(crate) tag: Box<[u8]>,
}

/// The delivery side of all channels.
#[derive(Debug)]
pub(crate) struct Deliveries {
    /// Largest frame of the connection, bytes with overhead; 0 is no limit.
    pub(crate) frame_size_max: usize,
    /// Clients that do not know server-sent cancels get none (B10, B119).
    pub(crate) cancel_notify: bool,
    /// Deliveries from now on count as made then: tenths of a second on the session's clock.
    delivered_ds: u32,
    channels: Vec<Option<Box<ChannelOutput>>>,
    pub(super) sources: Vec<Option<Source>>,
    free_sources: Vec<u32>,
    /// Sources that were forgotten since the session last looked.
    pub(crate) forgotten: Vec<u32>,
    by_token: HashMap<u32, u32, FixedState>,
    paused_tokens: Vec<u32>,
    pub(crate) cancelled: Vec<CancelledConsumer>,
    serial_latest: u64,
    pub(crate) large: LargeShare,
    /// Memory of incomplete bodies and open transactions, bytes. The session's word.
    pub(crate) unfinished_bytes: usize,
    /// The counts of closed channels.
    counted_closed: TrafficTotals,
    /// Channels with deliveries since the socket last took something, each once.
    served: Vec<u16>,
}

/// A new consumer.
#[derive(Debug)]
pub(crate) struct NewConsumer<'a> {
    pub(crate) token: u32,
    pub(crate) channel: u16,
    pub(crate) tag: &'a [u8],
    pub(crate) ack_required: bool,
}

/// The answer after consume-ok.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Deliveries may start.
    Live,
    /// The queue is gone already; the cancel was written if the client understands it.
    AlreadyCancelled,
}

impl Deliveries {
    pub(crate) fn new() -> Deliveries {
        Deliveries {
            frame_size_max: 0,
            cancel_notify: false,
            delivered_ds: 0,
            channels: Vec::new(),
            sources: Vec::new(),
            free_sources: Vec::new(),
            forgotten: Vec::new(),
            by_token: HashMap::with_hasher(FixedState::default()),
            paused_tokens: Vec::new(),
            cancelled: Vec::new(),
            serial_latest: 0,
            large: LargeShare::default(),
            unfinished_bytes: 0,
            counted_closed: TrafficTotals::default(),
            served: Vec::new(),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let channel = |channel: &ChannelOutput| size_of::<ChannelOutput>() + channel.unacked.heap_bytes();
        let tags: usize = self.sources.iter().flatten().map(|source| source.tag.len()).sum();
        self.channels().map(|(_, open)| channel(open)).sum::<usize>()
            + self.channels.capacity() * size_of::<Option<Box<ChannelOutput>>>()
            + self.sources.capacity() * size_of::<Option<Source>>()
            + self.by_token.allocation_size()
            + tags
    }

    /// Opens a channel's side; returns its serial.
    pub(crate) fn open_channel(&mut self, number: u16) -> u64 {
        let index = usize::from(number);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        self.serial_latest += 1;
        self.channels[index] = Some(Box::new(ChannelOutput {
            serial: self.serial_latest,
            latest_tag: 0,
            unacked: Unacked::default(),
            global_prefetch: 0,
            global_outstanding: 0,
            confirms: ConfirmProgress::default(),
            facts: ChannelFacts::default(),
            counted: TrafficTotals::default(),
            used_ms: 0,
            is_served: false,
        }));
        self.serial_latest
    }

    /// An open channel's side.
    #[inline]
    pub(crate) fn channel(&mut self, number: u16) -> Option<&mut ChannelOutput> {
        self.channels.get_mut(usize::from(number))?.as_deref_mut()
    }

    /// All open channels with their numbers.
    pub(crate) fn channels(&self) -> impl Iterator<Item = (u16, &ChannelOutput)> {
        (0..).zip(&self.channels).filter_map(|(number, channel)| Some((number, channel.as_deref()?)))
    }

    /// Closes a channel's side: its unacked deliveries go to `each` in order. Detach its sources first.
    pub(crate) fn close_channel(&mut self, number: u16, mut each: impl FnMut(Entry)) {
        let Some(mut channel) = self.channels.get_mut(usize::from(number)).and_then(Option::take) else {
            return;
        };
        self.counted_closed += &channel.totals();
        let mut entries = Vec::with_capacity(channel.unacked.len());
        channel.unacked.take_all(|entry| entries.push(entry));
        for entry in entries {
            self.settled(entry.source);
            each(entry);
        }
    }

    /// A channel was used then, milliseconds since 1970.
    pub(crate) fn used(&mut self, number: u16, now_ms: u64) {
        if let Some(channel) = self.channel(number) {
            channel.used_ms = now_ms;
        }
    }

    /// The socket takes what was delivered.
    #[inline]
    pub(crate) fn written(&mut self, now_ms: u64) {
        while let Some(number) = self.served.pop() {
            if let Some(channel) = self.channel(number) {
                (channel.used_ms, channel.is_served) = (now_ms, false);
            }
        }
    }

    /// The counts of all channels, closed ones included.
    pub(crate) fn totals(&self) -> TrafficTotals {
        let mut sum = self.counted_closed;
        self.channels.iter().flatten().for_each(|channel| sum += &channel.totals());
        sum
    }

    /// The client has acked so many deliveries of a channel.
    #[inline]
    pub(crate) fn count_acked(&mut self, number: u16, count: u64) {
        if let Some(channel) = self.channel(number) {
            channel.counted.deliveries.acked += count;
        }
    }

    /// basic.get found nothing.
    pub(crate) fn count_empty_get(&mut self, number: u16) {
        if let Some(channel) = self.channel(number) {
            channel.counted.deliveries.got_empty += 1;
        }
    }

    /// Adds a consumer; returns its source's number. It gets nothing before [`Deliveries::announce`].
    pub(crate) fn add_consumer(&mut self, new: &NewConsumer<'_>) -> u32 {
        let index = self.add_source(Source {
            token: new.token,
            channel: new.channel,
            tag: new.tag.into(),
            ack_required: new.ack_required,
            attached: true,
            announced: false,
            cancelled_early: false,
            paused: false,
            outstanding: 0,
            timeout_ms: 0,
        });
        self.by_token.insert(new.token, index);
        index
    }

    /// Adds a source for basic.get.
    pub(crate) fn add_getter(&mut self, channel: u16) -> u32 {
        self.add_source(Source {
            token: NO_TOKEN,
            channel,
            tag: Box::default(),
            ack_required: true,
            attached: true,
            announced: true,
            cancelled_early: false,
            paused: false,
            outstanding: 0,
            timeout_ms: 0,
        })
    }

    /// Sets how long deliveries from a source may stay unacked, milliseconds; 0 is for ever (B135).
    pub(crate) fn set_timeout(&mut self, index: u32, timeout_ms: u64) {
        if let Some(source) = self.sources.get_mut(index as usize).and_then(Option::as_mut) {
            source.timeout_ms = timeout_ms;
        }
    }

    /// Says when deliveries from now on count as made, tenths of a second: not earlier than they are.
    pub(crate) fn set_delivered(&mut self, delivered_ds: u32) {
        self.delivered_ds = self.delivered_ds.max(delivered_ds);
    }

    fn add_source(&mut self, source: Source) -> u32 {
        if let Some(index) = self.free_sources.pop() {
            self.sources[index as usize] = Some(source);
            return index;
        }
        self.sources.push(Some(source));
        u32::try_from(self.sources.len() - 1).expect("fewer sources than tokens")
    }

    /// A source gets no more deliveries; it is forgotten when its last unacked delivery is settled.
    pub(crate) fn detach(&mut self, index: u32) {
        let Some(source) = self.sources.get_mut(index as usize).and_then(Option::as_mut) else { return };
        source.attached = false;
        self.by_token.remove(&source.token);
        if source.outstanding == 0 {
            self.forget(index);
        }
    }

    fn forget(&mut self, index: u32) {
        self.sources[index as usize] = None;
        self.free_sources.push(index);
        self.forgotten.push(index);
    }

    /// Whether the source's number is still in use.
    pub(crate) fn is_known(&self, index: u32) -> bool {
        self.sources.get(index as usize).is_some_and(Option::is_some)
    }

    /// One delivery less is unacked at a source.
    #[inline]
    fn settled(&mut self, index: u32) {
        let source = self.sources[index as usize].as_mut().expect("a source outlives its unacked deliveries");
        source.outstanding -= 1;
        if source.outstanding == 0 && !source.attached {
            self.forget(index);
        }
    }

    /// Settles what the client names; each goes to `each`, neighbours in one queue from one source as the first of them and how many they
    /// are. `false` if the tag is unknown (B127).
    #[inline]
    pub(crate) fn settle(
        &mut self,
        number: u16,
        tag: u64,
        multiple: bool,
        mut each: impl FnMut(Entry, u32),
    ) -> bool {
        let Some(channel) = self.channels.get_mut(usize::from(number)).and_then(Option::as_deref_mut) else {
            return false;
        };
        let sources = &mut self.sources;
        let mut emptied = Vec::new();
        let mut take = |entry: Entry, count: u32| {
            let source =
                sources[entry.source as usize].as_mut().expect("a source outlives its unacked deliveries");
            source.outstanding -= count;
            if source.outstanding == 0 && !source.attached {
                emptied.push(entry.source);
            }
            let counted = if source.token == NO_TOKEN { 0 } else { count };
            channel.global_outstanding = channel.global_outstanding.saturating_sub(counted);
            each(entry, count);
        };
        let known = match (multiple, tag) {
            (true, 0) => {
                channel.unacked.take_all(|entry| take(entry, 1));
                true
            }
            (true, _) => channel.unacked.take_runs_through(tag, &mut take),
            (false, _) => channel.unacked.take(tag).map(|entry| take(entry, 1)).is_some(),
        };
        emptied.into_iter().for_each(|index| self.forget(index));
        known
    }

    /// Like [`Deliveries::settle`] of one or many tags inside a transaction: they leave the list, but keep counting
    /// against prefetch and their source until the transaction ends.
    pub(crate) fn set_aside(
        &mut self,
        number: u16,
        tag: u64,
        multiple: bool,
        mut each: impl FnMut(Entry),
    ) -> bool {
        let Some(channel) = self.channel(number) else { return false };
        match (multiple, tag) {
            (true, 0) => {
                channel.unacked.take_all(each);
                true
            }
            (true, _) => channel.unacked.take_through(tag, each),
            (false, _) => channel.unacked.take(tag).map(&mut each).is_some(),
        }
    }

    /// A delivery set aside is settled after all (tx.commit, or its channel is gone).
    pub(crate) fn settle_set_aside(&mut self, number: u16, source: u32) {
        let counts = self.sources[source as usize].as_ref().is_some_and(|source| source.token != NO_TOKEN);
        if let Some(channel) = self.channel(number) {
            channel.global_outstanding = channel.global_outstanding.saturating_sub(u32::from(counts));
        }
        self.settled(source);
    }

    /// Sets the limit of the whole channel (basic.qos global); 0 is no limit.
    pub(crate) fn set_global_prefetch(&mut self, number: u16, count: u32) {
        if let Some(channel) = self.channel(number) {
            channel.global_prefetch = count;
        }
    }

    /// Takes the tokens of paused consumers whose channel has room again, with their sources.
    pub(crate) fn take_resumable(&mut self, out: &mut Vec<(u32, u32)>) {
        let mut kept = 0;
        for at in 0..self.paused_tokens.len() {
            let token = self.paused_tokens[at];
            let Some(&index) = self.by_token.get(&token) else { continue };
            let source = self.sources[index as usize].as_mut().expect("tokens lead to sources");
            let channel = self.channels[usize::from(source.channel)].as_ref();
            if channel.is_some_and(|channel| channel.has_window(source.ack_required)) {
                source.paused = false;
                out.push((index, token));
            } else {
                self.paused_tokens[kept] = token;
                kept += 1;
            }
        }
        self.paused_tokens.truncate(kept);
    }

    /// Whether any consumer was refused and waits to be resumed.
    pub(crate) fn has_paused(&self) -> bool {
        !self.paused_tokens.is_empty()
    }
}

impl Source {
    /// It was refused a delivery: to be resumed.
    fn pause(&mut self, paused_tokens: &mut Vec<u32>) {
        if !self.paused {
            self.paused = true;
            paused_tokens.push(self.token);
        }
    }
}

impl ChannelOutput {
    /// When something last came in or was written, milliseconds since 1970; 0 if that is yet to come.
    pub(crate) fn used_ms(&self) -> u64 {
        self.used_ms
    }

    /// The counts of the channel.
    pub(crate) fn totals(&self) -> TrafficTotals {
        let mut totals = self.facts.published.now();
        totals += &self.counted;
        totals.confirmed = self.confirms.confirmed_count();
        totals
    }

    /// Deliveries from a source, whose number this is, were put into the output.
    #[inline(always)]
    fn note(
        &mut self,
        source: &mut Source,
        index: u32,
        taken: &[Delivery<'_>],
        redelivered: u64,
        delivered_ds: u32,
    ) {
        let (first_tag, count) = (self.latest_tag + 1, taken.len());
        self.latest_tag += count as u64;
        if source.ack_required {
            source.outstanding += count as u32;
            self.global_outstanding += count as u32;
            self.unacked.extend(taken.iter().enumerate().map(|(nth, delivery)| Entry {
                tag: first_tag + nth as u64,
                seq: delivery.seq,
                source: index,
                delivered_ds,
            }));
        }
        let counted = &mut self.counted.deliveries;
        let delivered =
            if source.ack_required { &mut counted.delivered } else { &mut counted.delivered_no_ack };
        *delivered += count as u64;
        counted.redelivered += redelivered;
    }

    #[inline]
    fn has_window(&self, ack_required: bool) -> bool {
        self.window(ack_required) > 0
    }

    /// As many deliveries may be made before the limit of the whole channel is reached.
    #[inline]
    fn window(&self, ack_required: bool) -> usize {
        if !ack_required || self.global_prefetch == 0 {
            return usize::MAX;
        }
        self.global_prefetch.saturating_sub(self.global_outstanding) as usize
    }
}

/// Whether a delivery's message came by another protocol.
#[inline]
fn is_foreign(delivery: &Delivery<'_>) -> bool {
    delivery.message.format() != Format::Amqp091
}

/// A delivery with the converted bytes of its message.
fn as_amqp091<'a>(
    (delivery, InAmqp091 { properties, body }): (&Delivery<'a>, &'a InAmqp091<'_>),
) -> Delivery<'a> {
    Delivery { message: MessageView { properties, body, ..delivery.message }, ..*delivery }
}

/// Where the broker's queues hand deliveries over: the outbox, and a flag that tells the session to look for cancels.
#[derive(Debug)]
pub(crate) struct DeliverySink {
    pub(crate) outbox: Arc<Outbox<Deliveries>>,
    pub(crate) has_cancelled: AtomicBool,
    pub(crate) large: LargeRoom,
}

impl broker::ConsumerSink for DeliverySink {
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        let taken = self.outbox.write(|output| self.deliver_run(output, token, run));
        if run.get(taken).is_some_and(is_foreign) {
            return taken + self.deliver_converted(token, &run[taken..]);
        }
        taken
    }

    fn deliver_large(&self, token: u32, delivery: &Delivery<'_>, body: LargeBody) -> usize {
        if is_foreign(delivery) {
            return self.deliver_converted(token, std::slice::from_ref(delivery));
        }
        self.outbox.write(|output| usize::from(self.deliver_late(output, token, delivery, body)))
    }

    fn cancelled(&self, token: u32) {
        self.outbox.write(|output| leave_queue(output, token));
        self.has_cancelled.store(true, Ordering::Release);
        self.outbox.wake();
    }

    fn hold(&self, token: u32) -> SessionHold {
        let hold = hold_of(&mut self.outbox.lock(), token);
        match hold {
            SessionHold::LargeMessages { .. } => {
                SessionHold::LargeMessages { held_bytes: self.large.held_bytes() as u64 }
            }
            _ => hold,
        }
    }
}

impl DeliverySink {
    /// Delivers a run with messages that came by other protocols.
    #[cold]
    fn deliver_converted(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        let converted: Vec<InAmqp091<'_>> =
            run.iter().map(|delivery| delivery.message.in_amqp091()).collect();
        let deliveries: Vec<Delivery<'_>> = run.iter().zip(&converted).map(as_amqp091).collect();
        self.outbox.write(|output| self.deliver_run(output, token, &deliveries))
    }

    /// Encodes as many deliveries of the run as there is room and prefetch for, up to the first one whose message came by another protocol.
    fn deliver_run(&self, output: &mut Output<Deliveries>, token: u32, run: &[Delivery<'_>]) -> usize {
        let (bytes, side, limit) = output.parts();
        let Some(&index) = side.by_token.get(&token) else { return 0 };
        let source = side.sources[index as usize].as_mut().expect("tokens lead to sources");
        let Some(channel) = side.channels[usize::from(source.channel)].as_deref_mut() else { return 0 };
        let ack_required = source.ack_required;
        let (bytes_before, first_tag) = (bytes.len(), channel.latest_tag + 1);
        let window = channel.window(ack_required);
        let (mut taken, mut redelivered) = (0, 0);
        let mut encoder = DeliverRun::new(source.channel, &source.tag, side.frame_size_max);
        for delivery in run {
            let body_bytes = delivery.message.body.len();
            if bytes.len() >= limit
                || taken >= window
                || (body_bytes > LARGE_BYTES_MIN
                    && !self.large.claim(&mut side.large, body_bytes, &self.outbox))
            {
                source.pause(&mut side.paused_tokens);
                break;
            }
            let (message, at) = (&delivery.message, bytes.len());
            let is_new = encoder.push(
                bytes,
                first_tag + taken as u64,
                delivery.redelivered,
                message.exchange,
                message.routing_key,
                message.properties,
                message.body,
            );
            // A message that is encoded like the one before has its format, too.
            if is_new && is_foreign(delivery) {
                bytes.truncate(at);
                break;
            }
            taken += 1;
            redelivered += u64::from(delivery.redelivered);
        }
        channel.note(source, index, &run[..taken], redelivered, side.delivered_ds);
        if taken > 0 && !channel.is_served {
            channel.is_served = true;
            side.served.push(source.channel);
        }
        let delivered_bytes = bytes.len() - bytes_before;
        output.note_delivered(delivered_bytes);
        taken
    }
}

impl DeliverySink {
    /// Encodes one delivery but for its body, whose frames are made when the socket takes them. False when there is no room, or no prefetch.
    fn deliver_late(
        &self,
        output: &mut Output<Deliveries>,
        token: u32,
        delivery: &Delivery<'_>,
        body: LargeBody,
    ) -> bool {
        let (bytes, side, limit) = output.parts();
        let Some(&index) = side.by_token.get(&token) else { return false };
        let source = side.sources[index as usize].as_mut().expect("tokens lead to sources");
        let Some(channel) = side.channels[usize::from(source.channel)].as_deref_mut() else { return false };
        let has_room = bytes.len() < limit && channel.has_window(source.ack_required);
        let is_granted = has_room
            && (body.len() <= LARGE_BYTES_MIN || self.large.claim(&mut side.large, body.len(), &self.outbox));
        if !is_granted {
            source.pause(&mut side.paused_tokens);
            return false;
        }
        let (message, bytes_before) = (&delivery.message, bytes.len());
        encode_deliver_head(
            bytes,
            source.channel,
            &source.tag,
            channel.latest_tag + 1,
            delivery.redelivered,
            message.exchange,
            message.routing_key,
            message.properties,
            body.len(),
        );
        let frames = LateBody(BodyFrames::new(source.channel, side.frame_size_max, body));
        let delivered_bytes = bytes.len() - bytes_before + frames.bytes_left();
        let (redelivered, run) = (u64::from(delivery.redelivered), std::slice::from_ref(delivery));
        channel.note(source, index, run, redelivered, side.delivered_ds);
        if !channel.is_served {
            channel.is_served = true;
            side.served.push(source.channel);
        }
        output.note_delivered(delivered_bytes);
        output.add_late(Box::new(frames));
        true
    }
}

/// The frames of a body that is still where its queue had it.
#[derive(Debug)]
struct LateBody(BodyFrames<LargeBody>);

impl LateBytes for LateBody {
    fn bytes_left(&self) -> usize {
        self.0.bytes_left()
    }

    fn held_bytes(&self) -> usize {
        self.0.body().own_bytes()
    }

    fn write(&mut self, out: &mut Vec<u8>, bytes_max: usize) {
        self.0.write(out, bytes_max);
    }
}

/// Why a consumer would not take a delivery now.
fn hold_of(output: &mut Output<Deliveries>, token: u32) -> SessionHold {
    let pending_bytes = output.pending_bytes() as u64;
    let side = output.state();
    let Some(&index) = side.by_token.get(&token) else { return SessionHold::Gone };
    let source = side.sources[index as usize].as_ref().expect("tokens lead to sources");
    let Some(channel) = side.channels[usize::from(source.channel)].as_deref() else {
        return SessionHold::Gone;
    };
    if !source.announced {
        return SessionHold::Unannounced;
    }
    if !channel.has_window(source.ack_required) {
        let (unacked, prefetch) = (channel.global_outstanding, channel.global_prefetch);
        return SessionHold::ChannelPrefetch { unacked, prefetch };
    }
    // A consumer that was refused for want of room goes on at the lower bound.
    let bytes_max = if source.paused { crate::OUTPUT_BYTES_LOW } else { crate::OUTPUT_BYTES_MAX };
    match pending_bytes < bytes_max as u64 {
        true if source.paused && side.large.is_waiting() => SessionHold::LargeMessages { held_bytes: 0 },
        true => SessionHold::None,
        false => SessionHold::Output { pending_bytes },
    }
}

/// The queue is gone. The session tells the client, who must not read the cancel before the answer to its own delete (B119).
fn leave_queue(output: &mut Output<Deliveries>, token: u32) {
    let (_, side, _) = output.parts();
    let Some(&index) = side.by_token.get(&token) else { return };
    let source = side.sources[index as usize].as_mut().expect("tokens lead to sources");
    if !source.announced {
        source.cancelled_early = true;
        return;
    }
    side.cancelled.push(CancelledConsumer { channel: source.channel, token, tag: source.tag.clone() });
    side.detach(index);
}

/// Writes a cancel from the server, if the client understands it.
pub(crate) fn tell_cancelled(output: &mut Output<Deliveries>, channel: u16, tag: &[u8]) {
    let (bytes, side, _) = output.parts();
    if side.cancel_notify {
        basic::Cancel { consumer_tag: ShortStr::bounded(tag), nowait: true }.encode_frame(channel, bytes);
    }
}

/// Writes consume-ok unless it was not wanted, then a cancel if the queue has gone meanwhile (B117).
pub(crate) fn announce(output: &mut Output<Deliveries>, index: u32, nowait: bool) -> Announced {
    let (bytes, side, _) = output.parts();
    let Some(source) = side.sources.get_mut(index as usize).and_then(Option::as_mut) else {
        return Announced::AlreadyCancelled;
    };
    source.announced = true;
    if !nowait {
        let ok = basic::ConsumeOk { consumer_tag: ShortStr::bounded(&source.tag) };
        ok.encode_frame(source.channel, bytes);
    }
    if !source.cancelled_early {
        return Announced::Live;
    }
    let (channel, tag) = (source.channel, source.tag.clone());
    side.detach(index);
    tell_cancelled(output, channel, &tag);
    Announced::AlreadyCancelled
}

/// Writes get-ok with its content; records it as unacked when it has a source.
pub(crate) fn deliver_got(
    output: &mut Output<Deliveries>,
    room: &LargeRoom,
    number: u16,
    source: Option<u32>,
    got: &GotMessage,
) {
    let (bytes, side, _) = output.parts();
    let (frame_size_max, delivered_ds) = (side.frame_size_max, side.delivered_ds);
    let Some(channel) = side.channels[usize::from(number)].as_deref_mut() else { return };
    if got.body.len() > LARGE_BYTES_MIN {
        room.add(&mut side.large, got.body.len());
    }
    channel.latest_tag += 1;
    let counted = &mut channel.counted.deliveries;
    *(if source.is_some() { &mut counted.got } else { &mut counted.got_no_ack }) += 1;
    counted.redelivered += u64::from(got.redelivered);
    let tag = channel.latest_tag;
    let left = u32::try_from(got.ready_left).unwrap_or(u32::MAX);
    encode_get_ok(
        bytes,
        number,
        tag,
        got.redelivered,
        &got.exchange,
        &got.routing_key,
        left,
        &got.properties,
        &got.body,
        frame_size_max,
    );
    if let Some(index) = source {
        channel.unacked.push(Entry { tag, seq: got.seq, source: index, delivered_ds });
        side.sources[index as usize].as_mut().expect("the session holds this source").outstanding += 1;
    }
}
