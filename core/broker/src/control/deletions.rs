//! A thread for deletions that take many bindings along: a connection's thread that did them would serve nobody else meanwhile. Deletions
//! that are asked for during one come here, too, to wait their turn; they are not announced as long, and follow each other at once.
//!
//! Refuses to know what a deletion does. Each is asked for by somebody who waits for its answer, so there are at most as many as
//! there are channels.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::control::long_changes::LongChanges;

/// More bindings than that go with their queue or exchange on the thread for it: fewer take less than a millisecond or two.
pub(crate) const BINDINGS_INLINE_MAX: usize = 1000;

/// A task of a control plane.
pub(crate) struct Deletion<C> {
    bindings: Box<dyn Fn(&C) -> usize + Send>,
    delete: Box<dyn FnOnce(&C) + Send>,
}

impl<C> Deletion<C> {
    /// `bindings` says how many go along; it is asked just before, because the caller of a deletion does not wait for the metadata.
    pub(crate) fn new(
        bindings: impl Fn(&C) -> usize + Send + 'static,
        delete: impl FnOnce(&C) + Send + 'static,
    ) -> Deletion<C> {
        Deletion { bindings: Box::new(bindings), delete: Box::new(delete) }
    }

    /// Does it on the thread for deletions, announced if it is long.
    pub(crate) fn perform(self, control: &C, long_changes: &LongChanges) {
        if (self.bindings)(control) > BINDINGS_INLINE_MAX {
            long_changes.run(|| (self.delete)(control));
        } else {
            (self.delete)(control);
        }
    }
}

struct Work<C> {
    waiting: VecDeque<Deletion<C>>,
    is_stopped: bool,
}

/// Hands work to the thread, in order.
pub(crate) struct Deletions<C> {
    work: Mutex<Work<C>>,
    wake: Condvar,
}

impl<C> Default for Deletions<C> {
    fn default() -> Self {
        let work = Work { waiting: VecDeque::new(), is_stopped: false };
        Deletions { work: Mutex::new(work), wake: Condvar::new() }
    }
}

impl<C> Deletions<C> {
    /// Adds one.
    pub(crate) fn submit(&self, deletion: Deletion<C>) {
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
    pub(crate) fn next(&self) -> Option<Deletion<C>> {
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
    pub(crate) fn step(&self, control: &C) -> bool {
        let next = self.work.lock().waiting.pop_front();
        next.map(|deletion| (deletion.delete)(control)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::broker::Inner;
    use crate::call::Call;
    use crate::{Broker, BrokerOptions};

    use super::*;

    /// Whether a deletion is announced as long while it is done.
    fn submit(broker: &Broker, bindings: usize) -> Call<bool> {
        let (reply, call) = Call::pair();
        let tell = move |inner: &Inner| reply.send(inner.long_changes.is_on());
        broker.0.deletions.submit(Deletion::new(move |_| bindings, tell));
        call
    }

    #[test]
    fn what_waited_for_a_long_deletion_is_not_announced_as_one_and_keeps_its_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let broker = Broker::open(folder.path(), BrokerOptions::default()).expect("a folder of its own");
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock();
        let (waits, passed) = (gate.clone(), Arc::new(Mutex::new(Vec::new())));
        let wait = move |_: &Inner| drop(waits.lock());
        broker.0.deletions.submit(Deletion::new(|_| BINDINGS_INLINE_MAX + 1, wait));
        while !broker.0.long_changes.is_on() {
            std::thread::yield_now();
        }
        // As connections do that close meanwhile.
        for nth in 0..100 {
            let passed = passed.clone();
            let note = move |inner: &Inner| passed.lock().push((nth, inner.long_changes.is_on()));
            broker.0.delete_in_turn(|_| 0, note);
        }
        assert!(passed.lock().is_empty());
        drop(closed);
        assert_eq!((submit(&broker, 2).wait(), submit(&broker, 2000).wait()), (false, true));
        assert!(passed.lock().iter().copied().eq((0..100).map(|nth| (nth, false))));
        broker.shutdown();
    }
}
