//! Every packet through encode and decode, golden bytes for some, and what malformed ones do.

use proptest::prelude::*;

use super::super::{
    Filters, Parsed, Property, RetainHandling, Subscription, SubscriptionOptions, Subscriptions, VarNumber,
    Will, parse_frame,
};
use super::*;

const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

/// The packet that is all of `bytes`.
fn frame(bytes: &[u8]) -> Frame<'_> {
    match parse_frame(bytes, usize::MAX) {
        Ok(Parsed::Complete { frame, consumed }) if consumed == bytes.len() => frame,
        other => panic!("not one packet: {other:?}"),
    }
}

fn encoded(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode(version, &mut out);
    out
}

fn decode(bytes: &[u8], version: Version) -> Result<Packet<'_>, PacketError> {
    Packet::decode(&frame(bytes), version)
}

/// Bytes and packet are each other's encoding.
fn same(bytes: &[u8], packet: &Packet<'_>, version: Version) {
    assert_eq!(encoded(packet, version).escape_ascii().to_string(), bytes.escape_ascii().to_string());
    assert_eq!(decode(bytes, version).as_ref(), Ok(packet));
}

fn connect(version: Version) -> Connect<'static> {
    Connect {
        version,
        clean_start: true,
        keep_alive_s: 10,
        properties: Properties::EMPTY,
        client_id: "c",
        will: None,
        user_name: None,
        password: None,
    }
}

#[test]
fn a_connect_has_the_variable_header_of_the_specification() {
    // Figure 3.6 of 3.1.1: user name, password, will of QoS 1, clean session, keep alive 10.
    let will = Will {
        qos: Qos::AtLeastOnce,
        retain: false,
        properties: Properties::EMPTY,
        topic: "w",
        payload: b"bye",
    };
    let packet = Packet::Connect(Connect {
        will: Some(will),
        user_name: Some("u"),
        password: Some(b"p"),
        ..connect(Version::V311)
    });
    same(b"\x10\x1B\0\x04MQTT\x04\xCE\0\x0A\0\x01c\0\x01w\0\x03bye\0\x01u\0\x01p", &packet, Version::V311);
    same(b"\x10\x0F\0\x06MQIsdp\x03\x02\0\x0A\0\x01c", &Packet::Connect(connect(Version::V31)), Version::V5);
    // Section 3.1.2.12 of 5: the session expires after 10 seconds.
    let properties = [Property::SessionExpiryInterval(10)];
    let packet = Packet::Connect(Connect { properties: Properties::of(&properties), ..connect(Version::V5) });
    same(b"\x10\x13\0\x04MQTT\x05\x02\0\x0A\x05\x11\0\0\0\x0A\0\x01c", &packet, Version::V5);
}

#[test]
fn connects_that_are_not_allowed_are_refused() {
    let malformed = Err(PacketError::Malformed { kind: 1 });
    let decode = |bytes: &'static [u8]| decode(bytes, Version::V5).map(|packet| packet.kind());
    assert_eq!(
        decode(b"\x10\x0D\0\x04MQTT\x06\x02\0\x0A\0\x01c"),
        Err(PacketError::UnsupportedVersion { level: 6 })
    );
    assert_eq!(
        decode(b"\x10\x0D\0\x04MQIS\x03\x02\0\x0A\0\x01c"),
        Err(PacketError::UnsupportedVersion { level: 3 })
    );
    assert_eq!(decode(b"\x10\x0D\0\x04MQTT\x04\x03\0\x0A\0\x01c"), malformed, "reserved bit");
    assert_eq!(decode(b"\x10\x0D\0\x04MQTT\x04\x22\0\x0A\0\x01c"), malformed, "retain without a will");
    assert_eq!(
        decode(b"\x10\x10\0\x04MQTT\x04\x42\0\x0A\0\x01c\0\x01p"),
        malformed,
        "a password without a user"
    );
    assert_eq!(decode(b"\x10\x11\0\x04MQTT\x05\x42\0\x0A\0\0\x01c\0\x01p"), Ok(1), "which version 5 allows");
    assert_eq!(decode(b"\x10\x0D\0\x04MQTT\x04\x1E\0\x0A\0\x01c"), malformed, "will of QoS 3");
    assert_eq!(decode(b"\x10\x0E\0\x04MQTT\x04\x02\0\x0A\0\x01cX"), malformed, "a byte too many");
    assert_eq!(decode(b"\x10\x0D\0\x04MQTT\x04\x02\0\x0A\0\x01\xFF"), malformed, "not UTF-8");
    assert_eq!(decode(b"\x11\x0D\0\x04MQTT\x04\x02\0\x0A\0\x01c"), malformed, "flags of the fixed header");
}

#[test]
fn golden_packets() {
    // Figure 3.11 of 3.1.1: topic a/b, packet id 10.
    let publish = Publish {
        dup: false,
        qos: Qos::AtLeastOnce,
        retain: false,
        topic: "a/b",
        packet_id: 10,
        properties: Properties::EMPTY,
        payload: b"hello",
    };
    same(b"\x32\x0C\0\x03a/b\0\x0Ahello", &Packet::Publish(publish), Version::V311);
    same(b"\x32\x0D\0\x03a/b\0\x0A\0hello", &Packet::Publish(publish), Version::V5);
    let properties = [Property::TopicAlias(2), Property::SubscriptionIdentifier(VarNumber(300))];
    let aliased = Publish {
        dup: true,
        qos: Qos::AtMostOnce,
        retain: true,
        topic: "",
        packet_id: 0,
        properties: Properties::of(&properties),
        payload: b"",
    };
    same(b"\x39\x09\0\0\x06\x23\0\x02\x0B\xAC\x02", &Packet::Publish(aliased), Version::V5);

    // Figure 3.23 of 3.1.1: a/b with QoS 1, c/d with QoS 2.
    let options = |qos| SubscriptionOptions { qos, ..SubscriptionOptions::default() };
    let subscriptions = [
        Subscription { filter: "a/b", options: options(Qos::AtLeastOnce) },
        Subscription { filter: "c/d", options: options(Qos::ExactlyOnce) },
    ];
    let subscribe = Subscribe {
        packet_id: 10,
        properties: Properties::EMPTY,
        subscriptions: Subscriptions::of(&subscriptions),
    };
    same(b"\x82\x0E\0\x0A\0\x03a/b\x01\0\x03c/d\x02", &Packet::Subscribe(subscribe), Version::V311);
    let all = SubscriptionOptions {
        qos: Qos::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    let subscriptions = [Subscription { filter: "#", options: all }];
    let subscribe = Subscribe { subscriptions: Subscriptions::of(&subscriptions), ..subscribe };
    same(b"\x82\x07\0\x0A\0\0\x01#\x2D", &Packet::Subscribe(subscribe), Version::V5);
    let ack = SubAck { packet_id: 10, properties: Properties::EMPTY, codes: &[0, 2, 0x80] };
    same(b"\x90\x05\0\x0A\0\x02\x80", &Packet::SubAck(ack), Version::V311);
    let unsubscribe =
        Unsubscribe { packet_id: 10, properties: Properties::EMPTY, filters: Filters::of(&["a/b", "c/d"]) };
    same(b"\xA2\x0C\0\x0A\0\x03a/b\0\x03c/d", &Packet::Unsubscribe(unsubscribe), Version::V311);
    let ack = UnsubAck { packet_id: 10, properties: Properties::EMPTY, codes: &[] };
    same(b"\xB0\x02\0\x0A", &Packet::UnsubAck(ack), Version::V311);
    let ack = UnsubAck { codes: &[0, 0x11], ..ack };
    same(b"\xB0\x05\0\x0A\0\0\x11", &Packet::UnsubAck(ack), Version::V5);

    let ack = ConnAck { session_present: true, code: 0, properties: Properties::EMPTY };
    same(b"\x20\x02\x01\0", &Packet::ConnAck(ack), Version::V311);
    same(b"\x20\x03\x01\0\0", &Packet::ConnAck(ack), Version::V5);
    for version in VERSIONS {
        same(b"\xC0\0", &Packet::PingReq, version);
        same(b"\xD0\0", &Packet::PingResp, version);
        same(b"\xE0\0", &Packet::Disconnect(Disconnect::default()), version);
        same(b"\x62\x02\0\x07", &Packet::PubRel(Ack { packet_id: 7, ..Ack::default() }), version);
    }
}

#[test]
fn reasons_and_properties_are_left_out_when_they_say_nothing() {
    let v5 = Version::V5;
    let ack =
        Ack { packet_id: 7, reason_code: reason::NO_MATCHING_SUBSCRIBERS, properties: Properties::EMPTY };
    same(b"\x40\x03\0\x07\x10", &Packet::PubAck(ack), v5);
    let properties = [Property::ReasonString("no"), Property::UserProperty(("a", "b"))];
    let ack = Ack { properties: Properties::of(&properties), ..ack };
    same(b"\x50\x10\0\x07\x10\x0C\x1F\0\x02no\x26\0\x01a\0\x01b", &Packet::PubRec(ack), v5);
    let disconnect = Disconnect { reason_code: reason::SESSION_TAKEN_OVER, properties: Properties::EMPTY };
    same(b"\xE0\x01\x8E", &Packet::Disconnect(disconnect), v5);
    let whole = decode(b"\x40\x04\0\x07\0\0", v5).unwrap();
    assert_eq!(whole, Packet::PubAck(Ack { packet_id: 7, ..Ack::default() }), "the long form is read, too");
    let properties = [Property::AuthenticationMethod("SCRAM"), Property::AuthenticationData(b"x")];
    let auth = Auth { reason_code: reason::CONTINUE_AUTHENTICATION, properties: Properties::of(&properties) };
    same(b"\xF0\x0E\x18\x0C\x15\0\x05SCRAM\x16\0\x01x", &Packet::Auth(auth), v5);
    assert_eq!(decode(b"\xF0\0", Version::V311), Err(PacketError::Malformed { kind: 15 }));
    assert_eq!(decode(b"\x40\x03\0\x07\x10", Version::V311), Err(PacketError::Malformed { kind: 4 }));
}

#[test]
fn properties_stand_only_where_they_may_and_as_often_as_they_may() {
    let publish = |properties: &[u8]| {
        let mut bytes = vec![0x30, 0, 0, 1, b't', u8::try_from(properties.len()).unwrap()];
        bytes.extend_from_slice(properties);
        bytes[1] = u8::try_from(bytes.len() - 2).unwrap();
        decode(&bytes, Version::V5).map(|_| ())
    };
    let (protocol, malformed) =
        (Err(PacketError::Protocol { kind: 3 }), Err(PacketError::Malformed { kind: 3 }));
    assert_eq!(publish(b"\x01\x01"), Ok(()));
    assert_eq!(publish(b"\x01\x02"), protocol, "a flag of 2");
    assert_eq!(publish(b"\x01\x01\x01\x01"), protocol, "twice");
    assert_eq!(publish(b"\x0B\x01\x0B\x02\x26\0\0\0\0\x26\0\0\0\0"), Ok(()), "these may come several times");
    assert_eq!(publish(b"\x0B\0"), protocol, "subscription 0");
    assert_eq!(publish(b"\x23\0\0"), protocol, "alias 0");
    assert_eq!(publish(b"\x11\0\0\0\x01"), protocol, "session expiry in a publish");
    assert_eq!(publish(b"\x04\0"), malformed, "no such property");
    assert_eq!(publish(b"\x02\0\0\0"), malformed, "cut short");
    assert_eq!(publish(b"\x03\0\x01\xFF"), malformed, "not UTF-8");
    assert_eq!(decode(b"\x30\x04\0\x01t\x05", Version::V5), malformed.map(|()| Packet::PingReq));
}

#[test]
fn packets_that_are_not_allowed_are_refused() {
    let v4 = |bytes: &'static [u8]| decode(bytes, Version::V311).map(|packet| packet.kind());
    let v5 = |bytes: &'static [u8]| decode(bytes, Version::V5).map(|packet| packet.kind());
    let malformed = |kind| Err(PacketError::Malformed { kind });
    let protocol = |kind| Err(PacketError::Protocol { kind });
    assert_eq!(v4(b"\x36\x05\0\x01t\0\x01"), malformed(3), "QoS 3");
    assert_eq!(v4(b"\x32\x05\0\x01t\0\0"), protocol(3), "packet id 0");
    assert_eq!(v4(b"\x30\x02\0\0"), Err(PacketError::BadTopicName));
    assert_eq!(v4(b"\x30\x05\0\x03a/#"), Err(PacketError::BadTopicName));
    assert_eq!(v4(b"\x30\x05\0\x03a/\0"), malformed(3), "NUL");
    assert_eq!(v4(b"\x80\x06\0\x01\0\x01a\0"), malformed(8), "flags");
    assert_eq!(v4(b"\x8A\x06\0\x01\0\x01a\0"), malformed(8), "dup is of version 3.1 only");
    assert!(decode(b"\x8A\x06\0\x01\0\x01a\0", Version::V31).is_ok());
    assert_eq!(v4(b"\x82\x02\0\x01"), protocol(8), "no subscription");
    assert_eq!(v4(b"\x82\x06\0\x01\0\x01a\x03"), malformed(8), "QoS 3");
    assert_eq!(v4(b"\x82\x06\0\x01\0\x01a\x04"), malformed(8), "an option of version 5");
    assert_eq!(v5(b"\x82\x07\0\x01\0\0\x01a\x30"), malformed(8), "retain handling 3");
    assert_eq!(v5(b"\x82\x07\0\x01\0\0\x01a\x40"), malformed(8), "reserved bit");
    assert_eq!(v4(b"\x82\x08\0\x01\0\x03a#b\0"), Err(PacketError::BadTopicFilter));
    assert_eq!(v5(b"\x82\x0F\0\x01\0\0\x09$share/gx\0"), Err(PacketError::BadTopicFilter));
    assert_eq!(v5(b"\x82\x10\0\x01\0\0\x0A$share/g/x\x04"), protocol(8), "no-local with others");
    assert_eq!(v4(b"\x82\x0E\0\x01\0\x09$share/gx\0"), Ok(8), "nothing special before version 5");
    assert_eq!(v4(b"\xA2\x02\0\x01"), protocol(10));
    assert_eq!(v4(b"\xC0\x01\0"), malformed(12));
    assert_eq!(v4(b"\0\0"), malformed(0));
}

/// A packet of each type from generated parts.
fn every_packet<'a>(
    texts: &'a [String],
    numbers: (u8, u16),
    bits: u8,
    properties: [Properties<'a>; 8],
    subscriptions: &'a [Subscription<'a>],
    filters: &'a [&'a str],
) -> Vec<Packet<'a>> {
    let (byte, number) = numbers;
    let (text, payload) = (texts[0].as_str(), texts[1].as_bytes());
    let [of_connect, of_will, of_connack, of_publish, of_ack, of_subscribe, of_suback, of_unsubscribe] =
        properties;
    let qos = Qos::of_bits(byte % 3).unwrap();
    let packet_id = number.max(1);
    let will = Will { qos, retain: bits & 1 != 0, properties: of_will, topic: "w", payload };
    let version = VERSIONS[usize::from(byte % 3)];
    let ack = Ack { packet_id, reason_code: byte, properties: of_ack };
    vec![
        Packet::Connect(Connect {
            version,
            clean_start: bits & 2 != 0,
            keep_alive_s: number,
            properties: if version == Version::V5 { of_connect } else { Properties::EMPTY },
            client_id: text,
            will: (bits & 4 != 0).then_some(will).filter(|_| version == Version::V5),
            user_name: (bits & 8 != 0).then_some(text),
            password: (bits & 8 != 0).then_some(payload),
        }),
        Packet::ConnAck(ConnAck { session_present: bits & 1 != 0, code: byte, properties: of_connack }),
        Packet::Publish(Publish {
            dup: bits & 1 != 0,
            qos,
            retain: bits & 2 != 0,
            topic: "some/topic",
            packet_id: if qos == Qos::AtMostOnce { 0 } else { packet_id },
            properties: of_publish,
            payload,
        }),
        Packet::PubAck(ack),
        Packet::PubRec(ack),
        Packet::PubRel(ack),
        Packet::PubComp(ack),
        Packet::Subscribe(Subscribe {
            packet_id,
            properties: of_subscribe,
            subscriptions: Subscriptions::of(subscriptions),
        }),
        Packet::SubAck(SubAck { packet_id, properties: of_suback, codes: payload }),
        Packet::Unsubscribe(Unsubscribe {
            packet_id,
            properties: of_unsubscribe,
            filters: Filters::of(filters),
        }),
        Packet::UnsubAck(UnsubAck { packet_id, properties: of_suback, codes: payload }),
        Packet::PingReq,
        Packet::PingResp,
        Packet::Disconnect(Disconnect { reason_code: byte, properties: of_ack }),
        Packet::Auth(Auth { reason_code: byte, properties: of_ack }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_decoded_as_it_was_encoded(
        texts in prop::collection::vec("[^\0]{0,200}", 2..3), numbers in any::<(u8, u16)>(), bits in any::<u8>(),
        number in 1..1_000_000_u32, damage in any::<(prop::sample::Index, u8)>(),
    ) {
        let text = texts[0].as_str();
        let user = Property::UserProperty((text, "value"));
        let connect = [Property::ReceiveMaximum(7), Property::MaximumPacketSize(number), user, user];
        let will = [Property::WillDelayInterval(number), Property::ContentType(text), user];
        let connack = [Property::AssignedClientIdentifier(text), Property::MaximumQos(1), user];
        let publish = [
            Property::SubscriptionIdentifier(VarNumber(number)), Property::CorrelationData(texts[1].as_bytes()),
            Property::SubscriptionIdentifier(VarNumber(1)), user,
        ];
        let (ack, subscribe) = ([Property::ReasonString(text), user], [Property::SubscriptionIdentifier(VarNumber(number))]);
        let options = SubscriptionOptions { qos: Qos::AtLeastOnce, retain_as_published: true, ..SubscriptionOptions::default() };
        let subscriptions = [Subscription { filter: "a/+", options }, Subscription { filter: "#", options }];
        let filters = ["a/+", "b"];
        let unsubscribe = [user];
        let properties = [
            &connect[..], &will, &connack, &publish, &ack, &subscribe, &ack, &unsubscribe,
        ].map(Properties::of);
        let packets = every_packet(&texts, numbers, bits, properties, &subscriptions, &filters);
        for packet in packets {
            let mut bytes = encoded(&packet, Version::V5);
            prop_assert_eq!(decode(&bytes, Version::V5), Ok(packet));
            for length in 0..frame(&bytes).body.len().min(40) {
                let cut = Frame { body: &frame(&bytes).body[..length], ..frame(&bytes) };
                prop_assert_ne!(Packet::decode(&cut, Version::V5), Ok(packet));
            }
            crate::fuzzing::mqtt_packet(&[&[5], &bytes[..]].concat());
            let at = damage.0.index(bytes.len());
            bytes[at] = damage.1;
            for version in [3, 4, 5] {
                crate::fuzzing::mqtt_packet(&[&[version], &bytes[..]].concat());
            }
        }
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..16_u8) {
        for version in VERSIONS {
            for flags in [0, 2] {
                if let Ok(packet) = Packet::decode(&Frame { kind, flags, body: &bytes }, version) {
                    crate::fuzzing::mqtt_packet(&[&[version as u8], &encoded(&packet, version)[..]].concat());
                }
            }
        }
    }
}
