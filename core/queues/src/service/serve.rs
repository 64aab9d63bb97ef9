//! Serving consumers and gets from the head of the queue.

use message::MessageView;
use smallvec::SmallVec;

use super::state::Service;
use crate::body::LARGE_BODY_BYTES;
use crate::effects::{Effects, GetToken};
use crate::kind::Kind;
use crate::store::Store;
use crate::store::messages::extends;
use crate::traffic::{CreditNews, Delivery, MessageSeq};

/// Deliveries offered to one consumer at once.
const RUN: usize = 64;

impl Service {
    /// basic.get: answered through [`Effects::got`], at once unless the head is on disk. The message is unacked
    /// afterwards; a no-ack get settles it right away.
    pub(crate) fn get(&mut self, store: &mut Store, get: GetToken, now_ms: u64, fx: &mut impl Effects) {
        if self.follows {
            fx.got(get, None);
            return;
        }
        (self.last_used_ms, self.active_ms) = (now_ms, now_ms);
        self.expire(store, now_ms, fx);
        self.gets.push_back(get);
        self.serve(store, now_ms, fx);
    }

    /// Serves waiting consumers and gets, as long as there are messages at hand.
    pub(crate) fn serve(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        if self.is_still() {
            return;
        }
        self.serve_gets(store, now_ms, fx);
        let mut expired_before = u64::MAX;
        while self.gets.is_empty() {
            if let Some(seq) = store.next_returned() {
                if self.serve_returned(store, seq, now_ms, fx) {
                    continue;
                }
                break;
            }
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
        self.tell_changes(store, fx);
        let nothing_is_left = store.ready == 0 || self.holds_deaths_for_long();
        self.consumers.drain(nothing_is_left, |consumer, limit| {
            fx.credit_news(consumer, CreditNews::Drained { limit });
        });
        store.settle_log(fx);
        self.tally.note_able(self.consumers.next().is_some(), now_ms);
    }

    /// Tells consumers that they are active now, or are it no more. Quorum queues alone do, as in RabbitMQ.
    fn tell_changes(&mut self, store: &Store, fx: &mut impl Effects) {
        let changes = self.consumers.take_changes();
        for (consumer, is_active) in changes.into_iter().filter(|_| self.config.kind == Kind::Quorum) {
            let available = if is_active { store.ready } else { 0 };
            fx.credit_news(consumer, CreditNews::Activity { is_active, available });
        }
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

    /// The first of those that came back, to the next consumer or get; false when there is none, or it is not at hand.
    fn serve_returned(
        &mut self,
        store: &mut Store,
        seq: MessageSeq,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> bool {
        let Some((slot, _)) = self.consumers.next() else { return false };
        let consumer = self.consumers.peek(slot);
        let (id, ack_required) = (consumer.spec.id, consumer.spec.ack_required);
        let mut run: SmallVec<[Delivery<'_>; 1]> = SmallVec::new();
        if store.block(seq).is_none_or(|block| block.peek(seq, 1, now_ms, &mut run) == 0) {
            drop(run);
            return self.await_returned(store, seq, now_ms, fx);
        }
        let counted = store.counted(seq, run[0].message.properties);
        let properties = counted.as_deref().unwrap_or(run[0].message.properties);
        let delivery = Delivery { message: MessageView { properties, ..run[0].message }, ..run[0] };
        let large = match delivery.message.body.len() >= LARGE_BODY_BYTES {
            true => store.levels[usize::from(seq.level())].large_body(seq),
            false => None,
        };
        let taken = match large {
            None => fx.deliver(id, std::slice::from_ref(&delivery)),
            Some(body) => fx.deliver_large(id, &delivery, body),
        };
        drop(run);
        let totals = &mut self.tally.totals().deliveries;
        totals.redelivered += taken as u64;
        *(if ack_required { &mut totals.delivered } else { &mut totals.delivered_no_ack }) += taken as u64;
        if taken > 0 {
            store.take_returned();
            if !ack_required {
                store.drop_unacked(seq, 1);
            }
        }
        self.consumers.served(slot, taken as u32, taken == 0);
        true
    }

    /// The first of those that came back is not at hand. True when it has gone.
    fn await_returned(
        &mut self,
        store: &mut Store,
        seq: MessageSeq,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> bool {
        let is_here = store.block(seq).is_some_and(|block| block.is_resident());
        if is_here && self.may_expire && self.expire(store, now_ms, fx) > 0 {
            return true;
        }
        store.request_block(seq, fx);
        false
    }

    /// A get is answered with the first of those that came back; false when that is not at hand.
    fn answer_with_returned(
        &mut self,
        store: &mut Store,
        get: GetToken,
        seq: MessageSeq,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> bool {
        let mut run: SmallVec<[Delivery<'_>; 1]> = SmallVec::new();
        if store.block(seq).is_none_or(|block| block.peek(seq, 1, now_ms, &mut run) == 0) {
            drop(run);
            return self.await_returned(store, seq, now_ms, fx);
        }
        let counted = store.counted(seq, run[0].message.properties);
        let properties = counted.as_deref().unwrap_or(run[0].message.properties);
        let delivery = Delivery { message: MessageView { properties, ..run[0].message }, ..run[0] };
        let totals = &mut self.tally.totals().deliveries;
        totals.got += 1;
        totals.redelivered += 1;
        fx.got(get, Some((delivery, store.ready - 1)));
        drop(run);
        self.gets.pop_front();
        store.take_returned();
        true
    }

    fn serve_gets(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        while let Some(get) = self.gets.front().copied() {
            if let Some(seq) = store.next_returned() {
                if self.answer_with_returned(store, get, seq, now_ms, fx) {
                    continue;
                }
                return;
            }
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
