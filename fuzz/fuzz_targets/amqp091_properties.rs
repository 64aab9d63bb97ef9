//! Feeds `wire::fuzzing::amqp091_properties`; its checks are described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::amqp091_properties(data));
