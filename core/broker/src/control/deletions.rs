//! A thread for deletions that take many bindings along: a connection's thread that did them would serve nobody else meanwhile.
//!
//! Refuses to know what a deletion does. Each is asked for by somebody who waits for its answer, so there are at most as many as
//! there are channels.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::broker::Inner;

/// More bindings than that go with their queue or exchange on the thread for it: fewer take less than a millisecond or two.
pub(crate) const BINDINGS_INLINE_MAX: usize = 1000;

/// What is to be done.
pub(crate) type Deletion = Box<dyn FnOnce(&Inner) + Send>;

#[derive(Default)]
struct Work {
    waiting: VecDeque<Deletion>,
    is_stopped: bool,
}

/// Hands work to the thread, in order.
#[derive(Default)]
pub(crate) struct Deletions {
    work: Mutex<Work>,
    wake: Condvar,
}

impl Deletions {
    /// Adds one.
    pub(crate) fn submit(&self, deletion: Deletion) {
        self.work.lock().waiting.push_back(deletion);
        self.wake.notify_one();
    }

    /// The thread ends when nothing waits.
    pub(crate) fn stop(&self) {
        self.work.lock().is_stopped = true;
        self.wake.notify_one();
    }

    /// Forgets what is left: it holds queues.
    pub(crate) fn abandon(&self) {
        let left = std::mem::take(&mut self.work.lock().waiting);
        drop(left);
    }

    /// The next one, at once or when there is one; `None` when it is time to stop.
    pub(crate) fn next(&self) -> Option<Deletion> {
        let mut work = self.work.lock();
        loop {
            match work.waiting.pop_front() {
                Some(deletion) => return Some(deletion),
                None if work.is_stopped => return None,
                None => self.wake.wait(&mut work),
            }
        }
    }

    /// Does one on the caller's thread; false when nothing waits.
    pub(crate) fn step(&self, inner: &Inner) -> bool {
        let next = self.work.lock().waiting.pop_front();
        next.map(|deletion| deletion(inner)).is_some()
    }
}
