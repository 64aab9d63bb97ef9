//! A disk that is full for a while: nothing is lost, nothing is damaged, and the log goes on where it was.

use std::path::Path;
use std::sync::Arc;

use commitlog::{Log, LogError, LogOptions, Position, Step, SyncPolicy};
use platform::{Disk, SimDisk};

use super::fixtures::{DIR, Owned, Witness, append, drain, files, open, read_all, reopen, small_files};

/// A log with one durable record, on a disk that has room for less than the next.
fn full_disk(options: &LogOptions) -> (SimDisk, Log, commitlog::LogWriter, Vec<Owned>) {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, options).unwrap();
    let kept = append(&log, 1, 1, b"kept");
    drain(&mut writer);
    let used: usize = files(&disk).iter().map(|path| disk.contents(path).unwrap().len()).sum();
    disk.set_space_bytes(Some(used as u64 + 30));
    (disk, log, writer, vec![kept])
}

#[test]
fn a_write_without_room_waits_and_is_made_when_there_is_room() {
    let (disk, log, mut writer, mut records) = full_disk(&small_files());
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    records.push(append(&log, 1, 1, &[1; 100]));
    for _ in 0..3 {
        assert_eq!(writer.step(), Step::WaitsForRoom);
    }
    records.push(append(&log, 2, 1, &[2; 100]));
    assert_eq!((log.durable(), log.failure().is_none()), (records[0].position, true));
    assert!(log.waits_for_room().is_some_and(|failure| failure.is_out_of_room()));
    disk.set_space_bytes(None);
    assert_eq!(writer.step(), Step::Worked);
    assert_eq!((log.durable(), log.waits_for_room().is_none()), (records[1].position, true));
    drain(&mut writer);
    let told = std::mem::take(&mut *witness.told.lock());
    assert!(told.room[0].starts_with("cannot write /data/log/"), "{:?}", told.room);
    assert_eq!((told.room.len(), told.room[1].as_str()), (2, "goes on"));
    assert_eq!(told.durable, [records[1].position, records[2].position]);
    disk.crash(1);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), records);
}

/// Makes room once.
struct Janitor(SimDisk, std::sync::atomic::AtomicBool);

impl commitlog::DurableListener for Janitor {
    fn durable(&self, _up_to: Position) {}
    fn file_sealed(&self, _up_to: Position) {}
    fn goes_on(&self) {}
    fn failed(&self, _error: &LogError) {}

    fn makes_room(&self) -> bool {
        self.0.set_space_bytes(None);
        self.1.swap(false, std::sync::atomic::Ordering::Relaxed)
    }

    fn waits_for_room(&self, failure: &commitlog::IoFailure) {
        panic!("room was made, and it waits: {failure}");
    }
}

#[test]
fn a_write_for_which_room_is_made_waits_for_nobody() {
    let (disk, log, mut writer, mut records) = full_disk(&small_files());
    log.set_listener(Arc::new(Janitor(disk.clone(), true.into())));
    records.push(append(&log, 1, 1, &[1; 100]));
    assert_eq!((writer.step(), log.waits_for_room().is_none()), (Step::Worked, true));
    drain(&mut writer);
    assert_eq!(log.durable(), records[1].position);
    disk.crash(1);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), records);
}

#[test]
fn a_file_is_sealed_early_when_somebody_asks_and_there_is_room_for_another() {
    let options = LogOptions { file_bytes_max: 1 << 20, ..small_files() };
    let (disk, log, mut writer, mut records) = full_disk(&options);
    let count = |log: &Log| log.kept().1;
    log.seal_soon();
    assert_eq!((writer.step(), count(&log)), (Step::Worked, 1), "there is no room for another");
    disk.set_space_bytes(None);
    log.seal_soon();
    assert_eq!((writer.step(), count(&log)), (Step::Worked, 2));
    log.seal_soon();
    assert_eq!((writer.step(), count(&log)), (Step::Worked, 2), "it has no record");
    records.push(append(&log, 1, 1, b"more"));
    log.seal_soon();
    records.push(append(&log, 1, 1, b"last"));
    drain(&mut writer);
    assert_eq!(count(&log), 2, "a file begins before what is written then");
    assert_eq!(log.drop_files_below(records[0].position).unwrap(), 1);
    disk.crash(1);
    assert_eq!(reopen(&disk, &options).unwrap(), records[1..]);
}

#[test]
fn files_are_smaller_while_somebody_asks_for_it_and_never_larger_than_at_first() {
    let options = LogOptions { file_bytes_max: 10_000, ..small_files() };
    let (log, mut writer, _) = open(&SimDisk::new(), &options).unwrap();
    let mut files_after = |bytes_max: u64| {
        log.limit_files(bytes_max);
        for _ in 0..10 {
            append(&log, 1, 1, &[1; 800]);
            drain(&mut writer);
        }
        (log.kept().1, log.file_bytes_max())
    };
    assert_eq!(files_after(10_000), (1, 10_000));
    assert_eq!(files_after(2_000), (6, 2_000));
    assert_eq!(files_after(u64::MAX), (7, 10_000));
}

#[test]
fn a_crash_while_it_waits_costs_only_what_was_not_durable() {
    for seed in 0..50 {
        let (disk, log, mut writer, records) = full_disk(&small_files());
        append(&log, 1, 1, &[1; 100]);
        assert_eq!(writer.step(), Step::WaitsForRoom);
        disk.set_space_bytes(None);
        if seed == 0 {
            disk.kill();
        } else {
            disk.crash(seed);
        }
        let (_, _, recovered) = open(&disk, &small_files()).unwrap();
        assert_eq!(read_all(recovered).unwrap(), records, "seed {seed}");
    }
}

#[test]
fn records_go_where_there_is_room_for_them_but_not_for_the_filling() {
    let options = LogOptions { prefill_bytes: 4096, file_bytes_max: 1 << 20, ..LogOptions::default() };
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &options).unwrap();
    let manifest = disk.contents(&Path::new(DIR).with_extension("manifest")).unwrap();
    disk.set_space_bytes(Some(manifest.len() as u64 + 500));
    let first = append(&log, 1, 1, b"small");
    assert_eq!(writer.step(), Step::Worked);
    disk.set_space_bytes(None);
    let second = append(&log, 1, 1, b"next");
    drain(&mut writer);
    assert_eq!(log.durable(), second.position);
    disk.crash(9);
    assert_eq!(reopen(&disk, &options).unwrap(), [first, second]);
}

#[test]
fn a_file_that_cannot_be_begun_leaves_nothing_behind() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    let mut records = vec![append(&log, 1, 1, &[1; 330])];
    drain(&mut writer);
    let used: usize = files(&disk).iter().map(|path| disk.contents(path).unwrap().len()).sum();
    disk.set_space_bytes(Some(used as u64));
    records.push(append(&log, 1, 1, &[2; 100]));
    assert_eq!(writer.step(), Step::WaitsForRoom);
    assert_eq!(disk.list(Path::new(DIR)).unwrap().len(), 1);
    disk.set_space_bytes(None);
    drain(&mut writer);
    assert_eq!(log.durable(), records[1].position);
    disk.crash(4);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), records);
}

#[test]
fn a_barrier_says_that_it_would_wait_for_room() {
    let (disk, log, mut writer, _) = full_disk(&small_files());
    append(&log, 1, 1, &[1; 100]);
    assert_eq!(writer.step(), Step::WaitsForRoom);
    assert!(matches!(log.sync_barrier(), Err(LogError::WaitsForRoom(_))));
    disk.set_space_bytes(None);
    drain(&mut writer);
    assert_eq!(log.sync_barrier().unwrap(), log.end());
}

#[test]
fn closing_does_not_wait_for_room() {
    let disk = SimDisk::new();
    let options = LogOptions { sync: SyncPolicy::Os, ..small_files() };
    let (log, _) = Log::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    disk.set_space_bytes(Some(40));
    append(&log, 1, 1, &[1; 100]);
    witness.wait(|told| !told.room.is_empty());
    assert!(matches!(log.close(), Err(LogError::Poisoned(failure)) if failure.is_out_of_room()));
    assert_eq!(log.append(1, 1, |_| ()), Position::NEVER);
}

#[test]
fn nothing_of_a_write_without_room_stays_when_the_log_is_closed() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), Path::new(DIR), small_files()).unwrap();
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    let kept = append(&log, 1, 1, b"kept");
    witness.wait(|told| told.durable.last() == Some(&kept.position));
    let (whole, manifest) =
        (disk.contents(&files(&disk)[0]).unwrap(), Path::new(DIR).with_extension("manifest"));
    let used = whole.len() + disk.contents(&manifest).unwrap().len();
    disk.set_space_bytes(Some(used as u64 + 50));
    append(&log, 1, 1, &[1; 100]);
    witness.wait(|told| !told.room.is_empty());
    assert!(disk.contents(&files(&disk)[0]).unwrap().len() > whole.len(), "a part of it was written");
    log.close().unwrap_err();
    assert_eq!(disk.contents(&files(&disk)[0]).unwrap(), whole);
    let held = commitlog::read_manifest(&disk, Path::new(DIR)).unwrap();
    assert_eq!(held.map(|held| held.end), Some(kept.position), "which says what there is");
    disk.set_space_bytes(None);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), [kept]);
}

#[test]
fn a_thread_that_waits_goes_on_by_itself() {
    let disk = SimDisk::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), Path::new(DIR), small_files()).unwrap();
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    disk.set_space_bytes(Some(40));
    let record = append(&log, 1, 1, &[1; 100]);
    witness.wait(|told| !told.room.is_empty());
    disk.set_space_bytes(None);
    witness.wait(|told| told.durable.last() == Some(&record.position));
    log.close().unwrap();
}

#[test]
fn a_sync_that_finds_no_room_is_a_failure_for_good() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    disk.fail_nth_sync_with(1, std::io::ErrorKind::StorageFull);
    append(&log, 1, 1, b"lost");
    assert_eq!(writer.step(), Step::Ended);
    assert!(log.failure().is_some_and(|failure| !failure.is_out_of_room()));
}
