//! Cuts the bytes that go out into messages: each frame of the protocol gets one of its own. Clients in browsers count on that.
//!
//! A frame that is too large for one write, or is not whole yet, becomes a message in several fragments.

use bytes::Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::FrameEnd;

/// The place in the bytes that go out.
pub(super) struct Cutter {
    frame_end: FrameEnd,
    /// Whether messages are texts, where their bytes are UTF-8.
    is_text: bool,
    /// Bytes in front that belong to the frame that was looked at last.
    known: usize,
    /// The frame ends behind them.
    is_whole: bool,
    /// A message is begun.
    is_inside: bool,
}

impl Cutter {
    pub(super) fn new(frame_end: FrameEnd, is_text: bool) -> Cutter {
        Cutter { frame_end, is_text, known: 0, is_whole: false, is_inside: false }
    }

    /// The next fragment, of at most so many bytes, and how many it has. `bytes` are what is left of those of the last call, or new ones
    /// if nothing is left.
    pub(super) fn cut(&mut self, bytes: &[u8], bytes_max: usize) -> (Frame, usize) {
        if self.known == 0 {
            let end = (self.frame_end)(bytes);
            (self.known, self.is_whole) = (end.unwrap_or(bytes.len()), end.is_some());
        }
        let kind = match self.is_inside {
            true => Data::Continue,
            false if self.is_text && may_be_text(&bytes[..self.known]) => Data::Text,
            false => Data::Binary,
        };
        let count = self.known.min(bytes_max);
        self.known -= count;
        let is_last = self.known == 0 && self.is_whole;
        self.is_inside = !is_last;
        let payload = Bytes::copy_from_slice(&bytes[..count]);
        (Frame::message(payload, OpCode::Data(kind), is_last), count)
    }
}

/// Whether the bytes are UTF-8, but for a character that may go on behind them.
fn may_be_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames end with a NUL; the fragments as kind, text and whether they are the last.
    fn cut(is_text: bool, pieces: &[&[u8]], bytes_max: usize) -> Vec<(Data, Vec<u8>, bool)> {
        let mut cutter =
            Cutter::new(Box::new(|bytes| bytes.iter().position(|it| *it == 0).map(|at| at + 1)), is_text);
        let mut found = Vec::new();
        for piece in pieces {
            let mut at = 0;
            while at < piece.len() {
                let (frame, count) = cutter.cut(&piece[at..], bytes_max);
                let OpCode::Data(kind) = frame.header().opcode else { panic!("{frame:?}") };
                found.push((kind, frame.payload().to_vec(), frame.header().is_final));
                at += count;
            }
        }
        found
    }

    #[test]
    fn each_frame_is_a_message_and_bytes_that_are_no_text_are_binary() {
        let found = cut(true, &[b"a\0\xff\0\xc3\xa4\0"], 10);
        let wanted = [
            (Data::Text, b"a\0".to_vec(), true),
            (Data::Binary, b"\xff\0".to_vec(), true),
            (Data::Text, b"\xc3\xa4\0".to_vec(), true),
        ];
        assert_eq!(found, wanted);
        assert!(cut(false, &[b"a\0b\0"], 10).iter().all(|it| it.0 == Data::Binary && it.2));
    }

    #[test]
    fn a_frame_that_comes_in_pieces_or_is_large_is_one_message_in_fragments() {
        let found = cut(true, &[b"abc\xc3", b"\xa4\0d\0"], 3);
        let wanted = [
            (Data::Text, b"abc".to_vec(), false),
            (Data::Continue, b"\xc3".to_vec(), false),
            (Data::Continue, b"\xa4\0".to_vec(), true),
            (Data::Text, b"d\0".to_vec(), true),
        ];
        assert_eq!(found, wanted);
    }
}
