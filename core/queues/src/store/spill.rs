//! Blocks between memory and disk, and the checkpoint that frees the shared log.

use std::ops::Range;

use smallvec::SmallVec;

use super::block::{BACKLOG_BLOCK_BYTES, BLOCK_BYTES, Block, STATED_BYTES_MAX};
use super::level::{Freed, Level};
use super::messages::{Store, Written};
use crate::body::HeldBody;
use crate::effects::{BlockToken, Effects};
use crate::logged::{LogRange, LoggedBlock, OwnBytes, Place};
use crate::record::{BlockPlace, RecordKind};
use crate::traffic::MessageSeq;

/// Blocks of which less lives go into the state record itself, what lives of them; others into a segment.
const INLINE_BYTES_MAX: u32 = STATED_BYTES_MAX as u32;

/// Bytes that a state record has for a block beside its messages, about.
const PLACED_BYTES: u64 = 48;

/// Bytes that it has for a message that stands in it, beside the body, about.
const MESSAGE_BYTES: u64 = 20;
/// A checkpoint under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    #[default]
    Idle,
    /// Blocks are being written; this many answers are missing.
    Writing(u32),
    /// All are written; the answer to the sync is missing.
    Syncing,
    /// All are synced; letters of dead messages are not all logged, and no further message dies until this time, milliseconds since
    /// the epoch.
    Letters(u64),
}

impl Checkpoint {
    /// A sync was asked for and the state record is not written: blocks that are on disk only from now on are not in either.
    fn is_closing(self) -> bool {
        matches!(self, Checkpoint::Syncing | Checkpoint::Letters(_))
    }

    /// It is over as soon as all letters are logged.
    pub(crate) fn waits_for_letters(self) -> bool {
        matches!(self, Checkpoint::Letters(_))
    }
}

/// For how long a checkpoint waits for letters, milliseconds: as long as a slow disk takes for all that the log may have to write.
const LETTERS_WAIT_MAX_MS: u64 = 2000;

/// Blocks asked back from disk before the head reaches them, the head's own included, at most.
const READ_AHEAD_BLOCKS_MAX: usize = 4;

/// A block with more bytes holds a large message: it stays in memory only while somebody is being served. Where the share of a queue is less, so
/// does one that has more than that.
const LARGE_BYTES_MIN: usize = 4 * BACKLOG_BLOCK_BYTES;

/// The demand of consumers and gets on a store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    /// Somebody waits for the message that comes next, or it is about to be dropped.
    pub(crate) is_awaited: bool,
    /// The first rejected message that waits for letters, or for its block.
    pub(crate) dying: Option<MessageSeq>,
}

/// The part of a level that stays in memory.
pub(crate) struct Needed {
    /// Numbers at the head and in the read-ahead.
    soon: Range<u64>,
    /// While nobody is being served, a block with more bytes goes all the same.
    bytes_max: usize,
    /// The first rejected message that waits for letters, or for its block: read back again and again it would never die.
    dying: Option<u64>,
    /// Blocks that a member lacks messages of.
    filling: SmallVec<[u64; 2]>,
    /// A message that is claimed: its block stays until the claim is granted.
    claimed: Option<u64>,
}

impl Needed {
    /// Messages that expire are looked at with every event: to read them each time would cost more than to keep them.
    pub(crate) fn has(&self, block: &Block) -> bool {
        let is_of = |number: u64| (block.first..block.end()).contains(&number);
        if self.dying.is_some_and(is_of) || self.claimed.is_some_and(is_of) {
            return true;
        }
        if self.filling.contains(&block.first) {
            return true;
        }
        let is_soon = block.end() > self.soon.start && block.first < self.soon.end;
        is_soon && (block.memory_bytes() <= self.bytes_max || block.expires)
    }
}

pub(crate) fn token(level: usize, block: &Block) -> BlockToken {
    BlockToken(MessageSeq::new(level as u8, block.first).0)
}

fn logged(level: usize, block: &Block, range: LogRange) -> LoggedBlock {
    let first = MessageSeq::new(level as u8, block.first);
    LoggedBlock { first, count: block.count, range, own_bytes: block.own_copy_bytes() as u32 }
}

/// Where a block without a copy stays in the log when a state record is written; `None` for one that goes to a segment, or is small enough to
/// stand in the record.
fn placed_by_checkpoint(block: &Block, oldest_log: u64) -> Option<LogRange> {
    let range = block.place_in_log(oldest_log);
    range.filter(|_| block.live_bytes > INLINE_BYTES_MAX)
}

impl Store {
    /// Other queues need memory, too: from now on this one keeps no more than these bytes of messages in it, however much it was
    /// configured with. Followed with the next [`Store::relieve`].
    #[inline]
    pub fn share_memory(&mut self, bytes_max: usize) {
        self.share_bytes = bytes_max;
    }

    /// Bytes of messages in memory.
    #[inline]
    pub fn resident_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Bytes of messages that it may keep in memory.
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.configured_bytes.min(self.share_bytes)
    }

    /// Bytes after which a block of a long backlog is closed: large ones only where the share has room for several.
    pub(crate) fn backlog_block_bytes(&self) -> usize {
        if self.share_bytes < 8 * BACKLOG_BLOCK_BYTES { BLOCK_BYTES } else { BACKLOG_BLOCK_BYTES }
    }

    /// Moves message data out of memory while there is more than the bound: closed blocks behind the head go to disk,
    /// newest first, because the oldest are needed first.
    pub(crate) fn relieve(&mut self, demand: Demand, fx: &mut impl Effects) {
        let mut excess = self.memory_bytes.saturating_sub(self.memory_bytes_max());
        if excess == 0 {
            return;
        }
        let lowest = self.lowest_needed();
        for at in 0..self.levels.len() {
            let needed = self.needed(at, lowest, demand);
            self.levels[at].close_full();
            let movable: SmallVec<[u64; 16]> = self.levels[at].movable().collect();
            for first in movable {
                if excess == 0 {
                    return;
                }
                excess = excess.saturating_sub(self.move_out(at, first, &needed, fx));
            }
        }
        if excess > 0 && (self.levels.len() > 1 || self.is_tight()) {
            self.move_open_blocks(excess, lowest, demand, fx);
        }
    }

    /// Its share is smaller than a block: the node is short of memory.
    fn is_tight(&self) -> bool {
        self.share_bytes < BLOCK_BYTES
    }

    /// The newest blocks of levels go before they are full, too, the largest first: of many levels each has one. Small ones only if they
    /// need not be written: an entry in the index for a few messages is dear.
    fn move_open_blocks(&mut self, mut excess: usize, lowest: usize, demand: Demand, fx: &mut impl Effects) {
        let oldest_log = self.oldest_log;
        let open = self.levels.iter().enumerate().filter_map(|(at, level)| {
            let newest = level.newest().filter(|block| block.live > 0 && block.is_resident())?;
            let bytes = newest.memory_bytes();
            let may_go = bytes >= INLINE_BYTES_MAX as usize || newest.place_in_log(oldest_log).is_some();
            may_go.then_some((bytes, at, newest.first))
        });
        let mut open: SmallVec<[(usize, usize, u64); 16]> = open.collect();
        open.sort_unstable_by(|one, other| other.cmp(one));
        for (_, at, first) in open {
            if excess == 0 {
                return;
            }
            let needed = self.needed(at, lowest, demand);
            self.levels[at].close_newest();
            excess = excess.saturating_sub(self.move_out(at, first, &needed, fx));
        }
    }

    /// The lowest level of which something is served soon: those above it have together what is read ahead.
    pub(crate) fn lowest_needed(&self) -> usize {
        let mut left = self.read_ahead_bytes_max();
        let is_enough = |at: &usize| {
            let level = &self.levels[*at];
            left = level.head().map_or(left, |head| left.saturating_sub(level.bytes_ahead(head, left)));
            left == 0
        };
        (0..self.levels.len()).rev().find(is_enough).unwrap_or(0)
    }

    /// The part of a level that stays in memory.
    pub(crate) fn needed(&self, at: usize, lowest: usize, demand: Demand) -> Needed {
        let head = self.levels[at].head().filter(|_| at >= lowest);
        let soon = head.map_or(u64::MAX..u64::MAX, |head| head..self.read_ahead_end(at, head));
        let bytes_max = match demand.is_awaited {
            true => usize::MAX,
            false if self.is_tight() => 0,
            false => LARGE_BYTES_MIN.min(self.share_bytes.max(BACKLOG_BLOCK_BYTES)),
        };
        let dying = demand.dying.filter(|first| usize::from(first.level()) == at).map(|first| first.number());
        let filling = self.filling.iter().filter(|first| usize::from(first.level()) == at);
        let filling = filling.map(|first| first.number()).collect();
        let claimed = self.claimed.filter(|seq| usize::from(seq.level()) == at).map(|seq| seq.number());
        Needed { soon, bytes_max, dying, filling, claimed }
    }

    /// Drops a block from memory when it is on disk, else writes it, unless the log has it together anyway; returns the bytes that are
    /// or will be free.
    fn move_out(&mut self, at: usize, first: u64, needed: &Needed, fx: &mut impl Effects) -> usize {
        let Some(block) = self.levels[at].block_mut(first) else { return 0 };
        if block.live == 0 || needed.has(block) || block.reading {
            return 0;
        }
        let bytes = block.memory_bytes();
        if block.writing {
            return bytes;
        }
        let is_dear = block.is_spread() && fx.has_room() && !self.checkpoint.is_closing();
        if block.place().is_some() && !is_dear {
            if self.checkpoint.is_closing() && !block.is_safe() {
                return 0;
            }
            block.bodies().for_each(|(_, body)| fx.let_body_go(body));
            self.memory_bytes -= self.levels[at].evict(first);
            return bytes;
        }
        let range = block.place_in_log(self.oldest_log);
        if let Some(range) = range.filter(|_| !is_dear && block.shared_bytes().is_some()) {
            self.leave_in_log(at, first, range, fx);
            return bytes;
        }
        let written = if fx.has_room() { block.bytes_to_write() } else { None };
        let Some(written) = written else { return 0 };
        block.writing = true;
        self.writes += 1;
        self.disk_writes += u64::from(block.live);
        fx.write_block(token(at, block), written);
        bytes
    }

    /// Asks for the block that holds a message, unless it is here or on its way.
    pub(crate) fn request_block(&mut self, seq: MessageSeq, fx: &mut impl Effects) {
        let at = usize::from(seq.level());
        let Some(block) = self.levels[at].block_mut(seq.number()) else { return };
        if block.is_resident() || block.reading {
            return;
        }
        block.reading = true;
        let own = match block.place().filter(|_| !block.has_data()) {
            Some(Place::Segment(place)) => Some(OwnBytes::Segment(place)),
            Some(Place::Log(range)) => Some(OwnBytes::Log(logged(at, block, range))),
            None => None,
        };
        debug_assert!(own.is_some() || block.has_data(), "a block that is not in memory is on disk");
        fx.read_block(token(at, block), own, block.absent_bodies());
    }

    /// Asks for the block of a level's head when it is on disk.
    pub(crate) fn fetch_head(&mut self, level: usize, fx: &mut impl Effects) {
        if let Some(number) = self.levels[level].head() {
            self.request_block(MessageSeq::new(level as u8, number), fx);
        }
    }

    /// Number after the blocks that are kept in memory for the next consumer at a head: a few, and of large messages, or with a
    /// small share, the head's own.
    pub(crate) fn read_ahead_end(&self, level: usize, head: u64) -> u64 {
        self.levels[level].read_ahead_end(head, READ_AHEAD_BLOCKS_MAX, self.read_ahead_bytes_max())
    }

    /// Bytes of blocks that are kept in memory for the next consumer, but for the last one of them.
    pub(crate) fn read_ahead_bytes_max(&self) -> usize {
        (self.share_bytes / 2).min(READ_AHEAD_BLOCKS_MAX * BACKLOG_BLOCK_BYTES)
    }

    /// Asks for the next blocks on disk before the head reaches them.
    pub(crate) fn prefetch_blocks(&mut self, level: usize, fx: &mut impl Effects) {
        if self.blocks_on_disk() == 0 && !self.misses_bodies {
            return;
        }
        let Some(head) = self.levels[level].head() else { return };
        let end = self.read_ahead_end(level, head);
        let firsts: SmallVec<[u64; READ_AHEAD_BLOCKS_MAX]> = self.levels[level]
            .blocks_from(head)
            .take_while(|block| block.first < end)
            .filter(|b| !b.is_resident())
            .map(|b| b.first)
            .collect();
        for first in firsts {
            self.request_block(MessageSeq::new(level as u8, first), fx);
        }
    }

    /// A block is written to `place`, or could not be (it then stays where it is).
    pub(crate) fn block_written(
        &mut self,
        token: BlockToken,
        place: Option<BlockPlace>,
        demand: Demand,
        fx: &mut impl Effects,
    ) {
        let seq = MessageSeq(token.0);
        self.writes -= 1;
        self.write_failed = place.is_none();
        self.segment_newest = self.segment_newest.max(place.map_or(0, |place| place.segment));
        let may_go = self.memory_bytes > self.memory_bytes_max() && !self.checkpoint.is_closing();
        if usize::from(seq.level()) >= self.levels.len() {
            return;
        }
        let needed = self.needed(usize::from(seq.level()), self.lowest_needed(), demand);
        let Some(level) = self.levels.get_mut(usize::from(seq.level())) else { return };
        let mut freed = Freed::default();
        let mut change = None;
        if let Some(block) = level.block_mut(seq.number()) {
            block.writing = false;
            // Blocks that left the log too late for the checkpoint are tried again with the next one.
            let is_late = self.checkpoint.is_closing() && block.place().is_some() && !block.has_data();
            let (before, live_bytes) = (block.place(), block.live_bytes);
            if let Some(place) = place.filter(|_| !is_late) {
                block.copied_to(Place::Segment(place));
                block.synced = false;
                let is_free = block.live > 0 && block.has_data() && !block.reading;
                if may_go && is_free && !needed.has(block) {
                    block.bodies().for_each(|(_, body)| fx.let_body_go(body));
                    freed.bytes += level.evict(seq.number());
                }
            }
            let now = level.block(seq.number()).map_or(live_bytes, |block| block.live_bytes);
            change = place.map(|place| (before, Place::Segment(place), is_late, (live_bytes, now)));
        }
        if let Some((before, place, is_late, (live_before, live_now))) = change {
            self.occupy(place, live_now);
            if is_late { self.vacate(place, live_now) } else { self.leave(before, live_before) }
        }
        let level = &mut self.levels[usize::from(seq.level())];
        level.free_if_dead(seq.number(), &mut freed);
        self.release_to(&freed, fx);
        if let Checkpoint::Writing(missing) = &mut self.checkpoint {
            *missing -= 1;
            if *missing == 0 {
                self.sync_checkpoint(fx);
            }
        }
    }

    /// A block came back from disk, with bytes of its own if they were asked for and those of its shared bodies. False when they
    /// are not what was written: the queue cannot go on.
    #[must_use]
    pub(crate) fn block_read(
        &mut self,
        token: BlockToken,
        bytes: Option<Vec<u8>>,
        bodies: &[HeldBody],
        fx: &mut impl Effects,
    ) -> bool {
        let seq = MessageSeq(token.0);
        let Some(level) = self.levels.get_mut(usize::from(seq.level())) else { return true };
        let Some(block) = level.block_mut(seq.number()) else { return true };
        block.reading = false;
        let (mut freed, mut corrected, mut sizes) = (Freed::default(), None, None);
        if block.live > 0 && !block.is_resident() {
            self.disk_reads += u64::from(block.live);
            let (place, before) = (block.place(), (block.memory_bytes(), block.live_bytes));
            let told = (!block.knows_sizes()).then(|| block.counted_body_bytes());
            if !level.fill(seq.number(), bytes, bodies) {
                return false;
            }
            let after =
                level.block(seq.number()).map_or(before, |block| (block.memory_bytes(), block.live_bytes));
            sizes = told.zip(level.block(seq.number()).map(Block::counted_body_bytes));
            self.memory_bytes += after.0 - before.0;
            corrected = place.map(|place| (place, before.1, after.1));
        }
        level.free_if_dead(seq.number(), &mut freed);
        if let Some((told, now)) = sizes {
            self.correct_body_bytes(told, now);
        }
        if let Some((place, before, now)) = corrected {
            self.correct_live_bytes(place, before, now);
        }
        self.release_to(&freed, fx);
        true
    }

    /// Accounts for what settling freed; segments are deleted at the next chance.
    pub(crate) fn release(&mut self, freed: &Freed) {
        self.memory_bytes -= freed.bytes;
        self.in_log.live_bytes -= freed.settled_in_log;
        if freed.settled_in_segments > 0 {
            self.note_settled_in_segments(freed.settled_in_segments);
        }
        for place in &freed.places {
            self.vacate(*place, 0);
            if let Place::Log(range) = place
                && self.dying > 0
            {
                self.dying_in_log.push(*range);
            }
        }
    }

    pub(crate) fn release_to(&mut self, freed: &Freed, fx: &mut impl Effects) {
        self.release(freed);
        self.settle_log(fx);
    }

    /// Deletes segments that hold no block any more, nor will: a write under way may be meant for the newest.
    pub(crate) fn delete_dead_segments(&mut self, fx: &mut impl Effects) {
        // A message whose removal is not logged would be looked for there after a crash.
        if self.dying > 0 {
            return;
        }
        self.dying_in_log.clear();
        if !self.has_dead_segments {
            return;
        }
        self.has_dead_segments = false;
        self.segments.retain(|segment, held| {
            // The latest state record refers to it as long as no other one is written.
            if held.blocks > 0 || self.moved_from.contains(segment) {
                return true;
            }
            let may_be_written = self.writes > 0 && *segment >= self.segment_newest;
            if may_be_written {
                self.has_dead_segments = true;
            } else {
                self.all_segment_bytes -= held.bytes;
                fx.delete_segment(*segment);
            }
            may_be_written
        });
    }

    /// Makes everything before `position` in the log superfluous for this queue, but for what [`Store::log_ranges`] says, and of
    /// that what lies in the parts to `vacate`; answered by [`Effects::checkpointed`], at once when nothing of it is needed.
    pub(crate) fn checkpoint(&mut self, position: u64, vacate: &[Range<u64>], fx: &mut impl Effects) {
        let is_behind = (1..=position).contains(&self.oldest_log);
        let is_in_the_way = !vacate.is_empty() && self.log_ranges().any(|range| range.touches(vacate));
        if !(is_behind || is_in_the_way) || !self.is_durable {
            fx.checkpointed();
            return;
        }
        if self.checkpoint != Checkpoint::Idle {
            return;
        }
        self.write_out(vacate, &[], fx);
    }

    /// Writes what no state record can hold to segments, and what lies in these parts of the log, or in these segments, to others. A
    /// state record follows. Small blocks that are closed go along with what leaves a segment: where memory is short they came to the
    /// new one later, unknown to the state record, which made it sparse again after every start.
    pub(crate) fn write_out(&mut self, vacate: &[Range<u64>], sparse: &[u64], fx: &mut impl Effects) {
        let mut missing = 0;
        let mut left_in_log: SmallVec<[(Place, u32); 16]> = SmallVec::new();
        for at in 0..self.levels.len() {
            for block in self.levels[at].blocks_mut() {
                let is_sparse = |place: BlockPlace| sparse.contains(&place.segment);
                let moves = matches!(block.place(), Some(Place::Segment(place)) if is_sparse(place));
                if block.live == 0 || !(moves || (self.is_durable && block.persistent > 0)) {
                    continue;
                }
                match block.place() {
                    Some(Place::Segment(place)) if moves && !block.writing => {
                        block.begin_copy(true);
                        fx.move_block(token(at, block), place, block.holes());
                    }
                    Some(Place::Log(range)) if range.touches(vacate) && !block.writing => {
                        block.begin_copy(true);
                        match block.is_spread().then(|| block.bytes_without(block.settled())).flatten() {
                            Some(bytes) => fx.write_block(token(at, block), bytes.into()),
                            None => fx.move_logged(token(at, block), logged(at, block, range), block.holes()),
                        }
                    }
                    None if block.writing => {
                        missing += 1;
                        continue;
                    }
                    None => {
                        let range = placed_by_checkpoint(block, self.oldest_log);
                        let goes_along = !sparse.is_empty() && block.shared_bytes().is_some();
                        if range.is_none() && block.live_bytes <= INLINE_BYTES_MAX && !goes_along {
                            continue;
                        }
                        block.close();
                        if let Some(range) = range.filter(|range| !range.touches(vacate)) {
                            block.writing = true;
                            block.begin_copy(false);
                            block.copied_to(Place::Log(range));
                            left_in_log.push((Place::Log(range), block.live_bytes));
                            fx.keep_in_log(token(at, block), range);
                            continue;
                        }
                        fx.write_block(token(at, block), block.bytes_to_write().expect("just closed"));
                    }
                    _ => continue,
                }
                block.writing = true;
                self.writes += 1;
                missing += 1;
                self.disk_writes += u64::from(block.live);
            }
        }
        left_in_log.into_iter().for_each(|(place, live_bytes)| self.occupy(place, live_bytes));
        if missing > 0 {
            self.checkpoint = Checkpoint::Writing(missing);
        } else {
            self.sync_checkpoint(fx);
        }
    }

    /// Bytes that the next state record will have, about, by what the latest had, and has been settled or has come since: as much of that as
    /// small blocks have.
    pub fn state_bytes(&self) -> u32 {
        let Written { bytes, messages } = self.written;
        let bytes = match self.persistent.checked_sub(messages) {
            None => bytes * self.persistent / messages,
            Some(came) => {
                let body_bytes = self.persistent_bytes.checked_div(self.persistent).unwrap_or(0);
                let came_bytes = came.saturating_mul(body_bytes + MESSAGE_BYTES);
                bytes.max(came_bytes.saturating_add(bytes).min(INLINE_BYTES_MAX.into()))
            }
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Bytes that a checkpoint would write now, about. Looks at every block.
    pub fn checkpoint_bytes(&self) -> u64 {
        if self.oldest_log == 0 || !self.is_durable {
            return 0;
        }
        let mut bytes = 0;
        let blocks = self.levels.iter().flat_map(Level::blocks);
        for block in blocks.filter(|block| block.live > 0 && block.persistent > 0) {
            bytes += PLACED_BYTES;
            if block.place().is_some() || placed_by_checkpoint(block, self.oldest_log).is_some() {
                continue;
            }
            if block.live_bytes <= INLINE_BYTES_MAX {
                bytes += block.kept_bytes();
            } else {
                bytes += block.written_bytes();
            }
        }
        bytes
    }

    fn sync_checkpoint(&mut self, fx: &mut impl Effects) {
        self.checkpoint = Checkpoint::Syncing;
        let blocks = self.levels.iter_mut().flat_map(Level::blocks_mut);
        blocks.filter(|block| block.place().is_some()).for_each(|block| block.synced = true);
        fx.sync_blocks();
    }

    /// Written blocks could not be made durable: the checkpoint ends without a state record, the log stays as it is.
    pub(crate) fn blocks_not_synced(&mut self, fx: &mut impl Effects) {
        if self.checkpoint != Checkpoint::Syncing {
            return;
        }
        let blocks = self.levels.iter_mut().flat_map(Level::blocks_mut);
        blocks.for_each(|block| block.synced = false);
        self.give_checkpoint_up(fx);
    }

    /// Written blocks are durable: the state record may refer to them.
    pub(crate) fn blocks_synced(&mut self, now_ms: u64, fx: &mut impl Effects) {
        if self.checkpoint != Checkpoint::Syncing {
            return;
        }
        if self.dying > 0 {
            self.checkpoint = Checkpoint::Letters(now_ms.saturating_add(LETTERS_WAIT_MAX_MS));
        } else {
            self.write_checkpoint(fx);
        }
    }

    /// Until when a checkpoint under way waits for letters; `None` when it does not. No state record is written after that.
    pub(crate) fn awaits_letters_until_ms(&self) -> Option<u64> {
        if let Checkpoint::Letters(until_ms) = self.checkpoint { Some(until_ms) } else { None }
    }

    /// A checkpoint ends without a state record: the log stays as it is.
    pub(crate) fn give_checkpoint_up(&mut self, fx: &mut impl Effects) {
        self.checkpoint = Checkpoint::Idle;
        fx.checkpointed();
    }

    /// Appends the state record, which takes the place of everything before it.
    pub(crate) fn write_checkpoint(&mut self, fx: &mut impl Effects) {
        debug_assert_eq!(self.dying, 0, "a state record holds a message or its letter is logged");
        self.checkpoint = Checkpoint::Idle;
        self.settle_log(fx);
        self.moved.clear();
        if self.persistent == 0 || !self.is_durable {
            self.oldest_log = 0;
        } else {
            let levels = &self.levels;
            let mut bytes = 0;
            let record = fx.append(RecordKind::State, &mut |out| {
                let begin = out.len();
                super::recovery::write_state(out, levels);
                bytes = (out.len() - begin) as u64;
            });
            self.written = Written { bytes, messages: self.persistent };
            self.oldest_log = record.end;
            self.log_all_returned(fx);
            let in_log = self.levels.iter().flat_map(Level::blocks).filter_map(Block::log_range);
            self.stated_end = in_log.map(|range| range.end()).fold(self.stated_end, u64::max);
        }
        self.give_up_moved(fx);
        fx.checkpointed();
    }
}
