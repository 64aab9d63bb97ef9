//! Frames between nodes.
//!
//! ```text
//!  0        4     8      9       10         12         12+length
//!  +--------+-----+------+-------+----------+----------+
//!  | length | crc | kind | flags | reserved | payload  |
//!  |  u32   | u32 |  u8  |  u8   |   u16    |          |
//!  +--------+-----+------+-------+----------+----------+
//! ```
//!
//! The crc (CRC-32, IEEE) covers all that follows it. Flags and reserved are written as 0, and ignored.

/// Bytes before the payload.
pub const HEAD_BYTES: usize = 12;
/// Bytes of a payload at most.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of a frame at most.
pub const FRAME_BYTES_MAX: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX;
/// Bytes of a payload at most before the other side has proven that it has the secret.
pub const HELLO_BYTES_MAX: usize = 1024;

/// The header before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the payload.
    pub length: usize,
    /// Checksum of what follows it.
    pub crc: u32,
    /// The kind of the payload.
    pub kind: u8,
    /// For later versions.
    pub flags: u8,
    reserved: u16,
}

/// A frame that cannot be accepted; the connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced payload is larger than allowed; known before any of it has come.
    #[error("a frame with a payload of {length} bytes, at most {max} are allowed")]
    TooLarge {
        /// Announced bytes.
        length: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The checksum is another one.
    #[error("a frame whose checksum is wrong")]
    Damaged,
}

impl Head {
    /// Of a frame with that payload.
    #[must_use]
    pub fn of(kind: u8, payload: &[u8]) -> Head {
        let mut head = Head { length: payload.len(), crc: 0, kind, flags: 0, reserved: 0 };
        head.crc = head.checksum(payload);
        head
    }

    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.crc.to_be_bytes());
        bytes[8] = self.kind;
        bytes[9] = self.flags;
        bytes[10..].copy_from_slice(&self.reserved.to_be_bytes());
        bytes
    }

    /// Reads one head. A caller that allocates by its length does so after this.
    ///
    /// # Errors
    /// The payload would have more than `payload_max` bytes.
    pub fn decode(bytes: &[u8; HEAD_BYTES], payload_max: usize) -> Result<Head, FrameError> {
        let [a, b, c, d, e, f, g, h, kind, flags, i, j] = *bytes;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > payload_max {
            return Err(FrameError::TooLarge { length, max: payload_max });
        }
        let crc = u32::from_be_bytes([e, f, g, h]);
        Ok(Head { length, crc, kind, flags, reserved: u16::from_be_bytes([i, j]) })
    }

    /// Whether the payload is the one that was sent.
    ///
    /// # Errors
    /// [`FrameError::Damaged`].
    pub fn check(&self, payload: &[u8]) -> Result<(), FrameError> {
        if payload.len() == self.length && self.checksum(payload) == self.crc {
            Ok(())
        } else {
            Err(FrameError::Damaged)
        }
    }

    fn checksum(&self, payload: &[u8]) -> u32 {
        let [high, low] = self.reserved.to_be_bytes();
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[self.kind, self.flags, high, low]);
        hasher.update(payload);
        hasher.finalize()
    }
}

/// Appends a frame.
pub fn write_frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Head::of(kind, payload).encode());
    out.extend_from_slice(payload);
}

/// The result of [`parse_frame`] on the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole frame whose checksum is right.
    Complete {
        /// The kind of the payload.
        kind: u8,
        /// Borrowed from the buffer.
        payload: &'a [u8],
        /// Bytes the frame takes at the front of the buffer.
        consumed: usize,
    },
    /// More bytes must come first.
    Incomplete {
        /// Length, counted from the front of the buffer, below which trying again is pointless.
        needed: usize,
    },
}

/// Looks for one frame at the front of `buffer`.
///
/// # Errors
/// The frame is too large or damaged.
pub fn parse_frame(buffer: &[u8], payload_max: usize) -> Result<Parsed<'_>, FrameError> {
    let Some((head, rest)) = buffer.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(Parsed::Incomplete { needed: HEAD_BYTES });
    };
    let head = Head::decode(head, payload_max)?;
    let consumed = HEAD_BYTES + head.length;
    let Some(payload) = rest.get(..head.length) else { return Ok(Parsed::Incomplete { needed: consumed }) };
    head.check(payload)?;
    Ok(Parsed::Complete { kind: head.kind, payload, consumed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_frame_comes_back_and_no_bit_of_it_may_differ(
            kind: u8,
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..1000_usize,
            flip in 0..1000_usize,
            bit in 0..8_u8,
        ) {
            let mut bytes = Vec::new();
            write_frame(kind, &payload, &mut bytes);
            let whole = Parsed::Complete { kind, payload: &payload, consumed: bytes.len() };
            prop_assert_eq!(parse_frame(&bytes, payload.len()), Ok(whole));
            let cut = cut % bytes.len();
            let is_incomplete = matches!(parse_frame(&bytes[..cut], 200), Ok(Parsed::Incomplete { needed }) if needed > cut);
            prop_assert!(is_incomplete);
            let flip = flip % bytes.len();
            bytes[flip] ^= 1 << bit;
            let is_whole = matches!(parse_frame(&bytes, 200), Ok(Parsed::Complete { .. }));
            prop_assert!(!is_whole);
        }
    }

    #[test]
    fn a_lying_length_is_refused_before_its_payload_has_come() {
        let head = Head { length: PAYLOAD_BYTES_MAX + 1, crc: 0, kind: 1, flags: 0, reserved: 0 };
        let refused = FrameError::TooLarge { length: PAYLOAD_BYTES_MAX + 1, max: PAYLOAD_BYTES_MAX };
        assert_eq!(parse_frame(&head.encode(), PAYLOAD_BYTES_MAX), Err(refused));
        assert!(parse_frame(&head.encode(), PAYLOAD_BYTES_MAX + 1).is_ok());
    }
}
