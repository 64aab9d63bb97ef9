//! The lines of the log about refused logins: anybody who reaches a port can cause them, so names are cut and lines have a rate.
//! Refuses to know how logins are checked.

use parking_lot::Mutex;
use platform::Monotonic;

use crate::log_texts::{Line, Pace, Room};

/// Fifty at once, then one a second.
const PACE: Pace = Pace { lines_max: 50, line_ms: 1_000 };

/// Why somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoSuchUser,
    WrongPassword,
    NotFromThere,
}

impl Reason {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Reason::NoSuchUser => "no such user",
            Reason::WrongPassword => "wrong password",
            Reason::NotFromThere => "this user may only connect from loopback addresses; add another user",
        }
    }
}

/// The lines that may still be written. Names that do not exist have a room of their own: made-up names hide no attempt on a real user.
#[derive(Debug, Default)]
pub(crate) struct RefusalLines {
    unknown: Mutex<Room>,
    known: Mutex<Room>,
}

impl RefusalLines {
    /// Whether one more may be written, and how.
    pub(crate) fn take(&self, reason: Reason, now: Monotonic) -> Line {
        let room = if reason == Reason::NoSuchUser { &self.unknown } else { &self.known };
        room.lock().take(now.as_ms(), PACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_made_up_hide_no_attempt_on_a_real_user() {
        let lines = RefusalLines::default();
        let now = Monotonic::default();
        while lines.take(Reason::NoSuchUser, now) != Line::Unwritten {}
        assert_eq!(lines.take(Reason::WrongPassword, now), Line::Written { unwritten: 0 });
    }
}
