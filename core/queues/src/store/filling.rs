//! A leader fills a member that lacks messages: it sends the messages that live, from the first one that the member lacks on, block by block. A block that
//! is on disk is read for that and kept until it was sent.

use super::messages::Store;
use crate::effects::Effects;
use crate::members::{Cursor, Fill};
use crate::record::{self, RecordKind, Returned};
use crate::traffic::MessageSeq;

/// Blocks that are kept for members at once. A member whose block goes asks again.
const KEPT_MAX: usize = 8;

impl Store {
    /// Messages that a member lacks that has come this far: about so many bytes, at least one message.
    pub(crate) fn fill(&mut self, cursor: &mut Cursor, bytes_max: usize, fx: &mut impl Effects) -> Fill {
        // From now on there is a copy of each message that dies: only those that are dying already have to be waited for.
        self.is_filling = true;
        let bytes_max = bytes_max.max(1);
        let mut payload = Vec::new();
        let is_through =
            (0..self.levels.len() as u8).all(|at| self.fill_level(at, cursor, bytes_max, &mut payload, fx));
        if !payload.is_empty() {
            // A message may have come back before the member had it: the member passed over the record of that.
            cursor.has_told = false;
            return enqueued(payload);
        }
        if !is_through {
            return Fill::Waits;
        }
        if !std::mem::replace(&mut cursor.has_told, true) {
            let all: Vec<Returned> = self.returns.iter().flat_map(|returns| returns.all()).collect();
            if !all.is_empty() {
                return Fill::Records(told(&all, bytes_max));
            }
        }
        self.is_filling = false;
        Fill::End
    }

    /// The same of a level. False when it cannot go on for now.
    fn fill_level(
        &mut self,
        at: u8,
        cursor: &mut Cursor,
        bytes_max: usize,
        payload: &mut Vec<u8>,
        fx: &mut impl Effects,
    ) -> bool {
        while payload.len() < bytes_max {
            let (level, next) = (&self.levels[usize::from(at)], cursor.next_number(at));
            let from = MessageSeq::new(at, next.min(MessageSeq::NUMBER_MAX));
            let dying = self.returns.as_ref().and_then(|returns| returns.dying(from).next());
            let dying = dying.filter(|(seq, _)| seq.level() == at);
            let end = dying.map_or(u64::MAX, |(seq, _)| seq.number());
            let block = level.blocks_from(next).find(|block| block.live > 0 && block.end() > next);
            match (block.map(|block| block.first).filter(|first| next.max(*first) < end), dying) {
                (Some(first), _) => {
                    if !self.write_block(at, first, end, cursor, bytes_max, payload) {
                        self.keep_for_fill(MessageSeq::new(at, first), fx);
                        return false;
                    }
                }
                (None, Some((seq, copy))) => {
                    // Its removal is not logged: a member that lacks it could not lead if this node is lost.
                    let Some(copy) = copy else { return false };
                    record::write_enqueued(payload, seq, copy);
                    cursor.advance(at, seq.number() + 1);
                }
                (None, None) => {
                    cursor.advance(at, next.max(level.next_number()));
                    break;
                }
            }
        }
        true
    }

    /// Members that were being sent messages are not, or ask again: nothing is kept for them.
    pub(crate) fn stop_filling(&mut self) {
        self.filling.clear();
        self.is_filling = false;
    }

    /// Appends messages of a block before the number `end` and moves the cursor behind them. False when the block is on disk.
    fn write_block(
        &mut self,
        at: u8,
        first: u64,
        end: u64,
        cursor: &mut Cursor,
        bytes_max: usize,
        payload: &mut Vec<u8>,
    ) -> bool {
        let block = self.levels[usize::from(at)].block(first).expect("it was just found");
        if !block.is_resident() {
            return false;
        }
        for number in block.first.max(cursor.next_number(at))..block.end().min(end) {
            if payload.len() >= bytes_max {
                return true;
            }
            cursor.advance(at, number + 1);
            let seq = MessageSeq::new(at, number);
            match block.stored(number).filter(|_| !block.is_settled(number)) {
                Some(stored) if stored.shared.is_some() => record::write_whole(payload, seq, &stored),
                Some(_) => {
                    let stored = block.stored_bytes(number).expect("it is in memory");
                    record::write_enqueued(payload, seq, stored);
                }
                None => {}
            }
        }
        if block.end() <= end {
            self.filling.retain(|kept| *kept != MessageSeq::new(at, first));
        }
        true
    }

    /// A block is read, and stays in memory until it was sent.
    fn keep_for_fill(&mut self, first: MessageSeq, fx: &mut impl Effects) {
        if !self.filling.contains(&first) {
            let levels = &self.levels;
            let is_there = |seq: &MessageSeq| levels[usize::from(seq.level())].block(seq.number()).is_some();
            self.filling.retain(is_there);
            if self.filling.len() == KEPT_MAX {
                self.filling.remove(0);
            }
            self.filling.push(first);
        }
        self.request_block(first, fx);
    }
}

fn enqueued(payload: Vec<u8>) -> Fill {
    Fill::Records(vec![(RecordKind::Enqueue, payload)])
}

/// Records of what came back.
fn told(all: &[Returned], bytes_max: usize) -> Vec<(RecordKind, Vec<u8>)> {
    let count = (bytes_max / record::RETURNED_BYTES).max(1);
    let record = |some: &[Returned]| {
        let mut payload = Vec::with_capacity(some.len() * record::RETURNED_BYTES);
        some.iter().for_each(|one| record::write_returned(&mut payload, one));
        (RecordKind::Returned, payload)
    };
    all.chunks(count).map(record).collect()
}
