//! When messages of a queue may die, and what their letters take: in memory until they are sent, on a disk that is nearly full, and of
//! the time of others.
//!
//! Refuses to know where letters go; see `data::dead_letter`.

use std::sync::atomic::{AtomicI16, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use queues::{Machine, Spread, Store};

use super::machine::AnyMachine;
use super::waiting::{Hold, Owed, Waiting};
use super::{Event, Queue};
use crate::alarms::Promised;
use crate::data::dead_letter::{self, DeadLetter};

/// What is logged of a message that is acked alone, bytes, about.
pub(super) const SETTLED_BYTES: u64 = 40;

/// What will die within this waits to die; what stays for longer is kept, as far as others are concerned.
pub(super) const DIES_SOON_MS: u64 = 10 * 60 * 1000;

/// What a letter has more than the letter that it was before, bytes, about: one more death.
const DEATH_BYTES: u64 = 150;

/// Most that [`LettersAhead`] remembers.
const AHEAD_MAX: i16 = 10_000;

/// [`Queue::letter_factor`] where one queue writes of letters what is expected.
const ONE_COPY: u64 = 16;

/// How many more letters than others came of late, up to [`AHEAD_MAX`], or less by so many.
#[derive(Debug, Default)]
pub(super) struct LettersAhead(AtomicI16);

impl LettersAhead {
    /// So many came. Called by whoever runs the queue.
    pub(super) fn note(&self, are_letters: bool, count: usize) {
        let count = i16::try_from(count).unwrap_or(AHEAD_MAX).min(AHEAD_MAX);
        let ahead = self.now() + if are_letters { count } else { -count };
        self.0.store(ahead.clamp(-AHEAD_MAX, AHEAD_MAX), Ordering::Relaxed);
    }

    fn now(&self) -> i16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Nothing of it is left.
    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Tells a queue whose messages wait to die that what they waited for is there.
struct MayDie {
    queue: Weak<Queue>,
    /// What it is told to what waits.
    is_there: fn(&Waiting),
}

impl MayDie {
    fn waker(queue: &Arc<Queue>, is_there: fn(&Waiting)) -> Waker {
        Waker::from(Arc::new(MayDie { queue: Arc::downgrade(queue), is_there }))
    }
}

impl Wake for MayDie {
    fn wake(self: Arc<Self>) {
        if let Some(queue) = self.queue.upgrade() {
            (self.is_there)(&queue.waiting);
            queue.submit_later(Event::Tick);
        }
    }
}

/// What is written of letters that take so much, when they die once more. Where they have their heads in common, the next ones do, too.
fn again_bytes(stored_bytes: u64, count: u64) -> u64 {
    stored_bytes + (stored_bytes / 2).min(count * DEATH_BYTES) + count * SETTLED_BYTES
}

impl Queue {
    /// Tells the machine how much may die; false when there is no room for anything. [`Event::Tick`] comes when those that wait may go on.
    pub(super) fn hold_letters(self: &Arc<Self>, machine: &mut AnyMachine) -> bool {
        machine.let_letters_have(u64::MAX);
        if !machine.config().dead_letters {
            machine.let_letters_wait(false);
            return true;
        }
        let services = self.services();
        let room_bytes = if machine.store().map_or(0, Store::persistent) > 0 {
            services.room_for_letters(self.sends_on(), || machine.first_to_go())
        } else {
            u64::MAX
        };
        let await_room = room_bytes == 0;
        if await_room && self.waiting.hold_for_room() {
            services.await_room_for_letters(MayDie::waker(self, Waiting::has_room));
        }
        if room_bytes < u64::MAX {
            // One at first: how many queues get a copy of it shows how many may follow. The last one goes whatever it has.
            let factor = u64::from(self.letter_factor.load(Ordering::Relaxed));
            let letters_bytes = (room_bytes * ONE_COPY).checked_div(factor).unwrap_or(0);
            machine.let_letters_have(letters_bytes.max(room_bytes.min(1)));
        }
        machine.let_letters_wait(!await_room && self.letters_wait());
        !await_room
    }

    /// Says what goes when messages of it die that do, or wait to, while little room is left for their letters.
    pub(super) fn note_dying(&self, machine: &AnyMachine, has_letters: bool, now_ms: u64) {
        let alarms = &self.services().alarms;
        let may_matter = machine.config().dead_letters && alarms.is_near_full();
        if may_matter && (has_letters || machine.has_dying(now_ms)) {
            machine.first_to_go().into_iter().for_each(|first| alarms.letters_come_from(first));
        }
    }

    /// Whether no more messages should die for now, because so many letters wait or so much is to be stored.
    fn letters_wait(self: &Arc<Self>) -> bool {
        if self.is_inbox_full() && self.waiting.hold_for_letters() {
            return true;
        }
        let services = self.services();
        match self.waiting.hold_for_storage(services.storage_load()) {
            Hold::Off => false,
            Hold::On => true,
            Hold::Begin => services.poll_light(MayDie::waker(self, Waiting::stored)).is_pending(),
        }
    }

    pub(super) fn post_letters(&self, letters: Vec<DeadLetter>) {
        if letters.is_empty() {
            return;
        }
        let owed = self.owed(&letters);
        self.inbox_bytes.fetch_add(owed.memory_bytes, Ordering::Relaxed);
        if owed.letters_bytes > 0 {
            self.services().alarms.letters_leave(self.written_bytes(owed.letters_bytes));
        }
        if self.waiting.post(letters, owed) {
            self.services().letters_out.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sends the letters of one turn, the first that wait, unless another thread is at it: it looks again when it has done so.
    pub(super) fn send_letters(self: &Arc<Self>) -> bool {
        let Some(letters) = self.waiting.take_letters() else { return false };
        let owed = self.owed(&letters);
        self.contained(|| dead_letter::send(self, &letters, owed.letters_bytes));
        self.inbox_bytes.fetch_sub(owed.memory_bytes, Ordering::Relaxed);
        let is_last = self.waiting.sent(owed);
        if is_last {
            self.services().letters_out.fetch_sub(1, Ordering::AcqRel);
        }
        if (is_last || !self.is_inbox_full()) && self.waiting.let_go() {
            self.inbox.lock().push(Event::Tick);
        }
        true
    }

    /// What letters take, the second only where somebody has to know it.
    fn owed(&self, letters: &[DeadLetter]) -> Owed {
        let is_near_full = self.services().alarms.is_near_full();
        let letters_bytes = if is_near_full { dead_letter::letters_bytes(letters) } else { 0 };
        Owed { memory_bytes: dead_letter::bytes(letters), letters_bytes }
    }

    /// What is written of letters of which a queue writes so much, as far as the latest ones have shown.
    fn written_bytes(&self, letters_bytes: u64) -> u64 {
        let factor = u64::from(self.letter_factor.load(Ordering::Relaxed)).max(ONE_COPY);
        letters_bytes.saturating_mul(factor).div_ceil(ONE_COPY)
    }

    /// Letters of which a queue writes so much are on their way to so many queues: until it is known what those write, and where nobody
    /// hears of it, that is how often.
    pub(crate) fn letters_go(&self, letters_bytes: u64, queues: usize, is_measured: bool) {
        let is_known = self.letter_factor.load(Ordering::Relaxed) > 0;
        if letters_bytes == 0 || (is_known && is_measured) {
            return;
        }
        let said_bytes = self.written_bytes(letters_bytes);
        let factor = u16::try_from(queues.max(1) as u64 * ONE_COPY).unwrap_or(u16::MAX);
        self.letter_factor.store(factor, Ordering::Relaxed);
        let missing_bytes = self.written_bytes(letters_bytes).saturating_sub(said_bytes);
        self.services().alarms.letters_leave(missing_bytes);
    }

    /// So much was written of them.
    pub(crate) fn letters_were_written(&self, letters_bytes: u64, bytes: u64) {
        let missing_bytes = bytes.saturating_sub(self.written_bytes(letters_bytes));
        self.services().alarms.letters_leave(missing_bytes);
        let factor = bytes.saturating_mul(ONE_COPY).div_ceil(letters_bytes.max(1)).max(1);
        let known = self.letter_factor.load(Ordering::Relaxed);
        let factor = u16::try_from(factor).unwrap_or(u16::MAX).max(known / 2);
        self.letter_factor.store(factor, Ordering::Relaxed);
    }

    /// How far its blocks may be spread in the log that stay there.
    pub(crate) fn spread(&self) -> Spread {
        self.spread_for(self.services().alarms.spares_writes())
    }

    /// Whether its letters may come to depend on how little a checkpoint of it writes.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.services().alarms.is_near_full() && self.config().dead_letters
    }

    /// As [`Self::spread`], when no more may be written than has to be. Those of a queue that sends letters need not be written anew for what lies before
    /// them: there would be no room for letters, and they go as they die. What is only consumed is written: each of several queues that took
    /// turns makes room for itself.
    fn spread_for(&self, spares_writes: bool) -> Spread {
        if spares_writes && self.config().dead_letters { Spread::Any } else { Spread::Narrow }
    }

    /// What a checkpoint of it would write now, bytes, about, when no more may be written than has to be, or else: looks at all of its blocks.
    pub(crate) fn checkpoint_bytes(self: &Arc<Self>, spares_writes: bool) -> u64 {
        if self.oldest_log_position() == 0 {
            return 0;
        }
        let spread = self.spread_for(spares_writes);
        self.read_used(|machine, _| machine.store().map_or(0, |store| store.checkpoint_bytes(spread).total()))
            .unwrap_or(0)
    }

    /// Whether what it has are letters, most of it, that die here once more.
    fn sends_on(&self) -> bool {
        self.letters_ahead.now() > 0
    }

    /// Adds what it will write. What dies here is not settled: what is written of it is counted with its letters.
    pub(crate) fn add_promised(self: &Arc<Self>, promised: &mut Promised) {
        if self.oldest_log_position() == 0 {
            self.letters_ahead.forget();
            return;
        }
        let have_letters_left = self.letter_factor.load(Ordering::Relaxed) > 0;
        let (spread, now_ms) = (self.spread_for(true), self.services().now_ms());
        self.read_used(|machine, _| {
            let do_letters_leave =
                have_letters_left || (machine.config().dead_letters && machine.has_dying(now_ms));
            let Some(store) = machine.store() else { return };
            let checkpoint = store.checkpoint_bytes(spread);
            promised.waiting_bytes += checkpoint.blocks_bytes;
            promised.state_bytes += checkpoint.state_bytes;
            if self.sends_on() && machine.has_dying(now_ms + DIES_SOON_MS) {
                promised.again_bytes +=
                    self.written_bytes(again_bytes(store.stored_bytes(), store.persistent()));
            }
            let settled_bytes = if do_letters_leave { 0 } else { store.persistent() * SETTLED_BYTES };
            promised.settled_bytes = promised.settled_bytes.saturating_add(settled_bytes);
        });
    }

    /// Bytes that it, or the queues that its dead letters go to, will write of what waits to be taken.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let owed = self.waiting.owed();
        let others = self.inbox_bytes.load(Ordering::Relaxed).saturating_sub(owed.memory_bytes);
        others as u64 + self.written_bytes(owed.letters_bytes)
    }
}
