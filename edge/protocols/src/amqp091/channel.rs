//! A channel's state on the session's side; the delivery side is in `deliver.rs`.
//!
//! Refuses to know how methods work on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::{ChannelPermit, PublishChannel, Queue};

use super::content::Assembly;
use super::transaction::Transaction;

/// Whether a channel takes methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelState {
    Open,
    /// channel.close is sent; everything is discarded until close-ok (B41).
    Closing,
}

/// The meaning of publishing on the channel.
pub(crate) enum Mode {
    Plain,
    /// confirm.select was done; holds the number of the latest publish, for listings.
    Confirm(Arc<AtomicU64>),
    /// tx.select was done.
    Transaction(Box<Transaction>),
}

/// The consumer that a consumer tag stands for.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) token: u32,
    pub(crate) source: u32,
    /// Address of a reply consumer (B153); `None` for consumers of queues.
    pub(crate) reply_address: Option<Box<[u8]>>,
}

/// The source of basic.get deliveries in use, with its queue.
pub(crate) struct Getter {
    pub(crate) queue: Arc<Queue>,
    pub(crate) source: u32,
}

/// A channel.
pub(crate) struct Channel {
    pub(crate) state: ChannelState,
    /// See [`super::deliver::ChannelOutput::serial`].
    pub(crate) serial: u64,
    pub(crate) assembly: Assembly,
    pub(crate) publish: PublishChannel,
    pub(crate) mode: Mode,
    pub(crate) consumers: HashMap<Box<[u8]>, Consumer>,
    /// For empty queue names (B60).
    pub(crate) queue_last_declared: Option<Box<[u8]>>,
    /// Prefetch of later consumers; 0 is no limit (B120).
    pub(crate) prefetch: u32,
    pub(crate) getter: Option<Getter>,
    /// Properties that were found valid last; most publishers repeat theirs.
    pub(crate) properties_valid: Vec<u8>,
    /// It stands among [`super::running::Running::active`].
    pub(crate) is_active: bool,
    /// Counts the channel against limits as long as it is there.
    pub(crate) permit: ChannelPermit,
}

impl Channel {
    pub(crate) fn new(number: u16, serial: u64, permit: ChannelPermit) -> Channel {
        Channel {
            state: ChannelState::Open,
            serial,
            assembly: Assembly::default(),
            publish: PublishChannel::numbered(number),
            mode: Mode::Plain,
            consumers: HashMap::new(),
            queue_last_declared: None,
            prefetch: 0,
            getter: None,
            properties_valid: Vec::new(),
            is_active: true,
            permit,
        }
    }

    /// The reply consumer's address, if there is one.
    pub(crate) fn reply_consumer(&self) -> Option<&Consumer> {
        self.consumers.values().find(|consumer| consumer.reply_address.is_some())
    }
}

/// So long after a client has closed a channel its methods there are taken for sent before it knew the answer, milliseconds. RabbitMQ's
/// time is the one it takes to forget a channel: up to 5 ms when it has nothing else to do.
const CROSSING_MS: u64 = 50;

/// A connection's channels by number.
#[derive(Default)]
pub(crate) struct Channels {
    by_number: Vec<Option<Box<Channel>>>,
    count: usize,
    /// When the client closed those numbers that it has not opened again, in milliseconds of the session; `None` is after the latest read.
    closed: HashMap<u16, Option<u64>>,
    /// One of them has no time yet.
    has_untimed: bool,
    /// When was read last, in milliseconds of the session.
    read_ms: u64,
}

impl Channels {
    #[inline]
    pub(crate) fn get(&mut self, number: u16) -> Option<&mut Channel> {
        self.by_number.get_mut(usize::from(number))?.as_deref_mut()
    }

    /// Channels in use, closing ones too.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.by_number.iter().filter_map(Option::as_deref)
    }

    /// Whether the channel takes methods.
    #[inline]
    pub(crate) fn is_open(&self, number: u16) -> bool {
        let channel = self.by_number.get(usize::from(number)).and_then(Option::as_deref);
        channel.is_some_and(|channel| channel.state == ChannelState::Open)
    }

    /// How many these are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The client has closed the channel, which is removed.
    pub(crate) fn remember_closed(&mut self, number: u16) {
        self.closed.insert(number, Some(self.read_ms));
    }

    /// Something is answered after a wait. If it is the close of the channel, then frames of the next read cannot know of it.
    pub(crate) fn answered_late(&mut self, number: u16) {
        if let Some(closed_ms) = self.closed.get_mut(&number) {
            *closed_ms = None;
            self.has_untimed = true;
        }
    }

    /// Whether the client closed the channel so shortly ago that it may not have known the answer when it sent what comes now.
    pub(crate) fn is_just_closed(&self, number: u16) -> bool {
        let closed_ms = self.closed.get(&number).map(|closed_ms| closed_ms.unwrap_or(self.read_ms));
        closed_ms.is_some_and(|closed_ms| self.read_ms.saturating_sub(closed_ms) <= CROSSING_MS)
    }

    /// Something was read at `now_ms` of the session.
    #[inline]
    pub(crate) fn read_at(&mut self, now_ms: u64) {
        self.read_ms = now_ms;
        if self.has_untimed {
            self.has_untimed = false;
            self.closed.values_mut().for_each(|closed_ms| *closed_ms = closed_ms.or(Some(now_ms)));
        }
    }

    pub(crate) fn insert(&mut self, number: u16, channel: Channel) {
        self.closed.remove(&number);
        let index = usize::from(number);
        if self.by_number.len() <= index {
            self.by_number.resize_with(index + 1, || None);
        }
        self.count += usize::from(self.by_number[index].is_none());
        self.by_number[index] = Some(Box::new(channel));
    }

    pub(crate) fn remove(&mut self, number: u16) {
        if let Some(slot) = self.by_number.get_mut(usize::from(number)) {
            self.count -= usize::from(slot.take().is_some());
        }
    }

    /// Numbers in use.
    pub(crate) fn numbers(&self) -> Vec<u16> {
        (0..)
            .zip(&self.by_number)
            .filter(|(_, channel)| channel.is_some())
            .map(|(number, _)| number)
            .collect()
    }
}
