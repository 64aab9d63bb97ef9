//! Where readers begin, which entries they get, and how they wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;
use std::time::Duration;

use streamlog::{Appended, ChunkFilter, PublisherSlot};

use super::*;

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_reader_at_the_end_is_woken_by_the_commit_and_sees_nothing_before_it() {
    let bench = Bench::new();
    let log = bench.open(1, Limits::default());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut reader = log.reader(Seek::Next, None);
    assert!(reader.poll_next(&waker).is_pending());
    append(&log, &[b"one", b"two"]);
    assert!(reader.poll_next(&waker).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    bench.settle();
    assert_eq!((woken.0.load(Ordering::SeqCst), bench.listener.committed.load(Ordering::SeqCst)), (1, 2));
    assert_eq!(read_on(&bench, &mut reader).unwrap(), [(0, b"one".to_vec()), (1, b"two".to_vec())]);
}

#[test]
fn every_offset_and_time_is_found_in_memory_in_the_newest_file_and_in_old_ones() {
    let mut bench = Bench::new();
    let limits = Limits { segment_bytes: 2000, ..Limits::default() };
    let mut log = bench.open(1, limits);
    let (mut times, mut next) = (Vec::new(), 0_u64);
    for nth in 0..120_u64 {
        let bodies: Vec<Vec<u8>> = (0..nth % 4 + 1).map(|k| format!("{}", next + k).into_bytes()).collect();
        append(&log, &bodies.iter().map(Vec::as_slice).collect::<Vec<_>>());
        bench.settle();
        times.push((next, 1_700_000_000_000 + nth as i64 * 10));
        next += nth % 4 + 1;
        bench.clock.advance(Duration::from_millis(10));
    }
    for life in 0..2 {
        assert!(log.info().segments > 3);
        let all = read_from(&bench, &log, Seek::First);
        assert_eq!(all.len() as u64, next);
        for (at, (offset, body)) in all.iter().enumerate() {
            assert_eq!((*offset, body.as_slice()), (at as u64, at.to_string().as_bytes()));
        }
        for offset in 0..next {
            let read = read_from(&bench, &log, Seek::Offset(offset));
            let chunk = times.iter().rev().find(|(first, _)| *first <= offset).unwrap().0;
            assert_eq!(read[0].0, chunk, "offset {offset}");
            assert_eq!(read.len() as u64, next - chunk);
        }
        for (first, ms) in &times {
            assert_eq!(log.resolve(Seek::Timestamp(*ms)).unwrap(), *first, "life {life}");
            assert_eq!(read_from(&bench, &log, Seek::Timestamp(ms - 3))[0].0, *first);
        }
        assert_eq!(log.resolve(Seek::Timestamp(i64::MAX)).unwrap(), next);
        assert_eq!(log.resolve(Seek::Last).unwrap(), times.last().unwrap().0);
        assert!(read_from(&bench, &log, Seek::Offset(next + 50)).is_empty());
        bench.logs.close();
        drop(log);
        bench = bench.again();
        log = bench.open(1, limits);
    }
}

#[test]
fn chunks_that_cannot_have_the_value_are_passed_over() {
    let bench = Bench::new();
    let log = bench.open(1, Limits::default());
    for value in [Some(&b"a"[..]), None, Some(b"b"), Some(b"a")] {
        log.append().unwrap().message(&[value.unwrap_or(b"none")], value);
        bench.settle();
    }
    let read = |values: &[&[u8]], match_unfiltered| {
        let values = values.iter().map(|value| (*value).into()).collect();
        let mut reader = log.reader(Seek::First, Some(Arc::new(ChunkFilter { values, match_unfiltered })));
        let read = read_on(&bench, &mut reader).unwrap();
        read.into_iter().map(|(offset, _)| offset).collect::<Vec<_>>()
    };
    assert_eq!(read(&[b"a"], false), [0, 3]);
    assert_eq!(read(&[b"a"], true), [0, 1, 3]);
    assert_eq!(read(&[b"a", b"b"], false), [0, 2, 3]);
}

#[test]
fn a_publishing_id_is_stored_once_and_remembered() {
    let mut bench = Bench::new();
    let log = bench.open(1, Limits { segment_bytes: 300, ..Limits::default() });
    let publisher = PublisherSlot((*b"p").into());
    for (id, wanted) in [
        (1, Appended::New(1)),
        (3, Appended::New(2)),
        (2, Appended::Duplicate(2)),
        (3, Appended::Duplicate(2)),
    ] {
        let got = log.append().unwrap().entry_once(&publisher, id, &Entry::Message(b"x"), None);
        assert_eq!(got, wanted);
    }
    log.store_offset(b"c", 77);
    bench.settle();
    for nth in 0..20 {
        append(&log, &[format!("filler {nth}").as_bytes()]);
        bench.settle();
    }
    log.store_offset(b"late", 5);
    bench.clock.advance(Duration::from_secs(2));
    bench.settle();
    assert!(log.info().segments > 2);
    // Neither a clean end nor a crash forgets them; they take no offsets.
    for crash in [true, false, true] {
        if crash {
            bench.disk.crash(7);
        } else {
            bench.logs.close();
        }
        bench = bench.again();
        let log = bench.open(1, Limits::default());
        assert_eq!((log.publishing_id(b"p"), log.stored_offset(b"c")), (Some(3), Some(77)));
        assert_eq!((log.stored_offset(b"late"), log.committed_next()), (Some(5), 22));
        assert_eq!(read_from(&bench, &log, Seek::First).len(), 22);
    }
}

#[test]
fn what_is_deleted_is_gone_for_readers_appenders_and_the_next_start() {
    let bench = Bench::new();
    let log = bench.open(1, Limits { segment_bytes: 100, ..Limits::default() });
    for _ in 0..5 {
        append(&log, &[b"something that is longer than the rest"]);
        bench.settle();
    }
    let mut reader = log.reader(Seek::First, None);
    bench.logs.delete(1).unwrap();
    assert!(matches!(read_on(&bench, &mut reader), Err(StreamError::Deleted)));
    assert!(log.append().is_err());
    assert!(paths(&bench.disk).is_empty());
    let bench = bench.again();
    assert_eq!(bench.open(1, Limits::default()).committed_next(), 0);
}
