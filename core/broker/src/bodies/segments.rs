//! Bytes that are alive in each segment of shared bodies. Knows nothing of single bodies.

use std::collections::{BTreeMap, BTreeSet};

use commitlog::BlockLocation;

/// A segment with less than one part in so many alive is emptied: its bodies are written anew.
const SPARSE_PART: u64 = 4;

/// Bytes of bodies in one segment.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Bodies that somebody has.
    bodies: u32,
    live_bytes: u64,
    /// Of all that were ever written to it; after a restart, of those that were needed.
    bytes: u64,
}

/// All segments of the stream.
#[derive(Debug, Default)]
pub(super) struct SegmentUses {
    uses: BTreeMap<u64, Use>,
    /// Segments that hold nothing.
    empty: BTreeSet<u64>,
    /// The newest that an answer named: writes under way go to it or to a later one.
    newest: u64,
    /// Writes without an answer.
    pub(super) writes: u32,
}

impl SegmentUses {
    /// A body was written here.
    pub(super) fn add(&mut self, place: BlockLocation) {
        self.newest = self.newest.max(place.segment);
        let held = self.uses.entry(place.segment).or_default();
        held.bodies += 1;
        held.live_bytes += u64::from(place.len);
        held.bytes += u64::from(place.len);
        self.empty.remove(&place.segment);
    }

    /// A body is not needed here any more.
    pub(super) fn release(&mut self, place: BlockLocation) {
        let held = self.uses.get_mut(&place.segment).expect("bodies are counted when written");
        held.bodies -= 1;
        held.live_bytes -= u64::from(place.len);
        if held.bodies == 0 {
            self.empty.insert(place.segment);
        }
    }

    /// Segments that hold nothing, nor will: a write under way may be meant for the newest.
    fn dead(&self) -> impl Iterator<Item = u64> + '_ {
        let is_over = |segment: &u64| self.writes == 0 || *segment < self.newest;
        self.empty.iter().copied().filter(is_over)
    }

    /// Whether any is.
    pub(super) fn has_dead(&self) -> bool {
        self.dead().next().is_some()
    }

    /// Forgets those, to be deleted.
    pub(super) fn take_dead(&mut self) -> Vec<u64> {
        let dead: Vec<u64> = self.dead().collect();
        for segment in &dead {
            self.empty.remove(segment);
            self.uses.remove(segment);
        }
        dead
    }

    /// Whether a segment, not the one that is being written, holds little that is needed.
    pub(super) fn is_sparse(&self, segment: u64) -> bool {
        let held = self.uses.get(&segment);
        segment < self.newest && held.is_some_and(|held| held.live_bytes * SPARSE_PART < held.bytes)
    }

    /// Whether any is.
    pub(super) fn has_sparse(&self) -> bool {
        self.uses.keys().any(|segment| self.is_sparse(*segment))
    }
}
