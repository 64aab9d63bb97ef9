//! Serving consumers and gets from the head of the queue.

use smallvec::SmallVec;

use super::state::Service;
use crate::body::LARGE_BODY_BYTES;
use crate::effects::{Effects, GetToken};
use crate::message::{Delivery, MessageSeq};
use crate::store::Store;
use crate::store::messages::extends;

/// Deliveries offered to one consumer at once.
const RUN: usize = 64;

impl Service {
    /// basic.get: answered through [`Effects::got`], at once unless the head is on disk. The message is unacked
    /// afterwards; a no-ack get settles it right away.
    pub(crate) fn get(&mut self, store: &mut Store, get: GetToken, now_ms: u64, fx: &mut impl Effects) {
        (self.last_used_ms, self.active_ms) = (now_ms, now_ms);
        self.expire(store, now_ms, fx);
        self.gets.push_back(get);
        self.serve(store, now_ms, fx);
    }

    /// Serves whoever waits, as long as there are messages at hand.
    pub(crate) fn serve(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        self.serve_gets(store, now_ms, fx);
        let mut expired_before = u64::MAX;
        while self.gets.is_empty() {
            let Some(level) = store.top_level() else { break };
            let Some((slot, alone)) = self.consumers.next() else { break };
            if self.serve_one(store, level, slot, alone, now_ms, fx) {
                continue;
            }
            // Nothing was at hand: the head expired, or its block is on disk.
            if self.may_expire && store.ready < expired_before {
                expired_before = store.ready;
                self.expire(store, now_ms, fx);
                continue;
            }
            store.fetch_head(level, fx);
            break;
        }
        store.settle_log(fx);
        self.tally.note_able(self.consumers.next().is_some(), now_ms);
    }

    /// One run to one consumer; false when no message was at hand.
    fn serve_one(
        &mut self,
        store: &mut Store,
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
        store.levels[level].peek(count, now_ms, &mut run);
        if run.is_empty() {
            return false;
        }
        // Behind others of a run it is copied with them: looking at each of a run of small ones would cost more than that.
        let large = match run[0].message.body.len() >= LARGE_BODY_BYTES {
            true => store.levels[level].large_body(run[0].seq),
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
        store.take(level, taken);
        for (first, count) in runs {
            store.drop_unacked(first, count);
        }
        self.consumers.served(slot, taken as u32, full);
        store.prefetch_blocks(level, fx);
        true
    }

    fn serve_gets(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        while let Some(get) = self.gets.front().copied() {
            let Some(level) = store.top_level() else {
                self.gets.pop_front();
                self.tally.totals().deliveries.got_empty += 1;
                fx.got(get, None);
                continue;
            };
            let Some(delivery) = store.levels[level].peek_one(now_ms) else {
                if self.may_expire && self.expire(store, now_ms, fx) > 0 {
                    continue;
                }
                if self.holds_deaths_for_long() && store.levels[level].is_head_here() {
                    self.gets.pop_front();
                    self.tally.totals().deliveries.got_empty += 1;
                    fx.got(get, None);
                    continue;
                }
                store.fetch_head(level, fx);
                return;
            };
            let totals = &mut self.tally.totals().deliveries;
            totals.got += 1;
            totals.redelivered += u64::from(delivery.redelivered);
            fx.got(get, Some((delivery, store.ready - 1)));
            self.gets.pop_front();
            store.take(level, 1);
        }
    }
}
