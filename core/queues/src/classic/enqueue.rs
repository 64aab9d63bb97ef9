//! Messages that come in: past a lone consumer, refused, dropped as a duplicate, or into a block.

use std::sync::Arc;

use message::MessageView;
use smallvec::SmallVec;

use super::machine::Classic;
use crate::arguments::Overflow;
use crate::body::{BodyBuffer, BodyBytes, LARGE_BODY_BYTES};
use crate::effects::{DeadReason, Effects};
use crate::machine::PublishOutcome;
use crate::traffic::{Delivery, IncomingMessage, IncomingMessages, MessageSeq};

/// Messages passed to one consumer at once.
const PASSED_RUN: usize = 64;

/// Appends messages as they are passed on without having been queued.
fn peek<'a>(
    batch: &(impl IncomingMessages<'a> + ?Sized),
    range: std::ops::Range<usize>,
    run: &mut SmallVec<[Delivery<'a>; PASSED_RUN]>,
) {
    for nth in range {
        let delivery = match (run.last(), batch.alike(nth)) {
            (Some(before), Some(body)) => {
                Delivery { message: MessageView { body, ..before.message }, ..*before }
            }
            _ => {
                let IncomingMessage { message, annotations, .. } = batch.message(nth);
                Delivery { seq: MessageSeq(0), redelivered: false, message, annotations }
            }
        };
        run.push(delivery);
    }
}

impl Classic {
    /// Enqueues a batch in order and serves consumers.
    pub(crate) fn take_batch<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        if self.service.follows {
            let rejected = (0..batch.count() as u32).collect();
            return PublishOutcome { rejected, log_position: 0 };
        }
        self.begin_publish(batch.count(), now_ms, fx);
        let mut outcome = PublishOutcome::default();
        let passed = if self.store.present.is_none() { self.pass_through(batch, fx) } else { 0 };
        let mut duplicates = 0;
        let mut index = passed;
        while index < batch.count() {
            let mut incoming = batch.message(index);
            incoming.persistent |= self.service.config.keeps_all;
            if self.refuses(&incoming, fx) {
                outcome.rejected.push(index as u32);
            } else if self.store.is_duplicate(&incoming) {
                duplicates += 1;
            } else {
                self.enqueue(&incoming, None, now_ms);
                index += self.enqueue_alike(&incoming, batch, index + 1);
            }
            index += 1;
        }
        outcome.log_position = self.store.log_enqueued(fx);
        if duplicates > 0 {
            outcome.log_position = outcome.log_position.max(self.store.latest_logged());
        }
        self.end_publish(batch.count(), now_ms, fx);
        outcome
    }

    /// As [`Self::take_batch`], of one message whose body is `body`: the body in `head` does not count.
    pub(crate) fn take_whole(
        &mut self,
        head: &IncomingMessage<'_>,
        body: BodyBuffer,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        if self.service.follows {
            return PublishOutcome { rejected: vec![0], log_position: 0 };
        }
        self.begin_publish(1, now_ms, fx);
        let head = &IncomingMessage { persistent: head.persistent || self.service.config.keeps_all, ..*head };
        let mut outcome = PublishOutcome::default();
        let body = if self.store.present.is_none() { self.pass_whole(head, body, fx) } else { Some(body) };
        if let Some(body) = body {
            let message = MessageView { body: &body, ..head.message };
            let incoming = IncomingMessage { message, ..*head };
            if self.refuses(&incoming, fx) {
                outcome.rejected.push(0);
            } else if self.store.is_duplicate(&incoming) {
                outcome.log_position = self.store.latest_logged();
            } else {
                self.enqueue(head, Some(body), now_ms);
            }
        }
        outcome.log_position = outcome.log_position.max(self.store.log_enqueued(fx));
        self.end_publish(1, now_ms, fx);
        outcome
    }

    fn begin_publish(&mut self, count: usize, now_ms: u64, fx: &mut impl Effects) {
        self.service.tally.totals().published += count as u64;
        self.service.active_ms = now_ms;
        self.service.expire(&mut self.store, now_ms, fx);
    }

    fn end_publish(&mut self, count: usize, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        service.trim(store, count, now_ms, fx);
        store.settle_log(fx);
        service.serve(store, now_ms, fx);
        service.expire(store, now_ms, fx);
        service.relieve(store, fx);
    }

    /// Hands messages straight to a lone no-ack consumer of an empty queue; returns how many were passed on.
    fn pass_through<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        fx: &mut impl Effects,
    ) -> usize {
        let mut passed = 0;
        while passed < batch.count()
            && let Some((slot, alone)) = self.next_to_pass_to()
        {
            let count = if alone { PASSED_RUN.min(batch.count() - passed) } else { 1 };
            let id = self.service.consumers.peek(slot).spec.id;
            let mut run = SmallVec::new();
            peek(batch, passed..passed + count, &mut run);
            // A large body that other queues have, too, is lent; one behind smaller ones goes out with them.
            let is_large = run[0].message.body.len() >= LARGE_BODY_BYTES;
            let held = if is_large { batch.message(passed).shared } else { None };
            let (taken, count) = match held {
                None => (fx.deliver(id, &run), count),
                Some(held) => (fx.deliver_large(id, &run[0], held.bytes.clone().into()), 1),
            };
            self.service.tally.totals().deliveries.delivered_no_ack += taken as u64;
            self.service.consumers.served(slot, taken as u32, taken < count);
            passed += taken;
        }
        passed
    }

    /// The same with a message whose body is `body`, which is given back when nobody takes it.
    fn pass_whole(
        &mut self,
        head: &IncomingMessage<'_>,
        body: BodyBuffer,
        fx: &mut impl Effects,
    ) -> Option<BodyBuffer> {
        if self.next_to_pass_to().is_none() {
            return Some(body);
        }
        let body: BodyBytes = Arc::new(body);
        let message = MessageView { body: &body, ..head.message };
        let annotations = head.annotations;
        let delivery = Delivery { seq: MessageSeq(0), redelivered: false, message, annotations };
        while let Some((slot, _)) = self.next_to_pass_to() {
            let id = self.service.consumers.peek(slot).spec.id;
            let taken = fx.deliver_large(id, &delivery, body.clone().into());
            self.service.tally.totals().deliveries.delivered_no_ack += taken as u64;
            self.service.consumers.served(slot, taken as u32, taken < 1);
            if taken > 0 {
                return None;
            }
        }
        Some(Arc::try_unwrap(body).unwrap_or_else(|kept| kept.to_vec().into()))
    }

    /// The consumer that is handed what comes next without its being queued, and whether it is alone in its line.
    #[inline]
    pub(crate) fn next_to_pass_to(&self) -> Option<(usize, bool)> {
        let next = if self.store.ready == 0 && self.service.gets.is_empty() {
            self.service.consumers.next()
        } else {
            None
        };
        next.filter(|(slot, _)| !self.service.consumers.peek(*slot).spec.ack_required)
    }

    /// Whether it refuses a publish with such a body (B107, B142).
    pub(crate) fn is_full_for(&self, body_bytes: u64) -> bool {
        if self.service.config.overflow == Overflow::DropHead {
            return false;
        }
        let over_count = self.service.config.max_length.is_some_and(|max| self.store.ready + 1 > max);
        over_count
            || self
                .service
                .config
                .max_length_bytes
                .is_some_and(|max| self.store.ready_bytes + body_bytes > max)
    }

    /// Applies `x-overflow` reject-publish (B142); dead-letters what reject-publish-dlx refuses.
    fn refuses(&mut self, incoming: &IncomingMessage<'_>, fx: &mut impl Effects) -> bool {
        let refused = self.is_full_for(incoming.message.body.len() as u64);
        if refused {
            self.service.tally.totals().dropped += 1;
        }
        if refused
            && self.service.config.overflow == Overflow::RejectPublishDlx
            && self.service.config.dead_letters
        {
            let (reason, shared) = (DeadReason::MaxLength, incoming.shared.cloned());
            fx.dead_letter(reason, None, incoming.message, incoming.annotations, shared);
        }
        refused
    }

    /// With the body that the message has, or with this one.
    fn enqueue(&mut self, incoming: &IncomingMessage<'_>, whole: Option<BodyBuffer>, now_ms: u64) {
        let config = &self.service.config;
        let level = config.level_of(incoming.priority, &incoming.message);
        let ttl_ms = match (config.message_ttl_ms, incoming.ttl_ms) {
            (Some(queue), Some(message)) => Some(queue.min(message)),
            (queue, message) => queue.or(message),
        };
        let expiry_ms = ttl_ms.map(|ttl| now_ms.saturating_add(ttl));
        self.service.may_expire |= expiry_ms.is_some();
        self.store.add(incoming, whole, level, expiry_ms);
    }

    /// Enqueues messages from `next` on that are like the newest of the queue, the one before them, in everything but the body: nothing
    /// has to be found out about them. Returns how many.
    fn enqueue_alike<'a>(
        &mut self,
        newest: &IncomingMessage<'_>,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        next: usize,
    ) -> usize {
        let is_next_alike = next < batch.count() && batch.alike(next).is_some();
        if newest.shared.is_some() || !is_next_alike || !self.takes_alike() {
            return 0;
        }
        let level = self.service.config.level_of(newest.priority, &newest.message);
        self.store.add_alike(newest, level, batch, next)
    }

    /// Whether what was found out about a message holds for those that are like it: neither limits nor single messages count.
    fn takes_alike(&self) -> bool {
        let has_limit =
            self.service.config.max_length.is_some() || self.service.config.max_length_bytes.is_some();
        let may_refuse = has_limit && self.service.config.overflow != Overflow::DropHead;
        !may_refuse && self.store.present.is_none()
    }
}
