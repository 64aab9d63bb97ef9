//! Where a record lies in a log. Knows nothing of files.

use std::fmt;

/// A logical byte offset in one log: the number of record bytes from the log's very first one. It only grows over the life of
/// a log, across files and restarts. The position *of a record* is that of its end: the record is durable once the log's
/// durable position has reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Never durable: the position that [`crate::Log::append`] returns when the log has failed or is closed.
    pub const NEVER: Self = Self(u64::MAX);

    /// The position `bytes` later.
    #[must_use]
    pub(crate) const fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    /// Bytes from `earlier` to `self`.
    pub(crate) const fn bytes_since(self, earlier: Self) -> u64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}
