//! Appending, group commit, rolling, failing and closing.

use std::path::Path;
use std::sync::Arc;

use commitlog::{Log, LogError, LogOptions, Position, Step, SyncPolicy};
use platform::SimDisk;

use super::fixtures::{DIR, Witness, append, drain, files, open, read_all, reopen, small_files};

fn threaded(disk: &SimDisk, options: &LogOptions) -> Arc<Log> {
    Arc::new(Log::open(Arc::new(disk.clone()), Path::new(DIR), *options).unwrap().0)
}

#[test]
fn nothing_is_durable_before_the_write_and_one_sync_serves_all_that_gathered() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &LogOptions::default()).unwrap();
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    let syncs = disk.sync_count();
    let last = (0..100).map(|n| append(&log, n, 1, b"payload").position).last().unwrap();
    assert_eq!((log.durable(), log.end(), log.pending_bytes()), (Position(0), last, last.0));
    assert_eq!(writer.step(), Step::Worked);
    assert_eq!((log.durable(), log.pending_bytes()), (last, 0));
    assert_eq!(disk.sync_count() - syncs, 1);
    assert_eq!(witness.told.lock().durable, [last]);
    assert_eq!(writer.step(), Step::Idle);
}

#[test]
fn rolling_tells_up_to_where_files_are_sealed_and_old_files_can_be_dropped() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    let mut records = Vec::new();
    for n in 0..12 {
        records.push(append(&log, n, 1, &[1; 68]));
        drain(&mut writer);
    }
    let sealed = witness.told.lock().sealed.clone();
    assert_eq!(sealed, [Position(300), Position(600), Position(900)]);
    assert_eq!(log.drop_files_below(Position(599)).unwrap(), 1);
    assert_eq!(log.kept(), (Position(300), 3));
    assert_eq!(log.drop_files_below(Position(u64::MAX)).unwrap(), 2);
    assert_eq!(log.kept(), (Position(900), 1));
    disk.crash(3);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), records[9..]);
}

#[test]
fn what_was_appended_is_read_back_from_the_file_of_a_record_on_while_the_log_goes_on() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    let mut records = Vec::new();
    for n in 0..11 {
        records.push(append(&log, n, 1, &[1; 68]));
        drain(&mut writer);
    }
    assert_eq!(read_all(log.read_back(Position(1)).unwrap()).unwrap(), records);
    // Three records to a file: the fourth begins the second.
    assert_eq!(read_all(log.read_back(records[4].position).unwrap()).unwrap(), records[3..]);
    assert_eq!(read_all(log.read_back(records[2].position).unwrap()).unwrap(), records);
    let back = log.read_back(records[10].position).unwrap();
    append(&log, 99, 1, b"later");
    drain(&mut writer);
    assert_eq!(read_all(back).unwrap(), records[9..]);
}

#[test]
fn many_appenders_keep_their_order_and_all_becomes_durable() {
    let disk = SimDisk::new();
    let options = LogOptions { file_bytes_max: 100_000, ..LogOptions::default() };
    let log = threaded(&disk, &options);
    std::thread::scope(|scope| {
        for stream in 0..8_u64 {
            let log = &log;
            scope.spawn(move || {
                let mut before = Position(0);
                for n in 0..2000_u64 {
                    let position = log.append(stream, 0, |out| out.extend_from_slice(&n.to_be_bytes()));
                    assert!(position > before);
                    before = position;
                }
            });
        }
    });
    assert_eq!(log.sync_barrier().unwrap(), log.durable());
    log.close().unwrap();
    let records = reopen(&disk, &options).unwrap();
    assert_eq!(records.len(), 16_000);
    assert!(records.windows(2).all(|pair| pair[0].position < pair[1].position));
    let mut expected = [0_u64; 8];
    for record in records {
        let next = &mut expected[usize::try_from(record.stream).unwrap()];
        assert_eq!(record.payload, next.to_be_bytes());
        *next += 1;
    }
}

#[test]
fn what_nobody_waits_for_becomes_durable_by_itself_with_a_barrier_and_at_the_end() {
    let disk = SimDisk::new();
    let log = threaded(&disk, &LogOptions::default());
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    let put = |n: u8| log.append_unawaited(u64::from(n), n, |out| out.push(n));
    let first = put(1);
    witness.wait(|told| told.durable.last() == Some(&first));
    let second = put(2);
    assert_eq!(log.sync_barrier().unwrap(), second);
    assert!(log.durable() >= second);
    put(3);
    log.close().unwrap();
    let kinds: Vec<u8> =
        reopen(&disk, &LogOptions::default()).unwrap().iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [1, 2, 3]);
}

#[test]
fn a_failed_sync_poisons_the_log_for_good() {
    let disk = SimDisk::new();
    let log = threaded(&disk, &LogOptions::default());
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    let good = append(&log, 1, 1, b"good");
    log.sync_barrier().unwrap();
    disk.fail_nth_sync(1);
    append(&log, 1, 1, b"lost");
    witness.wait(|told| !told.failures.is_empty());
    assert!(witness.told.lock().failures[0].contains("cannot sync /data/log/0000000000000000.log"));
    assert_eq!(log.append(1, 1, |_| panic!("must not be called")), Position::NEVER);
    assert_eq!((log.durable(), log.pending_bytes()), (good.position, 0));
    assert!(matches!(log.sync_barrier(), Err(LogError::Poisoned(_))));
    assert!(matches!(log.close(), Err(LogError::Poisoned(_))));
    assert!(log.failure().is_some());
    let told = witness.told.lock();
    assert_eq!((told.failures.len(), told.durable.last()), (1, Some(&good.position)));
}

#[test]
fn a_listener_that_comes_after_the_failure_still_hears_of_it() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &LogOptions::default()).unwrap();
    disk.fail_nth_sync(1);
    append(&log, 1, 1, b"lost");
    assert_eq!(writer.step(), Step::Ended);
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    assert_eq!(witness.told.lock().failures.len(), 1);
}

#[test]
fn every_failing_sync_while_rolling_or_closing_poisons_and_loses_nothing_durable() {
    for nth in 1..20 {
        let disk = SimDisk::new();
        let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
        disk.fail_nth_sync(nth);
        let mut records = Vec::new();
        for n in 0..8 {
            records.push(append(&log, n, 1, &[1; 68]));
            drain(&mut writer);
        }
        let durable = log.durable();
        disk.fail_nth_sync(u64::MAX);
        disk.crash(nth);
        let found = reopen(&disk, &small_files()).unwrap();
        assert!(records.starts_with(&found));
        assert!(found.last().map_or(Position(0), |last| last.position) >= durable, "sync {nth}");
    }
}

#[test]
fn the_bound_is_told_and_not_enforced() {
    let disk = SimDisk::new();
    let options = LogOptions { pending_bytes_max: 100, ..LogOptions::default() };
    let (log, mut writer, _) = open(&disk, &options).unwrap();
    append(&log, 1, 1, &[0; 68]);
    assert!(!log.over_bound());
    append(&log, 1, 1, &[0; 68]);
    assert!(log.over_bound());
    drain(&mut writer);
    assert!(!log.over_bound());
}

#[test]
fn under_the_os_policy_durable_needs_no_sync_but_a_barrier_makes_one() {
    let disk = SimDisk::new();
    let log = threaded(&disk, &LogOptions { sync: SyncPolicy::Os, ..LogOptions::default() });
    let witness = Arc::new(Witness::default());
    log.set_listener(witness.clone());
    let syncs = disk.sync_count();
    let record = append(&log, 1, 1, b"x");
    witness.wait(|told| told.durable.last() == Some(&record.position));
    assert_eq!(disk.sync_count(), syncs);
    assert_eq!(log.sync_barrier().unwrap(), record.position);
    assert_eq!(disk.sync_count(), syncs + 1);
    disk.crash(1);
    assert_eq!(reopen(&disk, &LogOptions::default()).unwrap(), [record]);
}

#[test]
fn closing_makes_all_durable_and_leaves_no_filling() {
    let disk = SimDisk::new();
    let log = threaded(&disk, &LogOptions::default());
    let record = append(&log, 1, 1, b"last words");
    log.close().unwrap();
    log.close().unwrap();
    assert_eq!(log.append(1, 1, |_| ()), Position::NEVER);
    assert_eq!(log.sync_barrier().unwrap(), record.position);
    assert_eq!(disk.contents(&files(&disk)[0]).unwrap().len(), 32 + 32 + 10);
    disk.crash(1);
    assert_eq!(reopen(&disk, &LogOptions::default()).unwrap(), [record]);
}

#[test]
fn a_dropped_log_is_closed() {
    let disk = SimDisk::new();
    let log = threaded(&disk, &LogOptions::default());
    let record = append(&log, 1, 1, b"x");
    drop(log);
    assert_eq!(disk.open_file_count(), 0);
    disk.crash(1);
    assert_eq!(reopen(&disk, &LogOptions::default()).unwrap(), [record]);
}
