//! The formats against files that were written by version 1 and never change.

use std::path::Path;
use std::sync::Arc;

use commitlog::{
    LogOptions, Position, SegmentOptions, Segments, Snapshot, read_latest_snapshot, write_snapshot,
};
use platform::SimDisk;

use super::fixtures::{append, drain, files, open, reopen};

/// Compares with the golden file; `WARREN_BLESS=1` writes a missing one.
fn check(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("WARREN_BLESS").is_some() && !path.exists() {
        std::fs::write(&path, bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(golden == bytes, "{name} is written differently from version 1");
    golden
}

#[test]
fn a_log_file_of_version_1_is_written_and_read_as_ever() {
    let disk = SimDisk::new();
    let options = LogOptions { prefill_bytes: 0, ..LogOptions::default() };
    let (log, mut writer, _) = open(&disk, &options).unwrap();
    let mut records = vec![append(&log, 1, 2, b"hello"), append(&log, u64::MAX, 255, b"")];
    drain(&mut writer);
    records.push(append(&log, 0x0102_0304_0506_0708, 0, &[0xab; 40]));
    drain(&mut writer);
    let path = files(&disk)[0].clone();
    let golden = check("log-v1.log", &disk.contents(&path).unwrap());

    let disk = SimDisk::new();
    disk.put(&path, &golden);
    assert_eq!(reopen(&disk, &options).unwrap(), records);
}

#[test]
fn a_snapshot_of_version_1_is_written_and_read_as_ever() {
    let disk = SimDisk::new();
    let dir = Path::new("/meta");
    write_snapshot(&disk, dir, "metadata", Position(0x1234), b"the state").unwrap();
    let path = dir.join("metadata-0000000000001234.snap");
    let golden = check("snapshot-v1.snap", &disk.contents(&path).unwrap());

    let disk = SimDisk::new();
    disk.put(&path, &golden);
    let expected = Snapshot { position: Position(0x1234), bytes: b"the state".to_vec(), damaged: vec![] };
    assert_eq!(read_latest_snapshot(&disk, dir, "metadata").unwrap(), Some(expected));
}

#[test]
fn a_segment_of_version_1_is_written_and_read_as_ever() {
    let disk = SimDisk::new();
    let dir = Path::new("/segments");
    let open =
        |disk: &SimDisk| Segments::open(Arc::new(disk.clone()), dir, SegmentOptions::default()).unwrap();
    let segments = open(&disk);
    let locations =
        [segments.write_block(0xabc, b"first block").unwrap(), segments.write_block(0xabc, b"").unwrap()];
    let path = dir.join("5b/0000000000000abc-0000000100000000.seg");
    let golden = check("segment-v1.seg", &disk.contents(&path).unwrap());

    let disk = SimDisk::new();
    disk.put(&path, &golden);
    let segments = open(&disk);
    assert_eq!(segments.read_block(0xabc, locations[0]).unwrap(), b"first block");
    assert_eq!(segments.read_block(0xabc, locations[1]).unwrap(), b"");
}
