//! Damage that a log recovers from, and damage that it refuses.

use std::path::{Path, PathBuf};

use commitlog::{Damage, LogError, LogOptions, Position, Step, SyncPolicy};
use platform::{Disk, OpenMode, SimDisk};

use super::fixtures::{DIR, Owned, append, drain, files, open, read_all, reopen, small_files};

/// A log of three files; one write per record. Returns the records.
fn three_files(disk: &SimDisk) -> Vec<Owned> {
    let (log, mut writer, _) = open(disk, &small_files()).unwrap();
    let payloads: Vec<Vec<u8>> = (1_u8..=9).map(|n| vec![n; usize::from(n) * 9]).collect();
    let mut records = Vec::new();
    for (stream, payload) in (0..).zip(payloads) {
        records.push(append(&log, stream, 3, &payload));
        drain(&mut writer);
    }
    assert_eq!(files(disk).len(), 3);
    records
}

#[test]
fn a_new_log_is_empty_and_begins_at_zero() {
    let disk = SimDisk::new();
    let (log, _, recovered) = open(&disk, &LogOptions::default()).unwrap();
    assert_eq!((log.durable(), log.end(), recovered.end()), (Position(0), Position(0), Position(0)));
    assert_eq!(read_all(recovered).unwrap(), []);
}

#[test]
fn records_come_back_in_order_with_their_positions_and_the_log_goes_on() {
    let disk = SimDisk::new();
    let mut records = three_files(&disk);
    disk.crash(1);
    let (log, mut writer, recovered) = open(&disk, &small_files()).unwrap();
    assert_eq!(recovered.bytes_cut(), 0);
    assert_eq!(log.durable(), records[8].position);
    assert_eq!(read_all(recovered).unwrap(), records);
    records.push(append(&log, 77, 1, b"after"));
    drain(&mut writer);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), records);
}

#[test]
fn opening_again_and_again_without_records_leaves_one_empty_file() {
    let disk = SimDisk::new();
    three_files(&disk);
    for _ in 0..5 {
        drop(open(&disk, &small_files()).unwrap());
        disk.kill();
    }
    assert_eq!(files(&disk).len(), 4);
}

#[test]
fn the_newest_file_cut_at_any_byte_keeps_exactly_the_whole_records() {
    let disk = SimDisk::new();
    let records = three_files(&disk);
    let all = files(&disk);
    let newest = disk.contents(&all[2]).unwrap();
    let first = u64::from_str_radix(all[2].file_stem().unwrap().to_str().unwrap(), 16).unwrap();
    for len in 32..=newest.len() {
        let copy = SimDisk::new();
        for path in &all[..2] {
            copy.put(path, &disk.contents(path).unwrap());
        }
        copy.put(&all[2], &newest[..len]);
        let end_max = Position(first + len as u64 - 32);
        let kept: Vec<Owned> = records.iter().filter(|record| record.position <= end_max).cloned().collect();
        let (log, mut writer, recovered) = open(&copy, &small_files()).unwrap();
        assert_eq!(log.end(), kept.last().unwrap().position, "cut at {len}");
        let torn = &newest[usize::try_from(log.end().0 - first).unwrap() + 32..len];
        let zeros = torn.iter().rev().take_while(|byte| **byte == 0).count();
        assert_eq!(recovered.bytes_cut(), (torn.len() - zeros) as u64);
        assert_eq!(read_all(recovered).unwrap(), kept);
        // And the place of the cut is a good place to go on from.
        let next = append(&log, 5, 5, b"next");
        drain(&mut writer);
        copy.crash(len as u64);
        assert_eq!(reopen(&copy, &small_files()).unwrap(), [kept, vec![next]].concat());
    }
}

#[test]
fn the_newest_file_cut_within_its_header_is_damage() {
    for len in 0..32 {
        let disk = SimDisk::new();
        three_files(&disk);
        let newest = files(&disk)[2].clone();
        let bytes = disk.contents(&newest).unwrap();
        disk.put(&newest, &bytes[..len]);
        let error = reopen(&disk, &small_files()).unwrap_err();
        assert!(matches!(error, LogError::Damaged { offset: 0, damage: Damage::Truncated, .. }));
    }
}

#[test]
fn a_flipped_bit_in_an_older_file_is_named_and_never_skipped() {
    let reference = SimDisk::new();
    three_files(&reference);
    let old = files(&reference)[1].clone();
    for offset in 0..reference.contents(&old).unwrap().len() as u64 {
        let disk = SimDisk::new();
        let records = three_files(&disk);
        disk.corrupt(&old, offset, 1 << (offset % 8));
        let before = match open(&disk, &small_files()) {
            Err(LogError::Damaged { file, offset: 0, .. }) => {
                assert!(file == old && offset < 32);
                continue;
            }
            Err(other) => panic!("byte {offset}: {other}"),
            Ok((_, _, recovered)) => recovered,
        };
        let error = read_all(before).unwrap_err();
        let LogError::Damaged { file, offset: found, .. } = &error else { panic!("{error}") };
        assert!(*file == old && *found <= offset && offset < found + 200, "{error}");
        assert!(error.to_string().contains("at byte"));
        drop(records);
    }
}

#[test]
fn a_flipped_bit_under_later_writes_of_the_newest_file_is_damage_and_not_a_torn_end() {
    let reference = SimDisk::new();
    three_files(&reference);
    let newest = files(&reference)[2].clone();
    let bytes = reference.contents(&newest).unwrap();
    let last_record = bytes.len() - 32 - 81;
    for offset in 32..bytes.len() {
        let disk = SimDisk::new();
        three_files(&disk);
        disk.corrupt(&newest, offset as u64, 0x20);
        let result = open(&disk, &small_files());
        if offset < last_record {
            assert!(matches!(result, Err(LogError::Damaged { .. })), "byte {offset}");
            assert_eq!(disk.contents(&newest).unwrap().len(), bytes.len(), "nothing was cut");
        } else {
            assert_eq!(result.unwrap().2.bytes_cut(), 113, "byte {offset}");
        }
    }
}

#[test]
fn a_bad_place_within_the_last_write_is_a_torn_end_even_with_good_records_behind() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    let kept = append(&log, 1, 1, b"synced before");
    drain(&mut writer);
    for stream in 2..5 {
        append(&log, stream, 1, b"one write of three");
    }
    drain(&mut writer);
    disk.corrupt(&files(&disk)[0], 32 + kept.position.0 + 40, 1);
    assert_eq!(reopen(&disk, &small_files()).unwrap(), [kept]);
}

#[test]
fn the_os_policy_promises_nothing_between_writes_so_the_end_is_cut() {
    let disk = SimDisk::new();
    let options = LogOptions { sync: SyncPolicy::Os, ..small_files() };
    let (log, mut writer, _) = open(&disk, &options).unwrap();
    let kept = append(&log, 1, 1, b"first");
    drain(&mut writer);
    for _ in 0..2 {
        append(&log, 1, 1, b"later write");
        drain(&mut writer);
    }
    disk.corrupt(&files(&disk)[0], 32 + kept.position.0, 1);
    assert_eq!(reopen(&disk, &options).unwrap(), [kept]);
}

#[test]
fn space_filled_in_advance_is_a_clean_end() {
    let disk = SimDisk::new();
    let options = LogOptions { prefill_bytes: 4096, ..LogOptions::default() };
    let (log, mut writer, _) = open(&disk, &options).unwrap();
    let record = append(&log, 1, 2, &[0; 100]);
    drain(&mut writer);
    assert_eq!(disk.contents(&files(&disk)[0]).unwrap().len(), 4096);
    disk.kill();
    let (_, _, recovered) = open(&disk, &options).unwrap();
    assert_eq!(recovered.bytes_cut(), 0);
    assert_eq!(read_all(recovered).unwrap(), [record]);
    assert_eq!(disk.contents(&files(&disk)[0]).unwrap().len(), 32 + 132);
}

#[test]
fn a_missing_file_is_a_gap() {
    let disk = SimDisk::new();
    three_files(&disk);
    let all = files(&disk);
    disk.remove(&all[1]).unwrap();
    let error = reopen(&disk, &small_files()).unwrap_err();
    assert!(matches!(&error, LogError::Gap { file, .. } if *file == all[2]), "{error}");
}

#[test]
fn an_older_file_that_lost_its_end_is_a_gap() {
    let disk = SimDisk::new();
    three_files(&disk);
    let old = files(&disk)[0].clone();
    let bytes = disk.contents(&old).unwrap();
    disk.put(&old, &bytes[..bytes.len() - 1]);
    assert!(matches!(reopen(&disk, &small_files()), Err(LogError::Gap { .. })));
}

#[test]
fn a_file_under_a_wrong_name_is_refused() {
    let disk = SimDisk::new();
    three_files(&disk);
    disk.rename(&files(&disk)[0], &Path::new(DIR).join("0000000000000001.log")).unwrap();
    assert!(matches!(reopen(&disk, &small_files()), Err(LogError::Damaged { damage: Damage::Name, .. })));
}

#[test]
fn a_lying_length_neither_panics_nor_allocates() {
    for mask in [0x80, 0x3f] {
        let disk = SimDisk::new();
        let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
        append(&log, 1, 1, b"x");
        drain(&mut writer);
        disk.corrupt(&files(&disk)[0], 32, mask);
        assert_eq!(reopen(&disk, &small_files()).unwrap(), []);
    }
}

#[test]
fn a_bit_flipped_while_reading_is_noticed() {
    for nth in 1..8 {
        let disk = SimDisk::new();
        let records = three_files(&disk);
        disk.flip_bit_on_nth_read(nth);
        match reopen(&disk, &small_files()) {
            Err(LogError::Damaged { .. } | LogError::Gap { .. }) => {}
            Ok(found) => assert!(records.starts_with(&found) && found.len() >= 8, "read {nth}"),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn records_larger_than_the_reading_window_and_than_a_file_come_back() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    let mut records = Vec::new();
    for size in [10, 3 << 20, 0, (1 << 20) - 32, 100] {
        records.push(append(&log, size as u64, 1, &vec![7; size]));
        drain(&mut writer);
    }
    assert_eq!(reopen(&disk, &small_files()).unwrap(), records);
}

/// Three sealed files and the newest, closed in order.
fn four_files() -> (SimDisk, Vec<PathBuf>) {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk, &small_files()).unwrap();
    for fill in 0..4 {
        append(&log, 1, 1, &[fill; 330]);
        drain(&mut writer);
    }
    let closing = std::thread::spawn(move || log.close());
    while writer.step() != Step::Ended {}
    closing.join().unwrap().unwrap();
    let files = files(&disk);
    assert_eq!(files.len(), 4);
    (disk, files)
}

#[test]
fn a_missing_file_is_noticed_wherever_it_was() {
    let refusal = |removed: &dyn Fn(&SimDisk, &[PathBuf])| {
        let (disk, files) = four_files();
        removed(&disk, &files);
        let kept = disk.list(Path::new(DIR)).unwrap();
        let refused = open(&disk, &small_files()).map(|_| ()).unwrap_err();
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), kept, "a refusal changes nothing");
        refused
    };
    let remove = |nth: usize| move |disk: &SimDisk, files: &[PathBuf]| disk.remove(&files[nth]).unwrap();
    assert!(matches!(refusal(&remove(0)), LogError::BeginningMissing { found: Some(_), .. }));
    assert!(matches!(refusal(&remove(1)), LogError::Gap { .. }));
    assert!(matches!(refusal(&remove(3)), LogError::EndMissing { .. }));
    let all = |disk: &SimDisk, files: &[PathBuf]| files.iter().for_each(|file| disk.remove(file).unwrap());
    assert!(matches!(refusal(&all), LogError::BeginningMissing { found: None, .. }));
}

#[test]
fn an_end_that_goes_missing_after_a_clean_stop_is_noticed_before_anything_is_cut() {
    let (disk, files) = four_files();
    let file = disk.open(&files[3], OpenMode::ReadWrite).unwrap();
    for (len, text) in [(300, "at byte 32: the file ends too early"), (32, "files are missing")] {
        file.truncate(len).unwrap();
        let refused = open(&disk, &small_files()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(text), "{refused}");
        assert_eq!(file.len().unwrap(), len);
    }
}

#[test]
fn files_that_were_dropped_are_not_missed() {
    let (disk, _) = four_files();
    let (log, _writer, recovered) = open(&disk, &small_files()).unwrap();
    let end = recovered.end();
    drop(recovered);
    assert_eq!(log.drop_files_below(end).unwrap(), 4);
    drop(log);
    disk.kill();
    assert_eq!(reopen(&disk, &small_files()).unwrap(), []);
}

#[test]
fn damage_of_the_last_write_is_told_by_its_place_after_a_clean_stop() {
    let (disk, files) = four_files();
    disk.corrupt(&files[3], 100, 1);
    let refused = open(&disk, &small_files()).map(|_| ()).unwrap_err();
    let is_told = matches!(&refused, LogError::Damaged { file, offset: 32, .. } if *file == files[3]);
    assert!(is_told, "{refused}");
}
