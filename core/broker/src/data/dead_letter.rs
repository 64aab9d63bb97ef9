//! Dead letters: a message that dies in a queue is published again to its dead-letter exchange (B144-B150).
//!
//! The queue logs that a message left only when its letter is durable in every queue it went to: a crash in between
//! leaves the message where it was. (RabbitMQ's classic queues may lose it.) Nobody waits: the answer is an event.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use message::{Array, Death, Died, Facts, Format, History, Keys, MessageView, Value, carbon_copies};
use parking_lot::Mutex;
use queues::{DeadReason, SettledRun};
use smallvec::SmallVec;

use super::batch::{Batch, BatchConfirms};
use super::confirms::{ConfirmRange, ConfirmSink};
use super::handovers::{Handovers, QueueList};
use super::routes::reply_consumers;
use crate::cell::machine::MachineType;
use crate::cell::settings::DeadLetterTarget;
use crate::cell::{Event, Life, Queue, QueueRef};
use crate::data::letter::DeadLetter;
use crate::services::Services;
use crate::vhost::Vhost;

/// Bytes of letters gathered before they are handed over: thousands of large messages may die at once.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes that letters keep in memory while they wait.
pub(crate) fn bytes(letters: &[DeadLetter]) -> usize {
    let of_one = |letter: &DeadLetter| {
        let shared_bytes = letter.shared.as_ref().map_or(0, |held| held.bytes.len());
        size_of::<DeadLetter>() + letter.bytes.len() + shared_bytes
    };
    letters.iter().map(of_one).sum()
}

fn reason_name(reason: DeadReason) -> &'static [u8] {
    match reason {
        DeadReason::Rejected => b"rejected",
        DeadReason::Expired => b"expired",
        DeadReason::MaxLength => b"maxlen",
        DeadReason::DeliveryLimit => b"delivery_limit",
        DeadReason::Due => unreachable!("what is due is not dead"),
    }
}

/// Tells a queue that letters of its messages are safe. Counted in [`crate::services::Services::letters_out`] while it lives.
struct Delivered {
    services: Arc<Services>,
    source: Weak<Queue>,
    life: Life,
    removals: Mutex<Vec<SettledRun>>,
}

impl Delivered {
    fn new(queue: &Arc<Queue>, life: Life, removals: Vec<SettledRun>) -> Delivered {
        queue.services().letters_out.fetch_add(1, Ordering::AcqRel);
        Delivered {
            services: queue.services().clone(),
            source: Arc::downgrade(queue),
            life,
            removals: Mutex::new(removals),
        }
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        self.services.letters_out.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ConfirmSink for Delivered {
    fn confirmed(&self, range: ConfirmRange) {
        // Not durable, and never will be: the messages come back with a restart.
        if !range.rejected.is_empty() {
            return;
        }
        if let Some(source) = self.source.upgrade() {
            let removals = std::mem::take(&mut *self.removals.lock());
            source.submit_later(Event::LettersTaken(self.life, removals));
        }
    }
}

/// Sends dead letters of one queue; it is told with [`Event::LettersTaken`] when those it waits for are safe.
pub(crate) fn send(queue: &Arc<Queue>, letters: &[DeadLetter]) {
    letters.iter().for_each(|letter| queue.services().counters.count_letter(letter.reason));
    // A message that left in an earlier life is in the queue again, and leaves again.
    let life = letters.last().map(|letter| letter.life).unwrap_or_default();
    let of_life = letters.iter().filter(|letter| letter.life == life);
    let removals: Vec<SettledRun> = of_life.filter_map(|letter| letter.removal).collect();
    if removals.is_empty() {
        hand_over(queue, letters, None);
        return;
    }
    let sink: Arc<dyn ConfirmSink> = Arc::new(Delivered::new(queue, life, removals));
    let confirms = Arc::new(BatchConfirms::of_letters(&sink));
    hand_over(queue, letters, Some(&confirms));
    if confirms.answered(0) {
        queue.services().confirm_when_durable(&confirms);
    }
}

/// Routes dead letters and hands them on. A missing exchange drops them silently
/// (B144).
fn hand_over(queue: &Queue, letters: &[DeadLetter], confirms: Option<&Arc<BatchConfirms>>) {
    if queue.machine_type() == MachineType::Delayed {
        super::delayed::hand_over(queue, letters, confirms);
        return;
    }
    let Some(target) = queue.dead_letter_target() else { return };
    let Some(vhost) = queue.place.vhost.upgrade() else { return };
    let Some(exchange) = vhost.exchange(&target.exchange) else { return };
    let now_ms = queue.services().now_ms();
    let mut outgoing = Outgoing::new(queue, confirms);
    let mut scratch = Vhost::scratch();
    let mut queues: Vec<QueueRef> = Vec::new();
    let mut latest: Option<Head<'_>> = None;
    for letter in letters {
        latest.take_if(|head| !head.of.has_head_of(letter) || letter.view().format() == Format::Amqp10);
        let head = latest.get_or_insert_with(|| Head::new(letter, queue, &target, now_ms));
        queues.clear();
        let view = MessageView {
            exchange: &target.exchange,
            routing_key: head.key,
            properties: &head.died.properties,
            body: letter.body(),
        };
        let (keys, plain) = (head.keys(), view.plain());
        vhost.route(&exchange, &keys, plain.properties(), &mut scratch, &mut queues);
        if exchange.name.is_empty() {
            reply_consumers(&vhost, &keys).iter().for_each(|reply| reply.deliver(view));
        }
        vhost.remember(scratch.on_duty(), view, head.facts, &head.annotations);
        let deaths = Array::from_raw(&head.died.deaths);
        queues.retain(|to| {
            to.0.machine_type() == MachineType::Delayed || !is_cycle(&to.0, letter.reason, deaths)
        });
        outgoing.add(letter, (view, head.facts, &head.annotations), &queues);
    }
    outgoing.send();
}

/// The common part of letters that differ in their bodies only: the rule among letters that die together.
struct Head<'a> {
    /// The first of them.
    of: &'a DeadLetter,
    key: &'a [u8],
    keys: Keys,
    copies: Vec<Box<[u8]>>,
    died: Died,
    facts: Facts,
    annotations: Vec<u8>,
}

impl<'a> Head<'a> {
    fn new(letter: &'a DeadLetter, queue: &Queue, target: &'a DeadLetterTarget, now_ms: u64) -> Head<'a> {
        let died = died(letter, queue, now_ms);
        let view = MessageView { properties: &died.properties, ..letter.view() };
        let plain = view.plain();
        let history = History::new(letter.annotations());
        let keys =
            if target.routing_key.is_none() && !history.is_rerouted() { Keys::Kept } else { Keys::Replaced };
        Head {
            of: letter,
            key: target.routing_key.as_deref().unwrap_or(letter.routing_key()),
            keys,
            copies: carbon_copies(&plain.properties()),
            // Its time to live was taken from it.
            facts: Facts { ttl_ms: None, ..Facts::of(&view).unwrap_or_default() },
            annotations: history.after_death(Array::from_raw(&died.deaths), keys),
            died,
        }
    }

    /// The keys that the letters are routed with.
    fn keys(&self) -> SmallVec<[&[u8]; 4]> {
        match self.keys {
            Keys::Kept => History::new(self.of.annotations()).keys(self.key, &self.copies),
            Keys::Replaced => smallvec::smallvec![self.key],
        }
    }
}

/// Messages on their way out of a queue, gathered until they are handed over.
pub(super) struct Outgoing<'a> {
    from: &'a Queue,
    confirms: Option<&'a Arc<BatchConfirms>>,
    batch: Batch,
    handovers: Handovers,
    ways: Ways,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(from: &'a Queue, confirms: Option<&'a Arc<BatchConfirms>>) -> Outgoing<'a> {
        let (batch, handovers) = (Batch::default(), Handovers::default());
        Outgoing { from, confirms, batch, handovers, ways: Ways::default() }
    }

    /// One more, as it is published, with its annotations, for these queues.
    pub(super) fn add(
        &mut self,
        letter: &DeadLetter,
        (view, facts, annotations): (MessageView<'_>, Facts, &[u8]),
        queues: &[QueueRef],
    ) {
        if queues.is_empty() {
            return;
        }
        let shared = letter.share(|body| self.from.services().share(body, queues.len()));
        let (way, is_the_same) = self.ways.list(queues);
        let index = self.batch.push_letter(view, facts, annotations, shared, is_the_same);
        self.handovers.add(way, index);
        if self.batch.bytes() > BATCH_BYTES_MAX {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.handovers.send(&Arc::new(std::mem::take(&mut self.batch)), self.confirms, |_| {});
    }

    /// There are no more.
    pub(super) fn send(mut self) {
        self.hand_over();
    }
}

/// Where letters go. Most of those that die together go the same way, and share the list of queues.
#[derive(Default)]
struct Ways {
    latest: Option<QueueList>,
}

impl Ways {
    /// The list of these queues, and whether the one before went the same way.
    fn list(&mut self, queues: &[QueueRef]) -> (&QueueList, bool) {
        self.latest.take_if(|latest| latest[..] != *queues);
        let is_the_same = self.latest.is_some();
        (self.latest.get_or_insert_with(|| Arc::from(queues)), is_the_same)
    }
}

/// The message after its death (B145-B147).
fn died(letter: &DeadLetter, queue: &Queue, now_ms: u64) -> Died {
    let death = Death { queue: queue.name(), reason: reason_name(letter.reason), now_ms };
    Died::of(&letter.view(), letter.annotations(), &death)
}

/// B149: the message would come back to a queue where it died, with no rejection since then.
fn is_cycle(to: &Queue, reason: DeadReason, deaths: Array<'_>) -> bool {
    if reason == DeadReason::Rejected {
        return false;
    }
    for death in deaths.iter() {
        let Value::Table(table) = death else { continue };
        if table.get("reason") == Some(Value::LongStr(b"rejected")) {
            return false;
        }
        if table.get("queue") == Some(Value::LongStr(to.name())) {
            return true;
        }
    }
    false
}
