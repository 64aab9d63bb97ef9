//! AMQP 1.0.

use crate::amqp10::{
    FRAME_AMQP, FRAME_SASL, FRAME_SIZE_MAX_MIN, Header, Parsed, Performative, Properties, SaslPerformative,
    SectionCursor, SectionKind, Sections, TypeError, Value, Writer, decode_transfer, encode_delivery,
    filters, parse_frame, split_section, write_data_head,
};

const FRAME_SIZE_MAX: usize = 131_072;

fn encoded(value: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Writer::new(&mut out).value(value);
    out
}

/// A value at the front of the input.
pub fn amqp10_value(data: &[u8]) {
    let Ok((value, used)) = Value::parse(data) else { return };
    assert!(used <= data.len());
    walk(&value);
    if value.validate().is_err() {
        return;
    }
    let first = encoded(&value);
    let (again, whole) = Value::parse(&first).expect("what is written can be read");
    assert_eq!(whole, first.len());
    assert_eq!(again.validate(), Ok(()));
    assert_eq!(encoded(&again), first, "encoding is stable after the first time");
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    if writer.array([value, again]).is_ok() {
        let Ok((Value::Array(array), _)) = Value::parse(&out) else { panic!("an array is written") };
        assert_eq!(array.len(), 2);
        // An array around a value that is nested as deep as may be is nested too deep.
        let valid = Value::Array(array).validate();
        assert!(matches!(valid, Ok(()) | Err(TypeError::TooDeep { .. })), "{valid:?}");
    }
}

/// Reads one level; must come to an end whatever the counts say.
fn walk(value: &Value<'_>) {
    match value {
        Value::List(list) => assert!(list.items().count() <= list.raw().len()),
        Value::Map(map) => {
            assert!(map.entries().count() <= map.raw().len());
            let _ = map.get("a");
        }
        Value::Array(array) => {
            let _ = (array.elements().count(), array.descriptor(), array.code());
        }
        Value::Described(described) => {
            let _ = (described.descriptor(), described.value());
        }
        _ => {}
    }
}

/// A message, or a part of one.
pub fn amqp10_sections(data: &[u8]) {
    let taken: usize = SectionCursor::new(data).map_while(Result::ok).map(|section| section.raw.len()).sum();
    assert!(taken <= data.len());
    let Ok(sections) = Sections::scan(data) else { return };
    assert_eq!(taken, data.len(), "a message consists of sections");
    let joined: Vec<u8> =
        SectionKind::ALL.into_iter().filter_map(|kind| sections.raw(kind)).flatten().copied().collect();
    assert_eq!(joined, data);
    assert!(sections.body_count() >= 1 && sections.body().count() == sections.body_count() as usize);
    if let Some(bytes) = sections.single_data() {
        let mut written = Vec::new();
        write_data_head(bytes.len(), &mut written);
        written.extend_from_slice(bytes);
        let (section, rest) = split_section(&written).expect("a data section is written");
        assert_eq!((section.data(), rest), (bytes, &[][..]));
    }
    if let Ok(header) = sections.header() {
        let mut written = Vec::new();
        header.encode(&mut written);
        let (section, _) = split_section(&written).expect("a header is written");
        assert_eq!(Header::decode(section.value), Ok(header));
    }
    let view = sections.properties();
    let decoded = sections.raw(SectionKind::Properties).map(|raw| {
        let (section, _) = split_section(raw).expect("it was found as a section");
        Properties::decode(section.value)
    });
    if let Some(Ok(properties)) = decoded {
        assert_eq!((view.message_id(), view.user_id()), (properties.message_id, properties.user_id));
        assert_eq!((view.to(), view.group_sequence()), (properties.to, properties.group_sequence));
        let mut written = Vec::new();
        properties.encode(&mut written);
        let (section, _) = split_section(&written).expect("properties are written");
        assert_eq!(Properties::decode(section.value), Ok(properties));
    }
    let _ = (sections.validate(), sections.map(SectionKind::MessageAnnotations), sections.amqp_value());
    assert!(data.get(sections.bare_start()..).is_some_and(|bare| bare.starts_with(sections.bare_message())));
}

/// A read buffer of frames, as a connection sees it.
pub fn amqp10_frame(data: &[u8]) {
    let mut rest = data;
    loop {
        match parse_frame(rest, FRAME_SIZE_MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                match frame.kind {
                    FRAME_AMQP => performative(frame.body),
                    FRAME_SASL => sasl_performative(frame.body),
                    _ => {}
                }
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= FRAME_SIZE_MAX);
                return;
            }
            Err(_) => return,
        }
    }
}

/// The body of the frame that is all of `bytes`.
fn body(bytes: &[u8]) -> &[u8] {
    match parse_frame(bytes, usize::MAX) {
        Ok(Parsed::Complete { frame, consumed }) if consumed == bytes.len() => frame.body,
        other => panic!("an encoded performative is no frame: {other:?}"),
    }
}

fn performative(data: &[u8]) {
    let decoded = Performative::decode(data);
    if let Some((transfer, payload)) = decode_transfer(data) {
        assert_eq!(decoded, Ok((Performative::Transfer(transfer), payload)));
        amqp10_sections(payload);
        if transfer.state.is_none() && transfer.delivery_tag.is_none_or(|tag| tag.len() <= 32) {
            let mut cut = Vec::new();
            let frame_count =
                encode_delivery(0, &transfer, &[payload], FRAME_SIZE_MAX_MIN as usize, &mut cut);
            assert!(frame_count >= 1 && cut.len() > payload.len());
        }
    }
    let Ok((performative, _)) = decoded else { return };
    let mut written = Vec::new();
    performative.encode_frame(0, &mut written);
    let (again, rest) = Performative::decode(body(&written)).expect("what is written can be read");
    assert_eq!((again.name(), rest), (performative.name(), &[][..]));
    let mut once_more = Vec::new();
    again.encode_frame(0, &mut once_more);
    assert_eq!(once_more, written, "encoding is stable after the first time");
    if let Performative::Attach(attach) = performative
        && let Some(source) = attach.source
    {
        assert!(filters(source.filter).count() <= source.filter.raw().len());
    }
}

fn sasl_performative(data: &[u8]) {
    let Ok((performative, _)) = SaslPerformative::decode(data) else { return };
    let mut written = Vec::new();
    performative.encode_frame(0, &mut written);
    assert_eq!(SaslPerformative::decode(body(&written)), Ok((performative, &[][..])));
}
