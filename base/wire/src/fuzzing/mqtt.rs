//! MQTT.

use crate::mqtt::{
    Packet, Parsed, Properties, Version, is_topic_filter, is_topic_name, parse_frame, shared_filter,
};

const PACKET_MAX: usize = 1_048_576;

/// One byte that chooses the version, then a read buffer of packets, as a connection sees it.
pub fn mqtt_packet(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let mut version = match choice % 3 {
        0 => Version::V31,
        1 => Version::V311,
        _ => Version::V5,
    };
    loop {
        match parse_frame(rest, PACKET_MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                if let Ok(packet) = Packet::decode(&frame, version) {
                    round_trip(&packet, version);
                    if let Packet::Connect(connect) = packet {
                        version = connect.version;
                    }
                }
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= PACKET_MAX + 5);
                return;
            }
            Err(_) => return,
        }
    }
}

fn round_trip(packet: &Packet<'_>, version: Version) {
    let mut written = Vec::new();
    packet.encode(version, &mut written);
    let Ok(Parsed::Complete { frame, consumed }) = parse_frame(&written, usize::MAX) else {
        panic!("an encoded packet is none");
    };
    assert_eq!((consumed, Packet::decode(&frame, version)), (written.len(), Ok(*packet)));
    match packet {
        Packet::Publish(publish) => {
            assert!(is_topic_name(publish.topic) || (publish.topic.is_empty() && version == Version::V5));
            let given: Vec<_> = publish.properties.iter().collect();
            assert_eq!(Properties::of(&given), publish.properties);
        }
        Packet::Subscribe(subscribe) => {
            assert!(subscribe.subscriptions.iter().all(|subscription| is_topic_filter(subscription.filter)));
        }
        _ => {}
    }
}

/// A topic, name or filter.
pub fn mqtt_topic(data: &[u8]) {
    let Ok(topic) = std::str::from_utf8(data) else { return };
    assert!(!is_topic_name(topic) || is_topic_filter(topic), "a name is a filter without wildcards");
    if let Some(Some((group, filter))) = shared_filter(topic) {
        assert!(is_topic_filter(filter) && !group.is_empty());
        assert_eq!(format!("$share/{group}/{filter}"), topic);
    }
}
