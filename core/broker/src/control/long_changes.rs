//! Changes of metadata that take long, such as the deletion of a queue with a hundred thousand bindings, hold the metadata's lock
//! all the while. A connection's thread that waited for the lock would serve none of its other connections meanwhile: so sessions ask here
//! first, and are woken when they can go on.
//!
//! Refuses to know what the changes are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

/// How long a change waits after its announcement: a thread that has looked before it is through by then.
const LOOKED_BEFORE: Duration = Duration::from_micros(500);
/// For how long those who have waited go first when the next change stands in line.
const TURN_OF_OTHERS: Duration = Duration::from_millis(1);

/// Which changes are on.
#[derive(Debug, Default)]
pub struct LongChanges {
    on: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

impl LongChanges {
    /// Whether one is on: a request that needs the metadata had better wait.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) > 0
    }

    /// Ready when none is on; wakes the task then.
    pub fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.waiting.lock();
        if !self.is_on() {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Runs one, announced beforehand. Never on a connection's thread.
    pub(crate) fn run(&self, change: impl FnOnce()) {
        self.on.fetch_add(1, Ordering::AcqRel);
        std::thread::sleep(LOOKED_BEFORE);
        let over = Over(self);
        change();
        drop(over);
    }

    fn end(&self) {
        self.on.fetch_sub(1, Ordering::AcqRel);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        if waiting.is_empty() {
            return;
        }
        waiting.into_iter().for_each(Waker::wake);
        std::thread::sleep(TURN_OF_OTHERS);
    }
}

/// Ends a change, even one that panics.
struct Over<'a>(&'a LongChanges);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicU32);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_comes_during_a_change_is_woken_once_when_it_is_over() {
        let (changes, counts) = (LongChanges::default(), Arc::new(Counts::default()));
        let waker = Waker::from(counts.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(changes.poll_over(&mut cx).is_ready());
        changes.run(|| {
            assert!(changes.is_on());
            assert!(changes.poll_over(&mut cx).is_pending());
            assert!(changes.poll_over(&mut cx).is_pending());
            assert_eq!(counts.0.load(Ordering::Relaxed), 0);
        });
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
        assert!(changes.poll_over(&mut cx).is_ready());
    }

    #[test]
    fn a_change_that_panics_is_over() {
        let changes = LongChanges::default();
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| changes.run(|| panic!("a bug"))));
        assert!(panicked.is_err());
        assert!(!changes.is_on());
    }
}
