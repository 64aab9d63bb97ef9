//! What waits at a queue outside of its machine: publishers for room, and dead letters to be sent in the order in which they died.
//!
//! Letters leave after the cell is released, and the next visitor may have run the machine by then: so they go through one outbox,
//! and one thread at a time empties it. Refuses to know what sending means; most queues have nothing here.

use std::collections::VecDeque;
use std::task::Waker;

use parking_lot::Mutex;

use crate::data::dead_letter::DeadLetter;

/// Letters of several turns are sent together while they are fewer than this.
const TOGETHER_MAX: usize = 256;

/// One allocation while there is anything.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Option<Box<Parts>>>);

#[derive(Default)]
struct Parts {
    publishers: Vec<Waker>,
    /// Those of one turn, or of few, together: what one visitor sends in one go.
    outbox: VecDeque<Vec<DeadLetter>>,
    /// Somebody has taken letters and is on the way with them.
    is_sending: bool,
    /// The machine lets nothing more die until some are sent.
    is_held: bool,
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.publishers.is_empty() && self.outbox.is_empty() && !self.is_sending && !self.is_held
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

    /// Letters to be sent behind those that are there already. Called by whoever runs the machine, so that their order is the
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

    /// Whether somebody waits for letters to be sent, who need not wait any more.
    pub(crate) fn let_go(&self) -> bool {
        self.change(|parts| std::mem::take(&mut parts.is_held)).unwrap_or(false)
    }

    /// What was taken is sent. True when nothing else waits.
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
    use queues::{DeadReason, MessageView};

    use super::*;
    use crate::cell::Life;

    fn letters(bodies: std::ops::Range<u8>) -> Vec<DeadLetter> {
        let letter = |nth: u8| {
            let message = MessageView { exchange: b"", routing_key: b"q", properties: b"\0\0", body: &[nth] };
            DeadLetter::new(DeadReason::MaxLength, None, Life::default(), message, b"")
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
