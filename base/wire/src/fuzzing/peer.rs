//! Frames between nodes.

use crate::peer::{
    Auth, FRAME_BYTES_MAX, Hello, Liveness, Neighbours, PAYLOAD_BYTES_MAX, Parsed, Verdict, parse_frame,
    write_frame,
};

/// A read buffer of frames, as a node sees it. Each payload is read as every message.
pub fn peer_frame(data: &[u8]) {
    let mut rest = data;
    loop {
        match parse_frame(rest, PAYLOAD_BYTES_MAX) {
            Ok(Parsed::Complete { kind, payload, consumed }) => {
                let mut again = Vec::new();
                write_frame(kind, payload, &mut again);
                // Flags and reserved bytes are not written again.
                assert_eq!(again.len(), consumed);
                peer_message(payload);
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= FRAME_BYTES_MAX);
                break;
            }
            Err(_) => break,
        }
    }
    // Most inputs have no right checksum.
    peer_message(data);
}

fn peer_message(payload: &[u8]) {
    let mut out = Vec::new();
    if let Ok(hello) = Hello::decode(payload) {
        hello.encode(&mut out);
        assert!(payload.starts_with(&out));
        out.clear();
    }
    if let Ok(auth) = Auth::decode(payload) {
        auth.encode(&mut out);
        assert!(payload.starts_with(&out));
        out.clear();
    }
    if let Ok(verdict) = Verdict::decode(payload) {
        verdict.encode(&mut out);
        assert!(payload.starts_with(&out));
        out.clear();
    }
    if let Ok(sign) = Liveness::decode(payload) {
        sign.encode(&mut out);
        assert!(payload.starts_with(&out));
        out.clear();
    }
    if let Ok(list) = Neighbours::decode(payload) {
        list.encode(&mut out);
        assert!(payload.starts_with(&out));
    }
}
