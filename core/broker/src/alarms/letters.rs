//! How much may be written of dead letters on a disk that is nearly full, and whose come first. The reasons are in
//! `docs/decisions/whose-letters-get-the-room.md`.
//!
//! Refuses to know where letters go.

use std::sync::atomic::Ordering;
use std::time::Duration;

use platform::Monotonic;
use queues::FirstToGo;

use super::{Alarms, Raised, State};

/// So many looks in a row find no dead letters that wait or are on their way before it is believed that there are no more.
pub(super) const CALM_LOOKS: u8 = 5;

/// Of what may be written of dead letters, one queue has at most so much at once: 1 / this.
const LETTERS_PART: u64 = 4;

/// Other letters wait for those that die again so many looks at most while these leave: a message may go round for ever.
pub(super) const HELD_LOOKS: u8 = 25;

/// After so long without room for letters, in which nothing happens, less is left to those who settle.
pub(super) const STILL: Duration = Duration::from_secs(30);

/// A letter is written so often: into the log, and, where letters of several queues lie between each other there, with the next checkpoint
/// once more.
const LETTER_WRITES: u64 = 2;

/// What must have room on the disk beside dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promised {
    /// What waits to be written, and what checkpoints would write to segments, bytes.
    pub(crate) waiting_bytes: u64,
    /// What state records would take that they write. Those of thousands of small queues, which have most of what these hold, are written anew
    /// however often they are: that much may never be free.
    pub(crate) state_bytes: u64,
    /// What will be written of letters that soon die once more on their way.
    pub(crate) again_bytes: u64,
    /// What consumers write when they settle all that queues hold, bytes, about; `u64::MAX` when nobody has looked.
    pub(crate) settled_bytes: u64,
    /// Whether letters wait for room.
    pub(crate) do_letters_wait: bool,
    /// Whether some are on their way.
    pub(crate) are_letters_out: bool,
}

impl Alarms {
    /// As many bytes of dead letters may be written before this is asked again: where little is free no more than leave room for what
    /// consumers settle, and only a part of that, because several queues ask at once. Nothing while something goes sooner of others (`first` is what goes
    /// first of this queue, see [`super::front`]), unless it is a queue that sends letters on: what is there is theirs first. `u64::MAX` while there is
    /// plenty.
    #[inline]
    pub(crate) fn room_for_letters(&self, sends_on: bool, first: impl FnOnce() -> Option<FirstToGo>) -> u64 {
        if self.raised().has(Raised::LOG_WAITS) {
            return 0;
        }
        let waiting_bytes_max = self.waiting_bytes_max();
        if waiting_bytes_max == u64::MAX {
            return u64::MAX;
        }
        if sends_on {
            return self.again_left.load(Ordering::Relaxed).div_ceil(LETTERS_PART).min(waiting_bytes_max);
        }
        if !self.letters_front.admits(first()) {
            return 0;
        }
        self.letters_left.load(Ordering::Relaxed).div_ceil(LETTERS_PART).min(waiting_bytes_max)
    }

    /// So many bytes of letters are about to be written.
    pub(crate) fn letters_leave(&self, bytes: u64) {
        if self.is_near_full() {
            self.are_letters_sent.store(true, Ordering::Relaxed);
            self.take_from_letters(bytes);
        }
    }

    /// Messages of a queue die, or wait to, and this of it goes first.
    pub(crate) fn letters_come_from(&self, first: FirstToGo) {
        self.letters_front.note(first);
    }

    pub(super) fn take_from_letters(&self, bytes: u64) {
        let take = |left: u64| Some(left.saturating_sub(bytes));
        for left in [&self.letters_left, &self.again_left] {
            let _always_some = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        }
    }

    /// Whether letters were sent since so little is free.
    pub(crate) fn are_letters_sent(&self) -> bool {
        self.are_letters_sent.load(Ordering::Relaxed)
    }

    /// How much may be written of dead letters until the next look, of a disk with so much free. Those that find no room stop publishers,
    /// until no letter waits any more.
    pub(super) fn note_letters(&self, state: &mut State, free: Option<u64>, promised: Promised) {
        let beside_bytes = self.beside_bytes(state, free, &promised);
        let all_bytes = beside_bytes - promised.state_bytes.min(beside_bytes / 2);
        let room_bytes = self.room_beside_again(state, all_bytes, promised.again_bytes);
        let left_bytes = self.part_for_letters(room_bytes);
        tracing::trace!(free, beside_bytes, room_bytes, left_bytes, ?promised, "room for dead letters");
        self.letters_given.store(left_bytes, Ordering::Relaxed);
        self.letters_left.store(left_bytes, Ordering::Relaxed);
        state.do_letters_wait = promised.do_letters_wait && self.is_near_full();
        let is_calm = !state.do_letters_wait && !promised.are_letters_out;
        state.calm_looks = if is_calm { (state.calm_looks + 1).min(CALM_LOOKS) } else { 0 };
        let is_short = state.do_letters_wait && (left_bytes == 0 || state.is_full);
        state.are_letters_stuck =
            self.is_near_full() && (is_short || (state.are_letters_stuck && state.calm_looks < CALM_LOOKS));
    }

    /// What is free beside what is kept for those who settle, and what waits to be written. Where that is nothing for long, and nothing
    /// happens, less is kept for those who have little to settle: else all would wait for what nobody does.
    fn beside_bytes(&self, state: &mut State, free: Option<u64>, promised: &Promised) -> u64 {
        let Some(free) = free else { return 0 };
        let taken = promised.waiting_bytes.saturating_add(self.moved_bytes.load(Ordering::Relaxed));
        let beside_bytes =
            |is_last| self.reserve.spare_bytes(free, promised.settled_bytes, is_last).saturating_sub(taken);
        let usual_bytes = beside_bytes(false);
        // Half of it for state records, and each letter is written twice.
        let is_enough = usual_bytes / (2 * LETTER_WRITES) >= self.sources.room.letters_bytes_min;
        let seen = std::mem::replace(&mut state.seen, *promised);
        // Who settles makes room, and so may whatever else happens.
        let is_settled = seen.settled_bytes != promised.settled_bytes;
        let now = self.sources.clock.now();
        let is_long = |since: Monotonic| now >= since.plus(STILL);
        let is_still = state.still_since.is_some_and(is_long) || seen == *promised;
        if is_enough || is_settled || !is_still || !promised.do_letters_wait {
            state.still_since = None;
            return usual_bytes;
        }
        if !is_long(*state.still_since.get_or_insert(now)) {
            return usual_bytes;
        }
        beside_bytes(true)
    }

    /// What of the room others get while so much will be written of letters that die again, which may have all of it.
    fn room_beside_again(&self, state: &mut State, all_bytes: u64, promised_bytes: u64) -> u64 {
        let again_bytes = all_bytes / LETTER_WRITES;
        let again_bytes = if again_bytes < self.sources.room.letters_bytes_min { 0 } else { again_bytes };
        let have_left = self.again_left.swap(again_bytes, Ordering::Relaxed) < state.again_given;
        state.again_given = again_bytes;
        if promised_bytes == 0 {
            state.held_looks = 0;
            return again_bytes;
        }
        // What goes there until the next look is written once more, too.
        let room_bytes = all_bytes.saturating_sub(promised_bytes) / (2 * LETTER_WRITES);
        let is_held = room_bytes < self.sources.room.letters_bytes_min;
        state.held_looks = if is_held { state.held_looks + u8::from(have_left) } else { 0 };
        if state.held_looks < HELD_LOOKS {
            return room_bytes;
        }
        state.held_looks = 0;
        again_bytes / 4
    }

    /// How much of the room letters get until the next look, and whose.
    fn part_for_letters(&self, room_bytes: u64) -> u64 {
        let given_bytes = self.letters_given.load(Ordering::Relaxed);
        let used_bytes = given_bytes.saturating_sub(self.letters_left.load(Ordering::Relaxed));
        if room_bytes >= self.reserve.whole_bytes() {
            self.letters_front.open();
            return room_bytes;
        }
        if given_bytes > 0 {
            // Else nobody was told, and nobody has said what would go of his.
            self.letters_front.follow(self.log_file_bytes_max(), given_bytes, used_bytes);
        }
        if room_bytes < self.sources.room.letters_bytes_min {
            return 0;
        }
        self.letters_front.part_of(room_bytes).max(self.sources.room.letters_bytes_min)
    }
}
