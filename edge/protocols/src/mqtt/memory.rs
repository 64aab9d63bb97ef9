//! Memory of sessions without a connection, beside their queues: messages of QoS 2 that are half done. It is gone when the node stops.

use std::collections::{HashMap, HashSet};

use broker::MessageSeq;
use parking_lot::Mutex;

/// Sessions that are remembered at most. Of further ones a message of QoS 2 may come twice.
const SESSIONS_MAX: usize = 100_000;

/// Completed messages of a session that are remembered at most: as many as can be on their way.
const COMPLETED_MAX: usize = 65_535;

/// Messages of QoS 2 that are half done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Packet ids of messages that have arrived and are not released yet.
    pub(crate) received: HashSet<u16>,
    /// Messages that the client has, and that are not completed yet: packet id, and place in the queue.
    pub(crate) released: Vec<(u16, MessageSeq)>,
    /// Messages that were completed while no connection had them from their queue.
    pub(crate) completed: Vec<MessageSeq>,
    /// The session has ended, and its queues may not be gone yet.
    pub(crate) has_ended: bool,
}

impl Marks {
    /// How far a message of the session's own queue got before.
    pub(crate) fn of(&mut self, seq: MessageSeq) -> Got {
        if let Some(at) = self.completed.iter().position(|known| *known == seq) {
            self.completed.swap_remove(at);
            return Got::Completed;
        }
        let is_released = self.released.iter().any(|(_, known)| *known == seq);
        if is_released { Got::Released } else { Got::Nothing }
    }

    /// Messages that are completed, and on their way from the queue. The oldest of too many are forgotten, and come again.
    pub(crate) fn pass_over(&mut self, completed: Option<MessageSeq>) {
        self.completed.extend(completed);
        if self.completed.len() > COMPLETED_MAX {
            self.completed.remove(0);
        }
    }

    /// The client has completed a message: its place, if it was released.
    pub(crate) fn complete(&mut self, id: u16) -> Option<MessageSeq> {
        let at = self.released.iter().position(|(known, _)| *known == id)?;
        Some(self.released.swap_remove(at).1)
    }
}

/// The client's progress with a message of QoS 2 that comes from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Nothing that is known.
    Nothing,
    /// The message itself; PUBCOMP is awaited.
    Released,
    /// It is done with it.
    Completed,
}

/// Marks by vhost and client id.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<(Box<str>, Box<str>), Marks>>);

impl Memories {
    /// Remembers what a connection leaves.
    pub(crate) fn keep(&self, vhost: &str, client_id: &str, marks: Marks) {
        let mut sessions = self.0.lock();
        if marks != Marks::default() && sessions.len() < SESSIONS_MAX {
            sessions.insert((vhost.into(), client_id.into()), marks);
        }
    }

    /// The state that the session left before; it is remembered no longer.
    pub(crate) fn take(&self, vhost: &str, client_id: &str) -> Marks {
        let mut sessions = self.0.lock();
        if sessions.is_empty() {
            return Marks::default();
        }
        sessions.remove(&(vhost.into(), client_id.into())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_handed_over_once() {
        let memories = Memories::default();
        let marks = Marks { received: [7].into(), released: vec![(8, MessageSeq(1))], ..Marks::default() };
        memories.keep("/", "c", marks.clone());
        memories.keep("/", "empty", Marks::default());
        assert_eq!(memories.take("v", "c"), Marks::default());
        assert_eq!(memories.take("/", "c"), marks);
        assert_eq!(memories.take("/", "c"), Marks::default());
        assert!(memories.0.lock().is_empty());
    }
    #[test]
    fn a_message_is_known_by_its_place_until_it_is_completed() {
        let (one, other) = (MessageSeq(1), MessageSeq(32_768));
        let mut marks = Marks { released: vec![(2, one)], ..Marks::default() };
        assert_eq!((marks.of(one), marks.of(other)), (Got::Released, Got::Nothing));
        assert_eq!((marks.complete(2), marks.complete(2)), (Some(one), None));
        marks.completed.push(one);
        assert_eq!((marks.of(one), marks.of(one)), (Got::Completed, Got::Nothing));
    }
}
