//! Bytes of all queues together in segments: bytes that live and bytes that are dead. Each queue tells when that changes, after a turn; at
//! rest nobody looks. Refuses to know what is done about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The node's counts.
#[derive(Debug, Default)]
pub(crate) struct SegmentTotals {
    pub(crate) live_bytes: AtomicU64,
    pub(crate) dead_bytes: AtomicU64,
}

/// The part of a queue in the node's counts. Leaves them when it is dropped.
pub(crate) struct CountedRoom {
    pub(crate) totals: Arc<SegmentTotals>,
    pub(crate) counted: (u64, u64),
}

impl SegmentTotals {
    /// Bytes of messages that are not settled.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// Other bytes.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.dead_bytes.load(Ordering::Relaxed)
    }
}

impl CountedRoom {
    pub(crate) fn count(&mut self, now: (u64, u64)) {
        let before = std::mem::replace(&mut self.counted, now);
        // Differences wrap: the sums are right.
        let change = |sum: &AtomicU64, before: u64, now: u64| {
            if before != now {
                sum.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            }
        };
        change(&self.totals.live_bytes, before.0, now.0);
        change(&self.totals.dead_bytes, before.1, now.1);
    }
}

impl Drop for CountedRoom {
    fn drop(&mut self) {
        self.count((0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_queues_have_is_summed_and_leaves_with_them() {
        let totals = Arc::new(SegmentTotals::default());
        let room = || CountedRoom { totals: totals.clone(), counted: (0, 0) };
        let sums = || (totals.live_bytes(), totals.dead_bytes());
        let (mut one, mut other) = (room(), room());
        one.count((100, 0));
        other.count((7, 8));
        assert_eq!(sums(), (107, 8));
        one.count((40, 60));
        assert_eq!(sums(), (47, 68));
        drop(one);
        assert_eq!(sums(), (7, 8));
    }
}
