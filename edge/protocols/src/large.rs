//! Deliveries of large messages: each is a copy that waits for its consumer's socket, and a thousand slow consumers must not hold
//! a thousand of them. They share one [`Budget`] of the node; a connection that gets no room is paused like one whose output is full.
//!
//! Refuses to know queues, and how deliveries are written.
//!
//! Bound: that of the budget, one message beyond it, and what basic.get has fetched: one message for each connection, because
//! its size is known only when it is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use crate::budget::{Blame, Budget, Claim, Share, Want};
use crate::outbox::{OUTPUT_BYTES_MAX, Outbox};

/// Bodies of more bytes than this are large: a connection's output is bounded as far as others are concerned.
pub(crate) const LARGE_BYTES_MIN: usize = OUTPUT_BYTES_MAX;

/// A connection's share of the room for large deliveries; made when it gets the first one.
#[derive(Debug, Default)]
pub(crate) struct LargeShare(Option<Box<Share>>);

/// The way to that room, known to delivering threads.
#[derive(Debug)]
pub(crate) struct LargeRoom {
    budget: Arc<Budget>,
    /// The connection has large deliveries that are not written.
    is_held: AtomicBool,
}

impl LargeRoom {
    pub(crate) fn new(budget: Arc<Budget>) -> LargeRoom {
        LargeRoom { budget, is_held: AtomicBool::new(false) }
    }

    /// Bytes that all connections hold.
    pub(crate) fn held_bytes(&self) -> usize {
        self.budget.held_bytes()
    }

    /// Whether the connection has large deliveries that are not written.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// Whether a large message may be delivered now; otherwise the connection's task is woken when its paused consumers should
    /// try again.
    #[cold]
    pub(crate) fn claim<S: Send + 'static>(
        &self,
        share: &mut LargeShare,
        bytes: usize,
        outbox: &Arc<Outbox<S>>,
    ) -> bool {
        let want = Want { bytes, finish_bytes: bytes };
        let claim = self.share(share).claim(want, || Waker::from(outbox.clone()));
        // An error says that it has one beyond the budget already: that has to be written first.
        let is_granted = claim == Ok(Claim::Granted);
        if is_granted {
            self.is_held.store(true, Ordering::Relaxed);
        }
        is_granted
    }

    /// A large message is there, whatever room there is.
    #[cold]
    pub(crate) fn add(&self, share: &mut LargeShare, bytes: usize) {
        self.share(share).add(bytes);
        self.is_held.store(true, Ordering::Relaxed);
    }

    fn share<'a>(&self, share: &'a mut LargeShare) -> &'a mut Share {
        share.0.get_or_insert_with(|| Box::new(Share::new(self.budget.clone())))
    }

    /// All is written, or the connection ends.
    pub(crate) fn give_back(&self, share: &mut LargeShare) {
        self.is_held.store(false, Ordering::Relaxed);
        share.0 = None;
    }
}

impl LargeShare {
    /// Whether a consumer was refused for want of room.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.as_ref().is_some_and(|share| share.is_waiting())
    }

    /// Whether the client does not read what others wait for, see [`Share::overstays`].
    pub(crate) fn overstays(&mut self, now_ms: u64) -> bool {
        self.0.as_mut().is_some_and(|share| share.overstays(now_ms, Blame::Client))
    }
}
