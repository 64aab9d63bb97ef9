//! Segments of which little is needed: the blocks that still hold something move to another one, and they go. One message that nobody
//! settles must not keep on disk all that was written beside it. Knows nothing of when that is worth the work.

use super::machine::{Classic, SegmentUse};
use super::spill::Checkpoint;
use crate::effects::Effects;

/// Bytes of blocks that move at once, unless a single segment has more: others wait for the disk meanwhile, and have to have room on it.
const MOVED_BYTES_MAX: u64 = 32 << 20;

/// What a queue has in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentRoom {
    /// Bytes of blocks with messages that are not settled.
    pub needed_bytes: u64,
    /// Bytes of other blocks in segments of which less than half is needed: what [`Classic::compact`] frees, some of it at a time.
    pub free_bytes: u64,
}

impl SegmentUse {
    /// Whether less than half of it is needed.
    fn is_sparse(&self) -> bool {
        self.needed_bytes * 2 < self.bytes
    }
}

impl Classic {
    /// What it has in segments.
    pub fn segment_room(&self) -> SegmentRoom {
        let mut room = SegmentRoom::default();
        for held in self.segments.values() {
            room.needed_bytes += held.needed_bytes;
            room.free_bytes += if held.is_sparse() { held.bytes - held.needed_bytes } else { 0 };
        }
        room
    }

    /// Whether [`Classic::segment_room`] may tell more that is free than when this was asked last.
    #[inline]
    pub fn take_may_be_sparse(&mut self) -> bool {
        std::mem::take(&mut self.may_be_sparse)
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

    /// Segments that give the most room for what is written.
    fn sparsest(&self) -> Vec<u64> {
        let sparse = self.segments.iter().filter(|(_, held)| held.blocks > 0 && held.is_sparse());
        let mut sparse: Vec<(u64, SegmentUse)> = sparse.map(|(segment, held)| (*segment, *held)).collect();
        let parts = |a: u64, b: u64| u128::from(a) * u128::from(b);
        sparse.sort_by(|(_, a), (_, b)| parts(a.needed_bytes, b.bytes).cmp(&parts(b.needed_bytes, a.bytes)));
        let mut bytes = 0;
        let fitting = sparse.into_iter().take_while(|(_, held)| {
            let is_first = bytes == 0;
            bytes += held.needed_bytes;
            is_first || bytes <= MOVED_BYTES_MAX
        });
        fitting.map(|(segment, _)| segment).collect()
    }

    /// A state record tells where everything is now: segments that only an earlier one referred to may go.
    pub(super) fn give_up_moved(&mut self, fx: &mut impl Effects) {
        if self.moved_from.is_empty() {
            return;
        }
        self.moved_from.clear();
        (self.has_dead_segments, self.may_be_sparse) = (true, true);
        self.delete_dead_segments(fx);
    }
}
