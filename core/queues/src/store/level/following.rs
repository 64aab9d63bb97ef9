//! A level of a queue that follows a leader: it takes the leader's numbers, and settles what the leader says, wherever that stands. Nothing of it is
//! handed out; all of it is in reserve.

use super::{Freed, Level, SettledMessages};
use crate::record::Stored;

impl Level {
    /// From now on the queue follows: nothing is handed out any more.
    pub(crate) fn follow(&mut self) {
        self.returned.clear();
        self.cursor = self.next;
        self.reserve = 0..self.next;
        self.blocks.iter_mut().for_each(|block| block.unacked = 0);
        self.reserved = self.blocks.iter().map(|block| u64::from(block.live)).sum();
    }

    /// From now on the queue leads: the next message has at least the number `from`.
    pub(crate) fn lead(&mut self, from: u64) {
        self.next = self.next.max(from);
        self.again_below = self.handed_out;
        let next = self.next;
        if let Some(newest) = self.blocks.back_mut().filter(|block| block.is_fresh()) {
            newest.begin_anew(next);
        }
        self.begin_at_dense_tail();
    }

    /// The leader has handed out what is below `below`.
    pub(crate) fn note_handed_out(&mut self, below: u64) {
        self.handed_out = self.handed_out.max(below);
    }

    /// Messages below have been handed out, if that has changed since it was asked for.
    pub(crate) fn take_handed_out(&mut self) -> Option<u64> {
        let before = std::mem::replace(&mut self.handed_out_told, self.handed_out);
        (before != self.handed_out).then_some(self.handed_out)
    }

    /// Messages below have been handed out.
    pub(crate) fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Takes the leader's message of this number, at least the next one, in its stored form. The newest block afterwards is the one that holds
    /// it.
    pub(crate) fn take_in(
        &mut self,
        number: u64,
        stored: &[u8],
        parsed: &Stored<'_>,
        backlog_block_bytes: usize,
    ) {
        debug_assert!(number >= self.next, "the leader's numbers grow");
        if let Some(newest) = self.blocks.back_mut().filter(|block| block.is_fresh()) {
            newest.begin_anew(number);
            self.next = number;
        }
        let block = self.block_for(number, backlog_block_bytes);
        let body_bytes = parsed.message.body.len();
        block.restore(stored, Some(body_bytes), |block| {
            block.push(parsed.persistent, parsed.expiry_ms.is_some(), body_bytes, None, |out| {
                out.extend_from_slice(stored);
            });
        });
        self.next = number + 1;
        self.cursor = self.next;
        self.reserve.end = self.next;
        self.reserved += 1;
    }

    /// Settles what is there of `count` numbers from `first` on. `told_bytes` are those of their bodies together, if that is known. `each` hears
    /// of all that are settled.
    pub(crate) fn settle_followed(
        &mut self,
        first: u64,
        count: u64,
        told_bytes: Option<u64>,
        freed: &mut Freed,
        mut each: impl FnMut(SettledMessages),
    ) {
        let (end, mut number) = (first.saturating_add(count).min(self.next), first);
        while number < end {
            let Some(at) = self.position(number) else {
                // Between blocks: go to the next one.
                match self.blocks_from(number).next() {
                    Some(block) => number = block.first.max(number + 1),
                    None => return,
                }
                continue;
            };
            let block = &mut self.blocks[at];
            let (stop, live_bytes, live) = (block.end().min(end), block.live_bytes, block.live);
            let told_bytes = told_bytes.filter(|_| first >= block.first && first + count <= block.end());
            if let Some(body_bytes) = block.settle_in_order(number..stop) {
                let count = (stop - number) as u32;
                let (persistent, begins_block) = (block.persistent > 0, number == block.first);
                let body_bytes = body_bytes + block.forget_share(count, told_bytes);
                each(SettledMessages { first: number, count, body_bytes, persistent, begins_block });
            } else {
                block.settle_one_by_one(number..stop, told_bytes, freed, &mut each);
            }
            number = stop;
            self.reserved -= u64::from(live - block.live);
            freed.note_settled(block.place(), live_bytes - block.live_bytes);
            if block.live == 0 {
                self.free_block(at, freed);
            }
        }
    }

    /// Shows what is there and not settled, in runs: the first number, and the one behind the last.
    pub(crate) fn each_live(&self, mut show: impl FnMut(u64, u64)) {
        for block in self.blocks.iter().filter(|block| block.live > 0) {
            if block.live == block.count {
                show(block.first, block.end());
                continue;
            }
            (block.first..block.end()).filter(|number| !block.is_settled(*number)).for_each(|number| {
                show(number, number + 1);
            });
        }
    }
}

impl super::Block {
    fn settle_one_by_one(
        &mut self,
        numbers: std::ops::Range<u64>,
        told_bytes: Option<u64>,
        freed: &mut Freed,
        each: &mut impl FnMut(SettledMessages),
    ) {
        let mut told_bytes = told_bytes;
        for number in numbers {
            if !self.settle(number) {
                continue;
            }
            if let Some((body, bytes)) = self.take_body(number) {
                freed.bytes += bytes;
                freed.bodies.push(body);
            }
            // All bytes that are told go with the first: together they are right.
            let body_bytes = self.body_bytes(number) + self.forget_share(1, told_bytes);
            told_bytes = told_bytes.map(|_| 0);
            each(SettledMessages {
                first: number,
                count: 1,
                body_bytes,
                persistent: self.is_persistent(number),
                begins_block: number == self.first,
            });
        }
    }
}
