//! Messages there and back, and what deliveries and deaths add.

use wire::amqp10::{
    Header, MessageId, Properties as Properties10, SectionKind, Sections, Str, Value, Writer,
};
use wire::amqp091::{ArrayBuf, Properties, PropertiesBuf, TableBuf, Value as Value091};

use super::*;
use crate::{Format, MessageView};

/// A message of AMQP 1.0: its stored properties and body.
fn stored(message: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let sections = Sections::scan(message).unwrap();
    let mut properties = Vec::new();
    store(&sections, &mut properties);
    (properties, stored_body(&sections).to_vec())
}

fn view<'a>(properties: &'a [u8], body: &'a [u8]) -> MessageView<'a> {
    MessageView { exchange: b"x", routing_key: b"k", properties, body }
}

fn delivered(message: &MessageView<'_>, acquired: Acquired) -> Vec<u8> {
    let mut out = Vec::new();
    let rest = encode_head(message, acquired, &mut out);
    out.extend_from_slice(rest);
    out
}

fn section(kind: SectionKind, write: impl FnOnce(&mut Writer<'_>), out: &mut Vec<u8>) {
    Writer::new(out).described(kind as u64, write);
}

fn example() -> Vec<u8> {
    let mut out = Vec::new();
    Header { durable: Some(true), priority: Some(7), ttl: Some(5000), ..Header::default() }.encode(&mut out);
    section(SectionKind::DeliveryAnnotations, |writer| writer.map(|_| ()), &mut out);
    section(
        SectionKind::MessageAnnotations,
        |writer| {
            writer.map(|writer| {
                writer.symbol(b"x-mine");
                writer.value(&Value::Int(-3));
                writer.symbol(b"x-exchange");
                writer.string(b"a lie");
                writer.symbol(b"x-cc");
                writer.list(|writer| writer.string(b"other"));
            });
        },
        &mut out,
    );
    let properties = Properties10 {
        message_id: Some(MessageId::Uuid([0x1f; 16])),
        correlation_id: Some(MessageId::Ulong(42)),
        reply_to: Some(Str(b"/queues/my%20queue")),
        group_id: Some(Str(b"app")),
        ..Properties10::EMPTY
    };
    properties.encode(&mut out);
    section(
        SectionKind::ApplicationProperties,
        |writer| {
            writer.map(|writer| {
                writer.string(b"colour");
                writer.string(b"red");
                writer.string(b"n");
                writer.value(&Value::Ulong(u64::MAX));
                writer.string(b"gone");
                writer.value(&Value::Uuid([1; 16]));
            });
        },
        &mut out,
    );
    section(SectionKind::Data, |writer| writer.binary(b"he"), &mut out);
    section(SectionKind::Data, |writer| writer.binary(b"llo"), &mut out);
    out
}

#[test]
fn the_bare_message_comes_out_as_it_went_in() {
    let message = example();
    let (properties, body) = stored(&message);
    assert_eq!(Format::of(&properties), Format::Amqp10);
    let out = delivered(&view(&properties, &body), Acquired::default());
    let sections = Sections::scan(&out).unwrap();
    assert_eq!(sections.bare_message(), Sections::scan(&message).unwrap().bare_message());
    assert_eq!(sections.raw(SectionKind::DeliveryAnnotations), None);
    let header = sections.header().unwrap();
    assert_eq!((header.durable, header.priority, header.ttl), (Some(true), Some(7), Some(5000)));
    assert_eq!((header.first_acquirer, header.delivery_count), (Some(true), Some(0)));
    let annotations = sections.map(SectionKind::MessageAnnotations);
    assert_eq!(annotations.get("x-exchange"), Some(Value::Str(b"x")));
    assert_eq!(annotations.get("x-routing-key"), Some(Value::Str(b"k")));
    assert_eq!(annotations.get("x-mine"), Some(Value::Int(-3)));
    assert_eq!(annotations.iter().count(), 4);
}

#[test]
fn a_message_that_was_handed_out_before_says_so() {
    let (properties, body) = stored(&example());
    let first = |acquired| {
        let out = delivered(&view(&properties, &body), acquired);
        Sections::scan(&out).unwrap().header().unwrap().first_acquirer
    };
    assert_eq!(first(Acquired { redelivered: true, has_died: false }), Some(false));
    assert_eq!(first(Acquired { redelivered: false, has_died: true }), Some(false));
}

#[test]
fn clients_of_amqp_0_9_1_get_everything_that_they_can_hold() {
    let (properties, body) = stored(&example());
    let (properties, payload) = in_amqp091(&properties, &body);
    let properties = Properties::new(&properties);
    assert_eq!(properties.validate(), Ok(()));
    assert_eq!(&*payload, b"hello");
    let text = |text: Option<wire::amqp091::ShortStr<'_>>| text.map(|text| text.str_lossy().into_owned());
    assert_eq!(text(properties.message_id()).unwrap(), "urn:uuid:1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f");
    assert_eq!(text(properties.correlation_id()).as_deref(), Some("42"));
    assert_eq!(text(properties.reply_to()).as_deref(), Some("my queue"));
    assert_eq!(text(properties.app_id()).as_deref(), Some("app"));
    assert_eq!(text(properties.expiration()).as_deref(), Some("5000"));
    assert_eq!((properties.delivery_mode(), properties.priority()), (Some(2), Some(7)));
    let headers = properties.headers().unwrap();
    assert_eq!(headers.get("x-mine"), Some(Value091::I32(-3)));
    assert_eq!(headers.get("x-exchange"), None);
    assert_eq!(headers.get("colour"), Some(Value091::LongStr(b"red")));
    assert_eq!(headers.get("n"), Some(Value091::I64(-1)));
    assert_eq!(headers.get("gone"), None);
    let copies: Vec<_> = headers.get("CC").unwrap().as_array().unwrap().iter().collect();
    assert_eq!(copies, [Value091::LongStr(b"other")]);
}

#[test]
fn a_body_that_is_no_data_keeps_its_encoding_there_and_back() {
    let mut message = Vec::new();
    section(SectionKind::Value, |writer| writer.string(b"text"), &mut message);
    section(SectionKind::Footer, |writer| writer.map(|_| ()), &mut message);
    let (properties, body) = stored(&message);
    let (properties, payload) = in_amqp091(&properties, &body);
    assert_eq!(&*payload, message);
    assert_eq!(Properties::new(&properties).type_().unwrap(), "amqp-1.0");
    let out = delivered(&view(&properties, &payload), Acquired::default());
    let sections = Sections::scan(&out).unwrap();
    assert_eq!(sections.amqp_value(), Some(Value::Str(b"text")));
    assert!(sections.raw(SectionKind::Footer).is_some());
}

#[test]
fn a_payload_that_only_claims_to_be_encoded_is_data() {
    let properties = PropertiesBuf { type_: Some(b"amqp-1.0".to_vec()), ..PropertiesBuf::default() };
    let mut raw = Vec::new();
    properties.encode(&mut raw).unwrap();
    let out = delivered(&view(&raw, b"not sections"), Acquired::default());
    assert_eq!(Sections::scan(&out).unwrap().single_data(), Some(&b"not sections"[..]));
}

#[test]
fn messages_of_amqp_0_9_1_come_back_the_same() {
    let mut array = ArrayBuf::new();
    array.push_str("other");
    let mut inner = TableBuf::new();
    inner.push_i64("deep", 1);
    let mut headers = TableBuf::new();
    headers.push_array("CC", array.as_array()).push_table("x-table", inner.as_table());
    headers.push_str("colour", "red").push_i64("n", -1).push_bool("flag", true);
    headers.push("small", Value091::U8(3)).push("t", Value091::Timestamp(77)).push("v", Value091::Void);
    let before = PropertiesBuf {
        content_type: Some(b"text/plain".to_vec()),
        headers: Some(headers),
        delivery_mode: Some(2),
        priority: Some(3),
        correlation_id: Some(b"urn:uuid:00112233-4455-6677-8899-aabbccddeeff".to_vec()),
        reply_to: Some(b"a/b c".to_vec()),
        expiration: Some(b"1000".to_vec()),
        message_id: Some(b"m".to_vec()),
        timestamp: Some(1_700_000_000),
        type_: Some(b"t".to_vec()),
        user_id: Some(b"guest".to_vec()),
        app_id: Some(b"app".to_vec()),
        ..PropertiesBuf::default()
    };
    let mut raw = Vec::new();
    before.encode(&mut raw).unwrap();
    let mut message = Vec::new();
    sections_of(&view(&raw, b"body"), &mut message);
    Sections::scan(&message).unwrap().validate().unwrap();
    let (properties, body) = stored(&message);
    let (back, payload) = in_amqp091(&properties, &body);
    assert_eq!(&*payload, b"body");
    let back = PropertiesBuf::from(Properties::new(&back));
    let sorted = |buf: &PropertiesBuf| {
        let headers = buf.headers.as_ref().unwrap().as_table();
        let mut all: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name:?} {value:?}")).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&back), sorted(&before));
    assert_eq!(PropertiesBuf { headers: None, ..back }, PropertiesBuf { headers: None, ..before });
}

#[test]
fn deaths_are_shown_in_both_protocols() {
    let mut keys = ArrayBuf::new();
    keys.push_str("k");
    let mut death = TableBuf::new();
    death.push_str("original-expiration", "5000").push_i64("count", 2).push_str("reason", "expired");
    death.push_str("queue", "q").push_timestamp("time", 9).push_str("exchange", "x");
    death.push_array("routing-keys", keys.as_array());
    let mut deaths = ArrayBuf::new();
    deaths.push_table(death.as_table());
    let (properties, body) = stored(&example());
    let properties = died(&properties, deaths.as_array(), 12_345, false);
    assert_eq!(header(&properties).ttl, None);
    let out = delivered(&view(&properties, &body), Acquired { redelivered: false, has_died: true });
    let sections = Sections::scan(&out).unwrap();
    sections.validate().unwrap();
    let annotations = sections.map(SectionKind::MessageAnnotations);
    assert_eq!(annotations.get("x-first-death-queue"), Some(Value::Str(b"q")));
    assert_eq!(annotations.get("x-last-death-reason"), Some(Value::Str(b"expired")));
    let Some(Value::Array(list)) = annotations.get("x-opt-deaths") else { panic!("an array") };
    let map = list.elements().next().unwrap().unwrap().as_map().unwrap();
    assert_eq!(map.get("last-time"), Some(Value::Timestamp(12_345)));
    assert_eq!(map.get("first-time"), Some(Value::Timestamp(9000)));
    assert_eq!((map.get("count"), map.get("ttl")), (Some(Value::Ulong(2)), Some(Value::Uint(5000))));
    let (plain, _) = in_amqp091(&properties, &body);
    let headers = Properties::new(&plain).headers().unwrap();
    assert_eq!(headers.get("x-death"), Some(Value091::Array(deaths.as_array())));
    assert_eq!(headers.get("x-opt-deaths"), None);
}

#[test]
fn counts_of_a_quorum_queue_stand_in_header_and_annotations() {
    let (properties, body) = stored(&example());
    let counted = with_counts(&with_counts(&properties, 2, 1), 3, 2);
    assert_eq!(header(&counted).delivery_count, Some(2));
    let out = delivered(&view(&counted, &body), Acquired { redelivered: true, has_died: false });
    let annotations = Sections::scan(&out).unwrap().map(SectionKind::MessageAnnotations);
    assert_eq!(annotations.get("x-acquired-count"), Some(Value::Long(3)));
    assert_eq!(annotations.get("x-delivery-count"), Some(Value::Long(2)));
}

#[test]
fn carbon_copies_are_strings_of_a_list() {
    let (properties, _) = stored(&example());
    assert_eq!(copies(&properties).collect::<Vec<_>>(), [b"other"]);
}

/// Bytes that look random, from a seed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn whatever_the_bytes_are_conversions_end_and_their_results_can_be_read() {
    let whole = example();
    for seed in 0..5000 {
        let mut message = whole.clone();
        for change in noise(seed, 4).chunks(2) {
            let at = usize::from(change[0]) % message.len();
            message[at] = change[1];
        }
        crate::fuzzing::amqp10_message(&message);
        let mut properties = Format::Amqp10.prefix().to_vec();
        properties.extend(noise(seed, 40));
        let (plain, _) = in_amqp091(&properties, &noise(seed + 1, 60));
        assert_eq!(Properties::new(&plain).validate(), Ok(()));
    }
}
