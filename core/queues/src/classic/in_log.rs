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

    /// A block has this place on disk from now on.
    pub(super) fn occupy(&mut self, place: Place) {
        self.disk_bytes += u64::from(place.bytes());
        match place {
            Place::Segment(place) => self.segments.entry(place.segment).or_default().add(place.bytes),
            Place::Log(range) => self.log_bytes += u64::from(range.bytes),
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
        self.disk_bytes -= u64::from(place.bytes());
        match place {
            Place::Segment(place) => {
                let held = self.segments.get_mut(&place.segment).expect("blocks are counted when written");
                held.remove(place.bytes);
                (self.has_dead_segments, self.may_be_sparse) = (true, true);
            }
            Place::Log(range) => self.log_bytes -= u64::from(range.bytes),
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
        let needed = self.needed(usize::from(seq.level()));
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
