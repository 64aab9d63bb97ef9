//! Feeds `wire::fuzzing::amqp091_frame`; what it checks is described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::amqp091_frame(data));
