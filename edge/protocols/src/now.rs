//! The time, as an argument. Sessions never read a clock.

/// A moment, told to a session by its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a clock that never goes back; only differences mean something.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970, for what people read (connected-at). May jump.
    pub unix_ms: u64,
}

impl Now {
    /// Milliseconds from `earlier` to now, 0 if `earlier` is later.
    #[must_use]
    pub fn since_ms(self, earlier: Now) -> u64 {
        self.monotonic_ms.saturating_sub(earlier.monotonic_ms)
    }

    /// Tenths of a second from `earlier` to now, 0 if `earlier` is later.
    pub(crate) fn since_ds(self, earlier: Now) -> u32 {
        u32::try_from(self.since_ms(earlier) / 100).unwrap_or(u32::MAX)
    }
}
