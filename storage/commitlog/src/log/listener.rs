//! Whom the log tells of its progress. Knows nothing of confirms.

use parking_lot::Mutex;
use std::sync::Arc;

use super::LogError;
use crate::{IoFailure, Position};

/// Told of a log's progress, on its writer thread: must be quick and must not wait for the log.
pub trait DurableListener: Send + Sync {
    /// Every record up to here is durable. Comes with growing positions, at least once for each write.
    fn durable(&self, up_to: Position);

    /// A point on the clock that writes are measured with, nanoseconds. Called on the writer thread only.
    fn now_ns(&self) -> u64 {
        0
    }

    /// How long a write took. Comes before [`Self::durable`] of the same write.
    fn wrote(&self, _took: WriteTimes) {}

    /// A file was sealed: every record up to here lies in sealed files.
    fn file_sealed(&self, up_to: Position);

    /// A write found no room, and nobody made some. It is kept and tried again until there is; meanwhile nothing becomes durable. Comes once before
    /// each [`Self::goes_on`].
    fn waits_for_room(&self, failure: &IoFailure);

    /// Makes room for a write that found none, if it can; true: it is tried again at once. Comes each time that it is tried in vain, before
    /// [`Self::waits_for_room`].
    fn makes_room(&self) -> bool {
        false
    }

    /// The write that found no room is made.
    fn goes_on(&self);

    /// For so long a write has been waiting for another log, see [`crate::Log::write_after`]. Comes at most once for each write.
    fn waits_for_names(&self, _waited: std::time::Duration) {}

    /// The log has failed: nothing beyond [`crate::Log::durable`] will ever become durable. Comes once.
    fn failed(&self, error: &LogError);
}

/// How long the parts of a write took, on the listener's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteTimes {
    /// Handing bytes to the operating system, nanoseconds.
    pub write_ns: u64,
    /// The sync after it, nanoseconds; `None` when there was none.
    pub sync_ns: Option<u64>,
}

/// The place for the listener, and what it must not be told twice.
#[derive(Default)]
pub(super) struct ListenerSlot {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    listener: Option<Arc<dyn DurableListener>>,
    failure: Option<LogError>,
}

impl ListenerSlot {
    /// Sets the listener; one that comes after the failure is told of it at once.
    pub(super) fn set(&self, listener: Option<Arc<dyn DurableListener>>) {
        let failure = {
            let mut inner = self.inner.lock();
            inner.listener.clone_from(&listener);
            inner.failure.clone()
        };
        if let (Some(listener), Some(failure)) = (listener, failure) {
            listener.failed(&failure);
        }
    }

    /// The listener's clock; stands still without one.
    pub(super) fn now_ns(&self) -> u64 {
        let listener = self.inner.lock().listener.clone();
        listener.map_or(0, |listener| listener.now_ns())
    }

    /// Calls the listener, if there is one, without holding the lock.
    pub(super) fn tell(&self, call: impl FnOnce(&dyn DurableListener)) {
        let listener = self.inner.lock().listener.clone();
        if let Some(listener) = listener {
            call(&*listener);
        }
    }

    /// As [`Self::tell`], with an answer: false without a listener.
    pub(super) fn ask(&self, call: impl FnOnce(&dyn DurableListener) -> bool) -> bool {
        let listener = self.inner.lock().listener.clone();
        listener.is_some_and(|listener| call(&*listener))
    }

    /// Tells of the failure, now or when a listener comes.
    pub(super) fn fail(&self, error: &LogError) {
        let listener = {
            let mut inner = self.inner.lock();
            assert!(inner.failure.is_none(), "a log fails once");
            inner.failure = Some(error.clone());
            inner.listener.clone()
        };
        if let Some(listener) = listener {
            listener.failed(error);
        }
    }
}
