//! When messages are due: the order in which they leave.
//!
//! Memory: 16 bytes a message (twice that at worst, while the heap has just grown) beside 8 in its block.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::store::level::Level;

/// Entries whose memory is kept whatever their number.
const KEPT_COUNT: usize = 1024;

/// When messages are due: one structure for all of them.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Due time and number, soonest first. A message that was dropped meanwhile is passed over when its time comes.
    due: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Schedule {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.due.capacity() * size_of::<Reverse<(u64, u64)>>()
    }

    /// A message waits.
    pub(crate) fn add(&mut self, due_ms: u64, number: u64) {
        self.due.push(Reverse((due_ms, number)));
    }

    /// Whether a message is due.
    pub(crate) fn has_due(&self, now_ms: u64) -> bool {
        self.due.peek().is_some_and(|Reverse((due_ms, _))| *due_ms <= now_ms)
    }

    /// The message of a level that is due next: when, and its number.
    pub(crate) fn next(&mut self, level: &Level) -> Option<(u64, u64)> {
        loop {
            let Reverse((due_ms, number)) = *self.due.peek()?;
            if level.is_unacked(number) {
                return Some((due_ms, number));
            }
            self.pop();
        }
    }

    /// The message that is due next leaves.
    pub(crate) fn pop(&mut self) {
        self.due.pop();
        // Give memory back after a peak.
        if self.due.capacity() > KEPT_COUNT && self.due.len() < self.due.capacity() / 4 {
            self.due.shrink_to(self.due.len() * 2);
        }
    }

    /// Due times and numbers of messages that wait in a level, soonest first, at most `count_max`.
    pub(crate) fn soonest(&self, level: &Level, count_max: usize) -> Vec<(u64, u64)> {
        let mut soonest: BinaryHeap<(u64, u64)> = BinaryHeap::new();
        for &Reverse(entry) in &self.due {
            let is_sooner = soonest.len() < count_max || soonest.peek().is_some_and(|last| entry < *last);
            if !is_sooner || !level.is_unacked(entry.1) {
                continue;
            }
            soonest.push(entry);
            if soonest.len() > count_max {
                soonest.pop();
            }
        }
        soonest.into_sorted_vec()
    }
}
