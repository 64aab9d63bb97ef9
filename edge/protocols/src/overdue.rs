//! When a connection looks for deliveries that are unsettled for too long.
//!
//! Looks are taken from time to time, and between two looks no clock is read: a delivery counts as made at the look that
//! follows it. So a timeout comes late by up to two looks, never early.

use crate::Now;

/// Longest time between two looks, tenths of a second.
const LOOK_DS_MAX: u32 = 150;

/// When a connection looks for overdue deliveries. Times are tenths of a second on the session's clock.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// The last input or look.
    now_ds: u32,
    look_last_ds: u32,
    /// The shortest timeout there ever was on the connection, milliseconds; 0 if none.
    timeout_ms_min: u64,
}

impl Overdue {
    /// Tells the time.
    pub(crate) fn set_now(&mut self, now_ds: u32) {
        self.now_ds = now_ds;
    }

    /// Time between two looks; `None` if nothing times out.
    fn interval_ds(&self) -> Option<u32> {
        let quarter = u32::try_from(self.timeout_ms_min / 400).unwrap_or(u32::MAX);
        (self.timeout_ms_min != 0).then(|| quarter.clamp(1, LOOK_DS_MAX))
    }

    /// When to look next; `None` is never.
    fn look_next_ds(&self) -> Option<u32> {
        Some(self.look_last_ds.saturating_add(self.interval_ds()?))
    }

    /// The same for a session whose clock began at this time, milliseconds of [`Now::monotonic_ms`]; `u64::MAX` is never.
    pub(crate) fn look_next_ms(&self, began: Now) -> u64 {
        self.look_next_ds().map_or(u64::MAX, |look_ds| began.monotonic_ms + u64::from(look_ds) * 100)
    }

    /// There is a source with this timeout, milliseconds; 0 is for ever. Returns when deliveries from now on count as made.
    pub(crate) fn add_timeout(&mut self, timeout_ms: u64) -> u32 {
        if timeout_ms != 0 && (self.timeout_ms_min == 0 || timeout_ms < self.timeout_ms_min) {
            if self.timeout_ms_min == 0 {
                self.look_last_ds = self.now_ds;
            }
            self.timeout_ms_min = timeout_ms;
        }
        self.now_ds.saturating_add(self.interval_ds().unwrap_or(0))
    }

    /// Whether a look is due. It counts as taken; returns when deliveries from now on count as made.
    pub(crate) fn look(&mut self, now_ds: u32) -> Option<u32> {
        self.set_now(now_ds);
        if self.look_next_ds().is_none_or(|look_ds| look_ds > now_ds) {
            return None;
        }
        self.look_last_ds = now_ds;
        Some(now_ds.saturating_add(self.interval_ds().unwrap_or(0)))
    }
}
