//! Feeds `wire::fuzzing::amqp10_sections`; its checks are described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::amqp10_sections(data));
