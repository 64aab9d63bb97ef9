//! Replays the fuzz targets' stored corpus on the stable toolchain: once found, never lost.

use std::path::Path;
use std::{fs, panic};

/// Gives every file of the target's corpus to it; there must be some.
fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for file in fs::read_dir(&folder).expect("the corpus is part of the repository") {
        let path = file.expect("a readable folder").path();
        let input = fs::read(&path).expect("a readable file");
        assert!(panic::catch_unwind(|| run(&input)).is_ok(), "{} fails", path.display());
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
}

#[test]
fn the_frame_corpus_passes() {
    replay("amqp091_frame", wire::fuzzing::amqp091_frame);
}

#[test]
fn the_method_corpus_passes() {
    replay("amqp091_method", wire::fuzzing::amqp091_method);
}

#[test]
fn the_table_corpus_passes() {
    replay("amqp091_table", wire::fuzzing::amqp091_table);
}

#[test]
fn the_properties_corpus_passes() {
    replay("amqp091_properties", wire::fuzzing::amqp091_properties);
}

#[test]
fn the_amqp10_value_corpus_passes() {
    replay("amqp10_value", wire::fuzzing::amqp10_value);
}

#[test]
fn the_amqp10_sections_corpus_passes() {
    replay("amqp10_sections", wire::fuzzing::amqp10_sections);
}

#[test]
fn the_stream_frame_corpus_passes() {
    replay("stream_frame", wire::fuzzing::stream_frame);
}

#[test]
fn the_stream_chunk_corpus_passes() {
    replay("stream_chunk", wire::fuzzing::stream_chunk);
}

#[test]
fn the_amqp10_frame_corpus_passes() {
    replay("amqp10_frame", wire::fuzzing::amqp10_frame);
}

#[test]
fn the_mqtt_packet_corpus_passes() {
    replay("mqtt_packet", wire::fuzzing::mqtt_packet);
}

#[test]
fn the_mqtt_topic_corpus_passes() {
    replay("mqtt_topic", wire::fuzzing::mqtt_topic);
}

#[test]
fn the_peer_frame_corpus_passes() {
    replay("peer_frame", wire::fuzzing::peer_frame);
}

#[test]
fn the_stomp_frame_corpus_passes() {
    replay("stomp_frame", wire::fuzzing::stomp_frame);
}
