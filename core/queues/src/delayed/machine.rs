//! The machine itself: new messages wait, due messages go.

use std::ops::Range;
use std::sync::Arc;

use super::schedule::Schedule;
use crate::SharedBody;
use crate::arguments::QueueConfig;
use crate::body::BodyBuffer;
use crate::effects::{DeadReason, Effects, GetToken};
use crate::machine::{DiskAnswer, Machine, PublishOutcome};
use crate::record::SettledRun;
use crate::service::expiry::Portion;
use crate::service::{DeliveryView, Service};
use crate::store::{Recovering, Store};
use crate::traffic::{
    ConsumerId, ConsumerSpec, Flow, IncomingMessage, IncomingMessages, MessageSeq, QueueCounts, QueueGlance,
    QueueStats, SettleHow, SettleRun,
};

/// A message that waits, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Its place; names it to [`Delayed::drop_scheduled`].
    pub seq: MessageSeq,
    /// When it leaves, milliseconds since the epoch.
    pub due_ms: u64,
    /// Routing key and body bytes, when its block is in memory.
    pub shown: Option<(Box<[u8]>, u64)>,
}

/// The store of a delayed exchange. It has one priority level.
#[derive(Debug)]
pub struct Delayed {
    pub(crate) store: Store,
    service: Service,
    schedule: Schedule,
}

impl Delayed {
    /// An empty queue.
    pub fn new(config: impl Into<Arc<QueueConfig>>, now_ms: u64) -> Delayed {
        let config = config.into();
        let store = Store::new(&config);
        Delayed { store, service: Service::new(config, now_ms), schedule: Schedule::default() }
    }

    /// The queue as it was: all messages wait. `resolve` gives a handle for each shared body that is named.
    pub fn recovered(
        contents: Recovering,
        config: impl Into<Arc<QueueConfig>>,
        now_ms: u64,
        resolve: &mut dyn FnMut(&SharedBody) -> SharedBody,
    ) -> Delayed {
        let config = config.into();
        let (mut store, mut schedule) = (contents.finish(&config, resolve), Schedule::default());
        store.take_all();
        store.learn_all(&mut |seq, stored| schedule.add(stored.expiry_ms.unwrap_or(0), seq.number()));
        Delayed { service: Service::new(config, now_ms), store, schedule }
    }

    fn enqueue(&mut self, incoming: &IncomingMessage<'_>, whole: Option<BodyBuffer>, now_ms: u64) {
        let due_ms = now_ms.saturating_add(incoming.ttl_ms.unwrap_or(0));
        self.store.add(incoming, whole, 0, incoming.ttl_ms.map(|_| due_ms));
        let number = self.store.take_one(0);
        self.schedule.add(due_ms, number);
    }

    fn begin_publish(&mut self, count: usize, now_ms: u64) {
        self.service.tally.totals().published += count as u64;
        self.service.active_ms = now_ms;
    }

    fn end_publish(&mut self, now_ms: u64, fx: &mut impl Effects) -> PublishOutcome {
        let log_position = self.store.log_enqueued(fx);
        self.release_due(now_ms, fx);
        self.relieve(fx);
        PublishOutcome { rejected: Vec::new(), log_position }
    }

    /// Lets go what is due, and asks to be woken for what is due next.
    fn release_due(&mut self, now_ms: u64, fx: &mut impl Effects) {
        let Delayed { store, service, schedule } = self;
        let mut portion = Portion::with(0);
        while let Some((due_ms, number)) = schedule.next(&store.levels[0]) {
            if due_ms > now_ms {
                service.want_wake(due_ms, fx);
                break;
            }
            // Goes on when the checkpoint ends, see letters_taken.
            if service.holds_deaths(store) {
                break;
            }
            if !portion.has_room() {
                service.want_wake(now_ms, fx);
                break;
            }
            let seq = MessageSeq::new(0, number);
            let block = store.levels[0].block(number).expect("messages that wait have a block");
            if !block.is_resident() {
                store.request_block(seq, fx);
                break;
            }
            portion.take(block.body_bytes(number));
            schedule.pop();
            service.bury(store, seq, DeadReason::Due, fx);
        }
        store.settle_log(fx);
    }

    /// Messages that wait, soonest first, at most `count_max`. Messages whose due times are not read yet after a restart are not among
    /// them.
    pub fn scheduled(&self, count_max: usize) -> Vec<Scheduled> {
        let level = &self.store.levels[0];
        let show = |(due_ms, number): (u64, u64)| {
            let stored = level.block(number).and_then(|block| block.stored(number));
            let shown =
                stored.map(|stored| (stored.message.routing_key.into(), stored.message.body.len() as u64));
            Scheduled { seq: MessageSeq::new(0, number), due_ms, shown }
        };
        self.schedule.soonest(level, count_max).into_iter().map(show).collect()
    }

    /// Drops a message that waits; false when there is none of that name (any more).
    pub fn drop_scheduled(&mut self, seq: MessageSeq, fx: &mut impl Effects) -> bool {
        let dropped = self.store.drop_unacked(seq, 1) == 1;
        self.store.settle_log(fx);
        dropped
    }
}

impl Machine for Delayed {
    fn config(&self) -> &Arc<QueueConfig> {
        &self.service.config
    }

    fn publish<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        self.begin_publish(batch.count(), now_ms);
        for nth in 0..batch.count() {
            self.enqueue(&batch.message(nth), None, now_ms);
        }
        self.end_publish(now_ms, fx)
    }

    fn publish_whole(
        &mut self,
        head: &IncomingMessage<'_>,
        body: BodyBuffer,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        self.begin_publish(1, now_ms);
        self.enqueue(head, Some(body), now_ms);
        self.end_publish(now_ms, fx)
    }

    /// Nobody was handed anything.
    fn settle(&mut self, _: SettleHow, _: &[SettleRun], _: u64, _: &mut impl Effects) {}

    /// Nobody consumes.
    fn add_consumer(&mut self, _: ConsumerSpec, _: u64) -> bool {
        false
    }

    fn cancel(&mut self, _: ConsumerId, _: u64, _: &mut impl Effects) {}

    fn resume(&mut self, _: ConsumerId, _: u64, _: &mut impl Effects) {}

    /// A message that waits is not given to a get.
    fn get(&mut self, get: GetToken, _: u64, fx: &mut impl Effects) {
        fx.got(get, None);
    }

    /// Drops messages that wait, block by block.
    fn purge(&mut self, count_max: u64, fx: &mut impl Effects) -> u64 {
        let mut left = count_max;
        let mut blocks: Vec<(u64, u32)> = Vec::new();
        for block in self.store.levels[0].blocks().filter(|block| block.live > 0) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(block.live.into());
            blocks.push((block.first, block.count));
        }
        let drop_block = |(first, count)| self.store.drop_unacked(MessageSeq::new(0, first), count);
        let dropped = blocks.into_iter().map(drop_block).sum();
        self.store.settle_log(fx);
        dropped
    }

    fn delete(&mut self, _: &mut impl Effects) -> u64 {
        self.store.ready
    }

    fn reconfigure(&mut self, config: Arc<QueueConfig>, now_ms: u64, fx: &mut impl Effects) {
        self.service.config = config;
        self.release_due(now_ms, fx);
        self.relieve(fx);
    }

    fn tick(&mut self, now_ms: u64, fx: &mut impl Effects) {
        // An earlier wake-up may have been asked for since this one: that stands.
        if now_ms >= self.service.wake_ms {
            self.service.wake_ms = u64::MAX;
        }
        self.service.look_at_letters(&mut self.store, now_ms, fx);
        self.release_due(now_ms, fx);
        self.store.read_unread(fx);
        // Of a write that failed drivers tell with a tick when others wait for room: both would go on for ever.
        if !self.store.write_failed {
            self.relieve(fx);
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
        let schedule = &mut self.schedule;
        let mut learn = |seq: MessageSeq, stored: &crate::Stored<'_>| {
            schedule.add(stored.expiry_ms.unwrap_or(0), seq.number());
        };
        self.store.learn_read(MessageSeq(token.0), &mut learn);
        self.release_due(now_ms, fx);
        self.store.read_unread(fx);
        self.relieve(fx);
        true
    }

    fn letters_taken(&mut self, removals: &[SettledRun], now_ms: u64, fx: &mut impl Effects) {
        if self.store.letters_taken(removals, fx) {
            self.release_due(now_ms, fx);
            self.relieve(fx);
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
        self.schedule.has_due(now_ms)
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
        self.store.heap_bytes() + self.service.heap_bytes() + self.schedule.heap_bytes()
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
        let view = self.service.delivery_view(&self.store, self.heap_bytes(), now_ms);
        let deaths_await_room = self.letters_await_room() && self.has_dying(now_ms);
        DeliveryView { deaths_await_room, ..view }
    }

    fn wanted_deliveries(&self) -> Option<u64> {
        None
    }

    fn flow(&self) -> Flow {
        self.service.flow(&self.store)
    }

    fn is_as_new(&self) -> bool {
        self.store.is_as_new() && self.service.is_as_new(&self.store)
    }
}
