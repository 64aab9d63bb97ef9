//! Blocks that leave memory without being written again: the log has their messages together. And what of the log the queue needs for
//! them, beside what it needs to be recovered.

use super::block::Block;
use super::level::{Freed, Level};
use super::machine::Classic;
use super::spill::token;
use crate::effects::{BlockToken, Effects};
use crate::logged::{LogRange, Place};
use crate::message::MessageSeq;
use crate::record::BlockPlace;

impl Classic {
    /// A closed block stays where it was logged. It leaves memory when it can be read there.
    pub(super) fn leave_in_log(&mut self, at: usize, first: u64, range: LogRange, fx: &mut impl Effects) {
        let Some(block) = self.levels[at].block_mut(first) else { return };
        block.writing = true;
        block.put_at(Place::Log(range));
        fx.keep_in_log(token(at, block), range);
        self.occupy(Place::Log(range));
    }

    /// Bytes on disk that hold its blocks.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.segments.values().map(|held| held.needed_bytes).sum::<u64>() + self.log_bytes()
    }

    /// Those that are in the log. A record counts once: one that filled a block and began the next belongs to both, and with
    /// priorities to blocks of several levels.
    pub(super) fn log_bytes(&self) -> u64 {
        if self.blocks_in_log == 0 {
            return 0;
        }
        let ranges = || self.levels.iter().flat_map(Level::blocks).filter_map(Block::log_range);
        if self.levels.len() == 1 {
            return covered_bytes(ranges());
        }
        let mut sorted: Vec<LogRange> = ranges().collect();
        sorted.sort_unstable();
        covered_bytes(sorted)
    }

    /// A block has this place on disk from now on.
    pub(super) fn occupy(&mut self, place: Place) {
        self.blocks_on_disk += 1;
        match place {
            Place::Segment(place) => self.segments.entry(place.segment).or_default().add(place.bytes),
            Place::Log(_) => self.blocks_in_log += 1,
        }
    }

    /// The segment of this block has so many bytes of blocks; when that is not known, at least those up to the end of this one.
    pub(super) fn note_segment_bytes(&mut self, place: BlockPlace, bytes: Option<u64>) {
        if let Some(held) = self.segments.get_mut(&place.segment) {
            held.bytes = held.bytes.max(bytes.unwrap_or(place.offset + u64::from(place.bytes)));
        }
    }

    /// A block is somewhere else now. Until the next state record is durable, a crash would bring it back where it was.
    pub(super) fn leave(&mut self, before: Option<Place>) {
        match before {
            Some(Place::Log(range)) => self.moved.push(range),
            Some(Place::Segment(place)) if !self.moved_from.contains(&place.segment) => {
                self.moved_from.push(place.segment);
            }
            _ => {}
        }
        before.into_iter().for_each(|place| self.vacate(place));
    }

    /// A block has this place no more.
    pub(super) fn vacate(&mut self, place: Place) {
        self.blocks_on_disk -= 1;
        match place {
            Place::Segment(place) => {
                let held = self.segments.get_mut(&place.segment).expect("blocks are counted when written");
                held.remove(place.bytes);
                (self.has_dead_segments, self.may_be_sparse) = (true, true);
            }
            Place::Log(_) => self.blocks_in_log -= 1,
        }
    }

    /// Parts of the log that hold blocks of this queue: it needs them whatever [`Classic::oldest_log_position`] says, and besides what
    /// that says.
    pub fn log_ranges(&self) -> impl Iterator<Item = LogRange> + '_ {
        let blocks = self.levels.iter().flat_map(Level::blocks).filter_map(Block::log_range);
        blocks.chain(self.moved.iter().copied()).chain(self.dying_in_log.iter().copied())
    }

    /// No state record since the start refers to blocks in the log from here on: parts beyond may go before the settlements of what
    /// was in them are durable.
    pub fn stated_end(&self) -> u64 {
        self.stated_end
    }

    /// A block that stays in the log can be read there, or never will be (it then stays in memory).
    pub fn block_logged(&mut self, token: BlockToken, is_durable: bool, fx: &mut impl Effects) {
        let seq = MessageSeq(token.0);
        if usize::from(seq.level()) >= self.levels.len() {
            return;
        }
        let needed = self.needed(usize::from(seq.level()), self.lowest_needed());
        let may_go = is_durable && self.memory_bytes > self.memory_bytes_max();
        let level = &mut self.levels[usize::from(seq.level())];
        let mut freed = Freed::default();
        if let Some(block) = level.block_mut(seq.number()) {
            block.writing = !is_durable;
            let is_free = block.live > 0 && block.has_data() && !block.reading;
            if may_go && is_free && !needed.has(block) {
                block.bodies().for_each(|(_, body)| fx.let_body_go(body));
                freed.bytes += level.evict(seq.number());
            }
        }
        level.free_if_dead(seq.number(), &mut freed);
        self.release_to(&freed, fx);
    }
}

/// Bytes that lie in at least one of the ranges, which come in the order of the log.
fn covered_bytes(ranges: impl IntoIterator<Item = LogRange>) -> u64 {
    let (mut bytes, mut end) = (0, 0);
    for range in ranges {
        bytes += range.end().saturating_sub(range.position.max(end));
        end = range.end().max(end);
    }
    bytes
}
