//! Counters that all threads of a run share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;

use crate::io::monotonic_ns;

/// Counters of a run.
pub(crate) struct Counts {
    /// Messages.
    pub(crate) published: AtomicU64,
    pub(crate) confirmed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) consumed: AtomicU64,
    /// Groups of the consumed messages: chunks, or dispositions.
    pub(crate) groups: AtomicU64,
    /// Nanoseconds from publisher to consumer; of the first message of a group or a read.
    pub(crate) latency: Mutex<Histogram<u64>>,
    /// Everybody stops.
    pub(crate) is_over: AtomicBool,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            latency: Mutex::new(Histogram::new(3).expect("three digits are possible")),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A message that was sent then has come.
    pub(crate) fn record_latency(&self, sent_ns: u64) {
        let latency = monotonic_ns().saturating_sub(sent_ns).max(1);
        if let Ok(mut all) = self.latency.lock() {
            // It grows as needed, so that nothing is out of range.
            let _in_range = all.record(latency);
        }
    }
}
