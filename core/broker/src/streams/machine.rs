//! The machine of a stream's queue: published messages go into the log, and consumers of AMQP 0-9-1 and 1.0 are served out of it.
//!
//! It keeps no message. A consumer is a reader with a position. The prefetch of AMQP 0-9-1 is its credit: whatever settles a delivery gives it
//! back, and nothing else comes of it. A link of AMQP 1.0 asks for what it gets.

use std::sync::Arc;

use message::{Table, ToStream};
use queues::{
    ConsumerId, ConsumerSpec, ConsumerStats, Credit, CreditNews, DeliveryView, Effects, Flow, GetToken, Head,
    IncomingMessages, Machine, PublishOutcome, QueueConfig, QueueCounts, QueueGlance, QueueStats,
    QueueTotals, SettleHow, SettleRun,
};
use streamlog::StreamInfo;

use super::serve::Consumer;
use super::{Committed, Stream, arguments, limits_of};

/// A queue that is a stream. Without a log it is one that is asked what it would do, or that cannot be opened.
pub(crate) struct StreamMachine {
    config: Arc<QueueConfig>,
    stream: Option<Arc<Stream>>,
    consumers: Vec<Consumer>,
    to_stream: ToStream,
    /// Offset that comes after the entries of the latest publish.
    appended: u64,
    totals: QueueTotals,
    active_ms: u64,
}

impl StreamMachine {
    pub(crate) fn new(config: Arc<QueueConfig>, stream: Option<Arc<Stream>>) -> StreamMachine {
        StreamMachine {
            config,
            stream,
            consumers: Vec::new(),
            to_stream: ToStream::default(),
            appended: 0,
            totals: QueueTotals::NONE,
            active_ms: 0,
        }
    }

    /// Tells when the entries of the latest publish are committed.
    pub(crate) fn await_commit(&self, waiting: Arc<dyn Committed>) {
        match &self.stream {
            Some(stream) => stream.await_commit(self.appended, waiting),
            None => waiting.committed(true),
        }
    }

    fn info(&self) -> StreamInfo {
        self.stream.as_ref().map_or_else(StreamInfo::default, |stream| stream.log.info())
    }

    fn ready(info: &StreamInfo) -> u64 {
        info.next_offset - info.first_offset
    }

    /// Serves all consumers that can be served.
    fn serve(&mut self, now_ms: u64, fx: &mut impl Effects) {
        let Some(stream) = self.stream.clone() else { return };
        stream.begin_serving();
        let waker = stream.waker();
        let mut gone = Vec::new();
        for consumer in &mut self.consumers {
            let served = consumer.serve(now_ms, &waker, fx);
            self.totals.deliveries.delivered += served.delivered;
            if served.delivered > 0 {
                self.active_ms = now_ms;
            }
            if served.is_gone {
                gone.push(consumer.spec.id);
            } else if let Some(limit) = consumer.drained() {
                fx.credit_news(consumer.spec.id, CreditNews::Drained { limit });
            }
        }
        for id in gone {
            self.consumers.retain(|consumer| consumer.spec.id != id);
            fx.consumer_cancelled(id);
        }
    }

    fn find(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.consumers.iter_mut().find(|consumer| consumer.spec.id == id)
    }

    fn consumer_stats(&self) -> Vec<ConsumerStats> {
        let of = |consumer: &Consumer| ConsumerStats {
            spec: consumer.spec.clone(),
            unacked: consumer.unacked,
            active: true,
            in_stream: Some(consumer.place()),
        };
        self.consumers.iter().map(of).collect()
    }

    fn totals(&self) -> QueueTotals {
        self.totals
    }
}

impl Machine for StreamMachine {
    fn config(&self) -> &Arc<QueueConfig> {
        &self.config
    }

    fn publish<'a>(
        &mut self,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        now_ms: u64,
        _: &mut impl Effects,
    ) -> PublishOutcome {
        self.totals.published += batch.count() as u64;
        self.active_ms = now_ms;
        let appender = self.stream.as_ref().and_then(|stream| stream.log.append().ok());
        let Some(mut appender) = appender else {
            let rejected = (0..batch.count() as u32).collect();
            return PublishOutcome { rejected, log_position: 0 };
        };
        for nth in 0..batch.count() {
            let incoming = batch.message(nth);
            let (parts, filter) = self.to_stream.entry(&incoming.message, incoming.is_alike && nth > 0);
            self.appended = appender.message(&parts, filter);
        }
        appender.finish();
        PublishOutcome::default()
    }

    fn settle(&mut self, how: SettleHow, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects) {
        let acked: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        if how == SettleHow::Ack {
            self.totals.deliveries.acked += acked;
        }
        for run in runs {
            if let Some(consumer) = run.consumer.and_then(|id| self.find(id)) {
                consumer.unacked = consumer.unacked.saturating_sub(run.count);
            }
        }
        self.serve(now_ms, fx);
    }

    fn add_consumer(&mut self, spec: ConsumerSpec, now_ms: u64) -> bool {
        let Some(stream) = &self.stream else { return false };
        let Ok(wanted) = arguments::wanted(Table::from_raw(&spec.arguments), now_ms) else { return false };
        let reader = stream.log.reader(wanted.seek, wanted.filter);
        self.consumers.push(Consumer::new(spec, reader, wanted.first, stream.name.clone()));
        true
    }

    fn cancel(&mut self, consumer: ConsumerId, _: u64, _: &mut impl Effects) {
        self.consumers.retain(|known| known.spec.id != consumer);
    }

    fn resume(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects) {
        if let Some(consumer) = self.find(consumer) {
            consumer.is_paused = false;
            self.serve(now_ms, fx);
        }
    }

    fn credit(&mut self, consumer: ConsumerId, credit: Credit, now_ms: u64, fx: &mut impl Effects) {
        let Some(known) = self.find(consumer) else { return };
        known.set_credit(credit);
        self.serve(now_ms, fx);
        let available = self.find(consumer).map_or(0, |known| known.available());
        fx.credit_news(consumer, CreditNews::Noted { available });
    }

    /// Refused before it comes here.
    fn get(&mut self, get: GetToken, _: u64, fx: &mut impl Effects) {
        fx.got(get, None);
    }

    /// Refused before it comes here.
    fn purge(&mut self, _: u64, _: &mut impl Effects) -> u64 {
        0
    }

    fn delete(&mut self, fx: &mut impl Effects) -> u64 {
        for consumer in self.consumers.drain(..) {
            fx.consumer_cancelled(consumer.spec.id);
        }
        if let Some(stream) = &self.stream {
            stream.end();
        }
        // As RabbitMQ tells.
        0
    }

    fn reconfigure(&mut self, config: Arc<QueueConfig>, _: u64, _: &mut impl Effects) {
        if let Some(stream) = &self.stream {
            stream.log.set_limits(limits_of(&config));
        }
        self.config = config;
    }

    fn tick(&mut self, now_ms: u64, fx: &mut impl Effects) {
        self.serve(now_ms, fx);
    }

    fn heap_bytes(&self) -> usize {
        self.consumers.capacity() * size_of::<Consumer>()
            + self.stream.as_ref().map_or(0, |stream| stream.log.heap_bytes())
    }

    fn counts(&self) -> QueueCounts {
        // Consumers are not told of (B70).
        QueueCounts { ready: Self::ready(&self.info()), consumers: 0 }
    }

    fn stats(&self, _: u64) -> QueueStats {
        let info = self.info();
        let ready = Self::ready(&info);
        QueueStats {
            ready,
            unacked: 0,
            persistent: ready,
            memory_bytes: self.heap_bytes() as u64 + info.memory_bytes,
            resident_bytes: info.memory_bytes,
            disk_bytes: info.disk_bytes,
            live_disk_bytes: info.disk_bytes,
            segment_bytes: info.disk_bytes,
            active_ms: self.active_ms,
            consumers: self.consumer_stats(),
            totals: self.totals(),
            ..QueueStats::default()
        }
    }

    fn glance(&self, _: u64) -> QueueGlance {
        let info = self.info();
        let ready = Self::ready(&info);
        QueueGlance {
            ready,
            persistent: ready,
            memory_bytes: info.memory_bytes,
            disk_bytes: info.disk_bytes,
            live_disk_bytes: info.disk_bytes,
            consumers: self.consumers.len() as u32,
            totals: self.totals(),
            ..QueueGlance::default()
        }
    }

    fn delivery_view(&self, now_ms: u64) -> DeliveryView {
        let stats = self.stats(now_ms);
        let head = if stats.ready > 0 { Head::InMemory } else { Head::None };
        let standings = self.consumers.iter().map(Consumer::standing).collect();
        DeliveryView { stats, standings, head, ..DeliveryView::default() }
    }

    /// Its consumers read each for itself: nobody holds up another one.
    fn wanted_deliveries(&self) -> Option<u64> {
        None
    }

    fn flow(&self) -> Flow {
        Flow::default()
    }

    fn is_as_new(&self) -> bool {
        self.consumers.is_empty() && self.totals == QueueTotals::NONE
    }
}
