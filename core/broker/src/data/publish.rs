//! Publishing: check, route, group by queue, hand over once per queue and batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use message::{
    BadExpiration, CarbonCopies, Edit, Facts, Format, MessageView, Properties, Property, ShortStr, rewrite,
};
use queues::BodyBytes;
use routing::{Exchange, ExchangeKind, Passage};
use stdx::ConnectionId;

use super::batch::{Batch, BatchConfirms, Head};
use super::confirms::ConfirmSink;
use super::handovers::Handovers;
use super::reply::REPLY_QUEUE;
use super::routes::{ChannelRoutes, Route, keys_of};
use crate::Broker;
use crate::access::Principal;
use crate::alarms::Raised;
use crate::announcements::trace;
use crate::cell::machine::MachineType;
use crate::cell::{Queue, QueueRef};
use crate::permission::Permission;
use crate::refused::{Refused, Resource};
use crate::stages::Stage;
use crate::stats::{MessageSizes, PublishCounters, Sizes, Stray};

/// Bytes of publishes gathered before they are handed over without waiting for the end of the read.
const BATCH_BYTES_MAX: usize = 512 * 1024;

/// Bytes that a queue writes of a message beside its body, about.
const RECORD_BYTES: usize = 128;

/// Where the disk is nearly full, of what may wait to be written one hand-over has at most: 1 / this.
const HANDED_PART: u64 = 8;

/// One complete publish as the session received it. Bytes are borrowed from the read buffer; the publisher copies
/// what must outlive the call.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Exchange name; empty is the default exchange.
    pub exchange: &'a [u8],
    /// Routing key.
    pub routing_key: &'a [u8],
    /// Raw properties: flags and list, validated by the session.
    pub properties: &'a [u8],
    /// Whole body.
    pub body: &'a [u8],
    /// Comes back when it goes nowhere; the session sends it, here it is counted.
    pub mandatory: bool,
}

/// The outcome of a publish's routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// At least one queue (or an alternate exchange's queue, or a reply consumer) gets it.
    Yes,
    /// Nobody gets it: with `mandatory`, send basic.return now (it precedes the confirm, B102).
    No,
}

/// The state that the broker keeps per channel for publishing: caches of exchanges and permissions, confirm state.
#[derive(Default)]
pub struct PublishChannel {
    confirms: Option<Arc<dyn ConfirmSink>>,
    latest_publish: u64,
    reply_address: Option<Box<[u8]>>,
    /// Its number on the connection, for traces.
    number: u16,
    counters: Arc<PublishCounters>,
    pub(crate) routes: ChannelRoutes,
}

impl PublishChannel {
    /// A channel without confirms.
    pub fn new() -> PublishChannel {
        PublishChannel::default()
    }

    /// As [`PublishChannel::new`], with the number that traces show.
    pub fn numbered(number: u16) -> PublishChannel {
        PublishChannel { number, ..PublishChannel::default() }
    }

    /// confirm.select: from now on publishes are numbered from 1 and settled through `sink`.
    pub fn enable_confirms(&mut self, sink: Arc<dyn ConfirmSink>) {
        self.confirms = Some(sink);
    }

    /// The counts of messages that were published on the channel, for listings.
    pub fn counters(&self) -> Arc<PublishCounters> {
        self.counters.clone()
    }

    /// Number of the latest publish; 0 before the first or without confirms.
    pub fn latest_publish(&self) -> u64 {
        self.latest_publish
    }

    /// The channel consumes from `amq.rabbitmq.reply-to`: publishes with that reply-to property are rewritten to this
    /// address (B154). `None` when the reply consumer is gone.
    pub fn set_reply_address(&mut self, address: Option<Box<[u8]>>) {
        self.reply_address = address;
    }
}

/// The publishing half of a connection: gathers what one read brought and hands it over once per queue.
pub struct Publisher {
    broker: Broker,
    principal: Principal,
    batch: Batch,
    confirms: Option<BatchConfirms>,
    handovers: Handovers,
    /// Queues whose inbox was over its bound at the latest flush.
    crowded: Vec<Arc<Queue>>,
    /// The messages of this batch are traced.
    traced: bool,
    run: Run,
    latest: Option<Latest>,
    has_published: bool,
    /// Whether it has since that was last asked.
    is_publishing: bool,
    /// As many queues as a message of the batch goes to at most.
    copies: usize,
    /// Whether log and segments are to be asked whether they take more before the next message.
    is_to_look: bool,
    /// The body of the message that is being published, to be kept instead of copied.
    whole: Option<BodyBytes>,
}

/// The latest message of the batch, if another one on its channel with the same names and properties goes the same way.
struct Latest {
    /// Number of the channel.
    channel: u16,
    way: usize,
    queue_count: usize,
    /// Its group among the confirms, if it is to be confirmed.
    group: Option<u32>,
}

/// Messages to one exchange, one after the other, that it has not counted yet.
#[derive(Default)]
struct Run {
    exchange: Option<Arc<Exchange<QueueRef>>>,
    passage: Passage,
    sizes: Sizes,
}

impl Run {
    /// One more message to `exchange`, for so many queues.
    #[inline]
    fn add(&mut self, exchange: &Arc<Exchange<QueueRef>>, body_bytes: usize, queues: usize) {
        if !self.exchange.as_ref().is_some_and(|known| Arc::ptr_eq(known, exchange)) {
            self.leave();
            self.exchange = Some(exchange.clone());
        }
        self.sizes.add(body_bytes);
        self.passage.arrived += 1;
        self.passage.left += queues as u64;
    }

    fn add_stray(&mut self, stray: Stray) {
        *(if stray == Stray::Returned { &mut self.passage.returned } else { &mut self.passage.dropped }) += 1;
    }

    fn leave(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.passed.count(&std::mem::take(&mut self.passage));
        }
    }

    fn end(&mut self, sizes: &MessageSizes, publisher: ConnectionId) {
        if self.exchange.is_some() {
            self.leave();
            sizes.count(publisher, &std::mem::take(&mut self.sizes));
        }
    }
}

/// The facts about a message before it is routed.
struct Inspected {
    /// Its properties, if they are not those that came.
    rewritten: Option<Vec<u8>>,
    facts: Facts,
    copies: Option<Box<CarbonCopies>>,
}

impl Publisher {
    /// For one connection.
    pub fn new(broker: &Broker, principal: &Principal) -> Publisher {
        Publisher {
            broker: broker.clone(),
            principal: principal.clone(),
            batch: Batch::default(),
            confirms: None,
            handovers: Handovers::default(),
            crowded: Vec::new(),
            traced: false,
            run: Run::default(),
            latest: None,
            has_published: false,
            is_publishing: false,
            copies: 0,
            is_to_look: false,
            whole: None,
        }
    }

    /// Checks (in the order of B97, from size to routing), numbers and routes one message; nothing is handed to a
    /// queue before [`Publisher::flush`]. On an error the number is not used and the session closes the channel.
    pub fn publish(
        &mut self,
        channel: &mut PublishChannel,
        message: Incoming<'_>,
    ) -> Result<Routed, Refused> {
        // Before this message is numbered: its return must precede its confirm (B103).
        if self.batch.bytes() > BATCH_BYTES_MAX || self.whole.is_some() {
            self.flush();
        }
        let waiting_bytes_max = self.broker.alarms().waiting_bytes_max();
        if waiting_bytes_max < u64::MAX {
            self.begin_near_full(waiting_bytes_max);
        }
        self.check_size(&message)?;
        if waiting_bytes_max < u64::MAX || self.whole.is_some() || !self.is_alike(channel, &message) {
            return self.publish_anew(channel, message);
        }
        let mut body = Some(message.body);
        self.publish_alike(channel, 1, || body.take())?;
        Ok(Routed::Yes)
    }

    /// The body of the message that is published next, in memory of its own: its queue keeps that instead of a copy, if nobody else has it by
    /// the time of [`Publisher::end_lent`].
    pub fn lend_body(&mut self, body: BodyBytes) {
        self.whole = Some(body);
    }

    /// That message was published, or refused: the gathered messages are handed over. A message whose body was lent goes alone.
    pub fn end_lent(&mut self) {
        self.whole = None;
        self.flush();
    }

    /// Makes the checks that [`Self::publish`] makes before it routes, of a message that is published later.
    ///
    /// # Errors
    /// As it would be refused now.
    pub fn check(&mut self, channel: &mut PublishChannel, message: &Incoming<'_>) -> Result<(), Refused> {
        self.check_size(message)?;
        self.inspect(channel, message).map(drop)
    }

    /// Where the disk is nearly full a read of a connection must not be more than may wait when each of its queues has written it: it is
    /// handed over in parts, after each of which its session looks whether log and segments take more.
    #[cold]
    fn begin_near_full(&mut self, waiting_bytes_max: u64) {
        let bytes = self.batch.bytes() + self.batch.len() * RECORD_BYTES;
        if (bytes as u64).saturating_mul(self.copies as u64) > waiting_bytes_max / HANDED_PART {
            self.flush();
        }
        self.is_to_look |= self.batch.len() == 0;
    }

    /// Whether [`Publisher::poll_ready`] is to be asked before the next message, though a read is not over; true once.
    #[inline]
    pub fn take_look(&mut self) -> bool {
        std::mem::take(&mut self.is_to_look)
    }

    /// Whether a transaction would find room on a disk that is nearly full. Nobody can stop in its middle.
    ///
    /// # Errors
    /// [`Refused::Storage`] when it would not, and the refusal of one of its messages now.
    pub fn check_transaction<'a>(
        &mut self,
        channel: &mut PublishChannel,
        messages: impl Iterator<Item = Incoming<'a>>,
    ) -> Result<(), Refused> {
        if self.broker.alarms().waiting_bytes_max() == u64::MAX {
            return Ok(());
        }
        let mut bytes = 0u64;
        for message in messages {
            let Inspected { rewritten, facts, copies } = self.inspect(channel, &message)?;
            if facts.persistent {
                let raw = rewritten.as_deref().unwrap_or(message.properties);
                channel.routes.route(
                    &self.principal,
                    &MessageView { properties: raw, ..message.view() },
                    copies.as_deref(),
                );
                bytes += self.written_bytes(message.body.len(), channel.routes.queues().len());
            }
        }
        self.check_written(bytes, "a transaction")
    }

    /// Bytes that so many queues write of a message.
    fn written_bytes(&self, body_bytes: usize, queues: usize) -> u64 {
        let is_shared = self.broker.services().bodies.shares(body_bytes, queues);
        let bodies = if is_shared { 1 } else { queues };
        (bodies * body_bytes + queues * RECORD_BYTES) as u64
    }

    /// Whether that may wait, or finds room on the disk beside what may.
    fn check_written(&self, bytes: u64, what: &str) -> Result<(), Refused> {
        let alarms = self.broker.alarms();
        if bytes <= alarms.waiting_bytes_max() {
            return Ok(());
        }
        alarms.check_room(what, bytes, self.broker.services().log.pending_bytes())
    }

    #[inline]
    fn check_size(&self, message: &Incoming<'_>) -> Result<(), Refused> {
        let (size, max) = (message.body.len() as u64, self.broker.options().message_size_max);
        if size > max {
            return Err(Refused::MessageTooLarge { size, max });
        }
        let is_persistent = || Facts::of(&message.view()).is_ok_and(|facts| facts.persistent);
        if size > self.broker.alarms().waiting_bytes_max() && is_persistent() {
            return self.check_written(size, "a message");
        }
        Ok(())
    }

    /// Whether nothing has to be found out about a message: it differs from the one before in its body only.
    #[inline]
    fn is_alike(&self, channel: &PublishChannel, message: &Incoming<'_>) -> bool {
        self.latest.as_ref().is_some_and(|latest| {
            latest.channel == channel.number
                && latest.group.is_some() == channel.confirms.is_some()
                && channel.routes.is_settled(&self.principal)
                && self.batch.is_like_newest(message.view())
                && !message.view().claims_in_body()
        })
    }

    /// Whether [`Self::publish_alike`] may take messages like this one: it was the latest, and another one goes the same way.
    pub fn repeats(&self, channel: &PublishChannel, message: &Incoming<'_>) -> bool {
        self.is_alike(channel, message)
    }

    /// As [`Self::publish`], of messages that differ in their bodies only from the latest one, of which [`Self::repeats`] is true.
    /// Stops with the first that is refused, and where the batch is full: then there may be more. Room is made for `expected` of them.
    ///
    /// # Panics
    /// When there is no latest message.
    pub fn publish_alike<'b>(
        &mut self,
        channel: &mut PublishChannel,
        expected: usize,
        mut next_body: impl FnMut() -> Option<&'b [u8]>,
    ) -> Result<(), Refused> {
        let latest = self.latest.as_ref().expect("it was asked for");
        let Latest { way, queue_count, group, .. } = *latest;
        let like = self.batch.newest().expect("the latest message is in it");
        let is_persistent = like.persistent;
        let max = self.broker.options().message_size_max;
        let (bytes_max, count_max) = self.alike_max(like, queue_count);
        let from = self.batch.len() as u32;
        let mut count = 0;
        let mut refused = Ok(());
        while self.batch.bytes() <= bytes_max
            && count < count_max
            && let Some(body) = next_body()
        {
            if body.len() as u64 > max {
                refused = Err(Refused::MessageTooLarge { size: body.len() as u64, max });
                break;
            }
            if is_persistent && self.broker.alarms().raised().has(Raised::STORAGE_FAILED) {
                refused = Err(self.broker.alarms().refusal());
                break;
            }
            let shared = self.broker.services().share(body, queue_count);
            if count == 0 {
                self.batch.expect_alike(expected, body.len());
            }
            self.batch.push_alike(body, shared);
            self.run.sizes.add(body.len());
            count += 1;
        }
        if count > 0 {
            if let (Some(group), Some(confirms)) = (group, &mut self.confirms) {
                channel.latest_publish += count;
                confirms.numbered(group, channel.latest_publish);
            }
            self.run.passage.arrived += count;
            self.run.passage.left += count * queue_count as u64;
            channel.counters.count(count, group.is_some());
            self.handovers.add_to(way, from, count as u32);
        }
        refused
    }

    /// Bytes of a batch, and messages, from which on no more that are alike are added to it. One always may.
    #[inline]
    fn alike_max(&self, like: &Head, queue_count: usize) -> (usize, u64) {
        let waiting_bytes_max = self.broker.alarms().waiting_bytes_max();
        if waiting_bytes_max == u64::MAX {
            return (BATCH_BYTES_MAX, u64::MAX);
        }
        let part = waiting_bytes_max / HANDED_PART / queue_count.max(1) as u64;
        let bytes_max = BATCH_BYTES_MAX.min(part as usize).max(self.batch.bytes());
        (bytes_max, (part / (RECORD_BYTES + like.head_bytes()) as u64).max(1))
    }

    fn publish_anew(
        &mut self,
        channel: &mut PublishChannel,
        message: Incoming<'_>,
    ) -> Result<Routed, Refused> {
        if self.batch.len() == 0 {
            self.traced = self.principal.vhost.trace().is_on();
        }
        let Inspected { rewritten, facts, copies } = self.inspect(channel, &message)?;
        let raw = rewritten.as_deref().unwrap_or(message.properties);
        let began = (self.batch.len() == 0).then(|| {
            platform::profile::set_exchange(channel.routes.exchange_id());
            self.broker.stages().begin()
        });
        let copies = copies.as_deref();
        let view = MessageView { properties: raw, ..message.view() };
        let route = channel.routes.route(&self.principal, &view, copies);
        if let Some(began) = began {
            self.broker.stages().end(Stage::Route, began);
        }
        if facts.persistent && self.broker.alarms().waiting_bytes_max() < u64::MAX {
            let written = self.written_bytes(message.body.len(), channel.routes.queues().len());
            self.check_written(written, "a message and its copies")?;
        }
        let raw = copies.and_then(|copies| copies.stripped.as_deref()).unwrap_or(raw);
        let annotations = copies.and_then(|copies| copies.hidden.as_deref()).unwrap_or_default();
        let view = MessageView { properties: raw, ..view };
        if !channel.routes.on_duty().is_empty() {
            self.principal.vhost.remember(channel.routes.on_duty(), view, facts, annotations);
        }
        if self.traced {
            self.trace(channel, view, copies);
        }
        let is_plain = copies.is_none() && rewritten.is_none() && !self.traced;
        let repeats = if is_plain { Repeats::Yes } else { Repeats::No };
        let routed = self.take(channel, view, &Extras { facts, annotations, repeats }, &route);
        if routed == Routed::No {
            let stray = if message.mandatory { Stray::Returned } else { Stray::Dropped };
            channel.counters.count_stray(stray);
            self.run.add_stray(stray);
        }
        Ok(routed)
    }

    /// Enters the message's exchange and finds out what its properties say, in the order of B97.
    fn inspect(
        &mut self,
        channel: &mut PublishChannel,
        message: &Incoming<'_>,
    ) -> Result<Inspected, Refused> {
        (self.latest, self.has_published, self.is_publishing) = (None, true, true);
        channel.routes.enter(&self.principal, message.exchange)?;
        if Format::of(message.properties) != Format::Amqp091 {
            return self.inspect_foreign(channel, message);
        }
        let properties = Properties::new(message.properties);
        let rewritten = match properties.has(Property::ReplyTo) {
            true => self.rewrite_reply_to(channel, &properties)?,
            false => None,
        };
        let facts = Facts::of(&message.view())?;
        if facts.persistent {
            self.check_storage()?;
        }
        let may_have_copies = properties.has(Property::Headers);
        let properties_now = rewritten.as_deref().unwrap_or(message.properties);
        let view = MessageView { properties: properties_now, ..message.view() };
        let copies = channel.routes.carbon_copies(&self.principal, &view, may_have_copies)?;
        if properties.has(Property::UserId) {
            self.check_user_id(&properties)?;
        }
        Ok(Inspected { rewritten, facts, copies })
    }

    /// The same of a message that came by another protocol than AMQP 0-9-1: it passes as it came.
    fn inspect_foreign(
        &mut self,
        channel: &mut PublishChannel,
        message: &Incoming<'_>,
    ) -> Result<Inspected, Refused> {
        let view = message.view();
        let facts = Facts::of(&view)?;
        if facts.persistent {
            self.check_storage()?;
        }
        let copies = channel.routes.carbon_copies(&self.principal, &view, view.may_have_copies())?;
        if let Some(claimed) = view.claimed_user() {
            self.check_claimed_user(&claimed)?;
        }
        Ok(Inspected { rewritten: None, facts, copies })
    }

    /// Copies a message to the trace of its vhost (B175). The default exchange is said to route to each key, whether there is a queue
    /// of that name or not.
    #[cold]
    fn trace(&self, channel: &PublishChannel, message: MessageView<'_>, copies: Option<&CarbonCopies>) {
        let keys = keys_of(message.routing_key, copies);
        let mut routed: Vec<&[u8]> = match message.exchange {
            b"" => keys.to_vec(),
            _ => {
                let are_found = |queue: &&QueueRef| queue.0.machine_type() != MachineType::Delayed;
                let queues = channel.routes.queues().iter().filter(are_found);
                queues.map(|queue| queue.0.name()).collect()
            }
        };
        routed.sort_unstable();
        routed.dedup();
        let vhost = self.principal.vhost.shared_name();
        let place = self.broker.place(&self.principal, &vhost, channel.number);
        let outlet = &self.broker.services().announcer.outlet;
        trace::published(place, message, &keys, &routed).into_iter().for_each(|copy| outlet.say(copy));
    }

    /// Numbers the message and gathers it for its queues.
    fn take(
        &mut self,
        channel: &mut PublishChannel,
        view: MessageView<'_>,
        extras: &Extras<'_>,
        route: &Route,
    ) -> Routed {
        // Not a list of its own for each message: counting who holds one takes two locked operations.
        let queues = channel.routes.queues();
        let queue_count = queues.len();
        self.run.add(channel.routes.entered(), view.body.len(), queue_count);
        let number = number(&mut self.confirms, channel.confirms.as_ref(), &mut channel.latest_publish);
        channel.counters.count(1, number.is_some());
        if let Route::Replies(replies) = route {
            replies.iter().for_each(|reply| reply.deliver(view));
        }
        if queues.is_empty() {
            return if matches!(route, Route::Queues) { Routed::No } else { Routed::Yes };
        }
        self.copies = self.copies.max(queue_count);
        let index = match self.whole.take() {
            None => {
                let shared = self.broker.services().share(view.body, queue_count);
                self.batch.push_with(view, extras.facts, extras.annotations, shared)
            }
            Some(body) => self.push_whole(view, extras, body, queue_count),
        };
        let way = self.handovers.add(queues, index);
        if let Some((group, publish)) = number {
            self.batch.number_newest(group, publish);
        }
        if extras.repeats == Repeats::Yes && channel.routes.is_settled(&self.principal) {
            let group = number.map(|(group, _)| group);
            self.latest = Some(Latest { channel: channel.number, way, queue_count, group });
        }
        Routed::Yes
    }

    /// A message with a body that need not be copied.
    #[cold]
    fn push_whole(
        &mut self,
        view: MessageView<'_>,
        extras: &Extras<'_>,
        body: BodyBytes,
        queue_count: usize,
    ) -> u32 {
        debug_assert_eq!(view.body.len(), body.len(), "it is the message's");
        match self.broker.services().share_whole(&body, queue_count) {
            None if queue_count == 1 => self.batch.push_whole(view, extras.facts, extras.annotations, body),
            shared => self.batch.push_with(view, extras.facts, extras.annotations, shared),
        }
    }

    /// A persistent message asks for a promise that failed storage cannot give. (A full disk blocks instead.)
    #[inline]
    fn check_storage(&self) -> Result<(), Refused> {
        let alarms = self.broker.alarms();
        if alarms.raised().has(Raised::STORAGE_FAILED) { Err(alarms.refusal()) } else { Ok(()) }
    }

    /// B153-B154: the pseudo address becomes the channel's own. For messages with a reply-to.
    fn rewrite_reply_to(
        &self,
        channel: &PublishChannel,
        properties: &Properties<'_>,
    ) -> Result<Option<Vec<u8>>, Refused> {
        match properties.reply_to() {
            Some(reply_to) if *reply_to == *REPLY_QUEUE => {
                let address = channel.reply_address.as_deref().ok_or(Refused::NoReplyConsumer)?;
                Ok(Some(rewrite(properties.raw(), &[Edit::ReplyTo(ShortStr::bounded(address))])))
            }
            _ => Ok(None),
        }
    }

    /// B100: a claimed user-id must be the authenticated one, unless the user may impersonate. For messages with one.
    fn check_user_id(&self, properties: &Properties<'_>) -> Result<(), Refused> {
        properties.user_id().map_or(Ok(()), |claimed| self.check_claimed_user(&claimed))
    }

    fn check_claimed_user(&self, claimed: &[u8]) -> Result<(), Refused> {
        let user = &self.principal.user;
        if *claimed == *user.name.as_bytes() || user.has_tag("impersonator") {
            return Ok(());
        }
        Err(Refused::UserId { claimed: claimed.into(), user: user.name.clone() })
    }

    /// Whether what was settled must reach its queues before the messages published after it: a queue that drops duplicates
    /// may get a message like the one that it was just rid of.
    #[inline]
    pub fn acks_come_first(&self) -> bool {
        self.broker.services().queues.has_unique.load(Ordering::Relaxed)
    }

    /// Hands everything gathered to the queues. Call after each read, before any other broker call of this
    /// connection that must come after the publishes (ack, get, purge, delete, close), and before dropping.
    pub fn flush(&mut self) {
        self.run.end(&self.broker.services().counters.message_sizes, self.principal.connection);
        if self.batch.len() == 0 && self.confirms.is_none() {
            return;
        }
        (self.latest, self.copies) = (None, 0);
        let mut batch = std::mem::take(&mut self.batch);
        batch.began = self.broker.stages().begin();
        let began = batch.began;
        let batch = Arc::new(batch);
        let confirms = self.confirms.take().map(|confirms| Arc::new(confirms.begun(began)));
        self.crowded.clear();
        let crowded = &mut self.crowded;
        self.handovers.send(&batch, confirms.as_ref(), |queue| {
            if queue.is_over_bound() {
                crowded.push(queue.clone());
            }
        });
        if let Some(confirms) = confirms
            && confirms.answered(0)
        {
            self.broker.services().confirm_when_durable(&confirms);
        }
    }

    /// Whether anything was published since this was last asked.
    #[inline]
    pub fn take_is_publishing(&mut self) -> bool {
        std::mem::take(&mut self.is_publishing)
    }

    /// Ready when queues and log can take more; otherwise wakes the task later. The session stops reading meanwhile.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(queue) = self.crowded.last() {
            if queue.is_over_bound() && !queue.is_closed() {
                queue.wake_when_taken(cx.waker());
                if queue.is_over_bound() {
                    return Poll::Pending;
                }
            }
            self.crowded.pop();
        }
        if self.broker.services().poll_pressure(cx.waker(), self.has_published) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The parts that go along with a message.
struct Extras<'a> {
    facts: Facts,
    annotations: &'a [u8],
    repeats: Repeats,
}

/// Whether what was found out about a message holds for others with the same names and properties.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Yes,
    No,
}

/// The place of a channel's next message among the confirms, if it has confirms: its group and number.
#[inline]
fn number(
    confirms: &mut Option<BatchConfirms>,
    sink: Option<&Arc<dyn ConfirmSink>>,
    latest: &mut u64,
) -> Option<(u32, u64)> {
    let sink = sink?;
    *latest += 1;
    let confirms = confirms.get_or_insert_with(BatchConfirms::new);
    let group = confirms.group_of(sink, *latest);
    confirms.numbered(group, *latest);
    Some((group, *latest))
}

impl<'a> Incoming<'a> {
    #[inline]
    fn view(&self) -> MessageView<'a> {
        let Incoming { exchange, routing_key, properties, body, .. } = *self;
        MessageView { exchange, routing_key, properties, body }
    }
}

impl From<BadExpiration> for Refused {
    fn from(bad: BadExpiration) -> Refused {
        Refused::InvalidExpiration(bad.0)
    }
}

/// The exchange a publish may not go to, or its write permission (B57, B82, B96).
pub(crate) fn check_publish(
    principal: &Principal,
    name: &[u8],
    exchange: &routing::Exchange<crate::QueueRef>,
) -> Result<(), Refused> {
    principal.check_exchange(Permission::Write, name)?;
    if exchange.internal {
        return Err(Refused::InternalExchange(Resource::exchange(principal.vhost.name(), name)));
    }
    Ok(())
}

/// Whether topic permissions apply to an exchange.
pub(crate) fn is_topic(kind: &ExchangeKind) -> bool {
    matches!(kind, ExchangeKind::Topic)
}
