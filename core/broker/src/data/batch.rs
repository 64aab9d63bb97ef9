//! Messages that one read of a connection publishes: one arena, handed to each queue by reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use message::{Facts, MessageView, is_same};
use parking_lot::Mutex;
use queues::{BodyBuffer, BodyBytes, HeldBody, IncomingMessage, IncomingMessages};
use routing::delay_ms;

use crate::data::confirms::{ConfirmRange, ConfirmSink};
use crate::stages::{Began, Stage, Stages};

/// A piece of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    at: u32,
    bytes: u32,
}

/// The common part of messages of a batch that follow each other, and go to the same queues: all but their bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    exchange: Piece,
    routing_key: Piece,
    properties: Piece,
    annotations: Piece,
    /// `expiration` in milliseconds; `u64::MAX` is none.
    ttl_ms: u64,
    priority: u8,
    pub(crate) persistent: bool,
    /// Index of their confirm group in the batch's confirms; `u32::MAX` is none.
    group: u32,
    /// Publish sequence number of the first of them within the group's channel; the others follow it.
    publish: u64,
    /// Index of the first of them.
    first: u32,
}

/// The part that one message of a batch has for itself.
#[derive(Clone, Copy, Debug)]
struct Body {
    piece: Piece,
    /// Index of the body among those that several queues share; the piece is empty then. `u32::MAX` is none of them.
    shared: u32,
    /// Index of its head.
    head: u32,
}

impl Head {
    /// Bytes of names and properties.
    pub(crate) fn head_bytes(&self) -> usize {
        (self.exchange.bytes + self.routing_key.bytes + self.properties.bytes) as usize
    }

    fn facts(&self) -> Facts {
        let ttl_ms = (self.ttl_ms != u64::MAX).then_some(self.ttl_ms);
        Facts { persistent: self.persistent, priority: self.priority, ttl_ms }
    }
}

/// Messages and their bytes. Filled by one connection, then shared, unchanging, by the queues it is handed to.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    arena: Vec<u8>,
    heads: Vec<Head>,
    bodies: Vec<Body>,
    /// Bodies that several queues share, and their bytes.
    shared: Vec<HeldBody>,
    /// The body of the only message, until its queue takes it.
    whole: Mutex<Option<BodyBytes>>,
    /// Bytes of both.
    shared_bytes: usize,
    /// When it was handed over.
    pub(crate) began: Began,
}

impl Batch {
    /// Bytes gathered.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.len() + self.shared_bytes
    }

    /// Messages gathered.
    pub(crate) fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Makes room for so many messages like the newest one, with so many bytes of body each.
    pub(crate) fn expect_alike(&mut self, count: usize, body_bytes: usize) {
        self.bodies.reserve(count);
        let is_shared = self.bodies.last().is_some_and(|body| body.shared != u32::MAX);
        if !is_shared {
            self.arena.reserve(count * body_bytes);
        }
    }

    #[inline]
    fn add(&mut self, bytes: &[u8]) -> Piece {
        if bytes.is_empty() {
            return Piece::default();
        }
        let at = u32::try_from(self.arena.len()).expect("a batch is flushed long before 4 GiB");
        self.arena.extend_from_slice(bytes);
        Piece { at, bytes: bytes.len() as u32 }
    }

    /// Adds bytes unless the previous message has the same there: names repeat.
    #[inline]
    fn add_or_share(&mut self, bytes: &[u8], previous: Piece) -> Piece {
        if !bytes.is_empty() && is_same(self.piece(previous), bytes) {
            return previous;
        }
        self.add(bytes)
    }

    #[inline]
    fn piece(&self, piece: Piece) -> &[u8] {
        &self.arena[piece.at as usize..piece.at as usize + piece.bytes as usize]
    }

    /// A body, copied unless it is shared. In its callers, whatever the compiler thinks: a call is 30 instructions for each message.
    #[inline(always)]
    fn add_body(&mut self, body: &[u8], shared: Option<HeldBody>) -> (Piece, u32) {
        match shared {
            None => (self.add(body), u32::MAX),
            Some(held) => self.add_shared(held),
        }
    }

    #[cold]
    fn add_shared(&mut self, held: HeldBody) -> (Piece, u32) {
        self.shared_bytes += held.bytes.len();
        self.shared.push(held);
        (Piece::default(), (self.shared.len() - 1) as u32)
    }

    /// As [`Self::push_with`], of a message that is alone in the batch, that only one queue gets, and whose body is not copied.
    #[cold]
    pub(crate) fn push_whole(
        &mut self,
        message: MessageView<'_>,
        facts: Facts,
        annotations: &[u8],
        body: BodyBytes,
    ) -> u32 {
        debug_assert!(self.bodies.is_empty(), "it is alone");
        let index = self.push_with(MessageView { body: &[], ..message }, facts, annotations, None);
        self.shared_bytes += body.len();
        *self.whole.get_mut() = Some(body);
        index
    }

    /// The body of the only message, if it is not in the batch like those of others: once.
    #[inline]
    pub(crate) fn take_whole(&self) -> Option<BodyBuffer> {
        if self.bodies.len() > 1 || self.shared_bytes == 0 {
            return None;
        }
        let body = self.whole.lock().take()?;
        // Other holders only look at it.
        Some(Arc::try_unwrap(body).unwrap_or_else(|seen| seen.to_vec().into()))
    }

    /// As [`Self::take_whole`]; the body stays.
    pub(crate) fn whole(&self) -> Option<BodyBytes> {
        if self.bodies.len() > 1 || self.shared_bytes == 0 { None } else { self.whole.lock().clone() }
    }

    /// Copies a message in; returns its index.
    pub(crate) fn push(&mut self, message: MessageView<'_>, facts: Facts, annotations: &[u8]) -> u32 {
        self.push_with(message, facts, annotations, None)
    }

    /// As [`Self::push`]; a body that is shared is not copied.
    pub(crate) fn push_with(
        &mut self,
        message: MessageView<'_>,
        facts: Facts,
        annotations: &[u8],
        shared: Option<HeldBody>,
    ) -> u32 {
        // Piece by piece: an entry copied as a whole just after it was written waits for the processor's stores.
        let latest = self.heads.last().map(|head| (head.exchange, head.routing_key, head.properties));
        let (exchange, routing_key, properties) = latest.unwrap_or_default();
        let exchange = self.add_or_share(message.exchange, exchange);
        let routing_key = self.add_or_share(message.routing_key, routing_key);
        let properties = self.add_or_share(message.properties, properties);
        let (piece, shared) = self.add_body(message.body, shared);
        let annotations = self.add(annotations);
        let first = self.bodies.len() as u32;
        self.heads.push(Head {
            exchange,
            routing_key,
            properties,
            annotations,
            ttl_ms: facts.ttl_ms.unwrap_or(u64::MAX),
            priority: facts.priority,
            persistent: facts.persistent,
            group: u32::MAX,
            publish: 0,
            first,
        });
        self.bodies.push(Body { piece, shared, head: (self.heads.len() - 1) as u32 });
        first
    }

    /// Copies a message in that differs from the newest one in its body only; its number among the confirms, if it has one, is the next.
    #[inline]
    pub(crate) fn push_alike(&mut self, body: &[u8], shared: Option<HeldBody>) {
        let (piece, shared) = self.add_body(body, shared);
        self.bodies.push(Body { piece, shared, head: (self.heads.len() - 1) as u32 });
    }

    /// As [`Self::push_with`], of a message that is not numbered. `goes_the_same_way` when the one before it is for the same queues: then
    /// it may turn out to be alike.
    pub(crate) fn push_letter(
        &mut self,
        message: MessageView<'_>,
        facts: Facts,
        annotations: &[u8],
        shared: Option<HeldBody>,
        goes_the_same_way: bool,
    ) -> u32 {
        let is_alone = goes_the_same_way && shared.is_none();
        let newest = self.bodies.last().filter(|newest| is_alone && newest.shared == u32::MAX);
        let is_like = newest.is_some_and(|newest| {
            let head = &self.heads[newest.head as usize];
            head.facts() == facts
                && self.is_like(head, message)
                && is_same(self.piece(head.annotations), annotations)
        });
        if !is_like {
            return self.push_with(message, facts, annotations, shared);
        }
        self.push_alike(message.body, None);
        (self.bodies.len() - 1) as u32
    }

    /// Whether a message has the names and properties of the newest one.
    #[inline]
    pub(crate) fn is_like_newest(&self, message: MessageView<'_>) -> bool {
        self.heads.last().is_some_and(|head| self.is_like(head, message))
    }

    #[inline]
    fn is_like(&self, head: &Head, message: MessageView<'_>) -> bool {
        is_same(self.piece(head.routing_key), message.routing_key)
            && is_same(self.piece(head.properties), message.properties)
            && is_same(self.piece(head.exchange), message.exchange)
    }

    /// The part that the newest message has in common with others.
    pub(crate) fn newest(&self) -> Option<&Head> {
        self.heads.last()
    }

    /// Gives the newest message, which is like none before it, its place among the confirms.
    pub(crate) fn number_newest(&mut self, group: u32, publish: u64) {
        let newest = self.heads.last_mut().expect("a message was pushed");
        newest.group = group;
        newest.publish = publish;
    }

    /// The place of a message among the confirms: its group, `u32::MAX` is none, and its number within it.
    pub(crate) fn place(&self, index: u32) -> (u32, u64) {
        let head = &self.heads[self.bodies[index as usize].head as usize];
        (head.group, head.publish + u64::from(index - head.first))
    }

    /// One message as a queue takes it.
    #[inline]
    pub(crate) fn incoming(&self, index: u32) -> IncomingMessage<'_> {
        let body = &self.bodies[index as usize];
        let head = &self.heads[body.head as usize];
        let shared = self.shared.get(body.shared as usize);
        IncomingMessage {
            message: MessageView {
                exchange: self.piece(head.exchange),
                routing_key: self.piece(head.routing_key),
                properties: self.piece(head.properties),
                body: match shared {
                    Some(held) => &held.bytes,
                    None => self.piece(body.piece),
                },
            },
            persistent: head.persistent,
            priority: head.priority,
            ttl_ms: head.facts().ttl_ms,
            annotations: self.piece(head.annotations),
            shared,
            is_alike: head.first != index,
        }
    }

    /// The body of a message that is like the one before it, if no other queue shares it. Inlined as [`Self::add_body`].
    #[inline(always)]
    fn alike(&self, index: u32) -> Option<&[u8]> {
        let body = &self.bodies[index as usize];
        let is_alike = self.heads[body.head as usize].first != index && body.shared == u32::MAX;
        is_alike.then(|| self.piece(body.piece))
    }
}

/// Which messages of a batch one queue gets.
#[derive(Clone, Debug)]
pub(crate) enum Picks {
    /// All of `first .. first + count`.
    Range { first: u32, count: u32 },
    /// These, ascending.
    List(Arc<Vec<u32>>),
}

impl Picks {
    /// Just one.
    pub(crate) fn one(index: u32) -> Picks {
        Picks::Range { first: index, count: 1 }
    }

    /// From ascending indices, at least one.
    pub(crate) fn from_sorted(list: &[u32]) -> Picks {
        let (first, last) = (list[0], list[list.len() - 1]);
        if (last - first) as usize + 1 == list.len() {
            return Picks::Range { first, count: list.len() as u32 };
        }
        Picks::List(Arc::new(list.to_vec()))
    }

    /// Adds so many indices from one on that is greater than all before.
    pub(crate) fn push(&mut self, index: u32, more: u32) {
        match self {
            Picks::Range { first, count } if *first + *count == index => *count += more,
            Picks::Range { first, count } => {
                let list = (*first..*first + *count).chain(index..index + more).collect();
                *self = Picks::List(Arc::new(list));
            }
            Picks::List(list) => Arc::make_mut(list).extend(index..index + more),
        }
    }

    /// The `nth` index.
    #[inline]
    pub(crate) fn nth(&self, nth: u32) -> u32 {
        match self {
            Picks::Range { first, .. } => first + nth,
            Picks::List(list) => list[nth as usize],
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        match self {
            Picks::Range { count, .. } => *count as usize,
            Picks::List(list) => list.len(),
        }
    }
}

/// Messages of a batch as a queue takes them.
pub(crate) struct Picked<'a> {
    /// The batch.
    pub(crate) batch: &'a Batch,
    /// Which messages of it.
    pub(crate) picks: &'a Picks,
}

impl<'a> IncomingMessages<'a> for Picked<'a> {
    #[inline]
    fn count(&self) -> usize {
        self.picks.len()
    }

    #[inline]
    fn message(&self, nth: usize) -> IncomingMessage<'a> {
        self.batch.incoming(self.picks.nth(nth as u32))
    }

    #[inline(always)]
    fn alike(&self, nth: usize) -> Option<&'a [u8]> {
        self.batch.alike(self.picks.nth(nth as u32))
    }
}

/// The same on the way into the store of a delayed exchange.
pub(crate) struct ToWait<'a>(pub(crate) Picked<'a>);

impl<'a> IncomingMessages<'a> for ToWait<'a> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn message(&self, nth: usize) -> IncomingMessage<'a> {
        let mut incoming = self.0.message(nth);
        wait(&mut incoming);
        incoming
    }

    fn alike(&self, _: usize) -> Option<&'a [u8]> {
        None
    }
}

/// The same, each message with its body, even if others have that.
pub(crate) struct Unshared<'a>(pub(crate) Picked<'a>);

impl<'a> IncomingMessages<'a> for Unshared<'a> {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn message(&self, nth: usize) -> IncomingMessage<'a> {
        IncomingMessage { shared: None, ..self.0.message(nth) }
    }

    fn alike(&self, nth: usize) -> Option<&'a [u8]> {
        self.0.alike(nth)
    }
}

/// The name of a handover to a queue of several nodes: a node that gets no answer hands over again, and the queue takes it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandoverId {
    /// The node of the publishers.
    pub(crate) node: u16,
    /// A number that is another one after each start of that node.
    pub(crate) life: u64,
    /// Counts the handovers of that life to this queue.
    pub(crate) number: u64,
}

/// A batch on its way into one queue.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    /// Of one that goes to another node.
    pub(crate) id: Option<HandoverId>,
    pub(crate) batch: Arc<Batch>,
    pub(crate) picks: Picks,
    pub(crate) confirms: Option<Arc<BatchConfirms>>,
}

/// Publishes of one channel within a batch.
struct Group {
    sink: Arc<dyn ConfirmSink>,
    first: u64,
    last: u64,
}

/// The publisher of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// Channels: each hears of each of its messages.
    Channels,
    /// A queue, of its dead letters: it hears of all of them at once.
    Queue,
}

/// Counts down the queues a batch went to; when all have it, and their records are durable, the channels are told.
pub(crate) struct BatchConfirms {
    groups: Vec<Group>,
    /// Queues (and the publisher itself) that have not answered.
    pending: AtomicU32,
    /// Latest log position any of them needs.
    position: AtomicU64,
    /// (group, publish) refused by some queue.
    rejected: Mutex<Vec<(u32, u64)>>,
    /// When the batch was handed over.
    began: Began,
    sender: Sender,
}

impl std::fmt::Debug for BatchConfirms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchConfirms").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl BatchConfirms {
    /// With one pending answer: the publisher's own.
    pub(crate) fn new() -> BatchConfirms {
        BatchConfirms {
            groups: Vec::new(),
            pending: AtomicU32::new(1),
            position: AtomicU64::new(0),
            rejected: Mutex::new(Vec::new()),
            began: Began::default(),
            sender: Sender::Channels,
        }
    }

    /// Of dead letters: `sink` hears once, of all of them.
    pub(crate) fn of_letters(sink: &Arc<dyn ConfirmSink>) -> BatchConfirms {
        let mut confirms = BatchConfirms { sender: Sender::Queue, ..BatchConfirms::new() };
        confirms.group_of(sink, 1);
        confirms
    }

    /// Whether the messages are dead letters: the outcome of one does not tell which it was.
    pub(crate) fn are_of_letters(&self) -> bool {
        self.sender == Sender::Queue
    }

    /// A queue has none of its part, and never will.
    pub(crate) fn reject_all(&self) {
        let of_group = |(index, group): (usize, &Group)| {
            (group.first..=group.last).map(move |publish| (index as u32, publish)).collect::<Vec<_>>()
        };
        self.rejected.lock().extend(self.groups.iter().enumerate().flat_map(of_group));
    }

    /// Index of the group of a channel, whose next publish is this one.
    pub(crate) fn group_of(&mut self, sink: &Arc<dyn ConfirmSink>, publish: u64) -> u32 {
        let same = |group: &Group| Arc::ptr_eq(&group.sink, sink);
        let index = self.groups.iter().rposition(same).unwrap_or_else(|| {
            self.groups.push(Group { sink: sink.clone(), first: publish, last: publish });
            self.groups.len() - 1
        });
        index as u32
    }

    /// Publishes of a group up to this one are in the batch.
    pub(crate) fn numbered(&mut self, group: u32, publish: u64) {
        self.groups[group as usize].last = publish;
    }

    /// The batch is handed over now.
    pub(crate) fn begun(self, began: Began) -> BatchConfirms {
        BatchConfirms { began, ..self }
    }

    /// One more queue will answer.
    pub(crate) fn expect_one(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// A queue refused a message.
    pub(crate) fn reject(&self, group: u32, publish: u64) {
        if group != u32::MAX {
            self.rejected.lock().push((group, publish));
        }
    }

    /// A queue has its part, logged up to `position` (0: nothing logged). True when it was the last answer.
    #[must_use]
    pub(crate) fn answered(&self, position: u64) -> bool {
        self.position.fetch_max(position, Ordering::Relaxed);
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Log position that must be durable before [`BatchConfirms::complete`].
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// The logged messages will never be durable: tells the channels that nobody answers for them.
    pub(crate) fn fail(&self) {
        for group in &self.groups {
            let rejected = (group.first..=group.last).collect();
            group.sink.confirmed(ConfirmRange { first: group.first, last: group.last, rejected });
        }
    }

    /// Tells the channels.
    pub(crate) fn complete(&self, stages: &Stages) {
        if self.began != Began::default() {
            stages.end(Stage::Confirm, self.began);
        }
        let mut rejected = std::mem::take(&mut *self.rejected.lock());
        rejected.sort_unstable();
        rejected.dedup();
        for (index, group) in self.groups.iter().enumerate() {
            let of_group = |(of, publish): &(u32, u64)| (*of == index as u32).then_some(*publish);
            let rejected = rejected.iter().filter_map(of_group).collect();
            group.sink.confirmed(ConfirmRange { first: group.first, last: group.last, rejected });
        }
    }
}

/// In the store, a message lives for as long as it is delayed. Its own time to live begins when it is routed.
fn wait(incoming: &mut IncomingMessage<'_>) {
    incoming.ttl_ms = incoming.message.plain().properties().headers().and_then(delay_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_like_the_one_before_shares_all_but_its_body() {
        let view = |body| MessageView {
            exchange: b"x",
            routing_key: b"a.longer.routing.key",
            properties: &[0, 0],
            body,
        };
        let mut batch = Batch::default();
        batch.push(view(b"one"), Facts { persistent: true, priority: 3, ttl_ms: Some(5) }, &[]);
        batch.number_newest(0, 6);
        assert!(batch.is_like_newest(view(b"two")));
        assert!(!batch.is_like_newest(MessageView { properties: &[0, 1], ..view(b"two") }));
        let bytes = batch.bytes();
        batch.push_alike(b"two", None);
        assert_eq!((batch.len(), batch.place(0), batch.place(1)), (2, (0, 6), (0, 7)));
        assert_eq!(batch.bytes(), bytes + 3);
        assert_eq!((batch.alike(0), batch.alike(1)), (None, Some(&b"two"[..])));
        let two = batch.incoming(1);
        assert_eq!(two.message, view(b"two"));
        assert_eq!((two.persistent, two.priority, two.ttl_ms), (true, 3, Some(5)));
    }

    #[test]
    fn a_letter_is_alike_when_all_but_its_body_is_that_of_the_one_before_and_both_go_the_same_way() {
        let view = |key: &'static [u8]| MessageView {
            exchange: b"dlx",
            routing_key: key,
            properties: &[0, 0],
            body: b"body",
        };
        let facts = Facts { persistent: true, ..Facts::default() };
        let mut batch = Batch::default();
        let mut push = |key, facts, annotations: &[u8], same_way| {
            let index = batch.push_letter(view(key), facts, annotations, None, same_way);
            let incoming = batch.incoming(index);
            assert_eq!(batch.alike(index), incoming.is_alike.then_some(&b"body"[..]));
            assert_eq!((incoming.message, incoming.annotations), (view(key), annotations));
            assert_eq!((incoming.persistent, incoming.ttl_ms), (facts.persistent, facts.ttl_ms));
            incoming.is_alike
        };
        assert!(!push(b"a", facts, b"died", true), "there is none before it");
        assert!(push(b"a", facts, b"died", true));
        assert!(!push(b"a", facts, b"died", false), "the one before is in other queues");
        assert!(!push(b"b", facts, b"died", true));
        assert!(!push(b"b", facts, b"died twice", true));
        assert!(!push(b"b", Facts { ttl_ms: Some(5), ..facts }, b"died twice", true));
        assert!(push(b"b", Facts { ttl_ms: Some(5), ..facts }, b"died twice", true));
    }
}
