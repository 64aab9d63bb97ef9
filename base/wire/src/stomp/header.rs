//! Header lines: names, values and their escapes.
//!
//! Refuses to know what a header means.

use std::borrow::Cow;

use super::{FrameError, Version};

/// Most header lines of one frame.
pub const HEADERS_MAX: usize = 1_000;

/// The header lines of a frame, borrowed from the read buffer. Every line is well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    /// The lines, each with its end.
    lines: &'a [u8],
    version: Version,
}

impl<'a> Headers<'a> {
    /// Checks the lines of a frame; there is no empty one among them.
    pub(super) fn check(lines: &'a [u8], version: Version) -> Result<Headers<'a>, FrameError> {
        for (index, line) in split_lines(lines).enumerate() {
            if index >= HEADERS_MAX {
                return Err(FrameError::TooManyHeaders);
            }
            let (name, value) = split(line).ok_or(FrameError::NoColon)?;
            if line.contains(&b'\r') {
                return Err(FrameError::LoneCarriageReturn);
            }
            if !has_good_escapes(name, version) || !has_good_escapes(value, version) {
                return Err(FrameError::BadEscape);
            }
        }
        Ok(Headers { lines, version })
    }

    /// Names and values in the order of the frame, escapes resolved. A name may come again: the first one counts.
    pub fn iter(self) -> impl Iterator<Item = (Cow<'a, [u8]>, Cow<'a, [u8]>)> {
        split_lines(self.lines).filter_map(split).map(move |(name, value)| {
            let value = if self.version == Version::V10 { trim_spaces(value) } else { value };
            (unescaped(name, self.version), unescaped(value, self.version))
        })
    }

    /// Value of the first header of that name.
    #[must_use]
    pub fn get(self, name: &[u8]) -> Option<Cow<'a, [u8]>> {
        self.iter().find_map(|(candidate, value)| (*candidate == *name).then_some(value))
    }
}

/// A line's name and value.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((&line[..colon], &line[colon + 1..]))
}

/// The lines without their ends.
fn split_lines(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|byte| *byte == b'\n').map(without_end)
}

/// A line without the LF or CR LF at its end.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Without spaces in front; version 1.0 has them after the colon.
fn trim_spaces(value: &[u8]) -> &[u8] {
    let spaces = value.iter().take_while(|byte| **byte == b' ').count();
    &value[spaces..]
}

/// The byte that a backslash and `letter` stand for.
fn meaning(letter: u8, version: Version) -> Option<u8> {
    match letter {
        b'n' => Some(b'\n'),
        b'c' => Some(b':'),
        b'\\' => Some(b'\\'),
        b'r' if version == Version::V12 => Some(b'\r'),
        _ => None,
    }
}

/// The letter that stands for `byte` after a backslash; `None` leaves the byte as it is.
pub(super) fn letter(byte: u8, version: Version) -> Option<u8> {
    match byte {
        b'\n' => Some(b'n'),
        b':' => Some(b'c'),
        b'\\' => Some(b'\\'),
        b'\r' if version == Version::V12 => Some(b'r'),
        _ => None,
    }
}

fn has_good_escapes(text: &[u8], version: Version) -> bool {
    if version == Version::V10 {
        return true;
    }
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' && bytes.next().is_none_or(|letter| meaning(*letter, version).is_none()) {
            return false;
        }
    }
    true
}

/// A text whose escapes are good, without them.
fn unescaped(text: &[u8], version: Version) -> Cow<'_, [u8]> {
    if version == Version::V10 || memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => plain.extend(bytes.next().and_then(|letter| meaning(*letter, version))),
            byte => plain.push(*byte),
        }
    }
    Cow::Owned(plain)
}
