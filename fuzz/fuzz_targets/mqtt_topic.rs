//! Feeds `wire::fuzzing::mqtt_topic`; its checks are described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::mqtt_topic(data));
