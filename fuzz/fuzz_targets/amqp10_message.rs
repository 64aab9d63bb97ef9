//! Feeds `message::fuzzing::amqp10_message`; its checks are described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| message::fuzzing::amqp10_message(data));
