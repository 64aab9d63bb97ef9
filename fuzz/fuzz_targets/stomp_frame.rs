//! Feeds `wire::fuzzing::stomp_frame`; its checks are described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::stomp_frame(data));
