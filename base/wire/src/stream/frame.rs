//! Frames: the envelope around every command.
//!
//! Refuses to know what a body means; an unknown key is still a frame.
//!
//! ```text
//!  0      4                  6         8             4+size
//!  +------+------------------+---------+-------------+
//!  | size | response bit|key | version | body        |
//!  | u32  |   1 bit|15 bits  |   u16   | size-4 bytes|
//!  +------+------------------+---------+-------------+
//! ```

/// Set in the key of a response.
const RESPONSE_BIT: u16 = 0x8000;
/// Bytes of the size word, which does not count itself.
pub const SIZE_BYTES: usize = 4;
/// Smallest size: key and version.
const SIZE_MIN: usize = 4;

/// One frame, its body borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which command, without the response bit.
    pub key: u16,
    /// Whether it answers a request.
    pub is_response: bool,
    /// Version of the command.
    pub version: u16,
    /// The bytes that follow the version; a request begins with its correlation id.
    pub body: &'a [u8],
}

/// The finding of [`parse_frame`] at the front of a buffer.
pub type Parsed<'a> = crate::Parsed<Frame<'a>>;

/// A frame that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced size is larger than allowed; known from the first four bytes.
    #[error("frame of {size} bytes, at most {max} are allowed")]
    TooLarge {
        /// Announced size in bytes, without the size word.
        size: usize,
        /// Largest size allowed, in bytes.
        max: usize,
    },
    /// The announced size has no room for key and version.
    #[error("frame of {size} bytes, at least 4 are needed")]
    TooSmall {
        /// Announced size in bytes.
        size: usize,
    },
}

/// Looks for one frame at the front of `buf`.
///
/// `frame_max` bounds the size in bytes, without the size word, as RabbitMQ counts. A larger announcement is refused
/// from the first four bytes, so a lying size never makes the caller buffer anything.
///
/// # Errors
/// See [`FrameError`].
#[inline]
pub fn parse_frame(buf: &[u8], frame_max: usize) -> Result<Parsed<'_>, FrameError> {
    let Some((size, rest)) = buf.split_first_chunk::<SIZE_BYTES>() else {
        return Ok(Parsed::Incomplete { needed: SIZE_BYTES });
    };
    let size = u32::from_be_bytes(*size) as usize;
    if size > frame_max {
        return Err(FrameError::TooLarge { size, max: frame_max });
    }
    if size < SIZE_MIN {
        return Err(FrameError::TooSmall { size });
    }
    let Some((&[key_high, key_low, version_high, version_low, ref body @ ..], _)) =
        rest.split_at_checked(size)
    else {
        return Ok(Parsed::Incomplete { needed: size.saturating_add(SIZE_BYTES) });
    };
    let key = u16::from_be_bytes([key_high, key_low]);
    let frame = Frame {
        key: key & !RESPONSE_BIT,
        is_response: key & RESPONSE_BIT != 0,
        version: u16::from_be_bytes([version_high, version_low]),
        body,
    };
    Ok(Parsed::Complete { frame, consumed: size + SIZE_BYTES })
}

/// Appends a frame whose body `write` appends; the size is filled in afterwards.
///
/// # Panics
/// If the body has 4 GiB or more, which no `frame_max` lets through.
#[inline]
pub(super) fn write_frame_with(
    key: u16,
    is_response: bool,
    version: u16,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&head(key, is_response, version, 0));
    write(out);
    set_size(out, start);
}

/// Fills in the size of the frame that begins at `start` and ends with the buffer.
pub(super) fn set_size(out: &mut [u8], start: usize) {
    let size = size(out.len() - start - SIZE_BYTES);
    out[start..start + SIZE_BYTES].copy_from_slice(&size);
}

/// Size word, key and version of a frame with `body` more bytes.
#[inline]
pub(super) fn head(key: u16, is_response: bool, version: u16, body: usize) -> [u8; 8] {
    let [a, b, c, d] = size(body + SIZE_MIN);
    let [key_high, key_low] = (if is_response { key | RESPONSE_BIT } else { key }).to_be_bytes();
    let [version_high, version_low] = version.to_be_bytes();
    [a, b, c, d, key_high, key_low, version_high, version_low]
}

fn size(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a frame is below 4 GiB: frame_max bounds it").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_only_when_its_last_octet_is_there() {
        let mut bytes = Vec::new();
        write_frame_with(0x0007, true, 1, &mut bytes, |out| out.extend_from_slice(b"hello"));
        assert_eq!(bytes, b"\x00\x00\x00\x09\x80\x07\x00\x01hello");
        for length in 0..bytes.len() {
            let needed = if length < 4 { 4 } else { 13 };
            assert_eq!(parse_frame(&bytes[..length], 9), Ok(Parsed::Incomplete { needed }));
        }
        bytes.push(0xAA);
        let frame = Frame { key: 7, is_response: true, version: 1, body: b"hello" };
        assert_eq!(parse_frame(&bytes, 9), Ok(Parsed::Complete { frame, consumed: 13 }));
    }

    #[test]
    fn sizes_out_of_bounds_are_refused_from_the_size_alone() {
        let error = FrameError::TooLarge { size: 0xFFFF_FFFF, max: 1_048_576 };
        assert_eq!(parse_frame(&[0xFF; 4], 1_048_576), Err(error));
        assert_eq!(parse_frame(&[0, 0, 0, 3], 8), Err(FrameError::TooSmall { size: 3 }));
    }
}
