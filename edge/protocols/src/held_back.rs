//! Since when a connection is held back. Refuses to know protocols.

use std::sync::atomic::{AtomicU64, Ordering};

/// When the messages of a connection could last not be taken as fast as they came; see [`broker::ConnectionInfo::held_back_ms`].
#[derive(Default)]
pub(crate) struct HeldBack(AtomicU64);

impl HeldBack {
    /// Whether it is held back now. Told by the connection's task after each read, and when it may go on, with the time of the latest
    /// read in milliseconds since the epoch.
    pub(crate) fn set(&self, is_held: bool, now_ms: u64) {
        let since_ms = self.0.load(Ordering::Relaxed);
        if is_held != (since_ms == u64::MAX) {
            self.0.store(if is_held { u64::MAX } else { now_ms }, Ordering::Relaxed);
        }
    }

    /// Milliseconds since the epoch, 0 for never, `u64::MAX` while it is held back.
    pub(crate) fn since_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
