//! A frame: command, headers, body, NUL.
//!
//! Refuses to know commands and headers, except `content-length`.

use super::header::without_end;
use super::{Headers, Version};

/// One frame, borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// First line. Not empty.
    pub command: &'a [u8],
    /// Header lines.
    pub headers: Headers<'a>,
    /// Body, as long as `content-length` says, otherwise up to the first NUL.
    pub body: &'a [u8],
}

/// Bounds of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a whole frame with its NUL.
    pub frame_bytes_max: usize,
    /// Most bytes of command and headers with their line ends.
    pub head_bytes_max: usize,
}

/// The finding of [`parse_frame`] at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole frame.
    Complete {
        /// The frame.
        frame: Frame<'a>,
        /// Bytes it takes at the front of the buffer.
        consumed: usize,
    },
    /// Line ends between frames: heart-beats, or what the peer writes after a frame.
    LineEnds {
        /// Bytes they take at the front of the buffer.
        consumed: usize,
    },
    /// More bytes must arrive first.
    Incomplete {
        /// Length in bytes, counted from the front of the buffer, below which trying again is pointless.
        needed: usize,
    },
}

/// A frame that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is larger than allowed. Known as soon as so many bytes are there, or from `content-length`.
    #[error("frame of more than {max} bytes")]
    TooLarge {
        /// Largest size allowed, in bytes.
        max: usize,
    },
    /// Command and headers are longer than allowed.
    #[error("command and headers of more than {max} bytes")]
    HeadTooLarge {
        /// Largest size allowed, in bytes.
        max: usize,
    },
    /// The frame has more than [`HEADERS_MAX`](super::HEADERS_MAX) headers.
    #[error("more than {} headers", super::HEADERS_MAX)]
    TooManyHeaders,
    /// A header line has no colon.
    #[error("header line without a colon")]
    NoColon,
    /// A backslash stands before a letter that the version does not know.
    #[error("unknown escape in a header")]
    BadEscape,
    /// A CR stands in a line.
    #[error("carriage return without a line feed")]
    LoneCarriageReturn,
    /// A NUL stands in the command or in a header.
    #[error("NUL in the command or in a header")]
    NulInHead,
    /// `content-length` is not a number of bytes.
    #[error("content-length is not a number")]
    BadContentLength,
    /// No NUL follows the body that `content-length` bounds.
    #[error("no NUL after the body")]
    NoNul,
}

/// Looks for one frame, or line ends, at the front of `buf`.
///
/// A frame that cannot fit into `limits` is refused before it is there, so the caller never buffers more than
/// `frame_bytes_max` bytes.
///
/// # Errors
/// See [`FrameError`].
pub fn parse_frame(buf: &[u8], version: Version, limits: Limits) -> Result<Parsed<'_>, FrameError> {
    let ends = line_ends(buf);
    if ends > 0 {
        return Ok(Parsed::LineEnds { consumed: ends });
    }
    if buf == b"\r" {
        return Ok(Parsed::Incomplete { needed: 2 });
    }
    let Some(head) = head(buf, limits)? else { return Ok(Parsed::Incomplete { needed: buf.len() + 1 }) };
    let headers = Headers::check(head.lines, version)?;
    let length = match headers.get(b"content-length") {
        Some(value) => Some(content_length(&value)?),
        None => None,
    };
    let too_large = FrameError::TooLarge { max: limits.frame_bytes_max };
    let rest = &buf[head.bytes..];
    let length = match length {
        Some(length) => length,
        None => match memchr::memchr(0, rest) {
            Some(at) => at,
            None if buf.len() >= limits.frame_bytes_max => return Err(too_large),
            None => return Ok(Parsed::Incomplete { needed: buf.len() + 1 }),
        },
    };
    let consumed = head.bytes.saturating_add(length).saturating_add(1);
    if consumed > limits.frame_bytes_max {
        return Err(too_large);
    }
    match rest.get(length) {
        Some(0) => {
            let frame = Frame { command: head.command, headers, body: &rest[..length] };
            Ok(Parsed::Complete { frame, consumed })
        }
        Some(_) => Err(FrameError::NoNul),
        None => Ok(Parsed::Incomplete { needed: consumed }),
    }
}

/// Bytes of whole line ends at the front.
fn line_ends(buf: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match &buf[at..] {
            [b'\n', ..] => at += 1,
            [b'\r', b'\n', ..] => at += 2,
            _ => return at,
        }
    }
}

/// The command and the headers, which stand before a body.
struct Head<'a> {
    command: &'a [u8],
    lines: &'a [u8],
    /// Its bytes, the empty line included.
    bytes: usize,
}

/// The head at the front of a buffer; `None` if it is not whole.
fn head(buf: &[u8], limits: Limits) -> Result<Option<Head<'_>>, FrameError> {
    let bytes_max = limits.head_bytes_max.min(limits.frame_bytes_max);
    let window = &buf[..buf.len().min(bytes_max)];
    let mut command = None;
    let mut at = 0;
    for end in memchr::memchr_iter(b'\n', window) {
        let line = without_end(&window[at..=end]);
        if line.contains(&0) {
            return Err(FrameError::NulInHead);
        }
        match command {
            None if line.contains(&b'\r') => return Err(FrameError::LoneCarriageReturn),
            None => command = Some((line, end + 1)),
            Some((command, lines_at)) if line.is_empty() => {
                return Ok(Some(Head { command, lines: &buf[lines_at..at], bytes: end + 1 }));
            }
            Some(_) => {}
        }
        at = end + 1;
    }
    if window[at..].contains(&0) {
        return Err(FrameError::NulInHead);
    }
    if buf.len() >= bytes_max {
        return Err(FrameError::HeadTooLarge { max: bytes_max });
    }
    Ok(None)
}

/// A number of bytes in decimal digits; spaces around it do not count.
fn content_length(value: &[u8]) -> Result<usize, FrameError> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(FrameError::BadContentLength);
    }
    let text = std::str::from_utf8(digits).map_err(|_| FrameError::BadContentLength)?;
    Ok(text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
