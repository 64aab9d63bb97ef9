//! Counts of publishers and consumers, for listings. Written by the connection's task, read by others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use broker::{StreamConsumer, StreamPublisher};

use super::running::Used;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A publisher's.
#[derive(Debug)]
pub(crate) struct PublisherCount {
    pub(crate) id: u8,
    pub(crate) stream: Box<str>,
    pub(crate) reference: Box<str>,
    pub(crate) published: Counter,
    pub(crate) confirmed: Counter,
    pub(crate) errored: Counter,
}

impl PublisherCount {
    pub(crate) fn shown(&self) -> StreamPublisher {
        StreamPublisher {
            stream: (*self.stream).to_owned(),
            id: self.id,
            reference: (*self.reference).to_owned(),
            published: self.published.now(),
            confirmed: self.confirmed.now(),
            errored: self.errored.now(),
        }
    }
}

/// A consumer's.
pub(crate) struct ConsumerCount {
    pub(crate) id: u8,
    pub(crate) used: Arc<Used>,
    pub(crate) properties: Box<[(String, String)]>,
    pub(crate) is_single_active: bool,
    pub(crate) is_active: AtomicBool,
    pub(crate) credit: AtomicU32,
    pub(crate) consumed: Counter,
    /// Offset after what it was sent.
    pub(crate) next: AtomicU64,
}

impl ConsumerCount {
    pub(crate) fn shown(&self) -> StreamConsumer {
        let (consumed, end) = (self.consumed.now(), self.used.log.committed_next());
        let next = self.next.load(Ordering::Relaxed);
        let offset = if consumed == 0 { next } else { next.saturating_sub(1) };
        let is_active = self.is_active.load(Ordering::Relaxed);
        StreamConsumer {
            stream: (*self.used.name).to_owned(),
            id: self.id,
            credits: self.credit.load(Ordering::Relaxed),
            consumed,
            offset,
            offset_lag: if is_active && end > 0 { (end - 1).saturating_sub(offset) } else { 0 },
            is_active,
            is_single_active: self.is_single_active,
            properties: self.properties.to_vec(),
        }
    }
}
