//! STOMP.

use crate::stomp::{Frame, FrameWriter, Limits, Parsed, Version, parse_frame};

const LIMITS: Limits = Limits { frame_bytes_max: 1_048_576, head_bytes_max: 65_536 };

/// One byte that chooses the version, then a read buffer of frames, as a connection sees it.
pub fn stomp_frame(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let version = match choice % 3 {
        0 => Version::V10,
        1 => Version::V11,
        _ => Version::V12,
    };
    loop {
        match parse_frame(rest, version, LIMITS) {
            Ok(Parsed::Complete { frame, consumed }) => {
                assert!(consumed <= LIMITS.frame_bytes_max);
                round_trip(&frame, version);
                rest = &rest[consumed..];
            }
            Ok(Parsed::LineEnds { consumed }) => {
                assert!(consumed > 0);
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= LIMITS.frame_bytes_max);
                return;
            }
            Err(_) => return,
        }
    }
}

/// A frame that the version can say comes back as it was.
fn round_trip(frame: &Frame<'_>, version: Version) {
    let Ok(command) = std::str::from_utf8(frame.command) else { return };
    if command == "CONNECT" || command == "CONNECTED" {
        return;
    }
    let mut written = Vec::new();
    let mut writer = FrameWriter::new(command, version, &mut written);
    for (name, value) in frame.headers.iter().filter(|(name, _)| **name != *b"content-length") {
        writer = writer.header(name, value);
    }
    writer.body(frame.body);
    let limits = Limits { frame_bytes_max: usize::MAX, head_bytes_max: usize::MAX };
    let Ok(Parsed::Complete { frame: again, consumed }) = parse_frame(&written, version, limits) else {
        panic!("a written frame is none");
    };
    assert_eq!((again.command, again.body, consumed + 1), (frame.command, frame.body, written.len()));
    let given = frame.headers.iter().filter(|(name, _)| **name != *b"content-length");
    let read = again.headers.iter().filter(|(name, _)| **name != *b"content-length");
    assert!(given.eq(read));
}
