//! MQTT: a publish of QoS 1 with 12 bytes, and its answer.

use divan::{Bencher, black_box};
use wire::mqtt::{Ack, Packet, Parsed, Properties, Publish, Qos, Version, parse_frame};

use crate::allocates_nothing;

fn write(version: Version, out: &mut Vec<u8>) {
    out.clear();
    let publish = Publish {
        dup: false,
        qos: Qos::AtLeastOnce,
        retain: false,
        topic: "sensors/kitchen/temperature",
        packet_id: 1000,
        properties: Properties::EMPTY,
        payload: b"Hello world!",
    };
    publish.encode(version, out);
}

fn read(version: Version, bytes: &[u8]) -> usize {
    let Ok(Parsed::Complete { frame, .. }) = parse_frame(bytes, 16_777_216) else { panic!("a packet") };
    let Ok(Packet::Publish(publish)) = Packet::decode(&frame, version) else { panic!("a publish") };
    publish.payload.len() + publish.topic.len()
}

fn ack(out: &mut Vec<u8>) {
    out.clear();
    Packet::PubAck(Ack { packet_id: 1000, ..Ack::default() }).encode(Version::V5, out);
}

/// Checks the shapes that run without allocation.
pub(crate) fn check() {
    let mut out = Vec::new();
    for version in [Version::V311, Version::V5] {
        allocates_nothing("writing a publish", || write(version, &mut out));
        allocates_nothing("reading a publish", || assert_eq!(read(version, &out), 39));
    }
    allocates_nothing("writing an ack", || ack(&mut out));
}

#[divan::bench(args = [Version::V311, Version::V5])]
fn publish_write(bencher: Bencher<'_, '_>, version: Version) {
    let mut out = Vec::with_capacity(256);
    bencher.bench_local(|| write(version, black_box(&mut out)));
}

#[divan::bench(args = [Version::V311, Version::V5])]
fn publish_read(bencher: Bencher<'_, '_>, version: Version) {
    let mut out = Vec::new();
    write(version, &mut out);
    bencher.bench_local(|| read(version, black_box(&out)));
}

#[divan::bench]
fn puback_write(bencher: Bencher<'_, '_>) {
    let mut out = Vec::with_capacity(256);
    bencher.bench_local(|| ack(black_box(&mut out)));
}
