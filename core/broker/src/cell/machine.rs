//! The machine of a cell: a queue of any type. Which one it is is decided when the queue is declared.
//!
//! Each call goes to the type itself: its code is compiled for it, not looked up for each message.

use std::ops::Range;
use std::sync::Arc;

use message::MessageView;
use queues::{
    BodyBuffer, Classic, ConsumerId, ConsumerSpec, Credit, Delayed, DeliveryView, DiskAnswer, Effects, Flow,
    GetToken, IncomingMessage, IncomingMessages, Kind, Machine, Peeked, PublishOutcome, QueueConfig,
    QueueCounts, QueueGlance, QueueStats, Recovering, SettleHow, SettleRun, SettledRun, SharedBody, Store,
    TurnedAway,
};

#[cfg(test)]
use super::tests::memory_queue::MemoryQueue;
use crate::stages::QueueKind;
use crate::streams::StreamMachine;

/// A type of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachineType {
    /// [`Classic`].
    Classic,
    /// [`Classic`], by the rules of quorum queues.
    Quorum,
    /// [`StreamMachine`].
    Stream,
    /// [`Delayed`]: the store in which a delayed exchange keeps its messages. Nobody finds it by a name.
    Delayed,
    #[cfg(test)]
    Memory,
}

/// A queue of some type.
pub(crate) enum AnyMachine {
    Classic(Classic),
    Delayed(Delayed),
    Stream(StreamMachine),
    #[cfg(test)]
    Memory(MemoryQueue),
}

impl From<Kind> for MachineType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Classic => MachineType::Classic,
            Kind::Quorum => MachineType::Quorum,
            Kind::Stream => MachineType::Stream,
        }
    }
}

impl MachineType {
    /// The kind that measurements count the machine as.
    pub(crate) const fn kind(self) -> QueueKind {
        match self {
            MachineType::Classic => QueueKind::Classic,
            MachineType::Quorum => QueueKind::Quorum,
            MachineType::Stream => QueueKind::Stream,
            MachineType::Delayed => QueueKind::Delayed,
            #[cfg(test)]
            MachineType::Memory => QueueKind::Classic,
        }
    }

    /// An empty queue; a stream without its log.
    pub(crate) fn open(self, config: Arc<QueueConfig>, now_ms: u64) -> AnyMachine {
        match self {
            MachineType::Classic | MachineType::Quorum => AnyMachine::Classic(Classic::new(config, now_ms)),
            MachineType::Delayed => AnyMachine::Delayed(Delayed::new(config, now_ms)),
            MachineType::Stream => AnyMachine::Stream(StreamMachine::new(config, None)),
            #[cfg(test)]
            MachineType::Memory => AnyMachine::Memory(MemoryQueue::new(config)),
        }
    }

    /// A queue as it was, from what log and segments have of it.
    pub(crate) fn recover(
        self,
        contents: Recovering,
        config: Arc<QueueConfig>,
        now_ms: u64,
        resolve: &mut dyn FnMut(&SharedBody) -> SharedBody,
    ) -> AnyMachine {
        match self {
            MachineType::Classic | MachineType::Quorum => {
                AnyMachine::Classic(Classic::recovered(contents, config, now_ms, resolve))
            }
            MachineType::Delayed => {
                AnyMachine::Delayed(Delayed::recovered(contents, config, now_ms, resolve))
            }
            // A stream's messages are not in the message log.
            MachineType::Stream => self.open(config, now_ms),
            #[cfg(test)]
            MachineType::Memory => self.open(config, now_ms),
        }
    }

    /// A queue that was at rest, from what [`Machine::rest`] gave.
    pub(crate) fn wake(self, config: Arc<QueueConfig>, bytes: &[u8], now_ms: u64) -> AnyMachine {
        match self {
            MachineType::Classic | MachineType::Quorum => {
                AnyMachine::Classic(Classic::from_rest(config, bytes, now_ms))
            }
            // They never rest.
            MachineType::Delayed | MachineType::Stream => self.open(config, now_ms),
            #[cfg(test)]
            MachineType::Memory => self.open(config, now_ms),
        }
    }
}

impl AnyMachine {
    /// Shows the ready message at a position; nothing of types that do not know that.
    pub(crate) fn show_ready(&mut self, position: u64, fx: &mut impl Effects) -> Peeked {
        match self {
            AnyMachine::Classic(classic) => classic.show_ready(position, fx),
            _ => Peeked::Nothing,
        }
    }

    /// Whether it is a queue that does what another node's has logged.
    pub(crate) fn follows(&self) -> bool {
        matches!(self, AnyMachine::Classic(classic) if classic.follows())
    }
}

/// Calls the same of whichever machine it is.
macro_rules! each {
    ($any:expr, $machine:ident => $call:expr) => {
        match $any {
            AnyMachine::Classic($machine) => $call,
            AnyMachine::Delayed($machine) => $call,
            AnyMachine::Stream($machine) => $call,
            #[cfg(test)]
            AnyMachine::Memory($machine) => $call,
        }
    };
}

/// Methods that only pass on to the machine.
macro_rules! passed_on {
    (&self: $($name:ident($($arg:ident: $of:ty),*) $(-> $back:ty)?;)*) => {
        $(#[inline]
        fn $name(&self $(, $arg: $of)*) $(-> $back)? {
            each!(self, machine => machine.$name($($arg),*))
        })*
    };
    (&mut self: $($name:ident($($arg:ident: $of:ty),*) $(-> $back:ty)?;)*) => {
        $(#[inline]
        fn $name(&mut self $(, $arg: $of)*) $(-> $back)? {
            each!(self, machine => machine.$name($($arg),*))
        })*
    };
}

impl Machine for AnyMachine {
    #[inline]
    fn publish<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        each!(self, machine => machine.publish(batch, now_ms, fx))
    }

    passed_on! { &mut self:
        publish_whole(head: &IncomingMessage<'_>, body: BodyBuffer, now_ms: u64, fx: &mut impl Effects) -> PublishOutcome;
        settle(how: SettleHow, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects);
        annotate(run: &SettleRun, entries: &[u8]);
        settle_unasked(runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects);
        add_consumer(spec: ConsumerSpec, now_ms: u64) -> bool;
        cancel(consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects);
        resume(consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects);
        credit(consumer: ConsumerId, credit: Credit, now_ms: u64, fx: &mut impl Effects);
        get(get: GetToken, now_ms: u64, fx: &mut impl Effects);
        purge(count_max: u64, fx: &mut impl Effects) -> u64;
        delete(fx: &mut impl Effects) -> u64;
        touch(now_ms: u64, fx: &mut impl Effects);
        reconfigure(config: Arc<QueueConfig>, now_ms: u64, fx: &mut impl Effects);
        tick(now_ms: u64, fx: &mut impl Effects);
        disk_answered(answer: DiskAnswer<'_>, now_ms: u64, fx: &mut impl Effects) -> bool;
        letters_taken(removals: &[SettledRun], now_ms: u64, fx: &mut impl Effects);
        let_letters_wait(they_do: bool);
        let_disk_be_short(it_is: bool);
        checkpoint(position: u64, vacate: &[Range<u64>], fx: &mut impl Effects);
        compact(fx: &mut impl Effects);
        relieve(fx: &mut impl Effects);
        store_mut() -> Option<&mut Store>;
    }

    passed_on! { &self:
        config() -> &Arc<QueueConfig>;
        letters_await_room() -> bool;
        has_dying(now_ms: u64) -> bool;
        store() -> Option<&Store>;
        oldest_log_position() -> u64;
        resident_bytes() -> usize;
        heap_bytes() -> usize;
        counts() -> QueueCounts;
        stats(now_ms: u64) -> QueueStats;
        glance(now_ms: u64) -> QueueGlance;
        delivery_view(now_ms: u64) -> DeliveryView;
        wanted_deliveries() -> Option<u64>;
        flow() -> Flow;
        turns_away(message: &MessageView<'_>, body_bytes: u64) -> Option<TurnedAway>;
        is_as_new() -> bool;
        rest() -> Option<Box<[u8]>>;
    }
}
