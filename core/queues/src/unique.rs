//! Which messages a queue has, by what makes a message a duplicate of another. Refuses to know how long it has them.

use std::collections::{HashMap, HashSet};

use message::UniqueKey;

use crate::traffic::MessageSeq;

/// The keys of a queue's messages, ready and unacked.
#[derive(Debug, Default)]
pub(crate) struct Present {
    keys: HashSet<UniqueKey>,
    by_message: HashMap<MessageSeq, UniqueKey>,
    /// Log position after the latest enqueued message: a duplicate is confirmed no earlier than the original.
    pub(crate) logged: u64,
}

impl Present {
    /// Whether a message with that key is here.
    pub(crate) fn contains(&self, key: UniqueKey) -> bool {
        self.keys.contains(&key)
    }

    /// A message with that key is here now. One that was restored may repeat another.
    pub(crate) fn insert(&mut self, seq: MessageSeq, key: UniqueKey) {
        if self.keys.insert(key) {
            self.by_message.insert(seq, key);
        }
    }

    /// A message has left.
    pub(crate) fn remove(&mut self, seq: MessageSeq) {
        if let Some(key) = self.by_message.remove(&seq) {
            self.keys.remove(&key);
        }
    }

    /// Bytes on the heap, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.keys.capacity() * (size_of::<UniqueKey>() + 1)
            + self.by_message.capacity() * (size_of::<(MessageSeq, UniqueKey)>() + 1)
    }
}
