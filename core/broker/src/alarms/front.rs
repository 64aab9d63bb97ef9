//! Whose dead letters get the room when a disk is nearly full. What died is given back only in files: a segment of a queue, or a file of the
//! log, goes when the last of what it holds has died. Queues that died as their turns come would leave some of everything in all files.
//!
//! Refuses to know how much room there is.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use queues::FirstPlace;

/// Where nothing was used of what there was so often in a row, those that are first wait for something else.
const UNUSED_LOOKS: u8 = 5;

/// Who is behind everybody: all may be first.
const LAST: u64 = u64::MAX;

/// Ranks of what is in the log: it is younger than what is in segments, most of which came from the log. Below them, a segment's number is its rank.
const IN_LOG: u64 = 1 << 63;

/// How early it is the turn of messages to die that are there.
fn rank(place: FirstPlace) -> u64 {
    match place {
        FirstPlace::Segment(segment) => segment.min(IN_LOG - 1),
        FirstPlace::Log(position) => position.saturating_add(IN_LOG),
    }
}

/// Up to which rank messages may die now.
pub(super) struct Front {
    /// The least one of whatever died or waited to since the latest look.
    seen: AtomicU64,
    /// Nothing behind it may die until the next one.
    end: AtomicU64,
    /// Looks in a row that found the room unused, up to [`UNUSED_LOOKS`]. Only the one who looks changes it.
    unused_looks: AtomicU8,
}

impl Default for Front {
    fn default() -> Front {
        Front { seen: AtomicU64::new(LAST), end: AtomicU64::new(LAST), unused_looks: AtomicU8::new(0) }
    }
}

impl Front {
    /// The first messages of a queue are here; they die, or would.
    pub(super) fn note(&self, place: FirstPlace) {
        self.seen.fetch_min(rank(place), Ordering::Relaxed);
    }

    /// Whether messages may die of which the first are here.
    #[inline]
    pub(super) fn admits(&self, place: Option<FirstPlace>) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        end == LAST || place.is_none_or(|place| rank(place) <= end)
    }

    /// All may die.
    pub(super) fn open(&self) {
        self.seen.store(LAST, Ordering::Relaxed);
        self.end.store(LAST, Ordering::Relaxed);
    }

    /// A look at the disk is over, before which there was room. From now on those may die that are in the first segment of which was heard, or,
    /// when none was, that lie so far behind the first in the log; all of them when nobody has used the room for a while.
    pub(super) fn follow(&self, window_bytes: u64, was_used: bool) {
        let before = self.unused_looks.load(Ordering::Relaxed);
        let unused_looks = if was_used { 0 } else { (before + 1).min(UNUSED_LOOKS) };
        self.unused_looks.store(unused_looks, Ordering::Relaxed);
        let seen = self.seen.swap(LAST, Ordering::Relaxed);
        let end = match seen {
            _ if unused_looks == UNUSED_LOOKS => LAST,
            IN_LOG.. => seen.saturating_add(window_bytes),
            _ => seen,
        };
        self.end.store(end, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::FirstPlace::{Log, Segment};
    use super::*;

    fn admitted<const N: usize>(front: &Front, places: [FirstPlace; N]) -> [bool; N] {
        places.map(|place| front.admits(Some(place)))
    }

    #[test]
    fn the_first_segment_comes_before_the_others_and_they_before_the_Log() {
        let front = Front::default();
        assert!(front.admits(Some(Log(1 << 62))));
        [Log(300), Segment(8), Segment(7)].into_iter().for_each(|place| front.note(place));
        front.follow(100, true);
        assert_eq!(
            admitted(&front, [Segment(6), Segment(7), Segment(8), Log(1)]),
            [true, true, false, false]
        );
        assert!(front.admits(None), "it is nowhere");
        [Log(500), Log(300)].into_iter().for_each(|place| front.note(place));
        front.follow(100, true);
        assert_eq!(admitted(&front, [Segment(9), Log(300), Log(400), Log(401)]), [true, true, true, false]);
        front.follow(100, true);
        assert!(front.admits(Some(Log(401))), "nobody wants any");
        front.note(Log(300));
        front.follow(100, true);
        front.open();
        assert!(front.admits(Some(Log(401))));
    }

    #[test]
    fn who_is_first_and_uses_no_room_keeps_others_waiting_for_a_while_only() {
        let front = Front::default();
        let is_admitted = |was_used: bool| {
            front.note(Log(1));
            front.follow(100, was_used);
            front.admits(Some(Log(102)))
        };
        assert_eq!([false; 5].map(is_admitted), [false, false, false, false, true]);
        assert_eq!([true, false].map(is_admitted), [false, false]);
    }
}
