//! Files that outlive their part in the log, and reading ranges of it.

use std::path::Path;
use std::sync::Arc;

use commitlog::{
    Afterlife, ClosedLog, Log, LogError, LogOptions, Position, RangeBytes, RecordAt, list_kept_files,
};
use platform::{Caching, Disk, OpenMode, SimDisk};

use super::fixtures::{DIR, Owned, append, drain, files, open, read_all, reopen, small_files};

const PASS: Caching = Caching::Pass;

/// Twelve records, three to a file of 300 bytes.
fn four_files(disk: &SimDisk) -> (Log, Vec<Owned>) {
    let (log, mut writer, _) = open(disk, &small_files()).unwrap();
    let records = (0..12)
        .map(|n| {
            let record = append(&log, n, 1, &[u8::try_from(n).unwrap(); 68]);
            drain(&mut writer);
            record
        })
        .collect();
    (log, records)
}

/// Bytes of a range's records.
fn payloads(log: &Log, first: u64, bytes: u32) -> Result<Vec<Vec<u8>>, LogError> {
    let read = log.read_range(Position(first), bytes)?;
    Ok(read.records.iter().map(|record| read.bytes[record.payload.clone()].to_vec()).collect())
}

#[test]
fn a_range_is_read_from_whichever_files_hold_it_the_one_being_written_too() {
    let disk = SimDisk::new();
    let (log, records) = four_files(&disk);
    let all: Vec<_> = records.iter().map(|record| record.payload.clone()).collect();
    assert_eq!(payloads(&log, 0, 1200).unwrap(), all);
    assert_eq!(payloads(&log, 200, 200).unwrap(), all[2..4]);
    assert_eq!(log.read_range(Position(500), 100).unwrap().records[0].stream, 5);
    // No record begins there, and none is there.
    assert!(matches!(payloads(&log, 201, 100), Err(LogError::Damaged { .. })));
    assert!(matches!(payloads(&log, 1200, 100), Err(LogError::Damaged { .. })));
}

#[test]
fn a_kept_file_is_read_like_the_log_and_not_replayed() {
    let disk = SimDisk::new();
    let (log, records) = four_files(&disk);
    let keeps = |file: std::ops::Range<u64>| {
        if file.start == 300 { Afterlife::Kept } else { Afterlife::None }
    };
    assert_eq!(log.retire_files_below(Position(900), keeps).unwrap(), 3);
    assert_eq!((&log.kept_files()[..], log.kept()), (std::slice::from_ref(&(300..600)), (Position(900), 1)));
    assert_eq!(payloads(&log, 300, 300).unwrap().len(), 3);
    assert!(log.holds(Position(300), 300) && !log.holds(Position(299), 2) && !log.holds(Position(500), 200));
    assert!(matches!(payloads(&log, 0, 100), Err(LogError::NotHeld { .. })));
    drop(log);
    disk.crash(1);
    let (log, _writer, recovered) = open(&disk, &small_files()).unwrap();
    assert_eq!(read_all(recovered).unwrap(), records[9..]);
    assert_eq!(payloads(&log, 400, 100).unwrap(), [records[4].payload.clone()]);
    let closed = ClosedLog::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    assert_eq!(closed.read_range(Position(400), 100).unwrap(), log.read_range(Position(400), 100).unwrap());
    assert!(closed.holds(Position(900), 300) && !closed.holds(Position(100), 1));
    log.remove_kept(300).unwrap();
    log.remove_kept(300).unwrap();
    assert!(!log.has_kept_files() && list_kept_files(&disk, Path::new(DIR)).unwrap().is_empty());
}

#[test]
fn of_a_range_the_records_of_one_stream_are_read_however_long_and_whatever_lies_between() {
    const MIB: usize = 1 << 20;
    let lengths =
        [10, MIB + 7, 300, 0, 5 * MIB, 1, MIB - 40, MIB - 31, MIB / 2, MIB / 2, MIB / 2, 9, 700_000];
    for bytes_max in [1 << 30, 3 * MIB as u64] {
        let disk = SimDisk::new();
        let (log, mut writer, _) =
            open(&disk, &LogOptions { file_bytes_max: bytes_max, ..small_files() }).unwrap();
        let mut records = Vec::new();
        for (n, length) in (0u8..).zip(lengths.into_iter().cycle().take(2 * lengths.len())) {
            records.push(append(&log, u64::from(n % 3), 1, &vec![n; length]));
            drain(&mut writer);
        }
        let end = log.end().0;
        let after = |start: &mut u64, record: &Owned| {
            let length = commitlog::RECORD_HEADER_BYTES + record.payload.len();
            Some(std::mem::replace(start, *start + length as u64))
        };
        let starts: Vec<u64> = records.iter().scan(0, after).chain([end]).collect();
        let own = |stream: u64, range: std::ops::Range<usize>| -> Vec<Vec<u8>> {
            let of_stream = records[range].iter().filter(|record| record.stream == stream);
            of_stream.map(|record| record.payload.clone()).collect()
        };
        for (stream, first, last) in
            [(0, 0, 26), (1, 0, 26), (2, 3, 26), (0, 4, 5), (1, 4, 5), (2, 12, 20), (7, 0, 26)]
        {
            let bytes = u32::try_from(starts[last] - starts[first]).unwrap();
            let read = log.read_stream(stream, (Position(starts[first]), bytes), PASS).unwrap();
            let payloads: Vec<_> =
                read.records.iter().map(|it| read.bytes[it.payload.clone()].to_vec()).collect();
            assert!(payloads == own(stream, first..last), "{stream} from {first} to {last}");
            let headers_bytes = read.records.len() * commitlog::RECORD_HEADER_BYTES;
            assert_eq!(read.bytes.len(), payloads.concat().len() + headers_bytes, "nothing of the others");
        }
        let all = u32::try_from(end).unwrap();
        assert!(matches!(log.read_stream(0, (Position(1), all - 1), PASS), Err(LogError::Damaged { .. })));
        assert!(
            matches!(log.read_stream(0, (Position(0), all - 1), PASS), Err(LogError::Damaged { .. })),
            "cut short"
        );
        let path = files(&disk).remove(0);
        disk.corrupt(&path, 32 + 60, 1);
        let of_others = log.read_stream(2, (Position(0), all), PASS);
        assert!(
            matches!(of_others, Err(LogError::Damaged { offset: 74, .. })),
            "nobody's damage is passed over"
        );
    }
}

#[test]
fn a_crash_while_files_are_retired_leaves_each_in_the_log_or_kept() {
    for nth in 1..12 {
        for seed in 0..4 {
            let disk = SimDisk::new();
            let (log, records) = four_files(&disk);
            disk.fail_nth_sync(nth);
            let _retired = log.retire_files_below(Position(900), |_| Afterlife::Kept);
            drop(log);
            disk.fail_nth_sync(u64::MAX);
            disk.crash(seed);
            let (log, _writer, recovered) = open(&disk, &small_files()).unwrap();
            let replayed = read_all(recovered).unwrap();
            assert_eq!(replayed, records[12 - replayed.len()..], "sync {nth}, seed {seed}");
            assert_eq!(payloads(&log, 0, 1200).unwrap().len(), 12, "sync {nth}, seed {seed}");
        }
    }
}

#[test]
fn a_kept_file_whose_cutting_a_failing_disk_has_undone_ends_where_the_next_begins() {
    for kept_below in [300, 600, 900] {
        let disk = SimDisk::new();
        let (log, records) = four_files(&disk);
        log.retire_files_below(Position(kept_below), |_| Afterlife::Kept).unwrap();
        drop(log);
        let first = files(&disk).into_iter().find(|path| path.extension().unwrap() == "kept").unwrap();
        let file = disk.open(&first, OpenMode::ReadWrite).unwrap();
        file.write_all_at(332, &[&[0; 400]]).unwrap();
        let (log, _writer, _) = open(&disk, &small_files()).unwrap();
        let all: Vec<_> = records.iter().map(|record| record.payload.clone()).collect();
        assert_eq!(payloads(&log, 0, 1200).unwrap(), all, "below {kept_below}");
        assert_eq!(log.kept_files()[0], 0..300);
        let closed = ClosedLog::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
        assert_eq!(closed.read_range(Position(200), 200).unwrap().records.len(), 2);
    }
}

#[test]
fn damage_of_a_kept_file_is_noticed_when_it_is_read_and_names_the_file() {
    let disk = SimDisk::new();
    let (log, _) = four_files(&disk);
    log.retire_files_below(Position(300), |_| Afterlife::Kept).unwrap();
    let path = files(&disk).into_iter().find(|path| path.extension().unwrap() == "kept").unwrap();
    disk.corrupt(&path, 32 + 150, 1);
    assert_eq!(payloads(&log, 0, 100).unwrap().len(), 1);
    let refused = payloads(&log, 100, 100).unwrap_err();
    assert!(matches!(&refused, LogError::Damaged { file, offset: 132, .. } if *file == path), "{refused}");
    let remains = |first, bytes| {
        let closed = ClosedLog::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
        let is_there = |stream: &u64| {
            let read = closed.read_remains(*stream, Position(first), bytes).unwrap();
            let is_own = |it: &RecordAt| read.bytes[it.payload.clone()] == [*stream as u8; 68];
            assert!(read.records.iter().all(is_own) && read.bytes.len() == 100 * read.records.len());
            read.records.len() == 1
        };
        (0..12).filter(is_there).collect::<Vec<u64>>()
    };
    assert_eq!(remains(0, 500), [0, 1, 2, 3, 4], "one byte is put right");
    disk.corrupt(&path, 32 + 170, 2);
    assert_eq!((remains(0, 500), remains(100, 100), remains(100, 150)), (vec![0, 2, 3, 4], vec![], vec![]));
    let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
    file.truncate(32 + 250).unwrap();
    assert_eq!(remains(0, 500), [0, 3, 4], "it is shorter than it was");
    disk.remove(&path).unwrap();
    assert!(matches!(payloads(&log, 0, 100), Err(LogError::Io(_))));
    drop(log);
    assert_eq!((remains(0, 500), remains(0, 300)), (vec![3, 4], vec![]), "the file is missing");
    assert_eq!(reopen(&disk, &small_files()).unwrap().len(), 9);
}

/// Twelve records of three streams, three to a file of 300 bytes, the first two files kept.
fn three_streams(disk: &SimDisk) -> ClosedLog {
    let (log, mut writer, _) = open(disk, &small_files()).unwrap();
    for n in 0..12u8 {
        append(&log, [1, 2, 1, 3][usize::from(n % 4)], 1, &[n; 68]);
        drain(&mut writer);
    }
    log.retire_files_below(Position(600), |_| Afterlife::Kept).unwrap();
    ClosedLog::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap()
}

/// The payloads of a stream, or why there are none.
fn of_stream(read: Result<RangeBytes, LogError>, stream: u64) -> Result<Vec<Vec<u8>>, String> {
    let read = read.map_err(|error| error.to_string())?;
    let own = read.records.iter().filter(|record| record.stream == stream);
    Ok(own.map(|record| read.bytes[record.payload.clone()].to_vec()).collect())
}

#[test]
fn what_one_stream_has_in_a_closed_log_is_the_same_however_often_it_is_read() {
    let nothing = |_: &SimDisk, _: &Path| ();
    let one_byte = |disk: &SimDisk, path: &Path| disk.corrupt(path, 32 + 150, 1);
    let two_bytes = |disk: &SimDisk, path: &Path| {
        disk.corrupt(path, 32 + 150, 1);
        disk.corrupt(path, 32 + 170, 2);
    };
    let cut = |disk: &SimDisk, path: &Path| {
        disk.open(path, OpenMode::ReadWrite).unwrap().truncate(32 + 250).unwrap();
    };
    let gone = |disk: &SimDisk, path: &Path| disk.remove(path).unwrap();
    let damages: [&dyn Fn(&SimDisk, &Path); 5] = [&nothing, &one_byte, &two_bytes, &cut, &gone];
    let spans = || {
        (0..12u64).step_by(2).flat_map(|from| (from + 1..=12).map(move |to| (from * 100, (to - from) * 100)))
    };
    let (mut whole, mut unread) = (0, 0);
    for (nth, damage) in damages.iter().flat_map(|damage| (0..4).map(move |nth| (nth, damage))) {
        let disk = SimDisk::new();
        drop(three_streams(&disk));
        damage(&disk, &files(&disk)[nth]);
        let closed = || ClosedLog::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
        let often = closed();
        for (stream, (first, bytes)) in (1..=3).flat_map(|stream| spans().map(move |span| (stream, span))) {
            for (first, bytes) in [(first, bytes), (first + 1, bytes - 1), (first, bytes - 1)] {
                let (at, bytes) = (Position(first), u32::try_from(bytes).unwrap());
                let expected = of_stream(closed().read_range(at, bytes), stream);
                (whole, unread) =
                    (whole + u32::from(expected.is_ok()), unread + u32::from(expected.is_err()));
                assert_eq!(
                    of_stream(often.read_stream(stream, at, bytes), stream),
                    expected,
                    "{stream} {at}"
                );
                let remains = of_stream(closed().read_remains(stream, at, bytes), stream);
                assert_eq!(
                    of_stream(often.read_remains(stream, at, bytes), stream),
                    remains,
                    "{stream} {at}"
                );
            }
        }
    }
    assert!(whole > 1000 && unread > 1000, "{whole} {unread}");
}

#[test]
fn of_a_closed_log_the_records_of_others_are_not_read_again_for_each_stream() {
    let disk = SimDisk::new();
    let closed = three_streams(&disk);
    let read = |stream| of_stream(closed.read_stream(stream, Position(0), 1200), stream);
    let first: Vec<_> = (1..=3).map(|stream| read(stream).unwrap()).collect();
    assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [6, 3, 3]);
    disk.corrupt(&files(&disk)[0], 32 + 150, 1);
    disk.corrupt(&files(&disk)[0], 32 + 170, 2);
    assert_eq!(
        (read(1), read(3)),
        (Ok(first[0].clone()), Ok(first[2].clone())),
        "they were whole when all were read"
    );
    assert!(read(2).unwrap_err().contains("damaged"), "its own is read each time");
}
