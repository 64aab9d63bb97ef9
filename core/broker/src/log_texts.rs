//! Texts from outside as the log writes them, and how many lines of a kind it takes. Refuses to know what the lines say.

use std::borrow::Cow;

/// A text on one line: a name cannot add a line to the log.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        return text
            .chars()
            .flat_map(|one| if one.is_control() { one.escape_default().collect() } else { vec![one] })
            .collect();
    }
    text.into()
}

/// A name in RabbitMQ's quotes.
pub(crate) fn quoted(name: &[u8]) -> String {
    format!("'{}'", printable(&String::from_utf8_lossy(name)))
}

/// How many lines of a kind there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Lines that may come at once.
    pub(crate) lines_max: u64,
    /// After that, how long until there is room for a further one, milliseconds.
    pub(crate) line_ms: u64,
}

/// The number of lines of one kind that may still be written.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// When all that was written will have been paid for, milliseconds since the clock's start.
    paid_ms: u64,
    unwritten: u64,
}

/// Whether a line is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is written, and says how many before it were not.
    Written {
        /// Lines that were left out since the last one.
        unwritten: u64,
    },
    /// It is the first one that is not written.
    LastForNow,
    /// Nobody reads it.
    Unwritten,
}

impl Room {
    /// Takes the room of a line, if there is some.
    pub(crate) fn take(&mut self, now_ms: u64, pace: Pace) -> Line {
        let paid_ms = self.paid_ms.max(now_ms);
        if paid_ms + pace.line_ms <= now_ms + pace.lines_max * pace.line_ms {
            self.paid_ms = paid_ms + pace.line_ms;
            return Line::Written { unwritten: std::mem::take(&mut self.unwritten) };
        }
        self.unwritten += 1;
        if self.unwritten == 1 { Line::LastForNow } else { Line::Unwritten }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { lines_max: 50, line_ms: 1_000 };

    fn written(room: &mut Room, times: u64, now_ms: u64) -> u64 {
        let lines = (0..times).map(|_| room.take(now_ms, PACE));
        lines.filter(|line| matches!(line, Line::Written { .. })).count() as u64
    }

    #[test]
    fn many_lines_at_once_are_some_and_then_one_a_second_that_counts_the_others() {
        let mut room = Room::default();
        assert_eq!(written(&mut room, PACE.lines_max, 7), PACE.lines_max);
        assert_eq!((room.take(7, PACE), room.take(8, PACE)), (Line::LastForNow, Line::Unwritten));
        assert_eq!(room.take(1_007, PACE), Line::Written { unwritten: 2 });
        assert_eq!(room.take(1_007, PACE), Line::LastForNow);
        assert_eq!(written(&mut room, 100_000, 11_007), 10, "so much later there is room for ten");
        assert_eq!(
            written(&mut room, 100_000, 10_000_000),
            PACE.lines_max,
            "and never for more than at first"
        );
    }

    #[test]
    fn a_name_makes_no_line_of_its_own() {
        assert_eq!(quoted(b"a\n2026 ERROR forged\x1b[0m"), r"'a\n2026 ERROR forged\u{1b}[0m'");
        assert_eq!(quoted("päck".as_bytes()), "'päck'");
    }
}
