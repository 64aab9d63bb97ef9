//! Figures that the threads of a run measure, shared with the thread that reports.
//!
//! Counters are added to once per batch; a histogram is locked once per batch by the thread that owns it, and once
//! per interval by the reporter.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Latencies are kept from a quarter of a microsecond ...
const LATENCY_NS_MIN: u64 = 256;
/// ... to an hour, in nanoseconds, to three significant digits.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Times in nanoseconds since the last look.
#[derive(Debug)]
pub(crate) struct Times(Mutex<Histogram<u64>>);

impl Times {
    /// The histogram, to record a batch into or to take from.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was recorded since the last time to `total`, and starts anew.
    pub(crate) fn take_into(&self, total: &mut Histogram<u64>) {
        let mut recorded = self.lock();
        total.add(&*recorded).expect("all histograms of a run have the same bounds");
        recorded.reset();
    }
}

impl Default for Times {
    fn default() -> Self {
        Self(Mutex::new(histogram()))
    }
}

/// An empty histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, 3)
        .expect("the bounds are in order and the digits below 6")
}

/// Counters and times of one run.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Messages handed to the kernel.
    pub(crate) sent: AtomicU64,
    /// Messages delivered in full.
    pub(crate) received: AtomicU64,
    /// Messages confirmed.
    pub(crate) confirmed: AtomicU64,
    /// Messages refused by a nack.
    pub(crate) nacked: AtomicU64,
    /// Unroutable messages that came back.
    pub(crate) returned: AtomicU64,
    /// When the last message was received, in monotonic nanoseconds.
    pub(crate) received_last_ns: AtomicU64,
    /// Consumers that the broker has started.
    pub(crate) consumers_ready: AtomicU64,
    /// Publishers that have sent, and got confirmed, all they had to.
    pub(crate) publishers_done: AtomicU64,
    /// Consumers that have received all they wanted.
    pub(crate) consumers_done: AtomicU64,
    /// Publishing may begin.
    pub(crate) started: AtomicBool,
    /// Everybody is to stop.
    pub(crate) stopped: AtomicBool,
    /// Publish (or due time) to delivery.
    pub(crate) latency: Times,
    /// Publish to confirm.
    pub(crate) confirm_latency: Times,
    /// How late the generator itself was with messages that had a due time.
    pub(crate) lateness: Times,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Figures {
    /// Keeps the first failure and stops the run.
    pub(crate) fn fail(&self, error: anyhow::Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stopped.store(true, Relaxed);
    }

    /// The first failure.
    pub(crate) fn take_failure(&self) -> Option<anyhow::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Counts messages that were received at this time.
    #[inline]
    pub(crate) fn note_received(&self, count: u64, now_ns: u64) {
        if count > 0 {
            self.received.fetch_add(count, Relaxed);
            self.received_last_ns.store(now_ns, Relaxed);
        }
    }

    /// Whether everybody is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}

/// Times of one batch: equal ones in a row, as messages that were sent together have, are recorded at once.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    times: MutexGuard<'a, Histogram<u64>>,
    value_ns: u64,
    count: u64,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(times: &'a Times) -> Self {
        Self { times: times.lock(), value_ns: 0, count: 0 }
    }

    /// Records one time.
    #[inline]
    pub(crate) fn record(&mut self, value_ns: u64) {
        self.record_many(value_ns, 1);
    }

    /// Records the same time for several messages.
    #[inline]
    pub(crate) fn record_many(&mut self, value_ns: u64, count: u64) {
        if value_ns != self.value_ns {
            self.settle();
            self.value_ns = value_ns;
        }
        self.count += count;
    }

    fn settle(&mut self) {
        if self.count > 0 {
            self.times.saturating_record_n(self.value_ns, self.count);
            self.count = 0;
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_records_every_time_whether_equal_or_not() {
        let times = Times::default();
        let mut batch = Batch::new(&times);
        for value_ns in [5_000, 5_000, 9_000, 5_000] {
            batch.record(value_ns);
        }
        drop(batch);
        let mut total = histogram();
        times.take_into(&mut total);
        assert_eq!((total.len(), total.count_at(5_000), total.count_at(9_000)), (4, 3, 1));
        assert_eq!(times.lock().len(), 0);
    }

    #[test]
    fn the_first_failure_is_kept_and_stops_the_run() {
        let figures = Figures::default();
        figures.fail(anyhow::anyhow!("first"));
        figures.fail(anyhow::anyhow!("second"));
        assert!(figures.is_stopped());
        assert_eq!(figures.take_failure().unwrap().to_string(), "first");
    }
}
