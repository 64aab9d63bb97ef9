//! Frames: the envelope around performatives, for AMQP and for SASL.
//!
//! Refuses to know what a body means; an unknown type is still a frame.
//!
//! ```text
//!  0      4        5      6         8             4*doff      size
//!  +------+--------+------+---------+-------------+-----------+
//!  | size |  doff  | type | channel | extended    | body      |
//!  | u32  |   u8   |  u8  |   u16   | header      |           |
//!  +------+--------+------+---------+-------------+-----------+
//!  size counts itself; doff is at least 2; an AMQP frame without a body is a heartbeat
//! ```

/// The header that a client sends first for AMQP 1.0 without SASL, and after it.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// The header that a client sends first for SASL.
pub const SASL_PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";
/// The header that a client sends first for TLS inside of the protocol; RabbitMQ does not speak it.
pub const TLS_PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x02\x01\x00\x00";
/// Type of a frame that carries an AMQP performative.
pub const FRAME_AMQP: u8 = 0;
/// Type of a frame that carries a SASL performative.
pub const FRAME_SASL: u8 = 1;
/// Bytes in front of a body, without an extended header. No frame is smaller.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Smallest `max-frame-size` that a peer may ask for (AMQP 1.0 part 2, section 2.7.1).
pub const FRAME_SIZE_MAX_MIN: u32 = 512;
/// A whole heartbeat frame.
pub const HEARTBEAT: [u8; 8] = [0, 0, 0, 8, 2, FRAME_AMQP, 0, 0];

/// One frame, its body borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// [`FRAME_AMQP`], [`FRAME_SASL`] or something unknown.
    pub kind: u8,
    /// Channel number; nothing for SASL.
    pub channel: u16,
    /// Performative and payload; empty for a heartbeat.
    pub body: &'a [u8],
}

/// The finding of [`parse_frame`] at the front of a buffer.
pub type Parsed<'a> = crate::Parsed<Frame<'a>>;

/// A frame that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced size is larger than allowed; known from the first eight bytes.
    #[error("frame of {size} bytes, at most {max} are allowed")]
    TooLarge {
        /// Announced size in bytes.
        size: usize,
        /// Largest size allowed, in bytes.
        max: usize,
    },
    /// The announced size has no room for the header.
    #[error("frame of {size} bytes, at least 8 are needed")]
    TooSmall {
        /// Announced size in bytes.
        size: usize,
    },
    /// The body would begin within the header, or behind the frame.
    #[error("data offset {doff} in a frame of {size} bytes")]
    BadOffset {
        /// Where the body begins, in words of four bytes.
        doff: u8,
        /// Size of the frame in bytes.
        size: usize,
    },
}

/// Looks for one frame at the front of `buf`.
///
/// `frame_size_max` bounds the whole frame in bytes, as `max-frame-size` does. A larger announcement is refused from
/// the first eight bytes, so a lying size never makes the caller buffer anything. Extended headers are passed over.
///
/// # Errors
/// See [`FrameError`].
#[inline]
pub fn parse_frame(buf: &[u8], frame_size_max: usize) -> Result<Parsed<'_>, FrameError> {
    let Some(&[a, b, c, d, doff, kind, channel_high, channel_low]) = buf.first_chunk() else {
        return Ok(Parsed::Incomplete { needed: FRAME_HEADER_BYTES });
    };
    let size = u32::from_be_bytes([a, b, c, d]) as usize;
    if size > frame_size_max {
        return Err(FrameError::TooLarge { size, max: frame_size_max });
    }
    if size < FRAME_HEADER_BYTES {
        return Err(FrameError::TooSmall { size });
    }
    let body_at = usize::from(doff) * 4;
    if body_at < FRAME_HEADER_BYTES || body_at > size {
        return Err(FrameError::BadOffset { doff, size });
    }
    let Some(body) = buf.get(body_at..size) else { return Ok(Parsed::Incomplete { needed: size }) };
    let channel = u16::from_be_bytes([channel_high, channel_low]);
    Ok(Parsed::Complete { frame: Frame { kind, channel, body }, consumed: size })
}

/// Appends a frame whose body `write` appends; the size is filled in afterwards.
///
/// # Panics
/// If it has 4 GiB or more, which no `max-frame-size` lets through.
#[inline]
pub(super) fn write_frame_with(kind: u8, channel: u16, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    let [channel_high, channel_low] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind, channel_high, channel_low]);
    write(out);
    let size = super::writer::size(out.len() - start);
    out[start..start + 4].copy_from_slice(&size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_only_when_its_last_octet_is_there() {
        let mut bytes = Vec::new();
        write_frame_with(FRAME_AMQP, 0x0102, &mut bytes, |out| out.extend_from_slice(b"hello"));
        assert_eq!(bytes, b"\x00\x00\x00\x0D\x02\x00\x01\x02hello");
        for length in 0..bytes.len() {
            let needed = if length < 8 { 8 } else { 13 };
            assert_eq!(parse_frame(&bytes[..length], 13), Ok(Parsed::Incomplete { needed }));
        }
        bytes.push(0xAA);
        let frame = Frame { kind: FRAME_AMQP, channel: 0x0102, body: b"hello" };
        assert_eq!(parse_frame(&bytes, 13), Ok(Parsed::Complete { frame, consumed: 13 }));
    }

    #[test]
    fn sizes_and_offsets_out_of_bounds_are_refused_from_the_header_alone() {
        let parse = |bytes: &'static [u8; 8]| parse_frame(bytes, 512);
        assert_eq!(
            parse(b"\xFF\xFF\xFF\xFF\x02\0\0\0"),
            Err(FrameError::TooLarge { size: 0xFFFF_FFFF, max: 512 })
        );
        assert_eq!(parse(b"\0\0\0\x07\x02\0\0\0"), Err(FrameError::TooSmall { size: 7 }));
        assert_eq!(parse(b"\0\0\0\x08\x01\0\0\0"), Err(FrameError::BadOffset { doff: 1, size: 8 }));
        assert_eq!(parse(b"\0\0\0\x08\x03\0\0\0"), Err(FrameError::BadOffset { doff: 3, size: 8 }));
        assert_eq!(parse(b"AMQP\0\x01\0\0"), Err(FrameError::TooLarge { size: 0x414D_5150, max: 512 }));
    }

    #[test]
    fn an_extended_header_is_passed_over() {
        let frame = Frame { kind: FRAME_SASL, channel: 0, body: b"b" };
        let parsed = parse_frame(b"\0\0\0\x0D\x03\x01\0\0xxxxb", 512);
        assert_eq!(parsed, Ok(Parsed::Complete { frame, consumed: 13 }));
        let empty = Frame { kind: FRAME_AMQP, channel: 0, body: b"" };
        assert_eq!(parse_frame(&HEARTBEAT, 512), Ok(Parsed::Complete { frame: empty, consumed: 8 }));
    }
}
