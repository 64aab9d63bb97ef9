//! What sessions without a connection are remembered by, beside their queues: messages of QoS 2 that are half done. It is gone when the
//! node stops.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

/// Sessions that are remembered at most. Of further ones a message of QoS 2 may come twice.
const SESSIONS_MAX: usize = 100_000;

/// Messages of QoS 2 that are half done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Packet ids of messages that have arrived and are not released yet.
    pub(crate) received: HashSet<u16>,
    /// Packet ids of messages that the client has, and that are not completed yet.
    pub(crate) released: Vec<u16>,
    /// The session has ended, and its queues may not be gone yet.
    pub(crate) has_ended: bool,
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

    /// What the session left before; it is remembered no longer.
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
        let marks = Marks { received: [7].into(), released: vec![8], has_ended: false };
        memories.keep("/", "c", marks.clone());
        memories.keep("/", "empty", Marks::default());
        assert_eq!(memories.take("v", "c"), Marks::default());
        assert_eq!(memories.take("/", "c"), marks);
        assert_eq!(memories.take("/", "c"), Marks::default());
        assert!(memories.0.lock().is_empty());
    }
}
