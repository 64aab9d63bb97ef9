//! Whose dead letters get the room when a disk is nearly full. What died is given back only in files: a segment of a queue, or a file of the
//! log, goes when the last of what it holds has died. Queues that died as their turns come would leave some of everything in all files.
//!
//! Refuses to know how much room there is.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use queues::FirstToGo;

/// Where nothing was used of what there was so often in a row, those that are first wait for something else.
const UNUSED_LOOKS: u8 = 5;

/// What comes last: nothing was heard of, or everything may go.
const LAST: u64 = u64::MAX;

/// Which messages may die now, by what would go first of their queue.
#[derive(Default)]
pub(super) struct Front {
    seen: Seen,
    /// Segments that have not more left may go until the next look.
    segments_bytes_max: AtomicU64,
    /// And the log up to this position.
    log_end: AtomicU64,
    /// Looks in a row that found the room unused, up to [`UNUSED_LOOKS`]. Only the one who looks changes it.
    unused_looks: AtomicU8,
}

/// What would go first of queues whose messages died or waited to since the latest look.
struct Seen {
    /// The least that is left of a segment.
    segment_bytes: AtomicU64,
    /// The least position in the log.
    log_position: AtomicU64,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { segment_bytes: AtomicU64::new(LAST), log_position: AtomicU64::new(LAST) }
    }
}

impl Front {
    /// Messages of a queue die, or would, and this goes first then.
    pub(super) fn note(&self, first: FirstToGo) {
        match first {
            FirstToGo::Segment { needed_bytes } => {
                self.seen.segment_bytes.fetch_min(needed_bytes, Ordering::Relaxed);
            }
            FirstToGo::Log { position } => {
                self.seen.log_position.fetch_min(position, Ordering::Relaxed);
            }
        }
    }

    /// Whether messages may die of whose queue this goes first. What nobody has said yet waits for the next look.
    #[inline]
    pub(super) fn admits(&self, first: Option<FirstToGo>) -> bool {
        match first {
            None => true,
            Some(FirstToGo::Segment { needed_bytes }) => {
                needed_bytes <= self.segments_bytes_max.load(Ordering::Relaxed)
            }
            Some(FirstToGo::Log { position }) => position <= self.log_end.load(Ordering::Relaxed),
        }
    }

    /// All may die.
    pub(super) fn open(&self) {
        self.set_end((LAST, LAST));
    }

    /// A look at the disk is over, before which there was room. From now on those may die by which something goes soonest: the segment that has
    /// least left, or the oldest file of the log, which has so many bytes, and as much behind it. All of them when nobody who may has used the room for a while.
    pub(super) fn follow(&self, file_bytes: u64, was_used: bool) {
        let segment_bytes = self.seen.segment_bytes.swap(LAST, Ordering::Relaxed);
        let log_position = self.seen.log_position.swap(LAST, Ordering::Relaxed);
        let is_any_seen = segment_bytes.min(log_position) < LAST;
        let before = self.unused_looks.load(Ordering::Relaxed);
        let unused_looks = if is_any_seen && !was_used { (before + 1).min(UNUSED_LOOKS) } else { 0 };
        self.unused_looks.store(unused_looks, Ordering::Relaxed);
        self.set_end(match (segment_bytes, log_position) {
            _ if unused_looks == UNUSED_LOOKS => (LAST, LAST),
            (LAST, LAST) => (0, 0),
            (LAST, _) => (0, log_position.saturating_add(file_bytes)),
            (_, LAST) => (segment_bytes, 0),
            _ if segment_bytes <= file_bytes => (segment_bytes, 0),
            _ => (0, log_position.saturating_add(file_bytes)),
        });
    }

    fn set_end(&self, (segments_bytes_max, log_end): (u64, u64)) {
        self.segments_bytes_max.store(segments_bytes_max, Ordering::Relaxed);
        self.log_end.store(log_end, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(needed_bytes: u64) -> FirstToGo {
        FirstToGo::Segment { needed_bytes }
    }

    fn log(position: u64) -> FirstToGo {
        FirstToGo::Log { position }
    }

    /// After a look that has heard of `seen`, the room having been used before: which of `places` may go.
    fn admitted<const N: usize>(front: &Front, seen: &[FirstToGo], places: [FirstToGo; N]) -> [bool; N] {
        seen.iter().for_each(|first| front.note(*first));
        front.follow(100, true);
        assert!(front.admits(None), "it gives nothing back");
        places.map(|place| front.admits(Some(place)))
    }

    #[test]
    fn what_goes_soonest_goes_first() {
        let front = Front::default();
        let places = [segment(60), segment(70), log(300), log(400), log(401)];
        assert_eq!(admitted(&front, &[], places), [false; 5], "nobody wants any yet");
        let seen = [log(300), segment(70), segment(60), log(301)];
        assert_eq!(admitted(&front, &seen, places), [true, false, false, false, false]);
        assert_eq!(admitted(&front, &[log(300), segment(101)], places), [false, false, true, true, false]);
        assert_eq!(admitted(&front, &[segment(101)], places), [true, true, false, false, false]);
        assert_eq!(admitted(&front, &[log(300)], places), [false, false, true, true, false]);
        front.open();
        assert!(places.iter().all(|place| front.admits(Some(*place))));
    }

    #[test]
    fn who_is_first_and_uses_no_room_keeps_others_waiting_for_a_while_only() {
        let front = Front::default();
        let is_admitted = |was_used: bool| {
            front.note(log(1));
            front.follow(100, was_used);
            front.admits(Some(log(102)))
        };
        assert_eq!([false; 5].map(is_admitted), [false, false, false, false, true]);
        assert_eq!([true, false].map(is_admitted), [false, false]);
    }
}
