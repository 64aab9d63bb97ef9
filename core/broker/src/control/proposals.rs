//! Changes of metadata that are proposed and not committed. Knows nothing of the content of changes, nor of the proposers.

use std::collections::VecDeque;

use metadata::{Entry, Outcome};
use parking_lot::Mutex;

use crate::foundation::Commits;

/// An entry that the tables have followed.
pub(crate) struct Followed {
    /// The machine's answer.
    pub(crate) outcome: Outcome,
    /// The log position that makes it durable; 0 when nothing was logged. In a cluster the index of its entry: it is answered when all nodes that
    /// serve clients have that.
    pub(crate) position: u64,
}

/// An entry that is proposed and not committed.
pub(crate) struct Proposal<T> {
    /// Encoded: another node may commit it.
    entry: Vec<u8>,
    /// Told what came of it.
    pub(crate) told: T,
}

impl<T> Proposal<T> {
    /// The entry.
    pub(crate) fn entry(&self) -> Entry {
        Entry::decode(&self.entry).expect("what was encoded here")
    }
}

/// Entries that wait for their commit, where commits come later.
pub(crate) struct Proposals<T> {
    waiting: Option<Mutex<VecDeque<Proposal<T>>>>,
}

impl<T> Proposals<T> {
    /// Nothing is proposed yet.
    pub(crate) fn new(commits: Commits) -> Proposals<T> {
        let waiting = match commits {
            Commits::AtOnce => None,
            Commits::Driven => Some(Mutex::default()),
        };
        Proposals { waiting }
    }

    /// Whether entries wait for their commit; else they are committed where they are proposed.
    pub(crate) fn wait(&self) -> bool {
        self.waiting.is_some()
    }

    /// Adds an entry behind those that wait.
    pub(crate) fn add(&self, entry: &Entry, told: T) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        if let Some(waiting) = &self.waiting {
            waiting.lock().push_back(Proposal { entry: bytes, told });
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.lock().is_empty())
    }

    /// Takes those that were proposed first, at most `count_max`.
    pub(crate) fn take(&self, count_max: usize) -> Vec<Proposal<T>> {
        let Some(waiting) = &self.waiting else { return Vec::new() };
        let mut waiting = waiting.lock();
        let count = count_max.min(waiting.len());
        waiting.drain(..count).collect()
    }

    /// Forgets what is left: proposers hold queues.
    pub(crate) fn abandon(&self) {
        drop(self.take(usize::MAX));
    }
}
