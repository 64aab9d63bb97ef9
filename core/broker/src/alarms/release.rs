//! When memory that was freed goes back to the system: after a rush the allocator keeps what it had, for good if nobody asks.
//! Decides by figures that are handed in. Giving back holds the allocator's locks, for 100 ms where it is a gigabyte: a probe's confirms
//! waited so long. So it is done when the node has little else to do; in a busy one seldom, and only for much.
//!
//! It is not done in steps, because the C library has none: `malloc_trim` takes the arenas one after the other, each under its lock from
//! end to end, and what it keeps back is of the first arena's top only. Larger pieces that were mapped each by itself would go back at
//! once, and cost 64 page faults for each block of messages that is made: all the time, to spare a pause that is rare.

use std::time::Duration;

use platform::{HeapBytes, Monotonic};

/// Less than this is not worth it, bytes.
const UNUSED_BYTES_MIN: u64 = 32 << 20;

/// Nor is less than this part of what the process occupies: 1 / this.
const UNUSED_PART_MIN: u64 = 8;

/// The same of a busy process.
const UNUSED_PART_BUSY_MIN: u64 = 2;

/// A look after which the process has used no more than this part of one core: 1 / this. It has time.
const QUIET_PART: u32 = 10;

/// Between two thoughts about it while there is time.
const INTERVAL_QUIET: Duration = Duration::from_secs(10);

/// The same while there is none.
const INTERVAL_BUSY: Duration = Duration::from_secs(300);

/// The figures that are remembered from look to look.
#[derive(Debug, Default)]
pub(super) struct MemoryRelease {
    /// When it was thought about last.
    thought: Option<Monotonic>,
    looked: Monotonic,
    cpu_ns: u64,
    is_busy: bool,
    /// Unused bytes that stayed when memory was given back last: pages that are used in part.
    kept_bytes: u64,
    /// While the memory alarm is on: when it may help again.
    in_vain_until: Monotonic,
}

impl MemoryRelease {
    /// At every look: whether it is time to ask how much is unused, which takes a while itself.
    pub(super) fn is_due(&mut self, now: Monotonic, cpu_ns: u64, used_bytes: u64) -> bool {
        let passed = now.since(std::mem::replace(&mut self.looked, now));
        let busy = Duration::from_nanos(cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns)));
        self.is_busy = busy > passed / QUIET_PART;
        let (since, interval) = match (self.thought, self.is_busy) {
            // Memory that the start has left goes as soon as the start is over.
            (None, false) => (now, Duration::ZERO),
            (None, true) => (Monotonic::default(), INTERVAL_QUIET),
            (Some(thought), false) => (thought, INTERVAL_QUIET),
            (Some(thought), true) => (thought, INTERVAL_BUSY),
        };
        if used_bytes < UNUSED_BYTES_MIN || now.since(since) < interval {
            return false;
        }
        self.thought = Some(now);
        true
    }

    /// Whether to give back what is unused.
    pub(super) fn is_worth_it(&self, used_bytes: u64, heap: HeapBytes) -> bool {
        let unused = unused_bytes(used_bytes, heap).saturating_sub(self.kept_bytes);
        let part_min = if self.is_busy { UNUSED_PART_BUSY_MIN } else { UNUSED_PART_MIN };
        unused >= UNUSED_BYTES_MIN && unused >= used_bytes / part_min
    }

    /// While the memory alarm is on: whether publishers may be waiting for what is unused. Then it goes back at every look, also of a small
    /// or busy process, until that helps little.
    pub(super) fn is_needed(&self, now: Monotonic, used_bytes: u64, heap: HeapBytes) -> bool {
        now >= self.in_vain_until && unused_bytes(used_bytes, heap) >= used_bytes / UNUSED_PART_MIN
    }

    /// The needed memory was given back: of so many bytes these are left.
    pub(super) fn helped(&mut self, now: Monotonic, used_bytes: u64, left_bytes: u64) {
        if used_bytes.saturating_sub(left_bytes) < used_bytes / (4 * UNUSED_PART_MIN) {
            self.in_vain_until = now.plus(INTERVAL_QUIET);
        }
    }

    /// It was given back, and this is what is left.
    pub(super) fn given_back(&mut self, used_bytes: u64, heap: HeapBytes) {
        self.kept_bytes = unused_bytes(used_bytes, heap);
    }
}

/// Bytes that the process occupies without using them, at most those that the allocator says are free.
fn unused_bytes(used_bytes: u64, heap: HeapBytes) -> u64 {
    used_bytes.saturating_sub(heap.used).min(heap.free)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(seconds: u64) -> Monotonic {
        Monotonic(seconds * 1_000_000_000)
    }

    #[test]
    fn while_the_alarm_is_on_what_is_unused_goes_back_at_once_unless_that_was_no_help() {
        let heap = |free: u64| HeapBytes { used: 60 * MIB - free, mapped: 0, free };
        let mut release = MemoryRelease { kept_bytes: 30 * MIB, ..MemoryRelease::default() };
        assert!(!release.is_worth_it(60 * MIB, heap(20 * MIB)), "it is too little for a node without need");
        assert!(release.is_needed(at(1), 60 * MIB, heap(20 * MIB)));
        assert!(!release.is_needed(at(1), 60 * MIB, heap(7 * MIB)));
        release.helped(at(1), 60 * MIB, 40 * MIB);
        assert!(release.is_needed(at(2), 60 * MIB, heap(20 * MIB)));
        release.helped(at(2), 60 * MIB, 59 * MIB);
        assert!(!release.is_needed(at(11), 60 * MIB, heap(20 * MIB)));
        assert!(release.is_needed(at(12), 60 * MIB, heap(20 * MIB)));
    }

    #[test]
    fn a_quiet_node_thinks_every_ten_seconds_and_a_busy_one_every_five_minutes() {
        let mut release = MemoryRelease { thought: Some(at(0)), ..MemoryRelease::default() };
        let due: Vec<u64> = (1..=30).filter(|second| release.is_due(at(*second), 0, 100 * MIB)).collect();
        assert_eq!(due, [10, 20, 30]);
        let busy = |second: u64| second * 500_000_000;
        let due: Vec<u64> =
            (31..=700).filter(|second| release.is_due(at(*second), busy(*second), 100 * MIB)).collect();
        assert_eq!(due, [330, 630]);
        assert!(
            !MemoryRelease::default().is_due(at(1000), 0, 20 * MIB),
            "a small process has nothing to give"
        );
    }

    #[test]
    fn what_the_start_left_goes_when_the_start_is_over() {
        let mut release = MemoryRelease::default();
        assert!(!release.is_due(at(1), 900_000_000, 100 * MIB), "it has much to do");
        assert!(release.is_due(at(2), 910_000_000, 100 * MIB));
        assert!(!release.is_due(at(3), 920_000_000, 100 * MIB));
        let mut release = MemoryRelease::default();
        let busy = |second: u64| second * 500_000_000;
        let due: Vec<u64> =
            (1..=400).filter(|second| release.is_due(at(*second), busy(*second), 100 * MIB)).collect();
        assert_eq!(due, [10, 310]);
    }

    #[test]
    fn what_is_worth_it_is_much_and_was_not_tried_in_vain() {
        let mut release = MemoryRelease::default();
        let heap = |used: u64, free: u64| HeapBytes { used: used * MIB, mapped: 0, free: free * MIB };
        assert!(release.is_worth_it(100 * MIB, heap(50, 50)));
        assert!(!release.is_worth_it(100 * MIB, heap(80, 20)), "too little");
        assert!(!release.is_worth_it(1000 * MIB, heap(900, 100)), "too small a part");
        assert!(!release.is_worth_it(60 * MIB, heap(50, 500)), "it went back before");
        release.given_back(90 * MIB, heap(50, 50));
        assert!(!release.is_worth_it(100 * MIB, heap(50, 50)), "most of it does not go back");
        assert!(release.is_worth_it(200 * MIB, heap(50, 150)));
        release.is_busy = true;
        assert!(!release.is_worth_it(200 * MIB, heap(90, 110)), "too little to hold up a busy node");
        assert!(release.is_worth_it(400 * MIB, heap(50, 350)));
    }
}
