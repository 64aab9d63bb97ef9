//! Frames to bytes.

use super::Version;
use super::header::letter;

/// Appends one frame to a buffer: command, headers, then the body.
///
/// ```
/// use wire::stomp::{FrameWriter, Version};
/// let mut out = Vec::new();
/// FrameWriter::new("RECEIPT", Version::V12, &mut out).header("receipt-id", b"1:2").end();
/// assert_eq!(out, b"RECEIPT\nreceipt-id:1\\c2\n\n\0\n");
/// ```
pub struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
    /// CONNECTED has no escapes in any version.
    escapes: bool,
}

impl<'a> FrameWriter<'a> {
    /// Begins a frame. `command` is a word of capital letters.
    pub fn new(command: &str, version: Version, out: &'a mut Vec<u8>) -> FrameWriter<'a> {
        out.extend_from_slice(command.as_bytes());
        out.push(b'\n');
        let escapes = version != Version::V10 && command != "CONNECTED" && command != "CONNECT";
        FrameWriter { out, version, escapes }
    }

    /// Appends a header. What the version cannot say is left out: line ends where there are no escapes, CR before version 1.2, and NUL.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> FrameWriter<'a> {
        self.text(name.as_ref(), true);
        self.out.push(b':');
        self.text(value.as_ref(), false);
        self.out.push(b'\n');
        self
    }

    /// Ends the frame without a body.
    pub fn end(self) {
        self.out.extend_from_slice(b"\n\0\n");
    }

    /// Ends the frame with a body and its `content-length`. A line end follows, as RabbitMQ writes it.
    pub fn body(self, body: &[u8]) {
        self.body_of([body]);
    }

    /// As [`Self::body`], of a body in pieces.
    pub fn body_of<'b>(self, pieces: impl IntoIterator<Item = &'b [u8]> + Clone) {
        let length: usize = pieces.clone().into_iter().map(<[u8]>::len).sum();
        let writer = self.header("content-length", length.to_string());
        writer.out.push(b'\n');
        pieces.into_iter().for_each(|piece| writer.out.extend_from_slice(piece));
        writer.out.extend_from_slice(b"\0\n");
    }

    fn text(&mut self, text: &[u8], is_name: bool) {
        for byte in text {
            match letter(*byte, self.version) {
                Some(letter) if self.escapes => self.out.extend_from_slice(&[b'\\', letter]),
                _ if matches!(byte, b'\n' | b'\r' | 0) || (is_name && *byte == b':') => {}
                _ => self.out.push(*byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(command: &str, version: Version, name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        FrameWriter::new(command, version, &mut out).header(name, value).body(b"\0");
        out
    }

    #[test]
    fn a_value_never_becomes_another_header() {
        let bytes = written("MESSAGE", Version::V12, "a:b", "c:d\\\r\n\0");
        assert_eq!(bytes, b"MESSAGE\na\\cb:c\\cd\\\\\\r\\n\ncontent-length:1\n\n\0\0\n");
        let bytes = written("MESSAGE", Version::V11, "a", "b\r\nc");
        assert_eq!(bytes, b"MESSAGE\na:b\\nc\ncontent-length:1\n\n\0\0\n");
        let bytes = written("MESSAGE", Version::V10, "a:b", "c:d\\\r\n\0");
        assert_eq!(bytes, b"MESSAGE\nab:c:d\\\ncontent-length:1\n\n\0\0\n");
    }

    #[test]
    fn connected_has_no_escapes() {
        let bytes = written("CONNECTED", Version::V12, "server", "a:b");
        assert_eq!(bytes, b"CONNECTED\nserver:a:b\ncontent-length:1\n\n\0\0\n");
    }
}
