//! Counters that all threads of a run share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;

/// Counters of a run.
pub(super) struct Counts {
    /// Messages.
    pub(super) published: AtomicU64,
    pub(super) confirmed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) consumed: AtomicU64,
    pub(super) chunks: AtomicU64,
    /// Nanoseconds from publisher to consumer; the first message of each chunk.
    pub(super) latency: Mutex<Histogram<u64>>,
    /// Everybody stops.
    pub(super) is_over: AtomicBool,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            latency: Mutex::new(Histogram::new(3).expect("three digits are possible")),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
