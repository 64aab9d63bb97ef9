//! What all queues together have in segments: bytes that live and bytes that are dead. Each queue tells when that changes, after a turn; at
//! rest nobody looks. Refuses to know what is done about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use queues::{Machine, Store};

use crate::cell::{CellState, Queue};

/// The node's counts.
#[derive(Debug, Default)]
pub(crate) struct SegmentTotals {
    live_bytes: AtomicU64,
    dead_bytes: AtomicU64,
}

/// What of a queue is in the node's counts. Leaves them when it is dropped.
pub(crate) struct CountedRoom {
    totals: Arc<SegmentTotals>,
    counted: (u64, u64),
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
    fn count(&mut self, now: (u64, u64)) {
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

impl Queue {
    /// Counts what the machine has in segments after a turn.
    #[inline]
    pub(crate) fn count_segment_room(&self, state: &mut CellState) {
        let now = state.machine.store().map_or((0, 0), Store::segment_bytes);
        if state.room.as_ref().map_or((0, 0), |room| room.counted) != now {
            self.recount_segment_room(state, now);
        }
    }

    fn recount_segment_room(&self, state: &mut CellState, now: (u64, u64)) {
        let new = || CountedRoom { totals: self.services().segment_totals.clone(), counted: (0, 0) };
        state.room.get_or_insert_with(new).count(now);
    }

    /// The same of a queue that was just read back from log and segments; it is to be looked at if some of that is dead.
    pub(crate) fn count_segment_room_at_start(self: &Arc<Self>) {
        let mut kept = self.state.lock();
        let Some(state) = kept.used_mut() else { return };
        self.count_segment_room(state);
        if state.machine.store().is_some_and(|store| store.segment_bytes().1 > 0) {
            self.services().checkpointer.may_be_sparse(self);
        }
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
