//! Content headers: the frame between a content-bearing method and its body.
//!
//! Refuses to look into the properties; they stay as received ([`super::Properties`] reads them when asked).

use super::frame::{FRAME_END, FRAME_HEADER, FRAME_OVERHEAD, frame_head};
use crate::reader::Reader;

/// Bytes of a header's payload before the properties: class, weight, body size.
pub(super) const HEADER_FIXED_BYTES: usize = 12;

/// A content header, its properties raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// Class of the method it follows; 60 (basic) in every valid header.
    pub class_id: u16,
    /// Must be 0 (AMQP 0-9-1 section 4.2.6.1); the session refuses others.
    pub weight: u16,
    /// Size of the whole body in bytes, over all its frames.
    pub body_size: u64,
    /// Property flags and property list as received.
    pub properties: &'a [u8],
}

/// A header frame's payload that is no content header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Shorter than the 14 bytes of class, weight, body size and property flags.
    #[error("content header of {size} bytes")]
    Truncated {
        /// Bytes there were.
        size: usize,
    },
}

impl<'a> ContentHeader<'a> {
    /// Reads a header frame's payload.
    ///
    /// # Errors
    /// [`HeaderError::Truncated`] if there are not at least 14 bytes.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, HeaderError> {
        Self::read(payload).ok_or(HeaderError::Truncated { size: payload.len() })
    }

    #[inline]
    fn read(payload: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let (class_id, weight) = (reader.u16()?, reader.u16()?);
        let body_size = reader.u64()?;
        let properties = reader.rest();
        (properties.len() >= 2).then_some(Self { class_id, weight, body_size, properties })
    }

    /// Appends the whole header frame.
    pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
        let size = HEADER_FIXED_BYTES + self.properties.len();
        out.reserve(size + FRAME_OVERHEAD);
        out.extend_from_slice(&frame_head(FRAME_HEADER, channel, size));
        out.extend_from_slice(&self.class_id.to_be_bytes());
        out.extend_from_slice(&self.weight.to_be_bytes());
        out.extend_from_slice(&self.body_size.to_be_bytes());
        out.extend_from_slice(self.properties);
        out.push(FRAME_END);
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentHeader, HeaderError};

    #[test]
    fn a_header_is_fourteen_bytes_plus_properties() {
        let header = ContentHeader { class_id: 60, weight: 0, body_size: 5, properties: &[0x10, 0, 2] };
        let mut frame = Vec::new();
        header.encode_frame(1, &mut frame);
        let golden =
            b"\x02\x00\x01\x00\x00\x00\x0F\x00\x3C\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x10\x00\x02\xCE";
        assert_eq!(frame, golden);
        assert_eq!(ContentHeader::decode(&golden[7..22]), Ok(header));
    }

    #[test]
    fn a_header_without_flags_is_truncated() {
        assert_eq!(ContentHeader::decode(&[0; 13]), Err(HeaderError::Truncated { size: 13 }));
        assert!(ContentHeader::decode(&[0; 14]).is_ok());
    }
}
