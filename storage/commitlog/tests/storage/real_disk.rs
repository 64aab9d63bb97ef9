//! The same on the operating system's files.

use std::sync::Arc;

use commitlog::{Log, LogOptions, Position};
use platform::RealDisk;

use super::fixtures::read_all;

#[test]
fn a_log_on_a_real_disk_is_read_back_after_several_lives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/log");
    let options = LogOptions { file_bytes_max: 50_000, prefill_bytes: 8192, ..LogOptions::default() };
    let mut count = 0;
    for _ in 0..3 {
        let (log, recovered) = Log::open(Arc::new(RealDisk), &path, options).unwrap();
        assert_eq!(recovered.bytes_cut(), 0);
        assert_eq!(read_all(recovered).unwrap().len(), count);
        for n in 0..300_u64 {
            log.append(n, 1, |out| out.extend_from_slice(&[5; 200]));
            if n % 50 == 0 {
                log.sync_barrier().unwrap();
            }
        }
        count += 300;
        log.close().unwrap();
    }
    let (log, recovered) = Log::open(Arc::new(RealDisk), &path, options).unwrap();
    assert_eq!(recovered.end(), Position(232 * 900));
    assert_eq!(read_all(recovered).unwrap().len(), 900);
    assert!(log.drop_files_below(Position(232 * 450)).unwrap() > 0);
}
