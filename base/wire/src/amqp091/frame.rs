//! Frames: the envelope around everything after the protocol header.
//!
//! Refuses to know what a payload means, or which kinds and channels are allowed when: an unknown kind is still a
//! frame, and the session decides.
//!
//! ```text
//!  0      1         3         7                  7+size
//!  +------+---------+---------+------------------+------+
//!  | kind | channel |  size   | payload          | 0xCE |
//!  |  u8  |   u16   |   u32   | size bytes       |  u8  |
//!  +------+---------+---------+------------------+------+
//! ```

/// Kind of a frame that carries a method (AMQP 0-9-1 section 4.2.3).
pub const FRAME_METHOD: u8 = 1;
/// Kind of a frame that carries a content header.
pub const FRAME_HEADER: u8 = 2;
/// Kind of a frame that carries a piece of a body.
pub const FRAME_BODY: u8 = 3;
/// Kind of a heartbeat frame: 8, as RabbitMQ and all clients have it (the specification's text says 4 in one place).
pub const FRAME_HEARTBEAT: u8 = 8;
/// The octet that ends every frame.
pub const FRAME_END: u8 = 0xCE;
/// Bytes of a frame that are not payload: seven before it, one after.
pub const FRAME_OVERHEAD: usize = 8;
/// The header that a client sends first, and that the server answers to a version it does not speak (B1, B2).
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// A whole heartbeat frame.
pub const HEARTBEAT: [u8; 8] = [FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END];

const FRAME_HEADER_BYTES: usize = 7;

/// One frame, its payload borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of the payload: `FRAME_METHOD`, `FRAME_HEADER`, `FRAME_BODY`, `FRAME_HEARTBEAT` or something unknown.
    pub kind: u8,
    /// Channel number; 0 is the connection.
    pub channel: u16,
    /// The payload, without the end octet.
    pub payload: &'a [u8],
}

/// The finding of [`parse_frame`] at the front of a buffer.
pub type Parsed<'a> = crate::Parsed<Frame<'a>>;

/// A frame that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced payload is larger than allowed; known from the first seven bytes.
    #[error("frame of {size} payload bytes, at most {max} are allowed")]
    TooLarge {
        /// Announced payload size in bytes.
        size: usize,
        /// Largest payload size allowed, in bytes.
        max: usize,
    },
    /// The octet after the payload is not 0xCE (B23).
    #[error("frame of kind {kind} on channel {channel} with {size} payload bytes ends with {octet:#04x}")]
    BadEnd {
        /// Kind of the frame.
        kind: u8,
        /// Its channel.
        channel: u16,
        /// Its payload size in bytes.
        size: usize,
        /// The octet that stood where 0xCE belongs.
        octet: u8,
    },
}

/// Looks for one frame at the front of `buf`.
///
/// `payload_size_max` bounds the payload in bytes; the caller derives it from the negotiated `frame_max` and the
/// tolerance of B22. A larger announcement is refused from the first seven bytes, so a lying size never makes the
/// caller buffer anything. What an incomplete frame needs is 7 bytes, then the whole frame, end octet included.
///
/// # Errors
/// [`FrameError::TooLarge`] and [`FrameError::BadEnd`]; both are RabbitMQ's 501 FRAME_ERROR.
#[inline]
pub fn parse_frame(buf: &[u8], payload_size_max: usize) -> Result<Parsed<'_>, FrameError> {
    let Some((head, rest)) = buf.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(Parsed::Incomplete { needed: FRAME_HEADER_BYTES });
    };
    let [kind, channel_high, channel_low, a, b, c, d] = *head;
    let channel = u16::from_be_bytes([channel_high, channel_low]);
    let size = u32::from_be_bytes([a, b, c, d]) as usize;
    if size > payload_size_max {
        return Err(FrameError::TooLarge { size, max: payload_size_max });
    }
    let Some((payload, &[octet, ..])) = rest.split_at_checked(size) else {
        return Ok(Parsed::Incomplete { needed: size.saturating_add(FRAME_OVERHEAD) });
    };
    if octet != FRAME_END {
        return Err(FrameError::BadEnd { kind, channel, size, octet });
    }
    let frame = Frame { kind, channel, payload };
    Ok(Parsed::Complete { frame, consumed: size + FRAME_OVERHEAD })
}

/// Appends one whole frame.
///
/// # Panics
/// If the payload is 4 GiB or more, which no bound of the broker lets through.
pub fn write_frame(kind: u8, channel: u16, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(payload.len() + FRAME_OVERHEAD);
    out.extend_from_slice(&frame_head(kind, channel, payload.len()));
    out.extend_from_slice(payload);
    out.push(FRAME_END);
}

/// The seven bytes before a payload of `size` bytes.
#[inline]
pub(super) fn frame_head(kind: u8, channel: u16, size: usize) -> [u8; FRAME_HEADER_BYTES] {
    let size = u32::try_from(size).expect("a frame's payload is below 4 GiB: messages are at most 512 MiB");
    let [channel_high, channel_low] = channel.to_be_bytes();
    let [a, b, c, d] = size.to_be_bytes();
    [kind, channel_high, channel_low, a, b, c, d]
}

/// Appends one frame whose payload `write` appends; the size is filled in afterwards.
pub(super) fn write_frame_with(kind: u8, channel: u16, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&frame_head(kind, channel, 0));
    write(out);
    let size = out.len() - start - FRAME_HEADER_BYTES;
    out[start..start + FRAME_HEADER_BYTES].copy_from_slice(&frame_head(kind, channel, size));
    out.push(FRAME_END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_only_when_its_last_octet_is_there() {
        let mut bytes = Vec::new();
        write_frame(FRAME_BODY, 0x0102, b"hello", &mut bytes);
        assert_eq!(bytes, b"\x03\x01\x02\x00\x00\x00\x05hello\xCE");
        for length in 0..bytes.len() {
            let needed = if length < 7 { 7 } else { 13 };
            assert_eq!(parse_frame(&bytes[..length], 5), Ok(Parsed::Incomplete { needed }));
        }
        bytes.push(0xAA);
        let frame = Frame { kind: FRAME_BODY, channel: 0x0102, payload: b"hello" };
        assert_eq!(parse_frame(&bytes, 5), Ok(Parsed::Complete { frame, consumed: 13 }));
    }

    #[test]
    fn a_lying_size_is_refused_from_the_header_alone() {
        let header = [1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(
            parse_frame(&header, 131_064),
            Err(FrameError::TooLarge { size: 0xFFFF_FFFF, max: 131_064 })
        );
        assert_eq!(parse_frame(&header, usize::MAX), Ok(Parsed::Incomplete { needed: 0x1_0000_0007 }));
    }

    #[test]
    fn a_wrong_end_octet_is_refused() {
        let bytes = [8, 0, 0, 0, 0, 0, 0, 0xCD];
        assert_eq!(
            parse_frame(&bytes, 8),
            Err(FrameError::BadEnd { kind: 8, channel: 0, size: 0, octet: 0xCD })
        );
    }

    #[test]
    fn the_heartbeat_is_an_empty_frame_of_kind_eight() {
        let mut bytes = Vec::new();
        write_frame(FRAME_HEARTBEAT, 0, &[], &mut bytes);
        assert_eq!(bytes, HEARTBEAT);
    }
}
