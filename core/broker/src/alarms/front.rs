//! Whose dead letters get the room when a disk is nearly full. What died is given back only in files: a segment of a queue, or a file of the
//! log, goes when the last of what it holds has died. Queues that died as their turns come would leave some of everything in all files.
//!
//! Refuses to know how much room there is.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use queues::FirstToGo;

/// While all may die, they have only this part of the room until the next look: 1 / this. Who needs more than three quarters of it has more to
/// die than there is room for all of it at once.
const OPEN_PART: u64 = 4;

/// So often in a row only the first may die. Then all may try again: one that always has something to die must not keep the others from it.
const CLOSED_LOOKS: u8 = 25;

/// The same where those that are first use no more of the room than that part.
const UNUSED_LOOKS: u8 = 5;

/// What comes last: nothing was heard of, or everything may go.
const LAST: u64 = u64::MAX;

/// Which messages may die now, by what would go first of their queue.
pub(super) struct Front {
    seen: Seen,
    /// Segments that have not more left may go until the next look.
    segments_bytes_max: AtomicU64,
    /// And the log up to this position.
    log_end: AtomicU64,
    looks: Mutex<Looks>,
}

/// Looks in a row.
#[derive(Default)]
struct Looks {
    /// After which only the first may die; 0 while all may.
    closed: u8,
    /// That found most of the room unused since then.
    unused: u8,
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

impl Default for Front {
    fn default() -> Front {
        Front {
            seen: Seen::default(),
            segments_bytes_max: AtomicU64::new(LAST),
            log_end: AtomicU64::new(LAST),
            looks: Mutex::default(),
        }
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

    /// Whether messages may die of whose queue this goes first.
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

    /// All may die, as there is plenty of room.
    pub(super) fn open(&self) {
        *self.looks.lock() = Looks::default();
        self.set_end((LAST, LAST));
    }

    /// How much of the room may be used until the next look.
    pub(super) fn part_of(&self, room_bytes: u64) -> u64 {
        if self.looks.lock().closed > 0 { room_bytes } else { room_bytes / OPEN_PART }
    }

    /// A look at the disk is over, before which there was room for so many bytes, of which so many were used. If that was not enough for all,
    /// those may die from now on by which something goes soonest: the segment that has least left, or the oldest file of the log, which has so many bytes.
    pub(super) fn follow(&self, file_bytes: u64, given_bytes: u64, used_bytes: u64) {
        let segment_bytes = self.seen.segment_bytes.swap(LAST, Ordering::Relaxed);
        let log_position = self.seen.log_position.swap(LAST, Ordering::Relaxed);
        self.looks.lock().note(segment_bytes.min(log_position) < LAST, given_bytes, used_bytes);
        let is_segment_first = log_position == LAST || segment_bytes <= file_bytes;
        self.set_end(match (segment_bytes, log_position) {
            _ if self.looks.lock().closed == 0 => (LAST, LAST),
            _ if is_segment_first => (segment_bytes, 0),
            _ => (0, log_position.saturating_add(file_bytes)),
        });
    }

    fn set_end(&self, (segments_bytes_max, log_end): (u64, u64)) {
        self.segments_bytes_max.store(segments_bytes_max, Ordering::Relaxed);
        self.log_end.store(log_end, Ordering::Relaxed);
    }
}

impl Looks {
    fn note(&mut self, does_any_die: bool, given_bytes: u64, used_bytes: u64) {
        let is_closed = self.closed > 0;
        self.unused = if is_closed && used_bytes <= given_bytes / OPEN_PART { self.unused + 1 } else { 0 };
        let is_scarce = is_closed || used_bytes > given_bytes / 4 * 3;
        let is_over = self.closed == CLOSED_LOOKS || self.unused >= UNUSED_LOOKS;
        if does_any_die && is_scarce && !is_over {
            self.closed += 1;
        } else {
            *self = Looks::default();
        }
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

    /// After a look that has heard of `seen`, all of the room having been used before: which of `places` may go.
    fn admitted<const N: usize>(front: &Front, seen: &[FirstToGo], places: [FirstToGo; N]) -> [bool; N] {
        seen.iter().for_each(|first| front.note(*first));
        front.follow(100, 1000, 1000);
        assert!(front.admits(None), "it gives nothing back");
        places.map(|place| front.admits(Some(place)))
    }

    #[test]
    fn what_goes_soonest_goes_first() {
        let front = Front::default();
        let places = [segment(60), segment(70), log(300), log(400), log(401)];
        let seen = [log(300), segment(70), segment(60), log(301)];
        assert_eq!(admitted(&front, &seen, places), [true, false, false, false, false]);
        assert_eq!(admitted(&front, &[log(300), segment(101)], places), [false, false, true, true, false]);
        assert_eq!(admitted(&front, &[segment(101)], places), [true, true, false, false, false]);
        assert_eq!(admitted(&front, &[log(300)], places), [false, false, true, true, false]);
        assert_eq!(admitted(&front, &[], places), [true; 5], "nobody wants any");
        assert_eq!(admitted(&front, &seen[..1], places), [false, false, true, true, false]);
        front.open();
        assert!(places.iter().all(|place| front.admits(Some(*place))));
    }

    /// Of looks after which so many bytes of the room were used each, how many kept those from dying that are not first.
    fn closed_looks(front: &Front, used_bytes: &[u64]) -> usize {
        let is_closed = |used_bytes: &u64| {
            front.note(log(1));
            front.follow(100, 1000, *used_bytes);
            assert!(front.admits(Some(log(101))));
            assert_eq!(front.part_of(800), if front.admits(Some(log(102))) { 200 } else { 800 });
            !front.admits(Some(log(102)))
        };
        used_bytes.iter().map(is_closed).take_while(|is_closed| *is_closed).count()
    }

    #[test]
    fn all_may_die_while_their_part_of_the_room_is_enough() {
        assert_eq!([750, 751, 0].map(|used| closed_looks(&Front::default(), &[used])), [0, 1, 0]);
    }

    #[test]
    fn who_is_first_keeps_others_waiting_for_a_while_only() {
        assert_eq!(closed_looks(&Front::default(), &[1000; 100]), usize::from(CLOSED_LOOKS));
        let mut used = [0; 100];
        used[0] = 1000;
        assert_eq!(
            closed_looks(&Front::default(), &used),
            usize::from(UNUSED_LOOKS),
            "and nobody uses the room"
        );
    }
}
