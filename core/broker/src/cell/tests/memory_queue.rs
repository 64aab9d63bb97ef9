//! A queue type that keeps its messages in memory and nowhere else: shows that a cell runs any type.

use std::collections::BTreeMap;
use std::sync::Arc;

use message::MessageView;
use queues::{
    ConsumerId, ConsumerSpec, ConsumerStats, Delivery, DeliveryView, Effects, Flow, GetToken, Head,
    IncomingMessages, Machine, MessageSeq, PublishOutcome, QueueConfig, QueueCounts, QueueGlance, QueueStats,
    SettleHow, SettleRun, Standing,
};

/// Messages in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct MemoryQueue {
    config: Arc<QueueConfig>,
    next: u64,
    ready: BTreeMap<u64, Kept>,
    unacked: BTreeMap<u64, Kept>,
    consumers: Vec<Consumer>,
    published: u64,
    delivered: u64,
}

#[derive(Debug)]
struct Kept {
    exchange: Box<[u8]>,
    routing_key: Box<[u8]>,
    properties: Box<[u8]>,
    body: Box<[u8]>,
    is_redelivered: bool,
}

#[derive(Debug)]
struct Consumer {
    spec: ConsumerSpec,
    unacked: u32,
    is_paused: bool,
}

impl Consumer {
    fn may_take(&self) -> bool {
        !self.is_paused && (self.spec.prefetch == 0 || self.unacked < self.spec.prefetch)
    }
}

impl Kept {
    fn delivery(&self, number: u64) -> Delivery<'_> {
        let Kept { exchange, routing_key, properties, body, is_redelivered } = self;
        let message = MessageView { exchange, routing_key, properties, body };
        Delivery { seq: MessageSeq(number), redelivered: *is_redelivered, message, annotations: b"" }
    }
}

impl MemoryQueue {
    pub(crate) fn new(config: Arc<QueueConfig>) -> MemoryQueue {
        MemoryQueue { config, ..MemoryQueue::default() }
    }

    /// The oldest message goes to the first consumer that takes it.
    fn serve(&mut self, fx: &mut impl Effects) {
        while let Some((&number, kept)) = self.ready.first_key_value()
            && let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.may_take())
        {
            if fx.deliver(consumer.spec.id, &[kept.delivery(number)]) == 0 {
                consumer.is_paused = true;
                continue;
            }
            self.delivered += 1;
            let kept = self.ready.remove(&number).expect("it was the first");
            if consumer.spec.ack_required {
                consumer.unacked += 1;
                self.unacked.insert(number, kept);
            }
        }
    }

    fn bytes(of: &BTreeMap<u64, Kept>) -> u64 {
        of.values().map(|kept| kept.body.len() as u64).sum()
    }
}

impl Machine for MemoryQueue {
    fn config(&self) -> &Arc<QueueConfig> {
        &self.config
    }

    fn publish<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        _: u64,
        fx: &mut impl Effects,
    ) -> PublishOutcome {
        for nth in 0..batch.count() {
            let MessageView { exchange, routing_key, properties, body } = batch.message(nth).message;
            let kept = Kept {
                exchange: exchange.into(),
                routing_key: routing_key.into(),
                properties: properties.into(),
                body: body.into(),
                is_redelivered: false,
            };
            self.ready.insert(self.next, kept);
            self.next += 1;
        }
        self.published += batch.count() as u64;
        self.serve(fx);
        PublishOutcome::default()
    }

    fn settle(&mut self, how: SettleHow, runs: &[SettleRun], _: u64, fx: &mut impl Effects) {
        for run in runs {
            for number in run.first.0..run.first.0 + u64::from(run.count) {
                let Some(kept) = self.unacked.remove(&number) else { continue };
                if how == SettleHow::Requeue {
                    self.ready.insert(number, Kept { is_redelivered: true, ..kept });
                }
                let known = self.consumers.iter_mut().find(|consumer| Some(consumer.spec.id) == run.consumer);
                if let Some(consumer) = known {
                    consumer.unacked = consumer.unacked.checked_sub(1).expect("it was delivered to it");
                }
            }
        }
        self.serve(fx);
    }

    fn add_consumer(&mut self, spec: ConsumerSpec, _: u64) -> bool {
        self.consumers.push(Consumer { spec, unacked: 0, is_paused: true });
        true
    }

    fn cancel(&mut self, consumer: ConsumerId, _: u64, fx: &mut impl Effects) {
        self.consumers.retain(|known| known.spec.id != consumer);
        self.serve(fx);
    }

    fn resume(&mut self, consumer: ConsumerId, _: u64, fx: &mut impl Effects) {
        let known = self.consumers.iter_mut().filter(|known| known.spec.id == consumer);
        known.for_each(|known| known.is_paused = false);
        self.serve(fx);
    }

    fn get(&mut self, get: GetToken, _: u64, fx: &mut impl Effects) {
        let Some((number, kept)) = self.ready.pop_first() else { return fx.got(get, None) };
        self.delivered += 1;
        fx.got(get, Some((kept.delivery(number), self.ready.len() as u64)));
        self.unacked.insert(number, kept);
    }

    fn purge(&mut self, _: u64, _: &mut impl Effects) -> u64 {
        // All at once would be asked for again: a full portion means that more may be there.
        std::mem::take(&mut self.ready).len() as u64
    }

    fn delete(&mut self, fx: &mut impl Effects) -> u64 {
        self.consumers.iter().for_each(|consumer| fx.consumer_cancelled(consumer.spec.id));
        self.ready.len() as u64
    }

    fn reconfigure(&mut self, config: Arc<QueueConfig>, _: u64, _: &mut impl Effects) {
        self.config = config;
    }

    fn tick(&mut self, _: u64, fx: &mut impl Effects) {
        self.serve(fx);
    }

    fn heap_bytes(&self) -> usize {
        (Self::bytes(&self.ready) + Self::bytes(&self.unacked)) as usize
    }

    fn counts(&self) -> QueueCounts {
        QueueCounts { ready: self.ready.len() as u64, consumers: self.consumers.len() as u32 }
    }

    fn stats(&self, _: u64) -> QueueStats {
        let shown = |consumer: &Consumer| ConsumerStats {
            spec: consumer.spec.clone(),
            unacked: consumer.unacked,
            active: true,
            in_stream: None,
        };
        QueueStats {
            ready: self.ready.len() as u64,
            unacked: self.unacked.len() as u64,
            ready_bytes: Self::bytes(&self.ready),
            unacked_bytes: Self::bytes(&self.unacked),
            consumers: self.consumers.iter().map(shown).collect(),
            ..QueueStats::default()
        }
    }

    fn glance(&self, _: u64) -> QueueGlance {
        QueueGlance {
            ready: self.ready.len() as u64,
            unacked: self.unacked.len() as u64,
            consumers: self.consumers.len() as u32,
            ..QueueGlance::default()
        }
    }

    fn delivery_view(&self, now_ms: u64) -> DeliveryView {
        let standing = |consumer: &Consumer| match consumer.may_take() {
            true => Standing::InLine,
            false if consumer.is_paused => Standing::Paused,
            false => Standing::PrefetchFull,
        };
        DeliveryView {
            stats: self.stats(now_ms),
            standings: self.consumers.iter().map(standing).collect(),
            head: if self.ready.is_empty() { Head::None } else { Head::InMemory },
            ..DeliveryView::default()
        }
    }

    fn wanted_deliveries(&self) -> Option<u64> {
        let is_wanted = !self.ready.is_empty() && self.consumers.iter().any(Consumer::may_take);
        is_wanted.then_some(self.delivered)
    }

    fn flow(&self) -> Flow {
        let (published, delivered) = (self.published, self.delivered);
        Flow { published, delivered, ready: self.ready.len() as u64, is_lagging: false }
    }
}
