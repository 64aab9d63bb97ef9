//! A wish to close a connection. Refuses to know protocols.

use std::sync::atomic::{AtomicBool, Ordering};

use broker::CloseReason;
use parking_lot::Mutex;

/// Whether the broker wants to close a connection, and why. Any thread wishes, and the connection's task looks.
#[derive(Default)]
pub(crate) struct Closing {
    is_wanted: AtomicBool,
    reason: Mutex<Option<CloseReason>>,
}

impl Closing {
    /// The connection is to close. The first reason counts.
    pub(crate) fn want(&self, reason: CloseReason) {
        self.reason.lock().get_or_insert(reason);
        self.is_wanted.store(true, Ordering::Release);
    }

    /// The reason, the first time this is asked after a wish.
    pub(crate) fn take(&self) -> Option<CloseReason> {
        if !self.is_wanted.load(Ordering::Acquire) {
            return None;
        }
        self.is_wanted.store(false, Ordering::Release);
        self.reason.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_close_counts_and_is_told_once() {
        let closing = Closing::default();
        assert_eq!(closing.take(), None);
        closing.want(CloseReason::Shutdown);
        closing.want(CloseReason::Operator("x".into()));
        assert_eq!(closing.take(), Some(CloseReason::Shutdown));
        assert_eq!(closing.take(), None);
    }
}
