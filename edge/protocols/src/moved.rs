//! Bytes that a connection has received or sent.

use std::sync::atomic::{AtomicU64, Ordering};

use broker::{ConnectionTotals, TrafficTotals};

/// Bytes in one direction, and in how many pieces. Written by the connection's task only.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    bytes: AtomicU64,
    count: AtomicU64,
}

impl Moved {
    /// One more piece.
    #[inline]
    pub(crate) fn add(&self, bytes: usize) {
        let raise = |counter: &AtomicU64, by| {
            counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        };
        raise(&self.bytes, bytes as u64);
        raise(&self.count, 1);
    }

    /// Bytes and pieces so far.
    fn now(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }
}

/// The totals of a connection.
pub(crate) fn totals(received: &Moved, sent: &Moved, traffic: TrafficTotals) -> ConnectionTotals {
    let (received_bytes, received_count) = received.now();
    let (sent_bytes, sent_count) = sent.now();
    ConnectionTotals { received_bytes, received_count, sent_bytes, sent_count, traffic }
}
