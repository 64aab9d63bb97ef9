//! Retention, sizes of files and chunks, full disks.

use std::time::Duration;

use super::*;

#[test]
fn without_syncs_whoever_ends_a_batch_writes_it_unless_a_file_has_to_begin() {
    let bench = Bench::new();
    bench.logs.set_syncs(false);
    let log = bench.open(1, Limits::default());
    let finish = |message: &[u8]| {
        let mut appender = log.append().unwrap();
        appender.message(&[message], None);
        appender.finish();
        log.committed_next()
    };
    assert_eq!(finish(b"a writer opens the file"), 0);
    bench.settle();
    assert_eq!(finish(b"here"), 2);
    assert_eq!(finish(b"and here"), 3);
    bench.logs.set_syncs(true);
    assert_eq!(finish(b"synced by a writer"), 3);
    bench.settle();
    bench.logs.set_syncs(false);
    log.set_limits(Limits { segment_bytes: 1, ..Limits::default() });
    assert_eq!(finish(b"in the next file"), 4);
    bench.settle();
    assert_eq!((log.committed_next(), log.info().segments), (5, 2));
    let read = read_on(&bench, &mut log.reader(Seek::First, None)).unwrap();
    assert_eq!(read.len(), 5);
    assert_eq!(read[1], (1, b"here".to_vec()));
    drop(log);
    let again = bench.again();
    let read = read_on(&again, &mut again.open(1, Limits::default()).reader(Seek::First, None)).unwrap();
    assert_eq!(read.len(), 5);
}

#[test]
fn old_files_go_while_all_are_larger_than_the_limit_and_readers_behind_go_on_at_the_first_offset() {
    let bench = Bench::new();
    let log = bench.open(1, Limits { segment_bytes: 1000, max_bytes: Some(5000), ..Limits::default() });
    let mut reader = log.reader(Seek::First, None);
    assert!(read_on(&bench, &mut reader).unwrap().is_empty());
    for _ in 0..100 {
        append(&log, &[&[7; 200]]);
        bench.settle();
        assert!(log.info().disk_bytes <= 6000);
    }
    let info = log.info();
    assert!(info.first_offset > 50 && info.segments > 2, "{info:?}");
    let read = read_on(&bench, &mut reader).unwrap();
    assert_eq!((read[0].0, read.len() as u64), (info.first_offset, 100 - info.first_offset));
    assert_eq!(reader.skipped(), info.first_offset);
    assert_eq!(paths(&bench.disk).len(), info.segments as usize);
}

#[test]
fn old_files_go_when_they_are_too_old_and_the_newest_too() {
    let bench = Bench::new();
    let log = bench.open(1, Limits { segment_bytes: 1000, max_age_ms: Some(60_000), ..Limits::default() });
    for _ in 0..20 {
        append(&log, &[&[7; 200]]);
        bench.settle();
        bench.clock.advance(Duration::from_secs(10));
        bench.settle();
    }
    let info = log.info();
    assert!(info.first_offset > 5 && info.first_offset < 20, "{info:?}");
    bench.clock.advance(Duration::from_secs(100));
    bench.settle();
    let info = log.info();
    assert_eq!((info.first_offset, info.next_offset, info.segments), (20, 20, 1));
    append(&log, &[b"goes on"]);
    bench.settle();
    let bench = bench.again();
    assert_eq!(
        read_from(&bench, &bench.open(1, Limits::default()), Seek::First),
        [(20, b"goes on".to_vec())]
    );
}

#[test]
fn a_newest_file_without_records_is_replaced_when_it_is_too_old_or_full_and_offsets_go_on() {
    let bench = Bench::new();
    let log = bench.open(1, Limits { segment_bytes: 300, max_age_ms: Some(60_000), ..Limits::default() });
    append(&log, &[b"old"]);
    for stored in 0..20 {
        let seconds = if stored < 5 { 100 } else { 2 };
        bench.settle();
        bench.clock.advance(Duration::from_secs(seconds));
        bench.settle();
        log.store_offset(b"me", stored);
    }
    bench.clock.advance(Duration::from_secs(100));
    bench.settle();
    let info = log.info();
    assert_eq!((info.first_offset, info.next_offset, info.segments), (1, 1, 1));
    assert!(info.disk_bytes < 600, "{info:?}");
    append(&log, &[b"new"]);
    bench.settle();
    drop(log);
    let bench = bench.again();
    let log = bench.open(1, Limits::default());
    assert_eq!(log.stored_offset(b"me"), Some(19));
    assert_eq!(read_from(&bench, &log, Seek::First), [(1, b"new".to_vec())]);
}

#[test]
fn an_entry_larger_than_a_chunk_is_a_chunk_by_itself() {
    let bench = Bench::new();
    let log = bench.open(1, Limits::default());
    let large = vec![3; 3 << 20];
    append(&log, &[b"small", &large, b"small", &large]);
    bench.settle();
    let read = read_from(&bench, &log, Seek::First);
    assert_eq!(read.iter().map(|(_, body)| body.len()).collect::<Vec<_>>(), [5, 3 << 20, 5, 3 << 20]);
    assert_eq!(read_from(&bench, &log, Seek::Offset(3)).len(), 1);
}

#[test]
fn a_round_for_which_there_is_no_room_is_kept_and_written_later() {
    let bench = Bench::new();
    let log = bench.open(1, Limits { segment_bytes: 2000, ..Limits::default() });
    append(&log, &[b"before"]);
    bench.settle();
    for room in [0, 10, 700] {
        let used: usize =
            paths(&bench.disk).iter().map(|path| bench.disk.contents(path).unwrap().len()).sum();
        bench.disk.set_space_bytes(Some(used as u64 + room));
        let before = log.committed_next();
        append(&log, &[&[1; 900], &[2; 1900]]);
        bench.settle();
        bench.clock.advance(Duration::from_secs(2));
        bench.settle();
        assert_eq!(log.committed_next(), before);
        bench.disk.set_space_bytes(None);
        bench.clock.advance(Duration::from_secs(2));
        bench.settle();
        assert_eq!(log.committed_next(), before + 2);
        assert_eq!(log.unwritten_bytes(), 0);
    }
    assert!(bench.listener.failures.lock().is_empty());
    let bench = bench.again();
    assert_eq!(read_from(&bench, &bench.open(1, Limits::default()), Seek::First).len(), 7);
}

#[test]
fn a_failed_sync_ends_the_stream_and_what_was_confirmed_is_there_after_the_next_start() {
    let bench = Bench::new();
    let log = bench.open(1, Limits::default());
    append(&log, &[b"confirmed"]);
    bench.settle();
    bench.disk.fail_nth_sync(1);
    append(&log, &[b"not"]);
    bench.settle();
    assert_eq!((log.committed_next(), bench.listener.failures.lock().len()), (1, 1));
    assert!(matches!(log.append().err(), Some(StreamError::Failed(_))));
    // Committed entries can still be read.
    assert_eq!(read_from(&bench, &log, Seek::First).len(), 1);
    bench.disk.crash(3);
    let bench = bench.again();
    assert_eq!(read_from(&bench, &bench.open(1, Limits::default()), Seek::First)[0].1, b"confirmed");
}

#[test]
fn many_streams_are_closed_by_several_threads_and_a_start_syncs_none_of_their_files() {
    const STREAMS: u64 = 200;
    let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_700_000_000_000)));
    let options = StreamOptions { syncs: true, writers: 2, readers: 1, tail_bytes: 4096 };
    let on_disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let logs = StreamLogs::start(on_disk, Path::new(DIR), clock.clone(), options).unwrap();
    let open = |id| logs.open(id, Limits::default(), Arc::<Listener>::default()).unwrap().log;
    let open: Vec<_> = (0..STREAMS).map(open).collect();
    // Every other one stays empty.
    open.iter().step_by(2).for_each(|log| {
        append(log, &[b"a message"]);
    });
    logs.close();
    drop((open, logs));
    let bench = Bench::on(disk, clock, true);
    let before = bench.disk.sync_count();
    for id in 0..STREAMS {
        let opened = bench.look(id);
        assert!(opened.damages.is_empty() && opened.cut_tail.is_none());
        assert_eq!(opened.log.committed_next(), 1 - id % 2, "stream {id}");
    }
    let folders: std::collections::HashSet<_> =
        paths(&bench.disk).iter().map(|path| path.parent().unwrap().to_owned()).collect();
    assert!(bench.disk.sync_count() - before <= folders.len() as u64);
}
