//! Segments of which little lives: live messages move to another one, blocks with holes where messages are settled, and the segments go. One
//! message that nobody settles must not keep on disk all that was written beside it. Knows nothing of when that is worth the work.

use std::collections::BTreeMap;

use super::level::Level;
#[cfg(test)]
use super::messages::OnDisk;
use super::messages::{SegmentUse, Store};
use super::spill::Checkpoint;
use crate::effects::Effects;
use crate::logged::Place;

/// Bytes that are written at once, unless a single segment has more: others wait for the disk meanwhile, and have to have room on it.
const MOVED_BYTES_MAX: u64 = 32 << 20;

/// Bytes that are read for that.
const READ_BYTES_MAX: u64 = 256 << 20;

/// Somebody is told when this part of the bytes of needed blocks was settled since the last time.
const SETTLED_PART: u64 = 8;

/// The bytes that a queue has in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentRoom {
    /// Bytes that blocks with messages that are not settled have when they are written anew.
    pub needed_bytes: u64,
    /// Of those, the ones in segments of which less than half is needed: [`Store::compact`] writes them.
    pub moved_bytes: u64,
    /// Other bytes of segments of which less than half is needed: [`Store::compact`] frees them, some at a time.
    pub free_bytes: u64,
}

/// A segment, and what of it is needed.
struct Segment {
    number: u64,
    bytes: u64,
    /// Bytes that are read to compact it, and bytes that are written.
    read_bytes: u64,
    kept_bytes: u64,
}

impl Segment {
    /// Whether less than half of it is needed.
    fn is_sparse(&self) -> bool {
        self.kept_bytes * 2 < self.bytes
    }
}

impl Store {
    /// Its bytes in segments. Unless at least so many bytes there are free, and as many as live besides, the figure is rough, with more
    /// than is free: to know better every block has to be looked at.
    pub fn segment_room(&self, free_bytes_min: u64) -> SegmentRoom {
        let (live_bytes, free_bytes) = self.segment_bytes();
        if free_bytes_min > 0 && free_bytes < free_bytes_min + live_bytes {
            return SegmentRoom { needed_bytes: live_bytes, moved_bytes: live_bytes, free_bytes };
        }
        let mut room = SegmentRoom::default();
        for segment in self.segments_in_use() {
            room.needed_bytes += segment.kept_bytes;
            if segment.is_sparse() {
                room.moved_bytes += segment.kept_bytes;
                room.free_bytes += segment.bytes - segment.kept_bytes;
            }
        }
        room
    }

    /// Bytes in its segments: of messages that are not settled, and others.
    #[inline]
    pub fn segment_bytes(&self) -> (u64, u64) {
        let live_bytes = self.in_segments.live_bytes;
        (live_bytes, self.all_segment_bytes.saturating_sub(live_bytes))
    }

    /// Whether [`Store::segment_room`] may tell more that is free than when this was asked last.
    #[inline]
    pub fn take_may_be_sparse(&mut self) -> bool {
        std::mem::take(&mut self.may_be_sparse)
    }

    /// So many bytes of messages in blocks of segments are settled.
    pub(crate) fn note_settled_in_segments(&mut self, bytes: u64) {
        self.in_segments.live_bytes -= bytes;
        self.settled_unseen += bytes;
        if self.settled_unseen * SETTLED_PART >= self.in_segments.bytes {
            self.settled_unseen = 0;
            self.may_be_sparse = true;
        }
    }

    /// Moves what is needed of sparse segments to others, of the sparsest first and not of all at once, and gives those up; a state record
    /// comes with it. Answered by [`Effects::checkpointed`], at once when there is nothing to be done.
    pub fn compact(&mut self, fx: &mut impl Effects) {
        if self.checkpoint != Checkpoint::Idle {
            return;
        }
        let sparse = self.sparsest();
        if sparse.is_empty() && self.moved_from.is_empty() {
            fx.checkpointed();
            return;
        }
        sparse.iter().for_each(|segment| fx.seal_segment(*segment));
        self.write_out(&[], &sparse, fx);
    }

    /// The counts of blocks on disk, counted anew; and whether each of them can have as many bytes that live.
    #[cfg(test)]
    pub(crate) fn counted_on_disk(&self) -> (OnDisk, OnDisk, bool) {
        let (mut in_segments, mut in_log, mut is_possible) = (OnDisk::default(), OnDisk::default(), true);
        for block in self.levels.iter().flat_map(Level::blocks) {
            let Some(place) = block.place() else { continue };
            let counted = if let Place::Segment(_) = place { &mut in_segments } else { &mut in_log };
            counted.add(place, block.live_bytes);
            let has_room = block.live_bytes <= place.bytes();
            is_possible &= has_room && (block.live > 0 || block.live_bytes == 0);
        }
        is_possible &= self.all_segment_bytes == self.segments.values().map(|held| held.bytes).sum::<u64>();
        (in_segments, in_log, is_possible)
    }

    /// Segments with blocks that are needed.
    fn segments_in_use(&self) -> Vec<Segment> {
        let mut kept_bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for block in self.levels.iter().flat_map(Level::blocks) {
            if let Some(Place::Segment(place)) = block.place() {
                *kept_bytes.entry(place.segment).or_default() += block.kept_bytes();
            }
        }
        let of = |(number, held): (&u64, &SegmentUse)| {
            let (bytes, read_bytes) = (held.bytes, held.needed_bytes);
            Some(Segment { number: *number, bytes, read_bytes, kept_bytes: *kept_bytes.get(number)? })
        };
        self.segments.iter().filter_map(of).collect()
    }

    /// Segments that give the most room for what is written.
    fn sparsest(&self) -> Vec<u64> {
        let mut sparse = self.segments_in_use();
        sparse.retain(Segment::is_sparse);
        let parts = |a: u64, b: u64| u128::from(a) * u128::from(b);
        sparse.sort_by(|a, b| parts(a.kept_bytes, b.bytes).cmp(&parts(b.kept_bytes, a.bytes)));
        let (mut written, mut read) = (0, 0);
        let fitting = sparse.into_iter().take_while(|segment| {
            let is_first = read == 0;
            written += segment.kept_bytes;
            read += segment.read_bytes;
            is_first || (written <= MOVED_BYTES_MAX && read <= READ_BYTES_MAX)
        });
        fitting.map(|segment| segment.number).collect()
    }

    /// A state record tells where everything is now: segments that only an earlier one referred to may go.
    pub(crate) fn give_up_moved(&mut self, fx: &mut impl Effects) {
        if self.moved_from.is_empty() {
            return;
        }
        self.moved_from.clear();
        (self.has_dead_segments, self.may_be_sparse) = (true, true);
        self.delete_dead_segments(fx);
    }
}
