//! Every performative through encode and decode, golden bytes for some, and what malformed ones do.

use proptest::prelude::*;

use super::super::samples::Samples;
use super::super::{
    Accepted, FRAME_SIZE_MAX_MIN, Parsed, Rejected, Sections, Target, TypeError, conditions, filters,
    parse_frame, write_data_head,
};
use super::*;

/// Body of the frame that is all of `bytes`.
fn body(bytes: &[u8], kind: u8) -> &[u8] {
    match parse_frame(bytes, usize::MAX) {
        Ok(Parsed::Complete { frame, consumed }) => {
            assert_eq!((consumed, frame.kind), (bytes.len(), kind));
            frame.body
        }
        other => panic!("not one frame: {other:?}"),
    }
}

/// Bytes and performative are each other's encoding.
fn same<'a>(bytes: &'a [u8], performative: impl Into<Performative<'a>>) {
    let (performative, mut out) = (performative.into(), Vec::new());
    performative.encode_frame(0, &mut out);
    assert_eq!(out.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    assert_eq!(Performative::decode(body(bytes, FRAME_AMQP)), Ok((performative, &[][..])));
}

fn same_sasl<'a>(bytes: &'a [u8], performative: impl Into<SaslPerformative<'a>>) {
    let (performative, mut out) = (performative.into(), Vec::new());
    performative.encode_frame(0, &mut out);
    assert_eq!(out.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    assert_eq!(SaslPerformative::decode(body(bytes, FRAME_SASL)), Ok((performative, &[][..])));
}

fn open(container_id: &str) -> Open<'_> {
    Open {
        container_id,
        hostname: None,
        max_frame_size: u32::MAX,
        channel_max: u16::MAX,
        idle_time_out: None,
        outgoing_locales: Symbols::EMPTY,
        incoming_locales: Symbols::EMPTY,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    }
}

#[test]
fn golden_performatives() {
    same(b"\0\0\0\x11\x02\0\0\0\0\x53\x10\xC0\x04\x01\xA1\x01c", open("c"));
    let limited = Open {
        hostname: Some("vhost:/"),
        max_frame_size: 131_072,
        channel_max: 63,
        desired_capabilities: Symbols::of(&["LINK_PAIR_V1_0"]),
        ..open("c")
    };
    same(
        b"\0\0\0\x3C\x02\0\0\0\0\x53\x10\xC0\x2F\x09\xA1\x01c\xA1\x07vhost:/\x70\0\x02\0\0\x60\0\x3F\x40\x40\x40\x40\
            \xE0\x14\x01\xB3\0\0\0\x0ELINK_PAIR_V1_0",
        limited,
    );
    let disposition = Disposition {
        role: Role::Receiver,
        first: 1,
        last: Some(3),
        settled: true,
        state: Some(DeliveryState::Accepted(Accepted {})),
        batchable: false,
    };
    same(b"\0\0\0\x18\x02\0\0\0\0\x53\x15\xC0\x0B\x05\x41\x52\x01\x52\x03\x41\0\x53\x24\x45", disposition);
    let error = Error {
        condition: Symbol(conditions::NOT_FOUND.as_bytes()),
        description: Some("no"),
        info: Map::EMPTY,
    };
    same(
        b"\0\0\0\x2A\x02\0\0\0\0\x53\x16\xC0\x1D\x03\x43\x41\0\x53\x1D\xC0\x15\x02\xA3\x0Eamqp:not-found\xA1\x02no",
        Detach { handle: 0, closed: true, error: Some(error) },
    );
    same(b"\0\0\0\x0C\x02\0\0\0\0\x53\x18\x45", Close { error: None });
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: 400,
        next_outgoing_id: 1,
        outgoing_window: 0xFFFF_FFFF,
        handle: Some(2),
        delivery_count: Some(0),
        link_credit: Some(170),
        available: None,
        drain: false,
        echo: true,
        properties: Map::EMPTY,
    };
    same(
        b"\0\0\0\x23\x02\0\0\0\0\x53\x13\xC0\x16\x0A\x43\x70\0\0\x01\x90\x52\x01\x70\xFF\xFF\xFF\xFF\x52\x02\x43\
            \x52\xAA\x40\x40\x41",
        flow,
    );
}

#[test]
fn golden_sasl() {
    same_sasl(
        b"\0\0\0\x1B\x02\x01\0\0\0\x53\x40\xC0\x0E\x01\xE0\x0B\x01\xB3\0\0\0\x05PLAIN",
        SaslMechanisms { sasl_server_mechanisms: Symbols::of(&["PLAIN"]) },
    );
    let init =
        SaslInit { mechanism: Symbol(b"PLAIN"), initial_response: Some(b"\0guest\0guest"), hostname: None };
    same_sasl(b"\0\0\0\x23\x02\x01\0\0\0\x53\x41\xC0\x16\x02\xA3\x05PLAIN\xA0\x0C\0guest\0guest", init);
    same_sasl(
        b"\0\0\0\x10\x02\x01\0\0\0\x53\x44\xC0\x03\x01\x50\0",
        SaslOutcome { code: SaslCode::Ok, additional_data: None },
    );
    same_sasl(b"\0\0\0\x11\x02\x01\0\0\0\x53\x42\xC0\x04\x01\xA0\x01?", SaslChallenge { challenge: b"?" });
    let bad_code = b"\0\x53\x44\xC0\x03\x01\x50\x05";
    let error = CompositeError::WrongType { composite: "amqp:sasl-outcome:list", field: "code" };
    assert_eq!(SaslPerformative::decode(bad_code), Err(error));
}

#[test]
fn transfers_carry_a_payload() {
    let transfer = Transfer {
        delivery_id: Some(1),
        delivery_tag: Some(b"t"),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::of(0)
    };
    let mut payload = Vec::new();
    write_data_head(12, &mut payload);
    payload.extend_from_slice(b"Hello world!");
    let mut bytes = Vec::new();
    assert_eq!(encode_delivery(0, &transfer, &[&payload], 512, &mut bytes), 1);
    let golden = b"\0\0\0\x27\x02\0\0\0\0\x53\x14\xC0\x09\x05\x43\x52\x01\xA0\x01t\x43\x42\0\x53\x75\xA0\x0CHello world!";
    assert_eq!(bytes.escape_ascii().to_string(), golden.escape_ascii().to_string());
    let (decoded, rest) = decode_transfer(body(&bytes, FRAME_AMQP)).unwrap();
    assert_eq!((decoded, rest), (transfer, &payload[..]));
    assert_eq!(Sections::scan(rest).unwrap().single_data(), Some(&b"Hello world!"[..]));
    let general = Performative::decode(body(&bytes, FRAME_AMQP));
    assert_eq!(general, Ok((Performative::Transfer(transfer), &payload[..])));
    assert_eq!(decode_transfer(b"\0\x53\x18\x45"), None);
}

#[test]
fn a_plain_head_has_the_bytes_that_the_writer_makes() {
    for (handle, id) in [(0, 0), (1, 255), (300, 256), (u32::MAX, u32::MAX)] {
        for tag in [&[][..], &[1, 2, 3, 4], &[9; 32]] {
            for settled in [false, true] {
                let transfer = Transfer {
                    delivery_id: Some(id),
                    delivery_tag: Some(tag),
                    message_format: Some(0),
                    settled: Some(settled),
                    ..Transfer::of(handle)
                };
                let mut expected = Vec::new();
                transfer.encode_frame(770, &mut expected);
                expected.extend_from_slice(b"message");
                expected[3] += 7;
                let mut bytes = Vec::new();
                assert_eq!(encode_delivery(770, &transfer, &[b"mess", b"age"], 512, &mut bytes), 1);
                assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
            }
        }
    }
}

#[test]
fn a_delivery_is_cut_into_frames_that_fit() {
    let transfer = Transfer { delivery_id: Some(7), delivery_tag: Some(&[9; 32]), ..Transfer::of(3) };
    let message: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    for frame_size_max in [64, FRAME_SIZE_MAX_MIN as usize, 4_000, 1 << 20] {
        for length in [0, 1, 400, 450, 460, 5_000] {
            let (front, back) = message[..length].split_at(length / 3);
            let mut bytes = Vec::new();
            let count = encode_delivery(5, &transfer, &[front, &[], back], frame_size_max, &mut bytes);
            let (mut rest, mut joined, mut seen) = (&bytes[..], Vec::new(), 0);
            while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(rest, frame_size_max) {
                let (part, payload) = decode_transfer(frame.body).unwrap();
                joined.extend_from_slice(payload);
                seen += 1;
                assert_eq!((part.handle, part.more, frame.channel), (3, seen < count, 5));
                assert_eq!(part.delivery_id.is_some(), seen == 1);
                rest = &rest[consumed..];
            }
            assert_eq!((seen, rest.len(), joined.as_slice()), (count, 0, &message[..length]));
        }
    }
}

#[test]
fn long_descriptors_and_names_are_read() {
    let named = b"\0\xA3\x0Damqp:end:list\x45";
    assert_eq!(Performative::decode(named), Ok((Performative::End(End { error: None }), &[][..])));
    let long = b"\0\x80\0\0\0\0\0\0\0\x17\xD0\0\0\0\x04\0\0\0\0";
    assert_eq!(Performative::decode(long), Ok((Performative::End(End { error: None }), &[][..])));
}

#[test]
fn malformed_performatives_say_what_is_wrong() {
    let decode = |bytes: &'static [u8]| Performative::decode(bytes).map(|_| ());
    let missing = CompositeError::Missing { composite: "amqp:open:list", field: "container_id" };
    assert_eq!(decode(b"\0\x53\x10\x45"), Err(missing));
    assert_eq!(decode(b"\0\x53\x10\xC0\x02\x01\x40"), Err(missing), "null is as good as missing");
    let wrong = |composite, field| Err(CompositeError::WrongType { composite, field });
    assert_eq!(decode(b"\0\x53\x10\xC0\x02\x01\x41"), wrong("amqp:open:list", "container_id"));
    assert_eq!(decode(b"\0\x53\x10\xC0\x04\x01\xA1\x01\xFF"), wrong("amqp:open:list", "container_id"));
    assert_eq!(decode(b"\0\x53\x14\xC0\x02\x01\x52"), Err(CompositeError::Type(TypeError::Truncated)));
    assert_eq!(decode(b"\0\x53\x14\xC0\x09\x01\x43"), Err(CompositeError::Type(TypeError::Truncated)));
    assert_eq!(decode(b"\0\x53\x19\x45"), Err(CompositeError::Unknown));
    assert_eq!(decode(b"\0\x53\x10\xC1\x01\0"), Err(CompositeError::Unknown), "a map is no list");
    assert_eq!(decode(b"\x45"), Err(CompositeError::Unknown));
    assert_eq!(decode(b""), Err(CompositeError::Unknown));
    // A properties map that ends early within an open.
    assert_eq!(
        decode(b"\0\x53\x10\xC0\x11\x0A\xA1\x01c\x40\x40\x40\x40\x40\x40\x40\x40\xC1\x03\x02\xA1\x05"),
        Err(CompositeError::Type(TypeError::Truncated))
    );
}

#[test]
fn sources_carry_filters_as_described_values() {
    let mut entries = Vec::new();
    let mut writer = Writer::new(&mut entries);
    writer.symbol(b"rabbitmq:stream-offset-spec");
    writer.described_by_name(b"rabbitmq:stream-offset-spec", |writer| writer.string(b"first"));
    writer.symbol(b"sql");
    writer.described(0x120, |writer| writer.string(b"a = 1"));
    writer.symbol(b"plain");
    writer.bool(true);
    let source = Source { address: Some("/queues/s"), filter: Map::from_raw(&entries), ..Source::default() };
    let attach = Attach {
        name: "link",
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(source),
        target: Some(AttachTarget::Target(Target::default())),
        unsettled: Map::EMPTY,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    };
    let mut bytes = Vec::new();
    attach.encode_frame(1, &mut bytes);
    let Ok((Performative::Attach(decoded), _)) = Performative::decode(body(&bytes, FRAME_AMQP)) else {
        panic!("an attach")
    };
    assert_eq!(decoded, attach);
    let seen: Vec<_> = filters(decoded.source.unwrap().filter)
        .map(|(name, filter)| (name, filter.descriptor().unwrap(), filter.value().unwrap()))
        .collect();
    let spec = &b"rabbitmq:stream-offset-spec"[..];
    assert_eq!(seen[0], (spec, Descriptor::Symbol(spec), Value::Str(b"first")));
    assert_eq!(seen[1], (&b"sql"[..], Descriptor::Code(0x120), Value::Str(b"a = 1")));
    assert_eq!(seen.len(), 2, "what is not described is no filter");
}

#[test]
fn several_symbols_may_be_one_or_none() {
    let read = <Symbols<'_> as super::super::field::Field>::read;
    let one = read(Value::Symbol(b"a")).unwrap();
    assert!(one == Symbols::of(&["a"]) && one.contains("a") && !one.contains("b"));
    let (empty, _) = Value::parse(b"\xE0\x02\x00\x40").unwrap();
    assert!(read(empty).unwrap().is_empty());
    let (strings, _) = Value::parse(b"\xE0\x04\x01\xA1\x01a").unwrap();
    assert_eq!(read(strings), None);
}

#[test]
fn unknown_delivery_states_are_kept() {
    // The state of a transaction: txn-id "x" and the outcome accepted.
    let bytes = b"\0\x53\x34\xC0\x08\x02\xA0\x01x\0\x53\x24\x45";
    let (value, _) = Value::parse(bytes).unwrap();
    let state = DeliveryState::read(value).unwrap();
    assert!(matches!(state, DeliveryState::Other(_)));
    let mut out = Vec::new();
    Scalar::write(&state, &mut Writer::new(&mut out));
    assert_eq!(out, bytes);
    let (named, _) = Value::parse(b"\0\xA3\x12amqp:rejected:list\x45").unwrap();
    assert_eq!(DeliveryState::read(named), Some(DeliveryState::Rejected(Rejected { error: None })));
}

fn maps() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((".{0,20}", any::<i64>()), 0..4).prop_map(|entries| {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        for (name, number) in &entries {
            writer.symbol(name.as_bytes());
            writer.value(&Value::Long(*number));
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_performative_is_decoded_as_it_was_encoded(
        numbers in prop::collection::vec(any::<u64>(), 1..12),
        texts in prop::collection::vec(".{0,300}", 1..6),
        maps in prop::collection::vec(maps(), 1..4),
    ) {
        let mut samples = Samples::new(&numbers, &texts, &maps);
        for _ in 0..5 {
            for performative in Performative::one_of_each(&mut samples) {
                let mut bytes = Vec::new();
                performative.encode_frame(0x0102, &mut bytes);
                let decoded = Performative::decode(body(&bytes, FRAME_AMQP));
                prop_assert_eq!(decoded, Ok((performative, &[][..])));
                crate::fuzzing::amqp10_frame(&bytes);
            }
            for performative in SaslPerformative::one_of_each(&mut samples) {
                let mut bytes = Vec::new();
                performative.encode_frame(0, &mut bytes);
                let decoded = SaslPerformative::decode(body(&bytes, FRAME_SASL));
                prop_assert_eq!(decoded, Ok((performative, &[][..])));
                crate::fuzzing::amqp10_frame(&bytes);
            }
        }
    }

    #[test]
    fn damaged_performatives_are_decoded_or_refused(
        numbers in prop::collection::vec(any::<u64>(), 1..12),
        texts in prop::collection::vec(".{0,20}", 1..6),
        maps in prop::collection::vec(maps(), 1..4),
        at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        for performative in Performative::one_of_each(&mut Samples::new(&numbers, &texts, &maps)) {
            let mut bytes = Vec::new();
            performative.encode_frame(0, &mut bytes);
            for length in 8..bytes.len() {
                prop_assert_ne!(Performative::decode(&bytes[8..length]), Ok((performative, &[][..])));
            }
            let at = 8 + at.index(bytes.len() - 8);
            bytes[at] = with;
            crate::fuzzing::amqp10_frame(&bytes);
        }
    }
}
