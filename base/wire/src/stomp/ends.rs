//! Where frames end in the bytes that a peer writes, whatever the pieces that they come in. For transports that send each frame by itself.
//!
//! Checks nothing else: the bytes are the writer's own.

/// The part of a header's line that is kept: `content-length:` and a number.
const LINE_BYTES_MAX: usize = 40;

/// Finds the ends of frames, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct FrameEnds {
    place: Place,
}

/// The place in the stream.
#[derive(Clone, Debug, Default)]
enum Place {
    /// Before a frame.
    #[default]
    Between,
    /// Within command and headers.
    Head { line: Vec<u8>, body_bytes: Option<usize> },
    /// Before the rest of a body: of so many bytes, or to the next NUL.
    Body(Option<usize>),
}

impl FrameEnds {
    /// The end of the frame that these bytes go on with: behind its NUL and the line end that follows. A line end between frames, a
    /// heart-beat, counts as a frame. `None` says that the frame goes on behind all of the bytes. Bytes up to the end are taken; the next
    /// call begins behind them.
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.place {
                Place::Between if bytes[at] == b'\n' => return Some(at + 1),
                Place::Between => self.place = Place::Head { line: Vec::new(), body_bytes: None },
                Place::Head { line, body_bytes } => {
                    match bytes[at] {
                        b'\n' if line.is_empty() => self.place = Place::Body(*body_bytes),
                        b'\n' => {
                            *body_bytes = body_bytes.or_else(|| length(line));
                            line.clear();
                        }
                        byte if line.len() < LINE_BYTES_MAX => line.push(byte),
                        _ => {}
                    }
                    at += 1;
                }
                Place::Body(Some(left)) if *left > 0 => {
                    let count = (*left).min(bytes.len() - at);
                    *left -= count;
                    at += count;
                }
                Place::Body(_) => {
                    at += bytes[at..].iter().position(|byte| *byte == 0)? + 1;
                    self.place = Place::Between;
                    return Some(at + usize::from(bytes.get(at) == Some(&b'\n')));
                }
            }
        }
        None
    }
}

/// The number of a line `content-length:NUMBER`.
fn length(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(line).ok()?.strip_prefix("content-length:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stomp::{FrameWriter, Version};

    /// Three frames and a heart-beat, and where they end.
    fn stream() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        FrameWriter::new("RECEIPT", Version::V12, &mut bytes).header("receipt-id", "1").end();
        ends.push(bytes.len());
        bytes.push(b'\n');
        ends.push(bytes.len());
        FrameWriter::new("MESSAGE", Version::V12, &mut bytes).header("a", "x".repeat(100)).body(b"\0\n\n\0");
        ends.push(bytes.len());
        bytes.extend_from_slice(b"ERROR\nmessage:x\n\nno length\0");
        ends.push(bytes.len());
        (bytes, ends)
    }

    #[test]
    fn each_frame_and_each_heart_beat_ends_where_it_was_ended() {
        let (bytes, ends) = stream();
        let (mut frames, mut at, mut found) = (FrameEnds::default(), 0, Vec::new());
        while let Some(end) = frames.find(&bytes[at..]) {
            at += end;
            found.push(at);
        }
        assert_eq!(found, ends);
    }

    #[test]
    fn pieces_of_any_size_have_the_same_ends() {
        let (bytes, ends) = stream();
        // A line end that comes apart from its frame counts by itself.
        for size in [2, 3, 7, 50] {
            let (mut frames, mut found) = (FrameEnds::default(), Vec::new());
            for (nth, piece) in bytes.chunks(size).enumerate() {
                let mut at = 0;
                while let Some(end) = frames.find(&piece[at..]) {
                    at += end;
                    found.push(nth * size + at);
                }
            }
            assert!(ends.iter().all(|end| found.contains(end)), "{size}: {found:?}, {ends:?}");
        }
    }
}
