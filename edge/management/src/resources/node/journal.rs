//! The last lines of the log, kept in memory for people who look from afar. Refuses to know where else lines go, and their readers.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

/// Lines kept; older ones are forgotten.
pub(crate) const LINES_MAX: usize = 1000;

/// Bytes kept of a line; a longer line is cut.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JournalLine {
    /// Its number since the process started, from 1; never used twice.
    pub seq: u64,
    /// When, milliseconds since 1970.
    pub at: u64,
    /// `error`, `warning`, `info` or `debug`.
    pub level: &'static str,
    /// Its text, without time and level, at most 2048 bytes.
    pub message: String,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<JournalLine>,
    written: u64,
}

/// The last 1000 log lines. Any number of threads may write and read.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Ring>);

impl Journal {
    /// Keeps a line; its end is cut off, bytes that are no UTF-8 are replaced.
    pub fn push(&self, at_ms: u64, level: &'static str, line: &[u8]) {
        let line = &line[..line.len().min(LINE_BYTES_MAX)];
        let message = String::from_utf8_lossy(line).trim_end().to_owned();
        let mut ring = self.0.lock();
        ring.written += 1;
        let seq = ring.written;
        if ring.lines.len() == LINES_MAX {
            ring.lines.pop_front();
        }
        ring.lines.push_back(JournalLine { seq, at: at_ms, level, message });
    }

    /// The newest lines behind `seq`, oldest first, at most `limit` of them.
    #[must_use]
    pub fn after(&self, seq: u64, limit: usize) -> Vec<JournalLine> {
        let ring = self.0.lock();
        let fresh = ring.lines.len() - ring.lines.partition_point(|line| line.seq <= seq);
        ring.lines.iter().skip(ring.lines.len() - fresh.min(limit)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_order_and_once() {
        let journal = Journal::default();
        journal.push(5, "info", b"one\n");
        journal.push(6, "error", b"two");
        let all = journal.after(0, 10);
        assert_eq!(all.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(journal.after(1, 10), all[1..]);
        assert_eq!(journal.after(2, 10), []);
        assert_eq!(journal.after(0, 1), all[1..], "the newest when not all are wanted");
    }

    #[test]
    fn old_lines_and_long_ends_are_forgotten() {
        let journal = Journal::default();
        for _ in 0..LINES_MAX + 10 {
            journal.push(0, "debug", &[b'x'; 2 * LINE_BYTES_MAX]);
        }
        let all = journal.after(0, usize::MAX);
        assert_eq!(all.len(), LINES_MAX);
        assert_eq!(all[0].seq, 11);
        assert_eq!(all[0].message.len(), LINE_BYTES_MAX);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let journal = Journal::default();
        journal.push(0, "info", b"a\xffb");
        assert_eq!(journal.after(0, 1)[0].message, "a\u{fffd}b");
    }
}
