//! One log whose records wait for another to name their streams: on no disk, after no crash, is there a record of a stream without
//! a name.

use std::path::Path;
use std::sync::Arc;

use commitlog::{Log, LogError, LogOptions, LogWriter, NAMED_STREAMS_END, Names, Position, Step, SyncPolicy};
use platform::SimDisk;

use super::fixtures::{Owned, Witness, append, drain, read_all, small_files};

const META: &str = "/data/meta";

fn open_at(disk: &SimDisk, dir: &str, options: &LogOptions) -> (Log, LogWriter, Vec<Owned>) {
    let (log, writer, recovered) =
        Log::open_driven(Arc::new(disk.clone()), Path::new(dir), *options).unwrap();
    (log, writer, read_all(recovered).unwrap())
}

/// A log that names streams, and one that holds their records; streams below 10 are named.
struct Pair {
    disk: SimDisk,
    meta: (Log, LogWriter),
    log: (Log, LogWriter),
    names: Arc<Names>,
}

impl Pair {
    fn new(sync: SyncPolicy) -> Pair {
        let disk = SimDisk::new();
        let (meta, meta_writer, _) = open_at(&disk, META, &small_files());
        let (log, writer, _) = open_at(&disk, super::fixtures::DIR, &LogOptions { sync, ..small_files() });
        let names = meta.names(10);
        log.write_after(names.clone());
        Pair { disk, meta: (meta, meta_writer), log: (log, writer), names }
    }

    fn name(&self, stream: u64) -> Position {
        let position = append(&self.meta.0, 0, 1, &stream.to_be_bytes()).position;
        self.names.add(position, stream + 1);
        position
    }
}

#[test]
fn records_of_a_stream_wait_for_its_name_and_others_do_not() {
    for sync in [SyncPolicy::Fsync, SyncPolicy::Os] {
        let mut pair = Pair::new(sync);
        pair.name(10);
        let old = append(&pair.log.0, 9, 1, b"old");
        let unnamed = append(&pair.log.0, NAMED_STREAMS_END, 1, b"needs none");
        assert_eq!((pair.log.1.step(), pair.log.0.durable()), (Step::Worked, unnamed.position));
        let new = append(&pair.log.0, 10, 1, b"new");
        assert_eq!(pair.log.1.step(), Step::WaitsForNames);
        let later = append(&pair.log.0, 3, 1, b"behind it");
        assert_eq!(pair.log.1.step(), Step::WaitsForNames);
        assert_eq!(pair.log.0.durable(), unnamed.position);
        drain(&mut pair.meta.1);
        drain(&mut pair.log.1);
        assert_eq!(pair.log.0.durable(), later.position);
        pair.disk.kill();
        let (_, _, records) = open_at(&pair.disk, super::fixtures::DIR, &small_files());
        assert_eq!(records, [old, unnamed, new, later]);
    }
}

#[test]
fn only_the_names_that_are_needed_are_waited_for() {
    let mut pair = Pair::new(SyncPolicy::Fsync);
    pair.name(10);
    append(&pair.log.0, 10, 1, b"first");
    assert_eq!(pair.log.1.step(), Step::WaitsForNames);
    drain(&mut pair.meta.1);
    for stream in 11..14 {
        pair.name(stream);
    }
    assert_eq!(pair.log.1.step(), Step::Worked);
    append(&pair.log.0, 12, 1, b"second");
    assert_eq!(pair.log.1.step(), Step::WaitsForNames);
    drain(&mut pair.meta.1);
    assert_eq!(pair.log.1.step(), Step::Worked);
    append(&pair.log.0, 13, 1, b"third");
    assert_eq!(pair.log.1.step(), Step::Worked);
}

#[test]
fn after_any_crash_every_stream_in_the_log_has_a_name() {
    for seed in 0..300 {
        let mut pair = Pair::new(if seed % 2 == 0 { SyncPolicy::Fsync } else { SyncPolicy::Os });
        for stream in 10..30 {
            pair.name(stream);
            append(&pair.log.0, stream, 1, &[7; 40]);
            if (seed + stream) % 3 == 0 {
                pair.log.1.step();
            }
            if (seed * 7 + stream) % 5 == 0 {
                // The sync may be the one that never ends.
                pair.disk.fail_nth_sync(if stream % 4 == 0 { 1 } else { u64::MAX });
                pair.meta.1.step();
                pair.disk.fail_nth_sync(u64::MAX);
            }
        }
        pair.log.1.step();
        pair.disk.crash(seed);
        let (_, _, named) = open_at(&pair.disk, META, &small_files());
        let (_, _, records) = open_at(&pair.disk, super::fixtures::DIR, &small_files());
        let is_named = |record: &Owned| {
            record.stream < 10 || named.iter().any(|name| name.payload == record.stream.to_be_bytes())
        };
        assert!(records.iter().all(is_named), "seed {seed}: {records:?} {named:?}");
    }
}

#[test]
fn a_name_that_never_comes_fails_the_log() {
    let mut pair = Pair::new(SyncPolicy::Fsync);
    let witness = Arc::new(Witness::default());
    pair.log.0.set_listener(witness.clone());
    pair.name(10);
    append(&pair.log.0, 9, 1, b"named");
    assert_eq!(pair.log.1.step(), Step::Worked);
    append(&pair.log.0, 10, 1, b"unnamed");
    pair.disk.fail_nth_sync(1);
    assert_eq!(pair.meta.1.step(), Step::Ended);
    assert_eq!(pair.log.1.step(), Step::Ended);
    assert!(witness.told.lock().failures[0].starts_with("cannot sync /data/meta/"));
    assert!(matches!(pair.log.0.sync_barrier(), Err(LogError::Poisoned(_))));
}

#[test]
fn what_waits_for_names_that_find_no_room_says_so_and_goes_on_or_is_closed() {
    for closes in [false, true] {
        let mut pair = Pair::new(SyncPolicy::Fsync);
        let witness = Arc::new(Witness::default());
        pair.log.0.set_listener(witness.clone());
        pair.disk.set_space_bytes(Some(1));
        pair.name(10);
        append(&pair.log.0, 10, 1, b"waits");
        assert_eq!(pair.meta.1.step(), Step::WaitsForRoom);
        for _ in 0..2 {
            assert_eq!(pair.log.1.step(), Step::WaitsForRoom);
        }
        assert_eq!(witness.told.lock().room.len(), 1);
        assert!(matches!(pair.log.0.sync_barrier(), Err(LogError::WaitsForRoom(_))));
        if closes {
            std::thread::scope(|scope| {
                let closing = scope.spawn(|| pair.log.0.close());
                while pair.log.1.step() != Step::Ended {}
                assert!(closing.join().unwrap().is_err());
            });
            continue;
        }
        pair.disk.set_space_bytes(None);
        drain(&mut pair.meta.1);
        drain(&mut pair.log.1);
        assert_eq!(witness.told.lock().room[1], "goes on");
        assert_eq!(pair.log.0.durable(), pair.log.0.end());
    }
}

#[test]
fn a_thread_that_waits_for_a_name_goes_on_when_it_comes() {
    let Pair { meta: (meta, mut meta_writer), log: (log, writer), names, .. } = Pair::new(SyncPolicy::Fsync);
    log.start(writer).unwrap();
    let position = append(&meta, 0, 1, b"name").position;
    names.add(position, 11);
    let record = append(&log, 10, 1, b"new");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| log.sync_barrier());
        drain(&mut meta_writer);
        assert_eq!(waiting.join().unwrap().unwrap(), record.position);
    });
    log.close().unwrap();
}
