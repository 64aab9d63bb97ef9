//! Messages of MQTT there and back. Refuses to know sessions.

use wire::mqtt::VarNumber;

use super::*;

fn key(topic: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_key(topic, &mut out);
    out
}

fn topic(key: &str, wildcards: bool) -> String {
    let mut out = String::new();
    push_topic(key.as_bytes(), wildcards, &mut out);
    out
}

#[test]
fn topics_and_filters_are_keys_with_other_signs() {
    assert_eq!(key("a/+/c/#"), b"a.*.c.#");
    assert_eq!(key("/"), b".");
    assert_eq!(topic("a.*.c.#", true), "a/+/c/#");
    assert_eq!(topic("a.*", false), "a/*");
    assert!(loses("a.b/c") && !loses("a/b*"));
}

#[test]
fn what_is_kept_comes_back() {
    let mut raw = Vec::new();
    Property::ContentType("text/plain").encode(&mut raw);
    Property::UserProperty(("k", "1")).encode(&mut raw);
    Property::UserProperty(("k", "2")).encode(&mut raw);
    let whole = Mqtt {
        qos: Qos::ExactlyOnce,
        retain: true,
        is_copy: true,
        is_kept: true,
        sender: Some(7),
        received_ms: Some(u64::MAX),
        topic: Some("a.b"),
        properties: Properties::from_raw(&raw),
    };
    for mqtt in [whole, Mqtt::default(), Mqtt { sender: None, ..whole }, Mqtt { topic: None, ..whole }] {
        let mut stored = Vec::new();
        mqtt.encode(&mut stored);
        assert_eq!(Mqtt::of(&stored), Some(mqtt));
        assert_eq!(is_persistent(&stored), mqtt.is_persistent());
        for length in 0..stored.len() {
            // Whatever is cut off: no panic, and never another message with the same topic.
            let _ = Mqtt::of(&stored[..length]);
        }
    }
    assert_eq!(Mqtt::of(&[0, 0]), None);
}

#[test]
fn aliases_and_subscription_identifiers_stay_with_their_connection() {
    let given = [
        Property::TopicAlias(3),
        Property::MessageExpiryInterval(10),
        Property::SubscriptionIdentifier(VarNumber(5)),
    ];
    let mut stored = Vec::new();
    Mqtt { properties: Properties::of(&given), received_ms: Some(5_000), ..Mqtt::default() }
        .encode(&mut stored);
    let mqtt = Mqtt::of(&stored).unwrap();
    assert_eq!(mqtt.properties.iter().collect::<Vec<_>>(), [Property::MessageExpiryInterval(10)]);
    assert_eq!(ttl_ms(&stored), Some(10_000));
    assert_eq!([5_000, 6_999, 14_000, 99_000].map(|now| mqtt.expiry_left_s(now)), [10, 9, 1, 0].map(Some));
}

#[test]
fn a_death_takes_the_expiry() {
    let given = [Property::MessageExpiryInterval(10), Property::ContentType("x")];
    let mut stored = Vec::new();
    let mqtt = Mqtt { received_ms: Some(1), topic: Some("a.b"), ..Mqtt::default() };
    Mqtt { properties: Properties::of(&given), ..mqtt }.encode(&mut stored);
    let left = without_expiry(&stored);
    let expected = Mqtt { received_ms: None, properties: Properties::of(&given[1..]), ..mqtt };
    assert_eq!(Mqtt::of(&left), Some(expected));
}

#[test]
fn properties_cross_to_amqp_091_and_back() {
    let given = [
        Property::MessageExpiryInterval(3),
        Property::ContentType("application/json"),
        Property::CorrelationData(b"id-1"),
        Property::ResponseTopic("replies/me"),
        Property::UserProperty(("name", "value")),
        Property::UserProperty(("name", "second")),
    ];
    let mqtt = Mqtt { qos: Qos::ExactlyOnce, properties: Properties::of(&given), ..Mqtt::default() };
    let mut raw = Vec::new();
    push_amqp091(&mqtt, &mut raw);
    let amqp = amqp091::Properties::new(&raw);
    amqp.validate().unwrap();
    assert_eq!(amqp.delivery_mode(), Some(2));
    assert_eq!(amqp.expiration().as_deref(), Some(&b"3000"[..]));
    assert_eq!(amqp.content_type().as_deref(), Some(&b"application/json"[..]));
    assert_eq!(amqp.correlation_id().as_deref(), Some(&b"id-1"[..]));
    assert_eq!(amqp.headers().unwrap().get("name"), Some(Value::LongStr(b"value")));
    assert_eq!(amqp.headers().unwrap().get(REPLY_TOPIC), Some(Value::LongStr(b"replies.me")));
    let mut out = Vec::new();
    let back = of_amqp091(&raw, &mut out);
    assert_eq!(back.qos, Qos::AtLeastOnce);
    assert_eq!(
        back.properties.iter().collect::<Vec<_>>(),
        [
            Property::MessageExpiryInterval(3),
            Property::ContentType("application/json"),
            Property::CorrelationData(b"id-1"),
            Property::ResponseTopic("replies/me"),
            Property::UserProperty(("name", "value")),
        ]
    );
}

#[test]
fn a_message_without_properties_has_none_on_the_other_side() {
    let mut raw = Vec::new();
    push_amqp091(&Mqtt::default(), &mut raw);
    assert_eq!(raw, [0, 0]);
    let mut out = Vec::new();
    assert_eq!(of_amqp091(&[0, 0], &mut out), Mqtt::default());
}

#[test]
fn what_does_not_fit_is_left_out_or_put_elsewhere() {
    let long = "x".repeat(256);
    let data = [0xFF, 0];
    let given = [
        Property::ContentType(&long),
        Property::CorrelationData(&data),
        Property::UserProperty((&long, "v")),
        Property::PayloadFormatIndicator(1),
    ];
    let mut raw = Vec::new();
    push_amqp091(&Mqtt { properties: Properties::of(&given), ..Mqtt::default() }, &mut raw);
    let amqp = amqp091::Properties::new(&raw);
    assert_eq!((amqp.content_type(), amqp.correlation_id()), (None, None));
    assert_eq!(amqp.headers().unwrap().get(CORRELATION_ID), Some(Value::LongStr(&data)));
    let mut out = Vec::new();
    let back = of_amqp091(&raw, &mut out);
    assert_eq!(back.properties.iter().collect::<Vec<_>>(), [Property::CorrelationData(&data)]);
}

#[test]
fn headers_become_texts() {
    let mut headers = TableBuf::new();
    headers.push_i64("number", -7).push_bool("flag", true).push_str("text", "t");
    headers.push_raw("float", Value::F64(1.5)).push_raw("void", Value::Void).push_str("bad", [0xFF]);
    let properties = PropertiesBuf { headers: Some(headers), ..PropertiesBuf::default() };
    let (mut raw, mut out) = (Vec::new(), Vec::new());
    properties.encode(&mut raw).unwrap();
    let expected = [("number", "-7"), ("flag", "true"), ("text", "t"), ("float", "1.5")];
    let found: Vec<_> = of_amqp091(&raw, &mut out).properties.iter().collect();
    assert_eq!(found, expected.map(Property::UserProperty));
}
