//! The bytes of a file are what they were.

use std::time::Duration;

use streamlog::PublisherSlot;

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.chunks(32).fold(String::new(), |mut lines, line| {
        line.iter().for_each(|byte| lines.push_str(&format!("{byte:02x}")));
        lines.push('\n');
        lines
    })
}

#[test]
fn a_closed_file_has_these_bytes() {
    let bench = Bench::new();
    let log = bench.open(0xabc, Limits::default());
    log.append().unwrap().message(&[b"he", b"llo"], Some(b"value"));
    bench.settle();
    bench.clock.advance(Duration::from_millis(5));
    let publisher = PublisherSlot((*b"pub").into());
    log.append().unwrap().entry_once(&publisher, 9, &Entry::Message(b"once"), None);
    log.store_offset(b"consumer", 1);
    bench.settle();
    bench.logs.close();
    let path = paths(&bench.disk).remove(0);
    assert!(path.ends_with("5b/0000000000000abc-0000000000000000.strm"), "{path:?}");
    let found = hex(&bench.disk.contents(&path).unwrap());
    assert_eq!(found, include_str!("golden.hex"));
}
