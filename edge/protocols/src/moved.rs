//! Bytes that a connection has received or sent.

use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(crate) fn now(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed))
    }
}
