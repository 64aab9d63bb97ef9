//! AMQP 0-9-1.

use crate::amqp091::{
    ContentHeader, Edit, FRAME_HEADER, FRAME_METHOD, Method, Parsed, Properties, PropertiesBuf, Property,
    TABLE_DEPTH_MAX, Table, TableBuf, Value, encode_publish, parse_frame, rewrite, sasl, write_frame,
};

const PAYLOAD_SIZE_MAX: usize = 131_072;

/// A read buffer of frames, as a connection sees it.
pub fn amqp091_frame(data: &[u8]) {
    let mut rest = data;
    loop {
        match parse_frame(rest, PAYLOAD_SIZE_MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                let mut written = Vec::new();
                write_frame(frame.kind, frame.channel, frame.payload, &mut written);
                assert_eq!(written, &rest[..consumed]);
                match frame.kind {
                    FRAME_METHOD => amqp091_method(frame.payload),
                    FRAME_HEADER => header(frame.channel, frame.payload, &written),
                    _ => {}
                }
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= PAYLOAD_SIZE_MAX + 8);
                return;
            }
            Err(_) => return,
        }
    }
}

fn header(channel: u16, payload: &[u8], frame: &[u8]) {
    if let Ok(header) = ContentHeader::decode(payload) {
        let mut written = Vec::new();
        header.encode_frame(channel, &mut written);
        assert_eq!(written, frame);
        amqp091_properties(header.properties);
    }
}

/// A method frame's payload.
pub fn amqp091_method(data: &[u8]) {
    let _ = sasl::parse_plain(data).map(sasl::encode_plain);
    let Ok(method) = Method::decode(data) else { return };
    let mut written = Vec::new();
    method.encode_frame(1, &mut written);
    let Ok(Parsed::Complete { frame, consumed }) = parse_frame(&written, usize::MAX) else {
        panic!("an encoded method is no frame");
    };
    assert_eq!((consumed, frame.kind, frame.channel), (written.len(), FRAME_METHOD, 1));
    assert_eq!(Method::decode(frame.payload), Ok(method));
    assert_eq!(frame.payload.len(), data.len());
    if let Method::BasicPublish(publish) = method {
        let mut fast = Vec::new();
        encode_publish(&mut fast, 1, &publish.exchange, &publish.routing_key, true, b"\0\0", data, 64);
        assert!(matches!(parse_frame(&fast, data.len()), Ok(Parsed::Complete { .. })));
    }
}

/// A table without the length in front.
pub fn amqp091_table(data: &[u8]) {
    let table = Table::from_raw(data);
    let _ = sasl::parse_amqplain(data);
    let mut copied = TableBuf::new();
    let mut encoded = TableBuf::new();
    for entry in table.entries().map_while(Result::ok) {
        copied.push_entry(&entry);
        encoded.push(entry.name, entry.value);
        if let Value::Array(array) = entry.value {
            assert!(array.iter().count() <= array.raw().len());
        }
    }
    assert!(data.starts_with(copied.as_table().raw()));
    if table.validate(TABLE_DEPTH_MAX).is_err() {
        return;
    }
    assert_eq!(copied.as_table(), table);
    assert_eq!(encoded.as_table().validate(TABLE_DEPTH_MAX), Ok(()));
    assert_eq!(encoded.as_table().raw().len(), data.len());
    assert_eq!(reencoded(encoded.as_table()), encoded, "encoding is stable after the first time");
    if let Some((name, _)) = table.iter().next() {
        assert!(copied.remove(name));
        assert_eq!(copied.as_table().get(name), None);
    }
}

fn reencoded(table: Table<'_>) -> TableBuf {
    let mut copy = TableBuf::new();
    for (name, value) in table.iter() {
        copy.push_raw(name, value);
    }
    copy
}

/// Property flags and list.
pub fn amqp091_properties(data: &[u8]) {
    let view = Properties::new(data);
    let owned = PropertiesBuf::from(view);
    let without = rewrite(data, &[Edit::Remove(Property::Headers), Edit::Timestamp(1), Edit::Priority(3)]);
    let edited = Properties::new(&without);
    assert_eq!(edited.validate(), Ok(()), "what comes out of an edit without headers is valid");
    assert_eq!((edited.headers(), edited.timestamp(), edited.priority()), (None, Some(1), Some(3)));
    if view.validate().is_err() {
        return;
    }
    assert_eq!(rewrite(data, &[]), data);
    assert_eq!((edited.expiration(), edited.app_id()), (view.expiration(), view.app_id()));
    let mut encoded = Vec::new();
    assert_eq!(owned.encode(&mut encoded), Ok(()));
    assert_eq!(PropertiesBuf::from(Properties::new(&encoded)), owned);
    assert_eq!(encoded[2..], data[2..]);
}
