//! State that waits at a queue outside of its machine: publishers for room, and dead letters to be sent in the order in which they died.
//!
//! Letters leave after the cell is released, and the next visitor may have run the machine by then: so they go through one outbox,
//! and one thread at a time empties it. Refuses to know what sending means; most queues have nothing here.

use std::collections::VecDeque;
use std::task::Waker;

use parking_lot::Mutex;

use crate::data::letter::DeadLetter;
use crate::services::load::Load;

/// Letters of several turns are sent together while they are fewer than this.
const TOGETHER_MAX: usize = 256;

/// One allocation while there is anything.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Option<Box<Parts>>>);

#[derive(Default)]
struct Parts {
    publishers: Vec<Waker>,
    /// The letters of one turn, or of few, together: one visitor sends them in one go.
    outbox: VecDeque<Vec<DeadLetter>>,
    /// Somebody has taken letters and is on the way with them.
    is_sending: bool,
    /// The machine lets nothing more die until some are sent.
    is_held: bool,
    /// The same until something is stored.
    storage: Storage,
    /// The same until the disk alarm clears; somebody will tell.
    is_disk_short: bool,
}

/// Whether messages that are to die wait for log and segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Storage {
    #[default]
    Free,
    /// Until somebody tells that something is stored.
    Awaited,
    /// Something is.
    Done,
}

/// Whether messages may die, as far as log and segments are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// They may.
    Off,
    /// They wait.
    On,
    /// They wait, and [`Waiting::stored`] has to be called when something is stored.
    Begin,
}

impl Parts {
    fn is_empty(&self) -> bool {
        let is_held = self.is_held || self.is_disk_short || self.storage != Storage::Free;
        self.publishers.is_empty() && self.outbox.is_empty() && !self.is_sending && !is_held
    }
}

impl Waiting {
    /// A publisher to be woken when there is room.
    pub(crate) fn add_publisher(&self, waker: Waker) {
        self.0.lock().get_or_insert_default().publishers.push(waker);
    }

    /// All publishers, to be woken.
    pub(crate) fn take_publishers(&self) -> Vec<Waker> {
        self.change(|parts| std::mem::take(&mut parts.publishers)).unwrap_or_default()
    }

    /// Letters to be sent behind those that are there already. Called by the thread that runs the machine, so that their order is the
    /// machine's. True when nothing was being sent and nothing waited.
    pub(crate) fn post(&self, mut letters: Vec<DeadLetter>) -> bool {
        let mut held = self.0.lock();
        let parts = held.get_or_insert_default();
        let is_first = parts.outbox.is_empty() && !parts.is_sending;
        match parts.outbox.back_mut().filter(|last| last.len() + letters.len() <= TOGETHER_MAX) {
            Some(last) => last.append(&mut letters),
            None => parts.outbox.push_back(letters),
        }
        is_first
    }

    /// The first letters that wait, unless another thread is on the way with earlier ones. [`Waiting::sent`] has to follow.
    pub(crate) fn take_letters(&self) -> Option<Vec<DeadLetter>> {
        let mut held = self.0.lock();
        let parts = held.as_mut().filter(|parts| !parts.is_sending)?;
        let letters = parts.outbox.pop_front()?;
        parts.is_sending = true;
        Some(letters)
    }

    /// Whether letters wait or are on their way. If so, [`Waiting::let_go`] says when to go on, after some of them were sent.
    pub(crate) fn hold_for_letters(&self) -> bool {
        let mut held = self.0.lock();
        let Some(parts) = held.as_mut() else { return false };
        parts.is_held = parts.is_sending || !parts.outbox.is_empty();
        parts.is_held
    }

    /// Holds messages that are to die while log and segments have so much to store. They wait while it is much, but each time something is
    /// stored one turn of them goes on: others may keep the log busy for as long as they like. Not while it is too much: then publishers
    /// wait, too, so that it gets less.
    pub(crate) fn hold_for_storage(&self, load: Load) -> Hold {
        let mut held = self.0.lock();
        if load == Load::Light && held.is_none() {
            return Hold::Off;
        }
        let parts = held.get_or_insert_default();
        let (now, hold) = match (parts.storage, load) {
            (Storage::Awaited, Load::Light) => (Storage::Awaited, Hold::Off),
            (Storage::Awaited, _) => (Storage::Awaited, Hold::On),
            (_, Load::Light) | (Storage::Done, Load::Heavy) => (Storage::Free, Hold::Off),
            (Storage::Free, _) | (Storage::Done, Load::Full) => (Storage::Awaited, Hold::Begin),
        };
        parts.storage = now;
        if parts.is_empty() {
            *held = None;
        }
        hold
    }

    /// Something is stored.
    pub(crate) fn stored(&self) {
        self.change(|parts| parts.storage = Storage::Done);
    }

    /// The disk alarm is on: true when [`Waiting::disk_is_well`] has to be called when it clears.
    pub(crate) fn hold_for_disk(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().get_or_insert_default().is_disk_short, true)
    }

    /// The disk alarm is off.
    pub(crate) fn disk_is_well(&self) {
        self.change(|parts| parts.is_disk_short = false);
    }

    /// Whether somebody waits for letters to be sent, who need not wait any more.
    pub(crate) fn let_go(&self) -> bool {
        self.change(|parts| std::mem::take(&mut parts.is_held)).unwrap_or(false)
    }

    /// The taken letters are sent. True when nothing else waits.
    pub(crate) fn sent(&self) -> bool {
        let is_last = self.change(|parts| {
            parts.is_sending = false;
            parts.outbox.is_empty()
        });
        is_last.unwrap_or(true)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Parts) -> T) -> Option<T> {
        let mut held = self.0.lock();
        let parts = held.as_mut()?;
        let result = change(parts);
        if parts.is_empty() {
            *held = None;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use queues::DeadReason;

    use super::*;
    use crate::cell::Life;

    fn letters(bodies: std::ops::Range<u8>) -> Vec<DeadLetter> {
        let letter = |nth: u8| {
            let message =
                message::MessageView { exchange: b"", routing_key: b"q", properties: b"\0\0", body: &[nth] };
            DeadLetter::new(DeadReason::MaxLength, None, Life::default(), message, b"", None)
        };
        bodies.map(letter).collect()
    }

    fn bodies(letters: &[DeadLetter]) -> Vec<u8> {
        letters.iter().map(|letter| letter.body()[0]).collect()
    }

    #[test]
    fn one_thread_at_a_time_sends_and_later_letters_wait_behind() {
        let waiting = Waiting::default();
        assert!(waiting.take_letters().is_none());
        assert!(waiting.post(letters(0..2)));
        let first = waiting.take_letters().expect("nobody else sends");
        assert_eq!(bodies(&first), [0, 1]);
        assert!(!waiting.post(letters(2..3)), "the first are on their way");
        assert!(!waiting.post(letters(3..4)));
        assert!(waiting.take_letters().is_none(), "they would overtake");
        assert!(!waiting.sent(), "more have come");
        assert_eq!(bodies(&waiting.take_letters().expect("it is their turn")), [2, 3]);
        assert!(waiting.sent());
    }

    #[test]
    fn each_time_something_is_stored_one_turn_goes_on_unless_it_is_too_much() {
        let waiting = Waiting::default();
        let turns = |load| [(); 2].map(|()| waiting.hold_for_storage(load));
        assert_eq!(turns(Load::Light), [Hold::Off, Hold::Off]);
        assert_eq!(turns(Load::Heavy), [Hold::Begin, Hold::On]);
        waiting.stored();
        assert_eq!(turns(Load::Heavy), [Hold::Off, Hold::Begin]);
        waiting.stored();
        assert_eq!(turns(Load::Full), [Hold::Begin, Hold::On]);
        assert_eq!(turns(Load::Light), [Hold::Off, Hold::Off]);
        assert_eq!(turns(Load::Heavy), [Hold::On, Hold::On], "it is still to be told");
        waiting.stored();
        assert_eq!(turns(Load::Light), [Hold::Off, Hold::Off]);
        assert!(waiting.0.lock().is_none());
    }

    #[test]
    fn who_waits_for_the_disk_alarm_asks_once_to_be_told() {
        let waiting = Waiting::default();
        assert_eq!([(); 2].map(|()| waiting.hold_for_disk()), [true, false]);
        waiting.disk_is_well();
        assert!(waiting.0.lock().is_none());
        assert!(waiting.hold_for_disk());
    }

    #[test]
    fn nothing_is_kept_of_what_waits_no_more() {
        let waiting = Waiting::default();
        waiting.add_publisher(Waker::noop().clone());
        waiting.post(letters(0..1));
        assert_eq!(waiting.take_publishers().len(), 1);
        waiting.take_letters();
        waiting.sent();
        assert!(waiting.0.lock().is_none());
        assert!(waiting.take_publishers().is_empty());
    }
}
