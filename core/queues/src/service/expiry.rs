//! Messages that leave the queue by rule: time to live, length limits, the queue's own expiry (B139-B142).

use super::state::Service;
use crate::arguments::Overflow;
use crate::effects::{DeadReason, Effects};
use crate::store::Store;
use crate::traffic::MessageSeq;

/// Messages that leave by rule in one go before others get their turn: a millisecond or two, with dead letters.
const PORTION_COUNT: u64 = 1024;

/// The same in bytes of bodies: dead letters are copies.
const PORTION_BYTES: u64 = 4 << 20;

/// How much may still leave by rule before others get their turn.
pub(crate) struct Portion {
    count: u64,
    bytes: u64,
}

impl Portion {
    /// A portion, and so many messages more, but not more bytes.
    pub(crate) fn with(more: usize) -> Portion {
        Portion { count: PORTION_COUNT + more as u64, bytes: PORTION_BYTES }
    }

    /// So many messages and no more, nor more bytes than a portion has.
    pub(crate) fn of(count: usize) -> Portion {
        Portion { count: count as u64, bytes: PORTION_BYTES }
    }

    /// Whether one more may leave.
    pub(crate) fn has_room(&self) -> bool {
        self.count > 0 && self.bytes > 0
    }

    /// One leaves.
    pub(crate) fn take(&mut self, body_bytes: u64) {
        self.count -= 1;
        self.bytes = self.bytes.saturating_sub(body_bytes);
    }
}

impl Service {
    /// Whether the queue is unused for as long as it may be (B141).
    pub(crate) fn is_overdue(&self, now_ms: u64) -> bool {
        self.config.expires_ms.is_some_and(|expires_ms| {
            !self.is_still()
                && self.consumers.count() == 0
                && now_ms >= self.last_used_ms.saturating_add(expires_ms)
        })
    }

    /// Drops expired messages at the head; returns how many. A message behind the head, also on a lower level, waits until it is the head
    /// (B139).
    pub(crate) fn expire(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) -> u64 {
        if !self.may_expire || self.is_still() || self.holds_deaths(store) {
            return 0;
        }
        let mut dropped = 0;
        let mut portion = Portion::with(0);
        while let Some(head) = store.head() {
            let block = store.block(head).expect("ready messages have a block");
            if !block.expires {
                break;
            }
            let Some(stored) = block.stored(head.number()) else {
                store.request_block(head, fx);
                break;
            };
            let Some(expiry_ms) = stored.expiry_ms else { break };
            if expiry_ms > now_ms {
                self.want_wake(expiry_ms, fx);
                break;
            }
            if !portion.has_room() {
                self.want_wake(now_ms, fx);
                break;
            }
            portion.take(stored.message.body.len() as u64);
            self.drop_head(store, head, DeadReason::Expired, fx);
            dropped += 1;
        }
        store.settle_log(fx);
        dropped
    }

    /// Drops from the head, the oldest message of the highest level, until the limits hold (B142 as 4.3.6 does it). A policy may have
    /// made a long queue a short one: after a portion others get their turn. `came` messages came just now: so many more may go, and
    /// publishers, whose batches are smaller than a portion, do not get ahead of the limit.
    pub(crate) fn trim(&mut self, store: &mut Store, came: usize, now_ms: u64, fx: &mut impl Effects) {
        let (max_length, max_bytes) = (self.config.max_length, self.config.max_length_bytes);
        // A producer that brings messages while letters wait makes as many leave: the queue does not grow meanwhile, unless small ones
        // drive out large ones, whose letters would be too much.
        let holds = self.holds_deaths_for_long()
            || (self.holds_deaths(store) && (store.checkpoint.waits_for_letters() || came == 0));
        if (max_length.is_none() && max_bytes.is_none()) || holds || self.is_still() {
            return;
        }
        if self.config.overflow != Overflow::DropHead {
            // Accepted messages stay, even when deliveries that come back make the queue longer than it may be.
            return;
        }
        let held = self.holds_deaths(store);
        let mut portion = if held { Portion::of(came) } else { Portion::with(came) };
        while max_length.is_some_and(|max| store.ready > max)
            || max_bytes.is_some_and(|max| store.ready_bytes > max)
        {
            let Some(head) = store.head() else {
                return;
            };
            let block = store.block(head).expect("ready messages have a block");
            if !block.is_resident() {
                store.request_block(head, fx);
                return;
            }
            if !portion.has_room() {
                if !self.holds_deaths(store) {
                    self.want_wake(now_ms, fx);
                }
                return;
            }
            portion.take(block.body_bytes(head.number()));
            self.drop_head(store, head, DeadReason::MaxLength, fx);
        }
    }

    /// Whether more is ready than a limit lets stay: the head is about to be dropped.
    pub(crate) fn is_too_long(&self, store: &Store) -> bool {
        let is_over = self.config.max_length.is_some_and(|max| store.ready > max)
            || self.config.max_length_bytes.is_some_and(|max| store.ready_bytes > max);
        is_over && self.config.overflow == Overflow::DropHead && !self.is_still()
    }

    /// Drops the head, which is in memory.
    fn drop_head(&mut self, store: &mut Store, seq: MessageSeq, reason: DeadReason, fx: &mut impl Effects) {
        store.take_head(seq);
        let totals = self.tally.totals();
        let died = if reason == DeadReason::Expired { &mut totals.expired } else { &mut totals.dropped };
        *died += 1;
        if self.config.dead_letters {
            self.bury(store, seq, reason, fx);
        } else {
            store.drop_unacked(seq, 1);
        }
    }

    /// Asks to be woken, unless an earlier wake-up is on its way.
    pub(crate) fn want_wake(&mut self, time_ms: u64, fx: &mut impl Effects) {
        if time_ms < self.wake_ms {
            self.wake_ms = time_ms;
            fx.wake_at(time_ms);
        }
    }

    /// With `x-expires` and no consumer: asks to be woken when the queue would be unused for long enough.
    pub(crate) fn watch_expires(&mut self, fx: &mut impl Effects) {
        if let Some(expires_ms) = self.config.expires_ms
            && self.consumers.count() == 0
            && !self.follows
        {
            self.want_wake(self.last_used_ms.saturating_add(expires_ms), fx);
        }
    }
}
