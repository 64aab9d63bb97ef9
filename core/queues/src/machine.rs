//! The side of every queue type that its driver sees: events and the time in, effects out; stored records; figures for listings.
//!
//! A type that stores nothing outside of its own memory implements only methods without a default.

use std::ops::Range;
use std::sync::Arc;

use crate::arguments::QueueConfig;
use crate::body::{BodyBuffer, HeldBody};
use crate::effects::{BlockToken, Effects, GetToken};
use crate::record::{BlockPlace, SettledRun};
use crate::service::DeliveryView;
use crate::store::Store;
use crate::traffic::{
    ConsumerId, ConsumerSpec, Credit, Flow, IncomingMessage, IncomingMessages, QueueCounts, QueueGlance,
    QueueStats, SettleHow, SettleRun,
};
use message::MessageView;

/// Why a queue deletes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its last consumer left and it is auto-delete (B68).
    LastConsumer,
    /// Unused for `x-expires` (B141).
    Unused,
}

/// The outcome of a batch of publishes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PublishOutcome {
    /// Indices in the batch that a length limit refused (B107, B142).
    pub rejected: Vec<u32>,
    /// Log position that must be durable before the batch is confirmed; 0 when nothing was logged.
    pub log_position: u64,
}

/// Why a queue does not take a message that is routed to it, or does not keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// One with the same `x-deduplication-header` is in it: dropped.
    Duplicate,
    /// It is as long as it may be, and refuses publishes then.
    Full(Afterwards),
    /// It takes the message and drops it for its limit: from the head, and there is nothing else to drop.
    OverLimit(Afterwards),
    /// It takes the message, and nobody gets it before its time to live of 0 is over.
    Expires(Afterwards),
}

/// The fate of a message that a queue does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Nothing.
    Gone,
    /// It goes to the dead-letter exchange of the queue.
    DeadLettered,
}

/// The answers of the disk to requests of a machine.
#[derive(Debug)]
pub enum DiskAnswer<'a> {
    /// A block is written to this place, or could not be (it then stays where it is).
    Written(BlockToken, Option<BlockPlace>),
    /// A block that stays in the log can be read there, or never will be (it then stays in memory).
    Logged(BlockToken, bool),
    /// A block came back: bytes of its own, if they were asked for, and those of its shared bodies.
    Read(BlockToken, Option<Vec<u8>>, &'a [HeldBody]),
    /// Whether all written blocks are durable.
    Synced(bool),
}

/// A queue of some type.
pub trait Machine {
    /// Its configuration.
    fn config(&self) -> &Arc<QueueConfig>;

    /// Takes a batch in order, and serves consumers.
    fn publish<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome;

    /// As [`Self::publish`], of one message whose body is `body`: the body in `head` does not count.
    fn publish_whole(
        &mut self,
        head: &IncomingMessage<'_>,
        body: BodyBuffer,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        let message = MessageView { body: &body, ..head.message };
        self.publish(&[IncomingMessage { message, ..*head }][..], now_ms, fx)
    }

    /// Settles deliveries. Runs that were never handed out are passed over.
    fn settle(&mut self, how: SettleHow, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects);

    /// A consumer of AMQP 1.0 annotates deliveries, which it settles next: see [`message::amqp10::merged`]. Queues that count what comes back keep
    /// that; others pass it over.
    fn annotate(&mut self, _run: &SettleRun, _entries: &[u8]) {}

    /// Settles what basic.get fetched without ack: nobody acked it.
    fn settle_unasked(&mut self, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects) {
        self.settle(SettleHow::Ack, runs, now_ms, fx);
    }

    /// Adds a consumer, paused until [`Self::resume`]. False when exclusiveness forbids it (B116).
    fn add_consumer(&mut self, spec: ConsumerSpec, now_ms: u64) -> bool;

    /// Removes a consumer; its deliveries stay unacked (B118).
    fn cancel(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects);

    /// A consumer can take deliveries (again).
    fn resume(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects);

    /// A consumer that is served [by credit](ConsumerSpec::by_credit) asks for deliveries, or gives its credit back. Answered through
    /// [`Effects::credit_news`].
    fn credit(&mut self, _consumer: ConsumerId, _credit: Credit, _now_ms: u64, _fx: &mut impl Effects) {}

    /// basic.get: answered through [`Effects::got`], now or later.
    fn get(&mut self, get: GetToken, now_ms: u64, fx: &mut impl Effects);

    /// Removes ready messages without dead-lettering, about `count_max` of them (at least 1); returns how many (B80). Fewer than that: none
    /// is left.
    fn purge(&mut self, count_max: u64, fx: &mut impl Effects) -> u64;

    /// The queue is deleted: tells its consumers, and returns how many messages were ready. The driver removes what is stored.
    fn delete(&mut self, fx: &mut impl Effects) -> u64;

    /// The queue was declared again or looked at: `x-expires` starts over (B141).
    fn touch(&mut self, _now_ms: u64, _fx: &mut impl Effects) {}

    /// Policies say something else.
    fn reconfigure(&mut self, config: Arc<QueueConfig>, now_ms: u64, fx: &mut impl Effects);

    /// Time passed, as asked for with [`Effects::wake_at`], or the driver has it look again.
    fn tick(&mut self, now_ms: u64, fx: &mut impl Effects);

    /// The disk has answered. False when a block is not what was written: the queue cannot go on.
    #[must_use]
    fn disk_answered(&mut self, _answer: DiskAnswer<'_>, _now_ms: u64, _fx: &mut impl Effects) -> bool {
        true
    }

    /// The letters of these messages are logged where they went (or went nowhere): now their removal is. `removals` are those
    /// that [`Effects::dead_letter`] was given, each once.
    fn letters_taken(&mut self, _removals: &[SettledRun], _now_ms: u64, _fx: &mut impl Effects) {}

    /// Whether so many letters wait to be sent that no further message is to die by rule. When that is over, a [`Self::tick`] has to
    /// follow.
    fn let_letters_wait(&mut self, _they_do: bool) {}

    /// Whether the disk alarm is on. Until it clears nothing dies that leaves a dead letter: expired messages stay at the head, and a client
    /// that gets one is told that there is none. A [`Self::tick`] has to follow when the alarm has cleared.
    fn let_disk_be_short(&mut self, _it_is: bool) {}

    /// Whether messages that are to die wait for the disk alarm to clear.
    fn letters_await_room(&self) -> bool {
        false
    }

    /// Whether a message would die now, or leave because it is due, if it might.
    fn has_dying(&self, _now_ms: u64) -> bool {
        false
    }

    /// Makes everything before `position` in the log superfluous for this queue, but for what [`Store::log_ranges`] says, and of
    /// that what lies in the parts to `vacate`; answered by [`Effects::checkpointed`].
    fn checkpoint(&mut self, _position: u64, _vacate: &[Range<u64>], fx: &mut impl Effects) {
        fx.checkpointed();
    }

    /// Moves what is needed of sparse segments to others; answered by [`Effects::checkpointed`].
    fn compact(&mut self, fx: &mut impl Effects) {
        fx.checkpointed();
    }

    /// Moves message data out of memory while there is more than [`Store::share_memory`] leaves it.
    fn relieve(&mut self, _fx: &mut impl Effects) {}

    /// Its messages, if they are in a store.
    fn store(&self) -> Option<&Store> {
        None
    }

    /// As [`Self::store`], to change it.
    fn store_mut(&mut self) -> Option<&mut Store> {
        None
    }

    /// Log position of the oldest record needed to recover this queue; 0 when none is.
    fn oldest_log_position(&self) -> u64 {
        self.store().map_or(0, Store::oldest_log_position)
    }

    /// Bytes of message data in memory.
    fn resident_bytes(&self) -> usize {
        self.store().map_or(0, Store::resident_bytes)
    }

    /// Bytes on the heap, without the machine itself and without bodies that it shares.
    fn heap_bytes(&self) -> usize;

    /// Counts for declare-ok (B70).
    fn counts(&self) -> QueueCounts;

    /// Everything listings show.
    fn stats(&self, now_ms: u64) -> QueueStats;

    /// The figures that lists of many queues show.
    fn glance(&self, now_ms: u64) -> QueueGlance;

    /// The state that decides whether the queue delivers.
    fn delivery_view(&self, now_ms: u64) -> DeliveryView;

    /// Deliveries made so far, if messages are ready and some consumer may want one. Cheap: looked at after every turn.
    fn wanted_deliveries(&self) -> Option<u64>;

    /// How fast it takes and gives.
    fn flow(&self) -> Flow;

    /// Whether such a message, with a body of that size, would be turned away now.
    fn turns_away(&self, _message: &MessageView<'_>, _body_bytes: u64) -> Option<TurnedAway> {
        None
    }

    /// Whether it is as if it had just been made: nobody would miss it.
    fn is_as_new(&self) -> bool {
        false
    }

    /// A record to make a queue at rest from again; `None` while it has messages, consumers or anything under way but a timer. That wakes
    /// it.
    fn rest(&self) -> Option<Box<[u8]>> {
        None
    }
}
