//! How messages come into the log, and blocks that leave memory without being written again: it has their messages together. And
//! what of the log the queue needs for them, beside what it needs to be recovered.

use std::ops::Range;

use smallvec::SmallVec;

use super::level::{Freed, Level};
use super::messages::Store;
use super::spill::{Demand, token};
use crate::body::BlockBytes;
use crate::effects::{BlockToken, Effects};
use crate::logged::{LogRange, Place};
use crate::record::{BlockPlace, RecordKind};
use crate::traffic::MessageSeq;

/// Queues with as many levels, or fewer, need no memory to log a batch.
const LEVELS_USUAL: usize = 11;

impl Store {
    /// Log records for all persistent messages of the batch: one, and another where a block begins. A reader of a block reads all its
    /// records; a record of half a MiB for two blocks would be much for each of them.
    pub(crate) fn log_enqueued(&mut self, fx: &mut impl Effects) -> u64 {
        if self.logged.is_empty() {
            return 0;
        }
        self.disk_writes += self.logged.iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
        let kind =
            if self.logged_bodies.is_empty() { RecordKind::Enqueue } else { RecordKind::EnqueueShared };
        self.logged_bodies.drain(..).for_each(|held| fx.log_body(&held));
        let logged = std::mem::take(&mut self.logged);
        let (mut rest, mut position) = (&logged[..], 0);
        while !rest.is_empty() {
            (rest, position) = self.log_some(kind, rest, fx);
            if self.oldest_log == 0 {
                self.oldest_log = position;
            }
        }
        if let Some(present) = &mut self.present {
            present.logged = position;
        }
        self.logged = logged;
        self.logged.clear();
        position
    }

    /// One record: of the first of these runs, and of those behind it that begin no block. Returns the others and its end.
    fn log_some<'a>(
        &mut self,
        kind: RecordKind,
        logged: &'a [(MessageSeq, u32)],
        fx: &mut impl Effects,
    ) -> (&'a [(MessageSeq, u32)], u64) {
        if let Some((seq, stored)) = self.lone_large(kind, logged) {
            let record = fx.append_lent(kind, &seq.0.to_be_bytes(), stored);
            self.note_logged(seq, &record, 1, record.end - record.start);
            return (&logged[1..], record.end);
        }
        let (levels, mut runs) = (&self.levels, 0);
        let has_runs = kind == RecordKind::Enqueue && saves_bytes(levels, logged);
        let kind = if has_runs { RecordKind::EnqueueAlike } else { kind };
        // A block of each level at most has messages in it.
        let mut bytes_of: SmallVec<[u64; LEVELS_USUAL]> = SmallVec::from_elem(0, levels.len());
        let record = fx.append(kind, &mut |out| {
            for (first, count) in logged {
                let block = levels[usize::from(first.level())].block(first.number()).expect("just enqueued");
                if runs > 0 && block.first == first.number() {
                    return;
                }
                let before = out.len();
                block.write_enqueued(out, kind, *first, *count);
                bytes_of[usize::from(first.level())] += (out.len() - before) as u64;
                runs += 1;
            }
        });
        // A log that has failed takes nothing of any of them.
        let (here, rest) = logged.split_at(if runs == 0 { logged.len() } else { runs });
        // Its header counts with the first.
        let mut beside = (record.end - record.start).saturating_sub(bytes_of.iter().sum());
        for (first, count) in here {
            let level = usize::from(first.level());
            let bytes = std::mem::take(&mut bytes_of[level]) + std::mem::take(&mut beside);
            self.note_logged(*first, &record, *count, bytes);
        }
        (rest, record.end)
    }

    fn note_logged(&mut self, first: MessageSeq, record: &Range<u64>, count: u32, bytes: u64) {
        if let Some(block) = self.levels[usize::from(first.level())].block_mut(first.number()) {
            block.note_logged(record, count, u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// The first of these messages, if it is a block by itself that need not be copied.
    fn lone_large(&self, kind: RecordKind, logged: &[(MessageSeq, u32)]) -> Option<(MessageSeq, BlockBytes)> {
        let (seq, 1) = *logged.first()? else { return None };
        let block = self.levels[usize::from(seq.level())].block(seq.number())?;
        let stored = if kind == RecordKind::Enqueue { block.lone_large() } else { None };
        Some((seq, stored?))
    }

    /// A closed block stays where it was logged. It leaves memory when it can be read there.
    pub(crate) fn leave_in_log(&mut self, at: usize, first: u64, range: LogRange, fx: &mut impl Effects) {
        let Some(block) = self.levels[at].block_mut(first) else { return };
        block.writing = true;
        block.begin_copy(false);
        block.copied_to(Place::Log(range));
        fx.keep_in_log(token(at, block), range);
        let live_bytes = block.live_bytes;
        self.occupy(Place::Log(range), live_bytes);
    }

    /// Bytes on disk that hold its blocks.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.in_segments.bytes + self.log_bytes()
    }

    /// Of those, bytes of messages that are not settled.
    pub(crate) fn live_disk_bytes(&self) -> u64 {
        self.in_segments.live_bytes + self.in_log.live_bytes
    }

    /// Blocks that have a place on disk.
    #[inline]
    pub(crate) fn blocks_on_disk(&self) -> u64 {
        self.in_segments.blocks + self.in_log.blocks
    }

    /// Bytes of the messages that are in the log. A record counts once: one that filled a block and began the next belongs to both, and
    /// with priorities to blocks of several levels. Where others have most of what lies between, only what is its own counts.
    pub(crate) fn log_bytes(&self) -> u64 {
        if self.in_log.blocks == 0 {
            return 0;
        }
        let mut spread_bytes = 0;
        let blocks = self.levels.iter().flat_map(Level::blocks);
        let narrow = blocks.filter_map(|block| {
            let own_bytes = block.spread_bytes();
            spread_bytes += own_bytes.unwrap_or(0);
            block.log_range().filter(|_| own_bytes.is_none())
        });
        let covered_bytes = if self.levels.len() == 1 {
            covered_bytes(narrow)
        } else {
            let mut sorted: Vec<LogRange> = narrow.collect();
            sorted.sort_unstable();
            covered_bytes(sorted)
        };
        covered_bytes + spread_bytes
    }

    /// A block has this place on disk from now on, and so many bytes of messages that are not settled.
    pub(crate) fn occupy(&mut self, place: Place, live_bytes: u32) {
        match place {
            Place::Segment(at) => {
                self.in_segments.add(place, live_bytes);
                self.segments.entry(at.segment).or_default().add(at.bytes);
                self.all_segment_bytes += u64::from(at.bytes);
            }
            Place::Log(_) => self.in_log.add(place, live_bytes),
        }
    }

    /// The segment of this block has so many bytes of blocks; when that is not known, at least those up to the end of this one.
    pub(crate) fn note_segment_bytes(&mut self, place: BlockPlace, bytes: Option<u64>) {
        if let Some(held) = self.segments.get_mut(&place.segment) {
            let known = held.bytes;
            held.bytes = known.max(bytes.unwrap_or(place.offset + u64::from(place.bytes)));
            self.all_segment_bytes += held.bytes - known;
        }
    }

    /// A block is somewhere else now. Until the next state record is durable, a crash would bring it back where it was.
    pub(crate) fn leave(&mut self, before: Option<Place>, live_bytes: u32) {
        match before {
            Some(Place::Log(range)) => self.moved.push(range),
            Some(Place::Segment(place)) if !self.moved_from.contains(&place.segment) => {
                self.moved_from.push(place.segment);
            }
            _ => {}
        }
        before.into_iter().for_each(|place| self.vacate(place, live_bytes));
    }

    /// A block has this place no more; it has so many bytes of messages that are not settled.
    pub(crate) fn vacate(&mut self, place: Place, live_bytes: u32) {
        match place {
            Place::Segment(at) => {
                self.in_segments.remove(place, live_bytes);
                let held = self.segments.get_mut(&at.segment).expect("blocks are counted when written");
                held.remove(at.bytes);
                (self.has_dead_segments, self.may_be_sparse) = (true, true);
            }
            Place::Log(_) => self.in_log.remove(place, live_bytes),
        }
    }

    /// A block with a place on disk has other bytes of messages that are not settled than was thought: it was read.
    pub(crate) fn correct_live_bytes(&mut self, place: Place, before: u32, now: u32) {
        let on_disk = match place {
            Place::Segment(_) => &mut self.in_segments,
            Place::Log(_) => &mut self.in_log,
        };
        on_disk.live_bytes = on_disk.live_bytes - u64::from(before) + u64::from(now);
    }

    /// Parts of the log that hold blocks of this queue: it needs them whatever [`Store::oldest_log_position`] says, and besides what
    /// that says.
    pub fn log_ranges(&self) -> impl Iterator<Item = LogRange> + '_ {
        self.log_uses().map(|(range, _)| range)
    }

    /// The same, each with the bytes that would be written if it had to leave the log.
    pub fn log_uses(&self) -> impl Iterator<Item = (LogRange, u64)> + '_ {
        let blocks = self.levels.iter().flat_map(Level::blocks);
        let in_log = blocks.filter_map(|block| Some((block.log_range()?, block.kept_bytes())));
        in_log.chain(self.moved.iter().chain(&self.dying_in_log).map(|range| (*range, 0)))
    }

    /// No state record since the start refers to blocks in the log from here on: parts beyond may go before the settlements of what
    /// was in them are durable.
    pub fn stated_end(&self) -> u64 {
        self.stated_end
    }

    /// A block that stays in the log can be read there, or never will be (it then stays in memory).
    pub(crate) fn block_logged(
        &mut self,
        token: BlockToken,
        is_durable: bool,
        demand: Demand,
        fx: &mut impl Effects,
    ) {
        let seq = MessageSeq(token.0);
        if usize::from(seq.level()) >= self.levels.len() {
            return;
        }
        let needed = self.needed(usize::from(seq.level()), self.lowest_needed(), demand);
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

/// Whether a record of these runs becomes smaller if what messages have in common stands once for those that were taken in as alike.
fn saves_bytes(levels: &[Level], logged: &[(MessageSeq, u32)]) -> bool {
    let alike = |(first, count): &(MessageSeq, u32)| {
        let block = levels[usize::from(first.level())].block(first.number());
        let is_alike = *count > 1 && block.is_some_and(|block| block.is_alike(first.number() + 1));
        if is_alike { *count as usize - 1 } else { 0 }
    };
    // Each of them saves 20 bytes at least, and each run takes 4 more.
    5 * logged.iter().map(alike).sum::<usize>() > logged.len()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranges_share_counts_once() {
        let range = |(position, bytes)| LogRange { position, bytes };
        assert_eq!(covered_bytes([(10, 30), (20, 10), (35, 15), (100, 1)].map(range)), 41);
    }
}
