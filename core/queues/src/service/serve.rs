//! Serving consumers and gets from the head of the queue.

use smallvec::SmallVec;

use crate::body::LARGE_BODY_BYTES;
use crate::classic::machine::{Classic, extends};
use crate::effects::{Effects, GetToken};
use crate::message::{Delivery, MessageSeq};
use crate::store::block::BACKLOG_BLOCK_BYTES;

/// Deliveries offered to one consumer at once.
const RUN: usize = 64;

/// Blocks asked back from disk before the head reaches them, the head's own included, at most.
const READ_AHEAD_BLOCKS_MAX: usize = 4;

impl Classic {
    /// basic.get: answered through [`Effects::got`], at once unless the head is on disk. The message is unacked
    /// afterwards; a no-ack get settles it right away.
    pub fn get(&mut self, get: GetToken, now_ms: u64, fx: &mut impl Effects) {
        (self.last_used_ms, self.active_ms) = (now_ms, now_ms);
        self.expire(now_ms, fx);
        self.gets.push_back(get);
        self.serve(now_ms, fx);
    }

    /// The highest level with ready messages.
    pub(crate) fn top_level(&self) -> Option<usize> {
        (0..self.levels.len()).rev().find(|level| self.levels[*level].ready() > 0)
    }

    /// Serves whoever waits, as long as there are messages at hand.
    pub(crate) fn serve(&mut self, now_ms: u64, fx: &mut impl Effects) {
        self.serve_gets(now_ms, fx);
        let mut expired_before = u64::MAX;
        while self.gets.is_empty() {
            let Some(level) = self.top_level() else { break };
            let Some((slot, alone)) = self.consumers.next() else { break };
            if self.serve_one(level, slot, alone, now_ms, fx) {
                continue;
            }
            // Nothing was at hand: the head expired, or its block is on disk.
            if self.may_expire && self.ready < expired_before {
                expired_before = self.ready;
                self.expire(now_ms, fx);
                continue;
            }
            self.fetch_head(level, fx);
            break;
        }
        self.settle_log(fx);
        self.tally.note_able(self.consumers.next().is_some(), now_ms);
    }

    /// One run to one consumer; false when no message was at hand.
    fn serve_one(
        &mut self,
        level: usize,
        slot: usize,
        alone: bool,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> bool {
        let consumer = self.consumers.peek(slot);
        let count = if alone { consumer.window().min(RUN) } else { 1 };
        let (id, ack_required) = (consumer.spec.id, consumer.spec.ack_required);
        let mut run: SmallVec<[Delivery<'_>; RUN]> = SmallVec::new();
        self.levels[level].peek(count, now_ms, &mut run);
        if run.is_empty() {
            return false;
        }
        // Behind others of a run it is copied with them: looking at each of a run of small ones would cost more than that.
        let large = match run[0].message.body.len() >= LARGE_BODY_BYTES {
            true => self.levels[level].large_body(run[0].seq),
            false => None,
        };
        let taken = match large {
            None => fx.deliver(id, &run),
            Some(body) => {
                run.truncate(1);
                fx.deliver_large(id, &run[0], body)
            }
        };
        debug_assert!(taken <= run.len());
        let full = taken < run.len();
        let totals = &mut self.tally.totals().deliveries;
        totals.redelivered += run[..taken].iter().filter(|delivery| delivery.redelivered).count() as u64;
        let delivered = if ack_required { &mut totals.delivered } else { &mut totals.delivered_no_ack };
        *delivered += taken as u64;
        let mut runs: SmallVec<[(MessageSeq, u32); 4]> = SmallVec::new();
        if !ack_required {
            for delivery in &run[..taken] {
                if !runs.last_mut().is_some_and(|latest| extends(latest, delivery.seq)) {
                    runs.push((delivery.seq, 1));
                }
            }
        }
        drop(run);
        self.take(level, taken);
        for (first, count) in runs {
            self.drop_unacked(first, count);
        }
        self.consumers.served(slot, taken as u32, full);
        self.prefetch_blocks(level, fx);
        true
    }

    /// Moves `count` messages from ready to unacked.
    pub(crate) fn take(&mut self, level: usize, count: usize) {
        let bytes = self.levels[level].take(count);
        self.ready -= count as u64;
        self.ready_bytes = self.ready_bytes.saturating_sub(bytes);
        self.unacked += count as u64;
        self.unacked_bytes += bytes;
    }

    /// Takes the head of a level, which must have one; returns its number.
    pub(crate) fn take_one(&mut self, level: usize) -> u64 {
        let number = self.levels[level].head().expect("the caller saw a ready message");
        self.take(level, 1);
        number
    }

    fn serve_gets(&mut self, now_ms: u64, fx: &mut impl Effects) {
        while let Some(get) = self.gets.front().copied() {
            let Some(level) = self.top_level() else {
                self.gets.pop_front();
                self.tally.totals().deliveries.got_empty += 1;
                fx.got(get, None);
                continue;
            };
            let Some(delivery) = self.levels[level].peek_one(now_ms) else {
                if self.may_expire && self.expire(now_ms, fx) > 0 {
                    continue;
                }
                if self.holds_deaths_for_long() && self.levels[level].is_head_here() {
                    self.gets.pop_front();
                    self.tally.totals().deliveries.got_empty += 1;
                    fx.got(get, None);
                    continue;
                }
                self.fetch_head(level, fx);
                return;
            };
            let totals = &mut self.tally.totals().deliveries;
            totals.got += 1;
            totals.redelivered += u64::from(delivery.redelivered);
            fx.got(get, Some((delivery, self.ready - 1)));
            self.gets.pop_front();
            self.take(level, 1);
        }
    }

    /// Asks for the block of a level's head when it is on disk.
    pub(crate) fn fetch_head(&mut self, level: usize, fx: &mut impl Effects) {
        if let Some(number) = self.levels[level].head() {
            self.request_block(MessageSeq::new(level as u8, number), fx);
        }
    }

    /// Number after the blocks that are kept in memory for who is served next from a head: a few, and of large messages, or with a
    /// small share, the head's own.
    pub(crate) fn read_ahead_end(&self, level: usize, head: u64) -> u64 {
        self.levels[level].read_ahead_end(head, READ_AHEAD_BLOCKS_MAX, self.read_ahead_bytes_max())
    }

    /// Bytes of blocks that are kept in memory for who is served next, but for the last one of them.
    pub(crate) fn read_ahead_bytes_max(&self) -> usize {
        (self.share_bytes / 2).min(READ_AHEAD_BLOCKS_MAX * BACKLOG_BLOCK_BYTES)
    }

    /// Asks for the next blocks on disk before the head reaches them.
    fn prefetch_blocks(&mut self, level: usize, fx: &mut impl Effects) {
        if self.blocks_on_disk() == 0 && !self.misses_bodies {
            return;
        }
        let Some(head) = self.levels[level].head() else { return };
        let end = self.read_ahead_end(level, head);
        let firsts: SmallVec<[u64; READ_AHEAD_BLOCKS_MAX]> = self.levels[level]
            .blocks_from(head)
            .take_while(|block| block.first < end)
            .filter(|b| !b.is_resident())
            .map(|b| b.first)
            .collect();
        for first in firsts {
            self.request_block(MessageSeq::new(level as u8, first), fx);
        }
    }
}
