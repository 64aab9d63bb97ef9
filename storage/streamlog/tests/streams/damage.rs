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
        let (log, damages) = bench.logs.open(1, Limits::default(), bench.listener.clone()).unwrap();
        if damages.is_empty() {
            // In the last round nobody can tell it from a torn write.
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
        let (log, damages) = bench.logs.open(1, Limits::default(), bench.listener.clone()).unwrap();
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
        let log = bench.open(1, Limits::default());
        let next = log.committed_next();
        assert_eq!(read_from(&bench, &log, Seek::First).len() as u64, next);
        append(&log, &[b"on"]);
        bench.settle();
        assert_eq!(read_from(&bench, &log, Seek::Last).last().unwrap(), &(next, b"on".to_vec()));
    }
}
