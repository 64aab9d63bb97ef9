//! Classes in brackets. Refuses to know anything outside them.

use super::byte_set::ByteSet;
use super::escapes::Escaped;
use super::translation::{Read, Reader};

const UNCLOSED: &str = "missing terminating ] for character class";
const BAD_RANGE: &str = "invalid range in character class";

/// A part of a class.
enum Part {
    Byte(u8),
    Set(ByteSet),
}

impl Reader<'_> {
    /// After a `[`.
    pub(super) fn class(&mut self) -> Read<()> {
        if let Some(end) = self.posix_end() {
            self.at = end;
            return self.problem("POSIX named classes are supported only within a class");
        }
        let is_inverted = self.takes("^");
        let mut set = ByteSet::of(|_| false);
        let mut is_first = true;
        while is_first || self.is_quoting || !self.takes("]") {
            self.skip_blanks();
            let Some(part) = self.part()? else { continue };
            is_first = false;
            let is_range = self.begins_range();
            match part {
                Part::Set(_) if is_range => {
                    self.at += 1;
                    return self.problem(BAD_RANGE);
                }
                Part::Set(part) => set.add(&part),
                Part::Byte(first) if is_range => {
                    self.at += 1;
                    match self.range_end()? {
                        last if last >= first => set.add_range(first, last),
                        _ => return self.problem("range out of order in character class"),
                    }
                }
                Part::Byte(byte) => set.add_range(byte, byte),
            }
        }
        self.set(&set, is_inverted);
        Ok(())
    }

    /// After a part: whether a hyphen follows that stands for a range, as one in a quotation and the last one do not.
    fn begins_range(&mut self) -> bool {
        self.skip_marks();
        self.skip_blanks();
        if self.is_quoting || self.peek() != Some(b'-') {
            return false;
        }
        let begin = self.at;
        self.at += 1;
        self.skip_marks();
        let is_last = matches!(self.peek(), Some(b']') | None);
        self.at = begin;
        !is_last
    }

    /// Skips marks of quotations that end one, or have nothing between them.
    fn skip_marks(&mut self) {
        if self.is_quoting && self.takes("\\E") {
            self.is_quoting = false;
        }
        while !self.is_quoting && (self.takes("\\E") || self.takes("\\Q\\E")) {}
    }

    /// Skips what is nothing here.
    fn skip_blanks(&mut self) {
        if self.flags.is_extended_in_classes && !self.is_quoting {
            self.take_while(|it| matches!(it, b' ' | b'\t'));
        }
    }

    fn range_end(&mut self) -> Read<u8> {
        loop {
            match self.part()? {
                Some(Part::Byte(last)) => return Ok(last),
                Some(Part::Set(_)) => return self.problem(BAD_RANGE),
                None => {}
            }
        }
    }

    /// The next part; `None` for marks that stand for nothing.
    fn part(&mut self) -> Read<Option<Part>> {
        if self.is_quoting {
            match self.quoted() {
                Some(byte) => return Ok(Some(Part::Byte(byte))),
                None if self.at < self.pattern.len() || self.pattern.ends_with(b"\\E") => {
                    self.is_quoting = false;
                    return Ok(None);
                }
                None => return self.problem(UNCLOSED),
            }
        }
        let posix_end = self.peek().filter(|it| *it == b'[').and_then(|_| {
            self.at += 1;
            let end = self.posix_end();
            self.at -= 1;
            end
        });
        if let Some(end) = posix_end {
            return self.posix(end).map(|set| Some(Part::Set(set)));
        }
        match self.next() {
            None => self.problem(UNCLOSED),
            Some(b'\\') => self.escaped_part(),
            Some(byte) => Ok(Some(Part::Byte(byte))),
        }
    }

    fn escaped_part(&mut self) -> Read<Option<Part>> {
        Ok(match self.escaped()? {
            Escaped::Byte(byte) => Some(Part::Byte(byte)),
            Escaped::Set(set) => Some(Part::Set(set)),
            Escaped::Special(b'b') => Some(Part::Byte(0x08)),
            Escaped::Special(b'Q') => {
                self.is_quoting = true;
                None
            }
            Escaped::Special(b'E') => None,
            Escaped::Special(b'N') => return self.problem("\\N is not supported in a class"),
            Escaped::Special(b'R' | b'X' | b'B') => {
                return self.problem("escape sequence is invalid in character class");
            }
            Escaped::Special(_) => return self.problem("unrecognized character follows \\"),
        })
    }

    /// After a `[`: where a name of POSIX such as `:alpha:]` ends, if one begins here.
    fn posix_end(&self) -> Option<usize> {
        let rest = &self.pattern[self.at..];
        let mark = *rest.first().filter(|it| matches!(it, b':' | b'.' | b'='))?;
        let is_name = |it: &u8| it.is_ascii_alphabetic() || matches!(it, b'^' | b'<' | b'>');
        let len = rest[1..].iter().take_while(|it| is_name(it)).count();
        (rest.get(1 + len..3 + len)? == [mark, b']']).then_some(self.at + len + 3)
    }

    fn posix(&mut self, end: usize) -> Read<ByteSet> {
        let text = String::from_utf8_lossy(&self.pattern[self.at + 2..end - 2]).into_owned();
        let mark = self.pattern[self.at + 1];
        self.at = end;
        if mark != b':' {
            return self.problem("POSIX collating elements are not supported");
        }
        let name = text.trim_start_matches('^');
        match ByteSet::of_posix(name) {
            Some(set) => Ok(set.inverted_if(name.len() < text.len())),
            None => self.problem("unknown POSIX class name"),
        }
    }
}
