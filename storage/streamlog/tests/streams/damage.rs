//! Damaged files are said, never cut.

use super::*;

/// A stream with one file of several rounds, as after a kill; and that file.
fn written(rounds: usize) -> (Bench, PathBuf) {
    let bench = Bench::new();
    let log = bench.open(1, Limits::default());
    for round in 0..rounds {
        append(&log, &[format!("message of round {round}").as_bytes(), &[9; 300]]);
        bench.settle();
    }
    drop(log);
    bench.disk.kill();
    let bench = bench.again();
    let path = paths(&bench.disk).remove(0);
    (bench, path)
}

#[test]
fn a_bad_byte_before_what_was_synced_is_damage_and_what_lies_around_it_is_served() {
    let len = {
        let (bench, path) = written(6);
        bench.disk.contents(&path).unwrap().len() as u64
    };
    let step = len / 97;
    let mut said = 0;
    for at in (40..len).step_by(usize::try_from(step.max(1)).unwrap()) {
        let (bench, path) = written(6);
        bench.disk.corrupt(&path, at, 0x10);
        let before = bench.disk.contents(&path).unwrap();
        let OpenedStream { log, damages, cut_tail } = bench.look(1);
        if damages.is_empty() {
            // In the last round nobody can tell it from a torn write: it is said all the same.
            assert!(cut_tail.is_some_and(|tail| tail.position <= at && tail.bytes > 0));
            assert!(at > len - len / 5, "a bad byte at {at} of {len} is not said");
            continue;
        }
        said += 1;
        append(&log, &[b"after the damage"]);
        bench.settle();
        assert_eq!(bench.disk.contents(&path).unwrap(), before, "byte {at}");
        assert_eq!(read_from(&bench, &log, Seek::Offset(12)), [(12, b"after the damage".to_vec())]);
        let mut reader = log.reader(Seek::First, None);
        let error = read_on(&bench, &mut reader).unwrap_err();
        assert!(matches!(error, StreamError::Damaged { .. }), "{error}");
        // And again after a start.
        drop(log);
        bench.logs.close();
        let bench = bench.again();
        let OpenedStream { log, damages, .. } = bench.look(1);
        assert_eq!((damages.len(), log.committed_next()), (1, 13));
    }
    assert!(said > 60);
}

#[test]
fn rot_under_an_open_stream_stops_the_reader_that_comes_to_it() {
    let (bench, path) = written(200);
    let log = bench.open(1, Limits::default());
    bench.disk.corrupt(&path, 20_000, 1);
    let mut reader = log.reader(Seek::First, None);
    let error = read_on(&bench, &mut reader).unwrap_err();
    assert!(error.to_string().contains("damaged at byte"), "{error}");
    assert_eq!(read_from(&bench, &log, Seek::Last).len(), 2);
}

#[test]
fn a_torn_tail_is_cut_wherever_it_is_torn() {
    let (bench, path) = written(3);
    let whole = bench.disk.contents(&path).unwrap();
    for end in 40..whole.len() {
        let bench = Bench::new();
        bench.disk.put(&path, &whole[..end]);
        let bench = bench.again();
        let OpenedStream { log, damages, cut_tail } = bench.look(1);
        assert!(damages.is_empty());
        let left = bench.disk.contents(&path).unwrap().len();
        assert_eq!(cut_tail.map_or(0, |tail| tail.bytes), (end - left) as u64);
        let next = log.committed_next();
        assert_eq!(read_from(&bench, &log, Seek::First).len() as u64, next);
        append(&log, &[b"on"]);
        bench.settle();
        assert_eq!(read_from(&bench, &log, Seek::Last).last().unwrap(), &(next, b"on".to_vec()));
    }
}

#[test]
fn once_a_stream_has_rested_a_bad_byte_is_damage_wherever_it_is() {
    for is_last_of_life in [false, true] {
        let bench = Bench::new();
        let log = bench.open(1, Limits::default());
        for round in 0..4 {
            append(&log, &[format!("message of round {round}").as_bytes(), &[9; 300]]);
            bench.settle();
        }
        let (path, mut log) = (paths(&bench.disk).remove(0), log);
        let told = bench.disk.contents(&path).unwrap().len() as u64;
        let mut bench = bench;
        if is_last_of_life {
            // Damage that was found at a start is marked, too.
            drop(log);
            bench.disk.kill();
            bench = bench.again();
            log = bench.open(1, Limits::default());
        }
        bench.rest();
        let marked = bench.disk.contents(&path).unwrap();
        assert!(marked.len() as u64 > told, "there is a mark");
        bench.rest();
        assert_eq!(bench.disk.contents(&path).unwrap(), marked, "there is one mark");
        drop((log, bench));
        for at in (40..told).step_by(7) {
            let bench = Bench::new();
            bench.disk.put(&path, &marked);
            bench.disk.corrupt(&path, at, 0x10);
            let before = bench.disk.contents(&path).unwrap();
            let bench = bench.again();
            let opened = bench.look(1);
            assert_eq!((opened.damages.len(), opened.log.committed_next()), (1, 8), "byte {at} of {told}");
            assert_eq!(bench.logs.damages_and_cut_tails(), (1, 0));
            assert_eq!(bench.disk.contents(&path).unwrap(), before, "byte {at}");
        }
    }
}

#[test]
fn marks_change_neither_offsets_nor_where_the_last_chunk_is() {
    let bench = Bench::new();
    let log = bench.open(1, Limits::default());
    let mut reader = log.reader(Seek::First, None);
    for round in 0_u64..3 {
        assert_eq!(append(&log, &[b"one", b"two"]), round * 2 + 2);
        bench.settle();
        bench.rest();
        assert_eq!(log.committed_next(), round * 2 + 2);
        let found = read_on(&bench, &mut reader).unwrap();
        assert_eq!(found, [(round * 2, b"one".to_vec()), (round * 2 + 1, b"two".to_vec())]);
    }
    drop((reader, log));
    bench.disk.kill();
    let bench = bench.again();
    let log = bench.open(1, Limits::default());
    assert_eq!((log.last_chunk_id(), log.committed_next()), (4, 6));
    assert_eq!(read_from(&bench, &log, Seek::Last).len(), 2);
    // And after a clean end.
    drop(log);
    bench.logs.close();
    let bench = bench.again();
    assert_eq!(bench.open(1, Limits::default()).last_chunk_id(), 4);
}

#[test]
fn where_nothing_is_synced_damage_with_chunks_behind_it_is_not_cut() {
    let bench = Bench::on(SimDisk::new(), Arc::new(SimClock::new(1_700_000_000_000)), false);
    let log = bench.open(1, Limits::default());
    let mut ends = Vec::new();
    for _ in 0..3 {
        append(&log, &[&[7; 100]]);
        bench.settle();
        let path = paths(&bench.disk).remove(0);
        ends.push(bench.disk.contents(&path).unwrap().len() as u64);
    }
    let path = paths(&bench.disk).remove(0);
    bench.disk.corrupt(&path, ends[1] - 60, 1);
    let before = bench.disk.contents(&path).unwrap();
    drop(log);
    let (disk, clock) = (bench.disk.clone(), bench.clock.clone());
    drop(bench);
    let bench = Bench::on(disk, clock, false);
    let OpenedStream { log, damages, cut_tail } = bench.look(1);
    assert_eq!((damages.len(), cut_tail, log.committed_next()), (1, None, 3));
    assert_eq!(bench.disk.contents(&path).unwrap(), before);
}

#[test]
fn bytes_behind_the_end_of_a_closed_file_are_said() {
    let (bench, path) = written(2);
    let log = bench.open(1, Limits::default());
    drop(log);
    bench.logs.close();
    let mut bytes = bench.disk.contents(&path).unwrap();
    bytes.extend_from_slice(b"what another program wrote");
    bench.disk.put(&path, &bytes);
    let bench = bench.again();
    let OpenedStream { log, damages, cut_tail } = bench.look(1);
    assert_eq!((damages.len(), log.committed_next()), (0, 4));
    let tail = cut_tail.unwrap();
    assert_eq!((tail.position + tail.bytes, tail.what), (bytes.len() as u64, "no chunk starts there"));
    assert_eq!(bench.logs.damages_and_cut_tails(), (0, 1));
    assert_eq!(read_from(&bench, &log, Seek::First).len(), 4);
}
