//! The envelope around every packet: type, flags, remaining length.
//!
//! Refuses to know what a body means.
//!
//! ```text
//!  type (4 bits) | flags (4 bits) | remaining length: 1 to 4 bytes, low 7 bits first, bit 7: another follows | body
//! ```

/// Largest remaining length that four bytes can say.
pub const REMAINING_LENGTH_MAX: usize = 268_435_455;

/// One packet, not decoded yet; its body borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Type of the packet: 1 for CONNECT to 15 for AUTH; 0 is reserved.
    pub kind: u8,
    /// The four flags.
    pub flags: u8,
    /// The bytes that follow the remaining length.
    pub body: &'a [u8],
}

/// The finding of [`parse_frame`] at the front of a buffer.
pub type Parsed<'a> = crate::Parsed<Frame<'a>>;

/// A packet that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The remaining length is larger than allowed; known before the body arrives.
    #[error("packet with a remaining length of {size} bytes, at most {max} are allowed")]
    TooLarge {
        /// Remaining length in bytes.
        size: usize,
        /// Largest one allowed.
        max: usize,
    },
    /// The remaining length has more than four bytes.
    #[error("malformed remaining length")]
    BadLength,
}

/// Looks for one packet at the front of `buf`.
///
/// `remaining_length_max` bounds the remaining length in bytes, as RabbitMQ's `mqtt.max_packet_size_*` do. A larger one is
/// refused before the body arrives, so a lying length never makes the caller buffer anything.
///
/// # Errors
/// See [`FrameError`].
#[inline]
pub fn parse_frame(buf: &[u8], remaining_length_max: usize) -> Result<Parsed<'_>, FrameError> {
    let Some((first, rest)) = buf.split_first() else { return Ok(Parsed::Incomplete { needed: 2 }) };
    let (size, length_bytes) = match read_var_int(rest) {
        VarInt::Complete { value, bytes } => (value as usize, bytes),
        VarInt::Incomplete => return Ok(Parsed::Incomplete { needed: buf.len() + 1 }),
        VarInt::TooLong => return Err(FrameError::BadLength),
    };
    if size > remaining_length_max {
        return Err(FrameError::TooLarge { size, max: remaining_length_max });
    }
    let body_at = 1 + length_bytes;
    let consumed = body_at + size;
    let Some(body) = buf.get(body_at..consumed) else { return Ok(Parsed::Incomplete { needed: consumed }) };
    Ok(Parsed::Complete { frame: Frame { kind: first >> 4, flags: first & 0x0F, body }, consumed })
}

/// A variable byte integer at the front of a slice.
pub(super) enum VarInt {
    Complete { value: u32, bytes: usize },
    Incomplete,
    TooLong,
}

#[inline]
pub(super) fn read_var_int(bytes: &[u8]) -> VarInt {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return VarInt::Complete { value, bytes: index + 1 };
        }
    }
    if bytes.len() < 4 { VarInt::Incomplete } else { VarInt::TooLong }
}

/// Bytes that a variable byte integer takes: 1 to 4.
pub(super) const fn var_int_bytes(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

/// Appends a variable byte integer in its shortest form.
///
/// # Panics
/// If it is larger than [`REMAINING_LENGTH_MAX`].
#[inline]
pub(super) fn write_var_int(mut value: usize, out: &mut Vec<u8>) {
    assert!(value <= REMAINING_LENGTH_MAX, "a length that four bytes cannot say");
    loop {
        let low = (value & 0x7F) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Appends the length of what `write` appends, and that.
///
/// # Panics
/// If that is longer than [`REMAINING_LENGTH_MAX`].
#[inline]
pub(super) fn write_sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    write(out);
    insert_var_int(out.len() - at, at, out);
}

/// Puts a variable byte integer at `at`; the bytes there move on. Packets' heads and properties are short.
///
/// # Panics
/// If it is larger than [`REMAINING_LENGTH_MAX`].
#[inline]
pub(super) fn insert_var_int(mut value: usize, at: usize, out: &mut Vec<u8>) {
    assert!(value <= REMAINING_LENGTH_MAX, "a length that four bytes cannot say");
    let (end, bytes) = (out.len(), var_int_bytes(value));
    out.extend_from_slice(&[0; 4][..bytes]);
    out.copy_within(at..end, at + bytes);
    for byte in &mut out[at..at + bytes] {
        *byte = (value & 0x7F) as u8 | 0x80;
        value >>= 7;
    }
    out[at + bytes - 1] &= 0x7F;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_specifications_table() {
        let table: [(usize, &[u8]); 8] = [
            (0, b"\x00"),
            (127, b"\x7F"),
            (128, b"\x80\x01"),
            (16_383, b"\xFF\x7F"),
            (16_384, b"\x80\x80\x01"),
            (2_097_151, b"\xFF\xFF\x7F"),
            (2_097_152, b"\x80\x80\x80\x01"),
            (268_435_455, b"\xFF\xFF\xFF\x7F"),
        ];
        for (value, bytes) in table {
            let mut out = Vec::new();
            write_var_int(value, &mut out);
            assert_eq!((out.as_slice(), var_int_bytes(value)), (bytes, bytes.len()));
            let VarInt::Complete { value: read, bytes: taken } = read_var_int(bytes) else {
                panic!("a number")
            };
            assert_eq!((read as usize, taken), (value, bytes.len()));
        }
        for size in [0, 127, 128, 16_384] {
            let (mut sized, mut plain) = (Vec::new(), Vec::new());
            write_sized(&mut sized, |out| out.resize(out.len() + size, 7));
            write_var_int(size, &mut plain);
            plain.resize(plain.len() + size, 7);
            assert_eq!(sized, plain);
        }
    }

    #[test]
    fn a_packet_is_found_only_when_its_last_octet_is_there() {
        let bytes = b"\x32\x05hello!";
        assert_eq!(parse_frame(b"", 5), Ok(Parsed::Incomplete { needed: 2 }));
        assert_eq!(parse_frame(&bytes[..1], 5), Ok(Parsed::Incomplete { needed: 2 }));
        for length in 2..7 {
            assert_eq!(parse_frame(&bytes[..length], 5), Ok(Parsed::Incomplete { needed: 7 }));
        }
        let frame = Frame { kind: 3, flags: 2, body: b"hello" };
        assert_eq!(parse_frame(bytes, 5), Ok(Parsed::Complete { frame, consumed: 7 }));
        assert_eq!(parse_frame(bytes, 4), Err(FrameError::TooLarge { size: 5, max: 4 }));
        assert_eq!(parse_frame(b"\x10\xFF\xFF\xFF", 5), Ok(Parsed::Incomplete { needed: 5 }));
        assert_eq!(parse_frame(b"\x10\xFF\xFF\xFF\xFF", 5), Err(FrameError::BadLength));
    }
}
