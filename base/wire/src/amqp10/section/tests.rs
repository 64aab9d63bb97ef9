//! Messages in all orders, header and properties in place, and what is refused.

use proptest::prelude::*;

use super::super::samples::Samples;
use super::super::{MessageId, Properties, Str, Symbol, Timestamp, Writer};
use super::*;

const PROPERTIES: Properties<'static> = Properties {
    message_id: Some(MessageId::Ulong(1)),
    to: Some(Str(b"/queues/q")),
    content_type: Some(Symbol(b"text/plain")),
    creation_time: Some(Timestamp(1)),
    ..Properties::EMPTY
};

fn map_section(kind: SectionKind, key: &str, out: &mut Vec<u8>) {
    Writer::new(out).described(kind as u64, |writer| {
        writer.map(|writer| {
            writer.symbol(key.as_bytes());
            writer.bool(true);
        });
    });
}

fn data_section(bytes: &[u8], out: &mut Vec<u8>) {
    write_data_head(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// One of each section before the body, then `body`, then a footer.
fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header =
        Header { durable: Some(true), ttl: Some(1000), delivery_count: Some(0), ..Header::default() };
    header.encode(&mut out);
    map_section(SectionKind::DeliveryAnnotations, "d", &mut out);
    map_section(SectionKind::MessageAnnotations, "x-routing-key", &mut out);
    PROPERTIES.encode(&mut out);
    map_section(SectionKind::ApplicationProperties, "a", &mut out);
    out.extend_from_slice(body);
    map_section(SectionKind::Footer, "f", &mut out);
    out
}

#[test]
fn a_message_of_golden_bytes_is_taken_apart() {
    // Header durable, message-id 1 and to "q", data "hello": as clients write them.
    let bytes =
        b"\x00\x53\x70\xC0\x02\x01\x41\x00\x53\x73\xC0\x07\x03\x53\x01\x40\xA1\x01q\x00\x53\x75\xA0\x05hello";
    let sections = Sections::scan(bytes).unwrap();
    assert_eq!(sections.header().unwrap(), Header { durable: Some(true), ..Header::default() });
    assert_eq!(sections.properties().message_id(), Some(MessageId::Ulong(1)));
    assert_eq!(sections.properties().user_id(), None);
    assert_eq!(sections.properties().to(), Some(Str(b"q")));
    assert_eq!(sections.properties().reply_to_group_id(), None);
    assert_eq!(sections.single_data(), Some(&b"hello"[..]));
    assert_eq!((sections.bare_start(), sections.span(SectionKind::Data)), (7, 19..29));
    assert_eq!(sections.bare_message(), &bytes[7..]);
    assert_eq!(sections.validate(), Ok(()));
    let mut header = Vec::new();
    sections.header().unwrap().encode(&mut header);
    assert_eq!(header, bytes[..7]);
}

#[test]
fn descriptors_may_be_wide_or_names() {
    let mut bytes =
        b"\x00\x80\0\0\0\0\0\0\0\x70\x45\x00\xA3\x14amqp:properties:list\xC0\x03\x01\xA1\x00".to_vec();
    bytes.extend_from_slice(b"\x00\xB3\x00\x00\x00\x10amqp:data:binary\xB0\x00\x00\x00\x01x");
    let sections = Sections::scan(&bytes).unwrap();
    assert_eq!(sections.header(), Ok(Header::default()));
    assert_eq!(sections.properties().message_id(), Some(MessageId::Str(b"")));
    assert_eq!(sections.single_data(), Some(&b"x"[..]));
}

#[test]
fn all_sections_are_found_in_their_order() {
    let mut body = Vec::new();
    data_section(b"one", &mut body);
    data_section(&[7; 300], &mut body);
    let bytes = message(&body);
    let sections = Sections::scan(&bytes).unwrap();
    assert_eq!((sections.body_kind(), sections.body_count()), (SectionKind::Data, 2));
    assert_eq!(sections.raw(SectionKind::Data), Some(&body[..]));
    assert_eq!(sections.single_data(), None);
    let data: Vec<u8> = sections.body().flat_map(|section| section.unwrap().data().to_vec()).collect();
    assert_eq!(data.len(), 303);
    let annotations = sections.map(SectionKind::MessageAnnotations);
    assert_eq!(annotations.get("x-routing-key"), Some(Value::Bool(true)));
    assert_eq!(sections.map(SectionKind::Footer).get("f"), Some(Value::Bool(true)));
    assert_eq!(sections.header().unwrap().ttl, Some(1000));
    let properties = sections.raw(SectionKind::Properties).unwrap();
    let (section, rest) = split_section(properties).unwrap();
    assert_eq!((Properties::decode(section.value), rest.len()), (Ok(PROPERTIES), 0));
    assert_eq!(sections.raw(SectionKind::Value), None);
}

#[test]
fn order_and_number_are_checked() {
    let mut data = Vec::new();
    data_section(b"x", &mut data);
    let sequence = b"\x00\x53\x76\x45";
    let value = b"\x00\x53\x77\x40";
    let header = b"\x00\x53\x70\x45";
    let footer = b"\x00\x53\x78\xC1\x01\x00";
    let scan = |parts: &[&[u8]]| {
        let bytes = parts.concat();
        Sections::scan(&bytes).map(|sections| (sections.body_kind(), sections.body_count()))
    };
    assert_eq!(scan(&[sequence, sequence]), Ok((SectionKind::Sequence, 2)));
    assert_eq!(scan(&[value, footer]), Ok((SectionKind::Value, 1)));
    let unexpected = |kind, at| Err(SectionError::Unexpected { kind, at });
    assert_eq!(scan(&[value, value]), unexpected(SectionKind::Value, 4));
    assert_eq!(scan(&[sequence, value]), unexpected(SectionKind::Value, 4));
    assert_eq!(scan(&[header, header, value]), unexpected(SectionKind::Header, 4));
    assert_eq!(scan(&[value, header]), unexpected(SectionKind::Header, 4));
    assert_eq!(scan(&[footer]), unexpected(SectionKind::Footer, 0));
    assert_eq!(scan(&[value, footer, footer]), unexpected(SectionKind::Footer, 10));
    assert_eq!(scan(&[sequence, footer, sequence]), unexpected(SectionKind::Sequence, 10));
    assert_eq!(scan(&[header]), Err(SectionError::NoBody));
    assert_eq!(scan(&[]), Err(SectionError::NoBody));
    assert_eq!(scan(&[b"\x00\x53\x79\x45"]), Err(SectionError::NotASection { at: 0 }));
    assert_eq!(scan(&[b"\x40"]), Err(SectionError::NotASection { at: 0 }));
    assert_eq!(
        scan(&[b"\x00\x53\x70\x40"]),
        Err(SectionError::BadValue { kind: SectionKind::Header, at: 0 })
    );
    let cut = Err(SectionError::BadValue { kind: SectionKind::Data, at: 4 });
    assert_eq!(scan(&[header, b"\x00\x53\x75\xB0\xFF\xFF\xFF\xFFx"]), cut);
    let many = vec![&sequence[..]; SECTIONS_MAX as usize];
    assert_eq!(scan(&many), Ok((SectionKind::Sequence, SECTIONS_MAX)));
    assert_eq!(scan(&[&many[..], &[sequence]].concat()), Err(SectionError::TooMany { max: SECTIONS_MAX }));
}

#[test]
fn a_field_of_a_wrong_type_is_an_error_in_the_whole_and_absent_in_the_view() {
    let bytes = b"\x00\x53\x73\xC0\x05\x02\x41\xA0\x01u\x00\x53\x77\x40";
    let sections = Sections::scan(bytes).unwrap();
    assert_eq!(sections.properties().message_id(), None);
    assert_eq!(sections.properties().user_id(), Some(&b"u"[..]));
    let error =
        super::super::CompositeError::WrongType { composite: "amqp:properties:list", field: "message_id" };
    assert_eq!(Properties::decode(&bytes[3..10]), Err(error));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn header_and_properties_are_decoded_as_they_were_encoded(
        numbers in prop::collection::vec(any::<u64>(), 1..12), texts in prop::collection::vec(".{0,300}", 1..6),
    ) {
        use super::super::define::Composite as _;
        let maps = [vec![]];
        let mut samples = Samples::new(&numbers, &texts, &maps);
        let (header, properties) = (Header::sample(&mut samples), Properties::sample(&mut samples));
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        properties.encode(&mut bytes);
        data_section(texts[0].as_bytes(), &mut bytes);
        let sections = Sections::scan(&bytes).unwrap();
        prop_assert_eq!(sections.header(), Ok(header));
        let view = sections.properties();
        let seen = Properties {
            message_id: view.message_id(),
            user_id: view.user_id(),
            to: view.to(),
            subject: view.subject(),
            reply_to: view.reply_to(),
            correlation_id: view.correlation_id(),
            content_type: view.content_type(),
            content_encoding: view.content_encoding(),
            absolute_expiry_time: view.absolute_expiry_time(),
            creation_time: view.creation_time(),
            group_id: view.group_id(),
            group_sequence: view.group_sequence(),
            reply_to_group_id: view.reply_to_group_id(),
        };
        prop_assert_eq!(seen, properties);
        prop_assert_eq!(sections.single_data(), Some(texts[0].as_bytes()));
        crate::fuzzing::amqp10_sections(&bytes);
    }

    #[test]
    fn damaged_messages_are_scanned_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut data = Vec::new();
        data_section(&body, &mut data);
        let mut bytes = message(&data);
        let at = at.index(bytes.len());
        bytes[at] = with;
        crate::fuzzing::amqp10_sections(&bytes);
        crate::fuzzing::amqp10_sections(&body);
        crate::fuzzing::amqp10_sections(&bytes[..at]);
    }
}
