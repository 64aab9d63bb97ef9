//! Tests of the parser: whole and partial frames, bounds, and what is malformed.

use super::*;

const LIMITS: Limits = Limits { frame_bytes_max: 100, head_bytes_max: 60 };

fn parse(buf: &[u8], version: Version) -> Result<Parsed<'_>, FrameError> {
    parse_frame(buf, version, LIMITS)
}

fn frame(buf: &[u8], version: Version) -> (Frame<'_>, usize) {
    match parse(buf, version) {
        Ok(Parsed::Complete { frame, consumed }) => (frame, consumed),
        other => panic!("no frame: {other:?}"),
    }
}

#[test]
fn a_frame_ends_with_its_nul() {
    let bytes = b"SEND\r\ndestination:/queue/a\nx: y\n\nhello\0\n";
    let (found, consumed) = frame(bytes, Version::V12);
    assert_eq!((found.command, found.body, consumed), (&b"SEND"[..], &b"hello"[..], bytes.len() - 1));
    assert_eq!(found.headers.get(b"destination").as_deref(), Some(&b"/queue/a"[..]));
    assert_eq!(found.headers.get(b"x").as_deref(), Some(&b" y"[..]));
    assert_eq!(found.headers.get(b"z"), None);
    for length in 1..consumed {
        let parsed = parse(&bytes[..length], Version::V12);
        assert_eq!(parsed, Ok(Parsed::Incomplete { needed: length + 1 }));
    }
    assert_eq!(parse(b"", Version::V12), Ok(Parsed::Incomplete { needed: 1 }));
}

#[test]
fn content_length_lets_a_body_have_nuls_and_says_what_is_needed() {
    let bytes = b"SEND\ncontent-length: 3 \n\na\0b\0";
    assert_eq!(frame(bytes, Version::V12).0.body, b"a\0b");
    assert_eq!(parse(&bytes[..26], Version::V12), Ok(Parsed::Incomplete { needed: bytes.len() }));
    assert_eq!(parse(b"SEND\ncontent-length:2\n\na\0b\0", Version::V12), Err(FrameError::NoNul));
    for bad in ["", "x", "-1", "1.0"] {
        let bytes = format!("SEND\ncontent-length:{bad}\n\n\0");
        assert_eq!(parse(bytes.as_bytes(), Version::V12), Err(FrameError::BadContentLength));
    }
    let too_large = Err(FrameError::TooLarge { max: 100 });
    assert_eq!(parse(b"SEND\ncontent-length:99\n\n", Version::V12), too_large);
    let huge = b"SEND\ncontent-length:99999999999999999999\n\n";
    assert_eq!(parse(huge, Version::V12), too_large);
}

#[test]
fn line_ends_between_frames_are_heart_beats() {
    assert_eq!(parse(b"\n\r\n\nSEND", Version::V12), Ok(Parsed::LineEnds { consumed: 4 }));
    assert_eq!(parse(b"\n\r", Version::V12), Ok(Parsed::LineEnds { consumed: 1 }));
    assert_eq!(parse(b"\r", Version::V12), Ok(Parsed::Incomplete { needed: 2 }));
}

#[test]
fn escapes_are_those_of_the_version() {
    let bytes = b"SEND\na\\cb:\\nx\\\\\n\n\0";
    let of = |version| {
        frame(bytes, version)
            .0
            .headers
            .iter()
            .next()
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
    };
    assert_eq!(of(Version::V12), Some((b"a:b".to_vec(), b"\nx\\".to_vec())));
    assert_eq!(of(Version::V11), of(Version::V12));
    assert_eq!(of(Version::V10), Some((b"a\\cb".to_vec(), b"\\nx\\\\".to_vec())));
    let with_return = b"SEND\na:\\r\n\n\0";
    assert_eq!(frame(with_return, Version::V12).0.headers.get(b"a").as_deref(), Some(&b"\r"[..]));
    assert_eq!(parse(with_return, Version::V11), Err(FrameError::BadEscape));
    assert_eq!(parse(b"SEND\na:\\t\n\n\0", Version::V12), Err(FrameError::BadEscape));
    assert_eq!(parse(b"SEND\na:\\\n\n\0", Version::V12), Err(FrameError::BadEscape));
}

#[test]
fn version_1_0_has_spaces_before_values() {
    assert_eq!(frame(b"SEND\na:  b\n\n\0", Version::V10).0.headers.get(b"a").as_deref(), Some(&b"b"[..]));
}

#[test]
fn the_first_header_of_a_name_counts() {
    assert_eq!(frame(b"SEND\na:1\na:2\n\n\0", Version::V11).0.headers.get(b"a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_there() {
    assert_eq!(parse(&[b'A'; 60], Version::V12), Err(FrameError::HeadTooLarge { max: 60 }));
    let mut long = b"SEND\n\n".to_vec();
    long.resize(100, b'x');
    assert_eq!(parse(&long, Version::V12), Err(FrameError::TooLarge { max: 100 }));
    let mut many = b"SEND\n".to_vec();
    (0..=super::super::HEADERS_MAX).for_each(|_| many.extend_from_slice(b"a:\n"));
    many.extend_from_slice(b"\n\0");
    let limits = Limits { frame_bytes_max: 10_000, head_bytes_max: 10_000 };
    assert_eq!(parse_frame(&many, Version::V12, limits), Err(FrameError::TooManyHeaders));
}

#[test]
fn malformed_heads_are_refused() {
    assert_eq!(parse(b"SEND\nabc\n\n\0", Version::V12), Err(FrameError::NoColon));
    assert_eq!(parse(b"SE\rND\n\n\0", Version::V12), Err(FrameError::LoneCarriageReturn));
    assert_eq!(parse(b"SEND\na:b\rc\n\n\0", Version::V12), Err(FrameError::LoneCarriageReturn));
    assert_eq!(parse(b"SEND\0", Version::V12), Err(FrameError::NulInHead));
    assert_eq!(parse(b"SEND\na:\0\n\n", Version::V12), Err(FrameError::NulInHead));
}
