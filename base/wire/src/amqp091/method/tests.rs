//! Every method through encode and decode, golden bytes for some, and what malformed ones do.

use proptest::prelude::*;

use super::samples::Samples;
use super::*;
use crate::amqp091::{FRAME_METHOD, Parsed, ShortStr, TABLE_DEPTH_MAX, Table, TableBuf, Value, parse_frame};

fn short(text: &str) -> ShortStr<'_> {
    ShortStr::bounded(text.as_bytes())
}

fn frame(method: impl Into<Method<'static>>) -> Vec<u8> {
    let mut out = Vec::new();
    method.into().encode_frame(0x0102, &mut out);
    out
}

/// Payload of a frame that must be whole.
fn payload(bytes: &[u8]) -> &[u8] {
    match parse_frame(bytes, usize::MAX) {
        Ok(Parsed::Complete { frame, consumed }) => {
            assert_eq!((frame.kind, frame.channel, consumed), (FRAME_METHOD, 0x0102, bytes.len()));
            frame.payload
        }
        other => panic!("not one frame: {other:?}"),
    }
}

fn value_into(table: &mut TableBuf, name: &str, kind: u8, number: u64, text: &str) {
    let value = match kind % 8 {
        0 => Value::Bool(number.is_multiple_of(2)),
        1 => Value::I64(number.cast_signed()),
        2 => Value::F64(f64::from_bits(number)),
        3 => Value::LongStr(text.as_bytes()),
        4 => Value::Timestamp(number),
        5 => Value::Void,
        6 => Value::Decimal { scale: 3, value: u32::MAX },
        _ => {
            let mut inner = TableBuf::new();
            inner.push_str(ShortStr::clipped(name.as_bytes()), text);
            table.push_table("nested", inner.as_table());
            return;
        }
    };
    table.push(ShortStr::clipped(name.as_bytes()), value);
}

fn tables() -> impl Strategy<Value = TableBuf> {
    prop::collection::vec((".{0,20}", any::<u8>(), any::<u64>(), ".{0,40}"), 0..6).prop_map(|entries| {
        let mut table = TableBuf::new();
        for (name, kind, number, text) in &entries {
            value_into(&mut table, name, *kind, *number, text);
        }
        table
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_method_is_decoded_as_it_was_encoded(
        numbers in prop::collection::vec(any::<u64>(), 1..12),
        texts in prop::collection::vec(".{0,300}", 1..6),
        tables in prop::collection::vec(tables(), 1..4),
    ) {
        let mut samples = Samples::new(&numbers, &texts, &tables);
        for method in Method::one_of_each(&mut samples) {
            let mut bytes = Vec::new();
            method.encode_frame(0x0102, &mut bytes);
            prop_assert_eq!(Method::decode(payload(&bytes)), Ok(method));
            let publish = decode_publish(payload(&bytes)).map(Method::BasicPublish);
            prop_assert_eq!(publish, Some(method).filter(|it| matches!(it, Method::BasicPublish(_))));
        }
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Method::decode(&bytes);
        let _ = decode_publish(&bytes);
    }

    #[test]
    fn a_method_cut_short_or_followed_by_a_byte_is_malformed(
        numbers in prop::collection::vec(any::<u64>(), 1..12),
        texts in prop::collection::vec(".{0,20}", 1..6),
        tables in prop::collection::vec(tables(), 1..4),
    ) {
        let mut samples = Samples::new(&numbers, &texts, &tables);
        for method in Method::one_of_each(&mut samples) {
            let mut bytes = Vec::new();
            method.encode_frame(0x0102, &mut bytes);
            let (class_id, method_id) = method.id();
            let malformed = Err(MethodError::Malformed { class_id, method_id });
            let mut longer = payload(&bytes).to_vec();
            for length in 4..longer.len() {
                prop_assert_eq!(decode_publish(&longer[..length]), None);
                prop_assert_eq!(Method::decode(&longer[..length]), malformed);
            }
            longer.push(0);
            prop_assert_eq!(Method::decode(&longer), malformed);
        }
    }
}

#[test]
fn names_and_numbers_follow_the_class_and_module() {
    let (numbers, texts, tables) = ([1], [String::new()], [TableBuf::new()]);
    let all = Method::one_of_each(&mut Samples::new(&numbers, &texts, &tables));
    assert_eq!(all.len(), 66);
    let classes = [
        (10, "connection."),
        (20, "channel."),
        (30, "access."),
        (40, "exchange."),
        (50, "queue."),
        (60, "basic."),
        (85, "confirm."),
        (90, "tx."),
    ];
    for method in &all {
        let (_, prefix) = classes.iter().find(|(class, _)| *class == method.id().0).unwrap();
        let variant = format!("{method:?}").split('(').next().unwrap().to_lowercase();
        assert_eq!(method.name().replace(['.', '-'], ""), variant);
        assert!(method.name().starts_with(prefix));
    }
    let content: Vec<_> = all.iter().filter(|method| method.carries_content()).map(Method::name).collect();
    assert_eq!(content, ["basic.publish", "basic.return", "basic.deliver", "basic.get-ok"]);
}

#[test]
fn golden_connection_frames() {
    let tune = connection::Tune { channel_max: 2047, frame_max: 131_072, heartbeat: 60 };
    let golden = b"\x01\x01\x02\x00\x00\x00\x0C\x00\x0A\x00\x1E\x07\xFF\x00\x02\x00\x00\x00\x3C\xCE";
    assert_eq!(frame(tune), golden);
    let open = connection::Open { virtual_host: short("/"), ..Default::default() };
    assert_eq!(frame(open), b"\x01\x01\x02\x00\x00\x00\x08\x00\x0A\x00\x28\x01/\x00\x00\xCE");
    let close = connection::Close { reply_code: 320, reply_text: short("bye"), class_id: 0, method_id: 0 };
    let golden = b"\x01\x01\x02\x00\x00\x00\x0E\x00\x0A\x00\x32\x01\x40\x03bye\x00\x00\x00\x00\xCE";
    assert_eq!(frame(close), golden);
}

#[test]
fn golden_channel_and_queue_frames() {
    let golden = b"\x01\x01\x02\x00\x00\x00\x08\x00\x14\x00\x0B\x00\x00\x00\x00\xCE";
    assert_eq!(frame(channel::OpenOk::default()), golden);
    let declare = queue::Declare {
        queue: short("q"),
        durable: true,
        auto_delete: true,
        nowait: true,
        arguments: Table::from_raw(b"\x01aV"),
        ..Default::default()
    };
    let golden = b"\x01\x01\x02\x00\x00\x00\x10\x00\x32\x00\x0A\x00\x00\x01q\x1A\x00\x00\x00\x03\x01aV\xCE";
    assert_eq!(frame(declare), golden);
    assert_eq!(frame(exchange::UnbindOk {}), b"\x01\x01\x02\x00\x00\x00\x04\x00\x28\x00\x33\xCE");
}

#[test]
fn golden_basic_frames() {
    let publish = basic::Publish {
        exchange: short("ex"),
        routing_key: short("k"),
        mandatory: true,
        ..Default::default()
    };
    assert_eq!(frame(publish), b"\x01\x01\x02\x00\x00\x00\x0C\x00\x3C\x00\x28\x00\x00\x02ex\x01k\x01\xCE");
    let nack = basic::Nack { delivery_tag: 1, multiple: false, requeue: true };
    let golden = b"\x01\x01\x02\x00\x00\x00\x0D\x00\x3C\x00\x78\x00\x00\x00\x00\x00\x00\x00\x01\x02\xCE";
    assert_eq!(frame(nack), golden);
}

#[test]
fn unknown_methods_and_short_payloads_are_told_apart() {
    let unknown = MethodError::Unknown { class_id: 60, method_id: 99 };
    assert_eq!(Method::decode(b"\x00\x3C\x00\x63"), Err(unknown));
    assert_eq!(Method::decode(b"\x00\x3C\x00"), Err(MethodError::Truncated));
}

#[test]
fn undefined_bits_are_ignored_as_rabbitmq_does() {
    let ack = Method::decode(b"\x00\x3C\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\xFF");
    assert_eq!(ack, Ok(Method::BasicAck(basic::Ack { delivery_tag: 1, multiple: true })));
}

#[test]
fn names_must_be_utf8_except_where_content_follows() {
    let declare = b"\x00\x32\x00\x0A\x00\x00\x01\xFF\x00\x00\x00\x00\x00";
    assert_eq!(Method::decode(declare), Err(MethodError::BadUtf8 { class_id: 50, method_id: 10 }));
    let publish = b"\x00\x3C\x00\x28\x00\x00\x01\xFF\x00\x00";
    let Ok(Method::BasicPublish(publish)) = Method::decode(publish) else { panic!("refused") };
    assert_eq!(publish.exchange, b"\xFF");
}

#[test]
fn a_table_nested_ten_thousand_deep_is_refused() {
    let mut table = TableBuf::new();
    for _ in 0..10_000 {
        let mut outer = TableBuf::new();
        outer.push_table("a", table.as_table());
        table = outer;
    }
    let mut bytes = Vec::new();
    let declare = queue::Declare { arguments: table.as_table(), ..Default::default() };
    declare.encode_frame(0x0102, &mut bytes);
    let error = TableError::TooDeep { depth_max: TABLE_DEPTH_MAX };
    assert_eq!(
        Method::decode(payload(&bytes)),
        Err(MethodError::BadTable { class_id: 50, method_id: 10, error })
    );
}
