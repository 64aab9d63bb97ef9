//! AMQP 1.0.

use crate::amqp10::{
    Header, Properties, SectionCursor, SectionKind, Sections, Value, Writer, split_section, write_data_head,
};

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
        assert_eq!(Value::Array(array).validate().is_ok(), array.len() == 2);
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
