//! The lines of the log about refused logins: anybody who reaches a port can cause them, so names are cut and lines have a rate.
//! Refuses to know how logins are checked.

use parking_lot::Mutex;
use platform::Monotonic;

use crate::Broker;
use crate::logins::name_within_bounds;

/// Lines that may come at once.
const LINES_MAX: u64 = 50;

/// After that, how long until there is room for a further one, milliseconds.
const LINE_MS: u64 = 1_000;

/// Why somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoSuchUser,
    WrongPassword,
    NotFromThere,
}

impl Reason {
    const fn words(self) -> &'static str {
        match self {
            Reason::NoSuchUser => "no such user",
            Reason::WrongPassword => "wrong password",
            Reason::NotFromThere => "this user may only connect from loopback addresses; add another user",
        }
    }
}

/// What may still be written. Names that do not exist have a room of their own: whoever makes them up hides no attempt on a real user.
#[derive(Debug, Default)]
pub(crate) struct RefusalLines {
    unknown: Mutex<Room>,
    known: Mutex<Room>,
}

#[derive(Debug, Default)]
struct Room {
    /// When all that was written will have been paid for, milliseconds since the clock's start.
    paid_ms: u64,
    unwritten: u64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// It is written, and says how many before it were not.
    Written {
        unwritten: u64,
    },
    /// It is the first one that is not written.
    LastForNow,
    Unwritten,
}

impl Room {
    fn take(&mut self, now_ms: u64) -> Line {
        let paid_ms = self.paid_ms.max(now_ms);
        if paid_ms + LINE_MS <= now_ms + LINES_MAX * LINE_MS {
            self.paid_ms = paid_ms + LINE_MS;
            return Line::Written { unwritten: std::mem::take(&mut self.unwritten) };
        }
        self.unwritten += 1;
        if self.unwritten == 1 { Line::LastForNow } else { Line::Unwritten }
    }
}

impl RefusalLines {
    fn take(&self, reason: Reason, now: Monotonic) -> Line {
        let room = if reason == Reason::NoSuchUser { &self.unknown } else { &self.known };
        room.lock().take(now.as_ms())
    }
}

impl Broker {
    /// Writes a line about a refused login, unless there are too many.
    pub(crate) fn log_refused_login(&self, user: &str, reason: Reason) {
        let services = self.services();
        let line = services.counters.refusal_lines.take(reason, services.clock.now());
        let (user, why) = (name_within_bounds(user), reason.words());
        match line {
            Line::Written { unwritten: 0 } => tracing::warn!(user, "login refused: {why}"),
            Line::Written { unwritten } => {
                tracing::warn!(
                    user,
                    "login refused: {why}; {unwritten} more before it were not written here"
                );
            }
            Line::LastForNow => tracing::warn!(
                "logins are refused so often that not all of them are written here any more; /api/auth/attempts counts them"
            ),
            Line::Unwritten => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(room: &mut Room, times: u64, now_ms: u64) -> u64 {
        let lines = (0..times).map(|_| room.take(now_ms));
        lines.filter(|line| matches!(line, Line::Written { .. })).count() as u64
    }

    #[test]
    fn many_refusals_at_once_are_some_lines_and_then_one_a_second_that_counts_the_others() {
        let mut room = Room::default();
        assert_eq!(written(&mut room, LINES_MAX, 7), LINES_MAX);
        assert_eq!((room.take(7), room.take(8)), (Line::LastForNow, Line::Unwritten));
        assert_eq!(room.take(1_007), Line::Written { unwritten: 2 });
        assert_eq!(room.take(1_007), Line::LastForNow);
        assert_eq!(written(&mut room, 100_000, 11_007), 10, "so much later there is room for ten");
        assert_eq!(written(&mut room, 100_000, 10_000_000), LINES_MAX, "and never for more than at first");
    }

    #[test]
    fn names_that_are_made_up_hide_no_attempt_on_a_real_user() {
        let lines = RefusalLines::default();
        let now = Monotonic::default();
        while lines.take(Reason::NoSuchUser, now) != Line::Unwritten {}
        assert_eq!(lines.take(Reason::WrongPassword, now), Line::Written { unwritten: 0 });
    }
}
