//! The machine itself: the effect of each event on store and service.

use message::MessageView;
use std::ops::Range;
use std::sync::Arc;

use crate::arguments::QueueConfig;
use crate::body::BodyBuffer;
use crate::effects::{Effects, GetToken};
use crate::kind::Kind;
use crate::machine::{DiskAnswer, Gone, Machine, PublishOutcome};
use crate::record::SettledRun;
use crate::service::rest;
use crate::service::{DeliveryView, Service};
use crate::store::{Recovering, Store};
use crate::traffic::{
    ConsumerId, ConsumerSpec, Credit, CreditNews, Flow, IncomingMessage, IncomingMessages, MessageSeq,
    QueueCounts, QueueGlance, QueueStats, SettleHow, SettleRun,
};
use crate::{SharedBody, TurnedAway};

/// A classic queue.
#[derive(Debug)]
pub struct Classic {
    pub(crate) store: Store,
    pub(crate) service: Service,
}

impl Classic {
    /// An empty queue. `now_ms` starts the clock of `x-expires`.
    pub fn new(config: impl Into<Arc<QueueConfig>>, now_ms: u64) -> Classic {
        let config = config.into();
        Classic { store: Store::new(&config), service: Service::new(config, now_ms) }
    }

    /// The queue as it was: everything that lives is ready. `resolve` gives a handle for each shared body that is named.
    pub fn recovered(
        contents: Recovering,
        config: impl Into<Arc<QueueConfig>>,
        now_ms: u64,
        resolve: &mut dyn FnMut(&SharedBody) -> SharedBody,
    ) -> Classic {
        let config = config.into();
        let mut store = contents.finish(&config, resolve);
        if store.present.is_some() {
            store.learn_all(&mut |_, _| {});
        }
        Classic { service: Service::of(&store, config, now_ms), store }
    }

    /// A queue that was at rest.
    ///
    /// # Panics
    /// When the bytes are not of [`Machine::rest`].
    pub fn from_rest(config: impl Into<Arc<QueueConfig>>, bytes: &[u8], now_ms: u64) -> Classic {
        let mut queue = Classic::new(config, now_ms);
        rest::wake(&mut queue.store, &mut queue.service, bytes, now_ms);
        queue
    }

    /// Does what may have become possible: messages die, expire or go to consumers.
    fn go_on(&mut self, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        service.retry_rejects(store, now_ms, fx);
        service.trim(store, 0, now_ms, fx);
        service.expire(store, now_ms, fx);
        service.serve(store, now_ms, fx);
    }
}

impl Machine for Classic {
    fn config(&self) -> &Arc<QueueConfig> {
        &self.service.config
    }

    fn publish<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        self.take_batch(batch, now_ms, fx)
    }

    fn publish_whole(
        &mut self,
        head: &IncomingMessage<'_>,
        body: BodyBuffer,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        self.take_whole(head, body, now_ms, fx)
    }

    fn settle(&mut self, how: SettleHow, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        if service.follows {
            return;
        }
        service.active_ms = now_ms;
        for run in runs {
            let settled = match how {
                SettleHow::Ack => {
                    let out = store.out_of(run).into_iter();
                    let settled = out.map(|(first, count)| store.drop_unacked(first, count)).sum();
                    service.tally.totals().deliveries.acked += settled;
                    settled
                }
                SettleHow::Requeue | SettleHow::Fail if store.returns.is_some() => {
                    service.take_back(store, run, how == SettleHow::Fail, now_ms, fx)
                }
                SettleHow::Requeue | SettleHow::Fail => store.put_back(run),
                SettleHow::Reject => {
                    let out = store.out_of(run).into_iter();
                    let settled = out.map(|(first, count)| service.reject(store, first, count, fx)).sum();
                    service.tally.totals().rejected += settled;
                    settled
                }
            };
            if let Some(consumer) = run.consumer {
                let mut settled = settled as u32;
                if store.returns.is_some() {
                    // The client may have the message from an earlier leader: the delivery may be another consumer's now.
                    settled = settled.min(service.consumers.unacked(consumer));
                }
                service.consumers.settled(consumer, settled);
            }
        }
        store.settle_log(fx);
        service.trim(store, 0, now_ms, fx);
        service.expire(store, now_ms, fx);
        service.serve(store, now_ms, fx);
        service.relieve(store, fx);
    }

    fn annotate(&mut self, run: &SettleRun, entries: &[u8]) {
        if self.store.returns.is_some() {
            self.store.annotate(run, entries);
        }
    }

    fn settle_unasked(&mut self, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects) {
        let before = self.service.tally.now().deliveries.acked;
        self.settle(SettleHow::Ack, runs, now_ms, fx);
        let totals = &mut self.service.tally.totals().deliveries;
        let settled = totals.acked - before;
        totals.acked = before;
        totals.got -= settled;
        totals.got_no_ack += settled;
    }

    fn add_consumer(&mut self, spec: ConsumerSpec, now_ms: u64) -> bool {
        self.service.add_consumer(spec, now_ms)
    }

    /// An auto-delete queue goes with its last consumer (B68).
    fn cancel(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        if service.consumers.remove(consumer).is_none() {
            return;
        }
        (service.last_used_ms, service.active_ms) = (now_ms, now_ms);
        if service.consumers.count() == 0 && service.had_consumer && service.config.auto_delete {
            fx.gone(Gone::LastConsumer);
            return;
        }
        service.watch_expires(fx);
        service.serve(store, now_ms, fx);
    }

    fn resume(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        service.consumers.resume(consumer);
        service.expire(store, now_ms, fx);
        service.serve(store, now_ms, fx);
        service.relieve(store, fx);
    }

    fn credit(&mut self, consumer: ConsumerId, credit: Credit, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        service.consumers.credit(consumer, credit);
        service.expire(store, now_ms, fx);
        service.serve(store, now_ms, fx);
        service.relieve(store, fx);
        let is_active = service.consumers.activity(consumer);
        if let Some(is_active) = is_active.filter(|_| service.config.kind == Kind::Quorum) {
            let available = if is_active { store.ready } else { 0 };
            fx.credit_news(consumer, CreditNews::Activity { is_active, available });
        }
        fx.credit_news(consumer, CreditNews::Noted { available: store.ready });
    }

    /// The message is unacked afterwards; a no-ack get settles it right away. Answered at once unless the head is on disk.
    fn get(&mut self, get: GetToken, now_ms: u64, fx: &mut impl Effects) {
        self.service.get(&mut self.store, get, now_ms, fx);
    }

    fn purge(&mut self, count_max: u64, fx: &mut impl Effects) -> u64 {
        if self.service.follows { 0 } else { self.store.purge(count_max, fx) }
    }

    fn delete(&mut self, fx: &mut impl Effects) -> u64 {
        self.service.delete(fx);
        self.store.ready
    }

    fn touch(&mut self, now_ms: u64, fx: &mut impl Effects) {
        self.service.last_used_ms = now_ms;
        self.service.watch_expires(fx);
    }

    /// Takes over what policies may change while the queue lives: times, limits and what happens at them, and whether the dead
    /// are handed out. Messages keep the time to live that they came with; `x-expires` starts over.
    fn reconfigure(&mut self, config: Arc<QueueConfig>, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        service.config = config;
        service.last_used_ms = now_ms;
        service.trim(store, 0, now_ms, fx);
        store.settle_log(fx);
        service.expire(store, now_ms, fx);
        service.serve(store, now_ms, fx);
        service.watch_expires(fx);
        service.relieve(store, fx);
    }

    fn tick(&mut self, now_ms: u64, fx: &mut impl Effects) {
        let Classic { store, service } = self;
        service.wake_ms = u64::MAX;
        if service.is_overdue(now_ms) {
            fx.gone(Gone::Unused);
            return;
        }
        service.look_at_letters(store, now_ms, fx);
        service.return_due(store, now_ms, fx);
        service.retry_rejects(store, now_ms, fx);
        service.expire(store, now_ms, fx);
        service.trim(store, 0, now_ms, fx);
        service.serve(store, now_ms, fx);
        store.read_unread(fx);
        service.watch_expires(fx);
        // Of a write that failed drivers tell with a tick when others wait for room: both would go on for ever.
        if !store.write_failed {
            service.relieve(store, fx);
        }
    }

    fn disk_answered(&mut self, answer: DiskAnswer<'_>, now_ms: u64, fx: &mut impl Effects) -> bool {
        let DiskAnswer::Read(token, bytes, bodies) = answer else {
            self.service.note_stored(&mut self.store, &answer, now_ms, fx);
            return true;
        };
        if !self.store.block_read(token, bytes, bodies, fx) {
            return false;
        }
        self.go_on(now_ms, fx);
        self.store.learn_read(MessageSeq(token.0), &mut |_, _| {});
        self.store.read_unread(fx);
        self.service.relieve(&mut self.store, fx);
        true
    }

    fn letters_taken(&mut self, removals: &[SettledRun], now_ms: u64, fx: &mut impl Effects) {
        if self.store.letters_taken(removals, fx) {
            self.go_on(now_ms, fx);
            self.service.relieve(&mut self.store, fx);
        }
    }

    #[inline]
    fn let_letters_wait(&mut self, they_do: bool) {
        self.service.let_letters_wait(they_do);
    }

    #[inline]
    fn let_disk_be_short(&mut self, it_is: bool) {
        self.service.let_disk_be_short(it_is);
    }

    #[inline]
    fn letters_await_room(&self) -> bool {
        self.service.holds_deaths_for_long()
    }

    fn has_dying(&self, now_ms: u64) -> bool {
        self.service.has_dying(&self.store, now_ms)
    }

    fn checkpoint(&mut self, position: u64, vacate: &[Range<u64>], fx: &mut impl Effects) {
        self.store.checkpoint(position, vacate, fx);
    }

    fn compact(&mut self, fx: &mut impl Effects) {
        self.store.compact(fx);
    }

    fn relieve(&mut self, fx: &mut impl Effects) {
        self.service.relieve(&mut self.store, fx);
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }

    fn heap_bytes(&self) -> usize {
        self.store.heap_bytes() + self.service.heap_bytes()
    }

    fn counts(&self) -> QueueCounts {
        self.service.counts(&self.store)
    }

    fn stats(&self, now_ms: u64) -> QueueStats {
        self.service.stats(&self.store, self.heap_bytes(), now_ms)
    }

    fn glance(&self, now_ms: u64) -> QueueGlance {
        self.service.glance(&self.store, now_ms)
    }

    fn delivery_view(&self, now_ms: u64) -> DeliveryView {
        self.service.delivery_view(&self.store, self.heap_bytes(), now_ms)
    }

    fn wanted_deliveries(&self) -> Option<u64> {
        self.service.wanted_deliveries(&self.store)
    }

    fn flow(&self) -> Flow {
        self.service.flow(&self.store)
    }

    fn turns_away(&self, message: &MessageView<'_>, body_bytes: u64) -> Option<TurnedAway> {
        self.turned_away(message, body_bytes)
    }

    fn is_as_new(&self) -> bool {
        self.store.is_as_new() && self.service.is_as_new(&self.store)
    }

    fn rest(&self) -> Option<Box<[u8]>> {
        rest::rest(&self.store, &self.service)
    }
}
