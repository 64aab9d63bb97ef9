//! Messages that wait for their time: the order in which they fall due, and how they leave.
//!
//! Such a queue serves nobody. Every message is taken at once, as if handed out, so that blocks, log, checkpoints and recovery
//! treat it as any message of which nobody knows when it is settled. Its due time stands where others have their expiry. What is
//! due leaves as an effect, the way dead letters do: its removal is logged when it is safe where it went.
//!
//! Memory: 16 bytes a message here (twice that at worst, while the heap has just grown) beside 8 in its block.
//!
//! Refuses to know: what makes a message wait, and where it goes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::expiry::Portion;
use crate::classic::machine::Classic;
use crate::effects::{DeadReason, Effects};
use crate::message::MessageSeq;

/// Entries whose memory is kept whatever their number.
const KEPT_COUNT: usize = 1024;

/// A message that waits, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Its place; names it to [`Classic::drop_scheduled`].
    pub seq: MessageSeq,
    /// When it leaves, milliseconds since the epoch.
    pub due_ms: u64,
    /// Routing key and body bytes, when its block is in memory.
    pub shown: Option<(Box<[u8]>, u64)>,
}

/// When messages are due: one structure for all of them.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Due time and number, soonest first. What was dropped meanwhile is passed over when its time comes.
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
}

impl Classic {
    /// Whether its messages leave by themselves when they are due.
    pub(crate) fn is_schedule(&self) -> bool {
        self.schedule.is_some()
    }

    /// The newest message waits until it is due.
    pub(crate) fn schedule_newest(&mut self, due_ms: u64) {
        let number = self.take_one(0);
        if let Some(schedule) = &mut self.schedule {
            schedule.add(due_ms, number);
        }
    }

    /// After a recovery, before their due times are learnt: all messages wait.
    pub(crate) fn schedule_all(&mut self) {
        let ready = self.levels[0].ready() as usize;
        self.take(0, ready);
        // Sizes of messages on disk are not at hand one by one.
        self.unacked_bytes += std::mem::take(&mut self.ready_bytes);
    }

    /// Lets go what is due, and asks to be woken for what is due next.
    pub(crate) fn release_due(&mut self, now_ms: u64, fx: &mut impl Effects) {
        let mut portion = Portion::with(0);
        while let Some((due_ms, number)) = self.next_due() {
            if due_ms > now_ms {
                self.want_wake(due_ms, fx);
                break;
            }
            // Goes on when the checkpoint ends, see letters_taken.
            if self.holds_deaths() {
                break;
            }
            if !portion.has_room() {
                self.want_wake(now_ms, fx);
                break;
            }
            let seq = MessageSeq::new(0, number);
            let block = self.levels[0].block(number).expect("messages that wait have a block");
            if !block.is_resident() {
                self.request_block(seq, fx);
                break;
            }
            portion.take(block.body_bytes(number));
            self.pop_due();
            self.bury(seq, DeadReason::Due, fx);
        }
        self.settle_log(fx);
    }

    /// Whether a message is due.
    pub(crate) fn has_due(&self, now_ms: u64) -> bool {
        let next = self.schedule.as_ref().and_then(|schedule| schedule.due.peek());
        next.is_some_and(|Reverse((due_ms, _))| *due_ms <= now_ms)
    }

    /// The message that is due next, and when.
    fn next_due(&mut self) -> Option<(u64, u64)> {
        loop {
            let Reverse((due_ms, number)) = *self.schedule.as_ref()?.due.peek()?;
            if self.levels[0].is_unacked(number) {
                return Some((due_ms, number));
            }
            self.pop_due();
        }
    }

    fn pop_due(&mut self) {
        let Some(schedule) = &mut self.schedule else { return };
        schedule.due.pop();
        // Give memory back after a peak.
        if schedule.due.capacity() > KEPT_COUNT && schedule.due.len() < schedule.due.capacity() / 4 {
            schedule.due.shrink_to(schedule.due.len() * 2);
        }
    }

    /// Messages that wait, soonest first, at most `count_max`. Those whose due times are not read yet after a restart are not
    /// among them.
    pub fn scheduled(&self, count_max: usize) -> Vec<Scheduled> {
        let Some(schedule) = &self.schedule else { return Vec::new() };
        let mut soonest: BinaryHeap<(u64, u64)> = BinaryHeap::new();
        for &Reverse(entry) in &schedule.due {
            let is_sooner = soonest.len() < count_max || soonest.peek().is_some_and(|last| entry < *last);
            if !is_sooner || !self.levels[0].is_unacked(entry.1) {
                continue;
            }
            soonest.push(entry);
            if soonest.len() > count_max {
                soonest.pop();
            }
        }
        let show = |(due_ms, number): (u64, u64)| {
            let stored = self.levels[0].block(number).and_then(|block| block.stored(number));
            let shown =
                stored.map(|stored| (stored.message.routing_key.into(), stored.message.body.len() as u64));
            Scheduled { seq: MessageSeq::new(0, number), due_ms, shown }
        };
        soonest.into_sorted_vec().into_iter().map(show).collect()
    }

    /// Drops a message that waits; false when there is none of that name (any more).
    pub fn drop_scheduled(&mut self, seq: MessageSeq, fx: &mut impl Effects) -> bool {
        let dropped = self.is_schedule() && self.drop_unacked(seq, 1) == 1;
        self.forget_bytes_if_empty();
        self.settle_log(fx);
        dropped
    }

    /// Drops messages that wait, block by block, until `count_max` have gone; returns how many.
    pub(crate) fn drop_scheduled_up_to(&mut self, count_max: u64, fx: &mut impl Effects) -> u64 {
        let mut left = count_max;
        let mut blocks: Vec<(u64, u32)> = Vec::new();
        for block in self.levels[0].blocks().filter(|block| block.live > 0) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(block.live.into());
            blocks.push((block.first, block.count));
        }
        let dropped = blocks
            .into_iter()
            .map(|(first, count)| self.drop_unacked(MessageSeq::new(0, first), count))
            .sum();
        self.forget_bytes_if_empty();
        self.settle_log(fx);
        dropped
    }

    /// What is dropped from the disk has sizes that are not at hand: they go with the last of all.
    fn forget_bytes_if_empty(&mut self) {
        if self.unacked == 0 {
            self.unacked_bytes = 0;
        }
    }
}
