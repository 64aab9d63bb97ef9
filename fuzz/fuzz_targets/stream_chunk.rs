//! Feeds `wire::fuzzing::stream_chunk`; its checks are described there.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::stream_chunk(data));
