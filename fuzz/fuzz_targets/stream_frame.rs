//! Feeds `wire::fuzzing::stream_frame`; what it checks is described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::stream_frame(data));
