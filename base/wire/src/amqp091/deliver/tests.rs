//! The hot-path encoders against golden bytes, the method encoders and the frame parser.

use super::*;
use crate::amqp091::{ContentHeader, Method, Parsed, parse_frame};

const TRANSIENT: &[u8] = b"\x10\x00\x01";

/// Splits into frames, each of at most `frame_size_max` bytes: (kind, channel, payload).
fn frames(mut bytes: &[u8], frame_size_max: usize) -> Vec<(u8, u16, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, frame_size_max - FRAME_OVERHEAD)
        else {
            panic!("no whole frame at {bytes:?}");
        };
        found.push((frame.kind, frame.channel, frame.payload));
        bytes = &bytes[consumed..];
    }
    found
}

#[test]
fn a_delivery_has_the_bytes_of_the_specification() {
    let mut out = Vec::new();
    encode_deliver(&mut out, 1, b"ct", 258, true, b"ex", b"key", TRANSIENT, b"hello", 131_072);
    let golden = b"\x01\x00\x01\x00\x00\x00\x17\x00\x3C\x00\x3C\x02ct\x00\x00\x00\x00\x00\x00\x01\x02\x01\x02ex\x03key\xCE\
        \x02\x00\x01\x00\x00\x00\x0F\x00\x3C\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x10\x00\x01\xCE\
        \x03\x00\x01\x00\x00\x00\x05hello\xCE";
    assert_eq!(out, golden);
}

#[test]
fn bodies_are_cut_so_that_no_frame_exceeds_the_maximum() {
    let body: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for (frame_size_max, pieces) in [(108, 10), (107, 11), (1008, 1), (1007, 2), (9, 1000)] {
        let mut out = Vec::new();
        encode_deliver(&mut out, 7, b"", 1, false, b"", b"", b"\0\0", &body, frame_size_max);
        let found = frames(&out, frame_size_max.max(64));
        assert_eq!(found.len(), 2 + pieces);
        assert!(found[2..].iter().all(|(kind, channel, piece)| {
            (*kind, *channel) == (FRAME_BODY, 7) && piece.len() + FRAME_OVERHEAD <= frame_size_max
        }));
        let joined: Vec<u8> = found[2..].iter().flat_map(|(_, _, piece)| piece.to_vec()).collect();
        assert_eq!(joined, body);
    }
}

#[test]
fn a_maximum_of_zero_is_no_limit_and_a_senseless_one_does_no_harm() {
    let body = vec![1; 200_000];
    let mut out = Vec::new();
    encode_deliver(&mut out, 1, b"", 1, false, b"", b"", b"\0\0", &body, 0);
    assert_eq!(frames(&out, 300_000).len(), 3);
    out.clear();
    encode_deliver(&mut out, 1, b"", 1, false, b"", b"", b"\0\0", b"ab", 3);
    assert_eq!(frames(&out, 64).len(), 4);
}

#[test]
fn an_empty_body_has_no_body_frame() {
    let mut out = Vec::new();
    encode_publish(&mut out, 1, b"", b"q", false, b"\0\0", b"", 131_072);
    let found = frames(&out, 131_072);
    assert_eq!(found.len(), 2);
    let header = ContentHeader::decode(found[1].2).unwrap();
    assert_eq!(header, ContentHeader { class_id: 60, weight: 0, body_size: 0, properties: b"\0\0" });
}

#[test]
fn every_content_method_is_what_the_method_encoder_writes() {
    let (exchange, routing_key) = (ShortStr::bounded(b"ex"), ShortStr::bounded(b"key"));
    let tag = ShortStr::bounded(b"tag");
    let expected: [Method<'_>; 4] = [
        basic::Deliver { consumer_tag: tag, delivery_tag: 9, redelivered: true, exchange, routing_key }
            .into(),
        basic::GetOk { delivery_tag: 9, redelivered: true, exchange, routing_key, message_count: 3 }.into(),
        basic::Return { reply_code: 312, reply_text: tag, exchange, routing_key }.into(),
        basic::Publish { ticket: 0, exchange, routing_key, mandatory: true, immediate: false }.into(),
    ];
    let mut written = [const { Vec::new() }; 4];
    encode_deliver(&mut written[0], 3, b"tag", 9, true, b"ex", b"key", TRANSIENT, b"body", 0);
    encode_get_ok(&mut written[1], 3, 9, true, b"ex", b"key", 3, TRANSIENT, b"body", 0);
    encode_return(&mut written[2], 3, 312, b"tag", b"ex", b"key", TRANSIENT, b"body", 0);
    encode_publish(&mut written[3], 3, b"ex", b"key", true, TRANSIENT, b"body", 0);
    for (bytes, method) in written.iter().zip(expected) {
        let mut whole = Vec::new();
        method.encode_frame(3, &mut whole);
        ContentHeader { class_id: 60, weight: 0, body_size: 4, properties: TRANSIENT }
            .encode_frame(3, &mut whole);
        crate::amqp091::write_frame(FRAME_BODY, 3, b"body", &mut whole);
        assert_eq!(bytes, &whole, "{}", method.name());
        assert_eq!(bytes.len(), whole.len());
    }
}

#[test]
fn one_reservation_is_enough() {
    let mut out = Vec::new();
    encode_deliver(&mut out, 1, b"ct", 1, false, b"ex", b"key", TRANSIENT, &[0; 1000], 108);
    let mut exact = Vec::with_capacity(out.len());
    let before = exact.capacity();
    encode_deliver(&mut exact, 1, b"ct", 1, false, b"ex", b"key", TRANSIENT, &[0; 1000], 108);
    assert_eq!((exact.len(), exact.capacity()), (out.len(), before));
}

#[test]
fn settlements_are_what_the_method_encoder_writes() {
    let expected: [Method<'_>; 3] = [
        basic::Ack { delivery_tag: 5, multiple: true }.into(),
        basic::Nack { delivery_tag: 5, multiple: false, requeue: true }.into(),
        basic::Reject { delivery_tag: 5, requeue: true }.into(),
    ];
    let mut written = [const { Vec::new() }; 3];
    encode_ack(&mut written[0], 2, 5, true);
    encode_nack(&mut written[1], 2, 5, false, true);
    encode_reject(&mut written[2], 2, 5, true);
    for (bytes, method) in written.iter().zip(expected) {
        let mut whole = Vec::new();
        method.encode_frame(2, &mut whole);
        assert_eq!(bytes, &whole);
    }
}

#[test]
fn a_run_has_the_bytes_of_its_deliveries_one_by_one() {
    let bodies: [&[u8]; 6] = [b"hello", b"world", b"", b"", b"one that does not fit into a frame", b"again"];
    for frame_size_max in [0, 20, 131_072] {
        for tag in [&b""[..], b"ctag"] {
            let (mut alone, mut together) = (vec![9; 3], vec![9; 3]);
            let mut run = DeliverRun::new(7, tag, frame_size_max);
            for nth in 0..60 {
                // Everything stays the same for a while.
                let body = bodies[nth / 3 % bodies.len()];
                let exchange: &[u8] = if nth % 20 < 15 { b"ex" } else { b"" };
                let (key, raw) = ([&b"key"[..], b"kex"][nth / 7 % 2], [TRANSIENT, b"\0\0"][nth / 11 % 2]);
                let redelivered = nth % 5 == 0;
                encode_deliver(
                    &mut alone,
                    7,
                    tag,
                    nth as u64,
                    redelivered,
                    exchange,
                    key,
                    raw,
                    body,
                    frame_size_max,
                );
                run.push(&mut together, nth as u64, redelivered, exchange, key, raw, body);
                assert_eq!(alone, together, "delivery {nth}");
            }
        }
    }
}

#[test]
fn a_delivery_in_pieces_has_the_bytes_of_one_at_once() {
    let body: Vec<u8> = (0..=255).cycle().take(1000).collect();
    for frame_size_max in [0, 9, 107, 108, 1007, 1008, 131_072] {
        let mut whole = Vec::new();
        encode_deliver(&mut whole, 7, b"ct", 9, true, b"ex", b"key", TRANSIENT, &body, frame_size_max);
        for piece in [1, 7, 8, 9, 100, 999, 5000] {
            let mut out = Vec::new();
            encode_deliver_head(&mut out, 7, b"ct", 9, true, b"ex", b"key", TRANSIENT, body.len());
            let mut frames = BodyFrames::new(7, frame_size_max, &body[..]);
            while frames.bytes_left() > 0 {
                let (before, left) = (out.len(), frames.bytes_left());
                assert_eq!(before + left, whole.len());
                frames.write(&mut out, piece);
                let written = out.len() - before;
                assert!(written > 0 && written <= piece + FRAME_OVERHEAD, "{written} for {piece}");
                assert_eq!(frames.bytes_left(), left - written);
            }
            assert_eq!(out, whole, "frames of {frame_size_max} in pieces of {piece}");
        }
    }
}
