//! Damaged directories, looked at and salvaged. Each holds the durable queues `a` and `b` with a block of messages in a segment.

use std::path::Path;

use metadata::{Arguments, Command, DeclareExchange};
use stdx::QueueId;

use super::{Declaration, Depth, LostFrom, Offline, OfflineError, Survey, UntoldLoss, dump};
use crate::recovery::tests::{
    PLACED_COUNT, STORED, damage_last_declaration, declare, declared, files_below, filled, filled_in_log,
    kept_files, killed, open, segment_files, store, store_block, store_in_log,
};

fn survey(dir: &Path) -> Survey {
    Offline::open(dir).unwrap().survey(Depth::Blocks).unwrap()
}

/// Name, messages and lost messages of each queue.
fn queues(survey: &Survey) -> Vec<(&str, u64, u64)> {
    survey.queues.iter().map(|queue| (&*queue.name, queue.messages, queue.lost_messages)).collect()
}

/// Where the lost messages of the queue `a` were.
fn lost_from(dir: &Path) -> LostFrom {
    let survey = survey(dir);
    survey.queues.iter().find(|queue| queue.name == "a").unwrap().lost_from
}

fn from_segments(segments: u64) -> LostFrom {
    LostFrom { segments, ..LostFrom::default() }
}

fn from_log(log: u64) -> LostFrom {
    LostFrom { log, ..LostFrom::default() }
}

/// Salvages into a new directory, starts a broker on it, and gives what its queues hold.
fn salvaged(dir: &Path) -> Vec<(String, u64)> {
    let new = tempfile::tempdir().unwrap();
    let to = new.path().join("new");
    Offline::open(dir).unwrap().salvage(&to).unwrap();
    assert_eq!(survey(&to).problems.texts, [""; 0]);
    open(&to).unwrap().shutdown();
    queues(&survey(&to)).into_iter().map(|(name, messages, _)| (name.to_owned(), messages)).collect()
}

fn both(a: u64, b: u64) -> Vec<(String, u64)> {
    vec![("a".to_owned(), a), ("b".to_owned(), b)]
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// More than the checksum of a record could put right.
fn wreck(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at..at + 8].iter_mut().for_each(|byte| *byte = !*byte);
    std::fs::write(file, bytes).unwrap();
}

const ALL: u64 = PLACED_COUNT as u64;

#[test]
fn a_whole_directory_has_no_problems_and_its_queues_are_named() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let survey = survey(dir.path());
    assert_eq!(survey.problems.texts, [""; 0]);
    assert_eq!(queues(&survey), [("a", ALL, 0), ("b", ALL, 0)]);
    assert_eq!((survey.segments, survey.segments_unneeded), (2, 0));
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
}

#[test]
fn what_waits_in_a_delayed_exchange_is_salvaged_with_the_queues() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).unwrap();
    let mut arguments = vec![14];
    arguments.extend_from_slice(b"x-delayed-typeS\0\0\0\x06direct");
    let command = Command::DeclareExchange(DeclareExchange {
        vhost: b"/".as_slice().into(),
        name: b"later".as_slice().into(),
        kind: "x-delayed-message".into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::from_raw(arguments),
    });
    broker.commit(metadata::Entry::new("rmq-internal", command)).unwrap().wait().unwrap();
    let id = broker.read_metadata(|state| state.vhost(b"/").unwrap().exchange(b"later").unwrap().id.0);
    broker.shutdown();
    drop(broker);
    store(dir.path(), QueueId(id));
    let survey = survey(dir.path());
    assert_eq!((survey.problems.texts.len(), survey.stray_records), (0, 0), "{survey:?}");
    // Not by a start of the new folder: due messages leave at once.
    let new = tempfile::tempdir().unwrap();
    let to = new.path().join("new");
    assert_eq!(Offline::open(dir.path()).unwrap().salvage(&to).unwrap().messages, ALL);
    assert_eq!(queues(&self::survey(&to)), [("later (delayed messages of the exchange)", ALL, 0)]);
}

#[test]
fn a_damaged_block_costs_its_queue_that_block_alone() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let of_a = format!("{:016x}-", ids[0].0);
    let files = segment_files(dir.path());
    flip(files.iter().find(|file| file.to_string_lossy().contains(&of_a)).unwrap(), 50);
    let survey = survey(dir.path());
    assert_eq!(queues(&survey), [("a", 0, ALL), ("b", ALL, 0)]);
    assert_eq!(survey.problems.texts.len(), 1);
    assert_eq!(lost_from(dir.path()), from_segments(ALL));
    assert_eq!(salvaged(dir.path()), both(0, ALL));
}

#[test]
fn blocks_in_kept_files_are_found_and_salvaged_into_segments() {
    let dir = tempfile::tempdir().unwrap();
    filled_in_log(dir.path());
    let survey = survey(dir.path());
    assert_eq!((queues(&survey), survey.problems.texts.len()), (vec![("a", ALL, 0)], 0));
    let kept = survey.files.last().unwrap();
    assert!(kept.path.ends_with(kept_files(dir.path())[0].file_name().unwrap()) && kept.records[&1] == 1);
    assert_eq!(salvaged(dir.path()), [("a".to_owned(), ALL)]);
    let mut lines = Vec::new();
    let more = dump(&kept_files(dir.path())[0], 10, |line| {
        lines.push(line);
        Ok(())
    });
    assert!(more.unwrap() == 0 && lines[0].contains("3 messages, 0 to 2"), "{lines:?}");
}

#[test]
fn a_damaged_or_missing_kept_file_costs_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    filled_in_log(dir.path());
    let file = &kept_files(dir.path())[0];
    flip(file, 100);
    assert_eq!(queues(&survey(dir.path())), [("a", ALL, 0)]);
    assert_eq!(survey(dir.path()).problems.texts.len(), 1, "one byte is put right, and told");
    assert_eq!(salvaged(dir.path()), [("a".to_owned(), ALL)]);
    wreck(file, 80);
    assert_eq!(queues(&survey(dir.path())), [("a", 0, ALL)]);
    assert_eq!(survey(dir.path()).problems.texts.len(), 2, "the file, and the queue");
    assert_eq!(lost_from(dir.path()), from_log(ALL));
    std::fs::remove_file(file).unwrap();
    assert_eq!(queues(&survey(dir.path())), [("a", 0, ALL)]);
    assert_eq!(lost_from(dir.path()), from_log(ALL));
    assert_eq!(salvaged(dir.path()), [("a".to_owned(), 0)]);
}

#[test]
fn a_damaged_record_of_a_block_in_the_log_costs_the_messages_in_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open(dir.path()).unwrap();
    let id = declare(&broker, "a");
    broker.shutdown();
    drop(broker);
    store_in_log(dir.path(), id, 1);
    let file = &kept_files(dir.path())[0];
    // The second of three records of 56 bytes, behind the header of the file.
    wreck(file, 32 + 56 + 40);
    for _ in 0..2 {
        let survey = survey(dir.path());
        assert_eq!(queues(&survey), [("a", ALL - 1, 1)]);
        assert_eq!(lost_from(dir.path()), from_log(1));
        assert_eq!(survey.problems.texts.len(), 2, "the file, and the queue: {:?}", survey.problems);
        assert_eq!(salvaged(dir.path()), [("a".to_owned(), ALL - 1)]);
    }
    [0, 2].into_iter().for_each(|nth| wreck(file, 32 + 56 * nth + 40));
    assert_eq!(queues(&survey(dir.path())), [("a", 0, ALL)]);
    assert_eq!(salvaged(dir.path()), [("a".to_owned(), 0)]);
}

#[test]
fn a_damaged_header_of_a_segment_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    segment_files(dir.path()).iter().for_each(|file| flip(file, 3));
    assert_eq!(survey(dir.path()).problems.texts.len(), 2);
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
}

#[test]
fn a_missing_segment_is_told_with_its_messages() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    segment_files(dir.path()).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    assert_eq!(queues(&survey(dir.path())), [("a", 0, ALL), ("b", 0, ALL)]);
    assert_eq!(lost_from(dir.path()), from_segments(ALL));
    assert_eq!(salvaged(dir.path()), both(0, 0));
}

#[test]
fn a_damaged_record_is_stepped_over_and_the_records_behind_it_are_read() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    // The record of `a` lies in a file before that of `b`: each came with a start of its own.
    let logs = files_below(&dir.path().join("log"));
    let with_records: Vec<_> = logs.iter().filter(|file| file.metadata().unwrap().len() > 32).collect();
    for at in [32, 40, 60, 70, 5] {
        wreck(with_records[0], at);
        let survey = survey(dir.path());
        assert!(!survey.problems.is_empty(), "byte {at}");
        assert_eq!(queues(&survey), [("a", ALL, 0), ("b", ALL, 0)], "byte {at}");
        let returned = if at == 5 { 0 } else { ALL };
        assert_eq!(survey.queues[0].returned_messages, returned, "byte {at}");
        assert_eq!(survey.queues[1].returned_messages, 0, "byte {at}: its state comes later");
        wreck(with_records[0], at);
    }
    wreck(with_records[0], 70);
    assert!(open(dir.path()).is_err());
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
}

#[test]
fn one_wrong_byte_of_a_state_record_costs_nothing_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let logs = files_below(&dir.path().join("log"));
    for file in logs.iter().filter(|file| file.metadata().unwrap().len() > 32) {
        let records = records(&std::fs::read(file).unwrap());
        let bytes = std::fs::read(file).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for at in records[0]..=end {
            flip(file, at);
            let survey = survey(dir.path());
            assert_eq!(queues(&survey), [("a", ALL, 0), ("b", ALL, 0)], "byte {at}");
            let returned: u64 = survey.queues.iter().map(|queue| queue.returned_messages).sum();
            assert_eq!((survey.problems.texts.len(), returned), (1, 0), "byte {at}: {survey:?}");
            flip(file, at);
        }
    }
}

#[test]
fn segment_files_that_no_record_names_are_told_where_one_may_have_named_them() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let segment_of = |id: QueueId| {
        let files = segment_files(dir.path()).into_iter();
        let mut of = files.filter(|file| file.to_string_lossy().contains(&format!("{:016x}-", id.0)));
        of.next().unwrap()
    };
    // One more of `b`, whose messages were all settled: its state, which comes later, does not name it.
    let of_b = segment_of(ids[1]);
    let name = of_b.file_name().unwrap().to_str().unwrap();
    let (stream, number) = name.strip_suffix(".seg").unwrap().split_once('-').unwrap();
    let next = u64::from_str_radix(number, 16).unwrap() + 1;
    std::fs::copy(&of_b, of_b.with_file_name(format!("{stream}-{next:016x}.seg"))).unwrap();
    let told = || {
        let survey = survey(dir.path());
        let told = survey.problems.texts.into_iter().find(|text| text.contains("segment files"));
        (survey.segments_unneeded, told.unwrap_or_default())
    };
    assert_eq!(told(), (1, String::new()));
    let logs = files_below(&dir.path().join("log"));
    let of_a = logs.iter().find(|file| file.metadata().unwrap().len() > 32).unwrap();
    wreck(of_a, 70);
    assert_eq!(told(), (1, String::new()), "what `a` had is found, and `b` says what it needs");
    wreck(&segment_of(ids[0]), 50);
    let (unneeded, told) = told();
    assert!(unneeded == 2 && told.contains("names 1 of the segment files"), "{unneeded}: {told}");
}

/// Exchanges the contents of two files.
fn exchange(one: &Path, other: &Path) {
    let (first, second) = (std::fs::read(one).unwrap(), std::fs::read(other).unwrap());
    std::fs::write(one, second).unwrap();
    std::fs::write(other, first).unwrap();
}

#[test]
fn files_of_the_log_under_each_others_names_are_told_and_read_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let logs = files_below(&dir.path().join("log"));
    let with_records: Vec<_> = logs.iter().filter(|file| file.metadata().unwrap().len() > 32).collect();
    assert_eq!(with_records[0].metadata().unwrap().len(), with_records[1].metadata().unwrap().len());
    exchange(with_records[0], with_records[1]);
    assert!(open(dir.path()).is_err());
    let survey = survey(dir.path());
    let names = survey.problems.texts.iter().filter(|text| text.contains("name does not match")).count();
    assert_eq!((names, survey.problems.texts.len()), (2, 2), "{survey:?}");
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
}

#[test]
fn kept_files_under_the_names_of_others_are_told_and_read() {
    let dir = tempfile::tempdir().unwrap();
    filled_in_log(dir.path());
    let log =
        files_below(&dir.path().join("log")).into_iter().find(|file| file.extension().unwrap() == "log");
    exchange(&kept_files(dir.path())[0], &log.unwrap());
    let survey = survey(dir.path());
    let names = survey.problems.texts.iter().filter(|text| text.contains("name does not match")).count();
    assert_eq!((queues(&survey), names), (vec![("a", ALL, 0)], 2), "{survey:?}");
}

/// Messages with these numbers come into a queue, each with a record of its own.
fn enqueue(dir: &Path, id: QueueId, numbers: std::ops::Range<u64>) {
    let disk = std::sync::Arc::new(platform::RealDisk);
    let (log, _) = commitlog::Log::open(disk, &dir.join("log"), commitlog::LogOptions::default()).unwrap();
    let mut persistent = STORED;
    persistent[4] = 1;
    for number in numbers {
        log.append(id.0, queues::RecordKind::Enqueue as u8, |out| {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&persistent);
        });
    }
    log.close().unwrap();
}

/// Messages of each queue, those that were in records that cannot be read, and the problem that tells of these.
fn unread(dir: &Path) -> (Vec<(u64, u64)>, String) {
    let survey = survey(dir);
    let queues = survey.queues.iter().map(|queue| (queue.messages, queue.unread_messages_max)).collect();
    let told = survey.problems.texts.into_iter().find(|text| text.contains("records cannot be read"));
    (queues, told.unwrap_or_default())
}

#[test]
fn messages_in_damaged_records_are_counted_by_those_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    enqueue(dir.path(), ids[0], 3..8);
    assert_eq!(unread(dir.path()), (vec![(8, 0), (3, 0)], String::new()));
    let file = files_below(&dir.path().join("log")).pop().unwrap();
    let starts = records(&std::fs::read(&file).unwrap());
    wreck(&file, starts[1] + 40);
    wreck(&file, starts[2] + 40);
    let (queues, told) = unread(dir.path());
    assert_eq!(queues, [(6, 2), (3, 0)]);
    assert!(
        told.contains("112 bytes") && told.contains("up to 2 messages") && told.contains("1 of the queues"),
        "{told}"
    );
    assert_eq!(salvaged(dir.path()), both(6, ALL));
}

#[test]
fn messages_that_were_found_in_segments_are_not_told_to_be_lost_as_well() {
    // With bodies of one byte, all of them different.
    let message = |body| [&[0, 0, 0, 13, 1][..], &[0; 11], &[body]].concat();
    let dir = tempfile::tempdir().unwrap();
    let id = declared(dir.path());
    store_block(dir.path(), id, &[message(1), message(2), message(3)].concat());
    enqueue(dir.path(), id, ALL..ALL + 2);
    let logs = files_below(&dir.path().join("log"));
    let has_records =
        |file: &&std::path::PathBuf| std::fs::read(file).unwrap()[32..].iter().any(|it| *it != 0);
    wreck(logs.iter().find(has_records).unwrap(), 70);
    let survey = survey(dir.path());
    assert_eq!(queues(&survey), [("a", ALL + 2, 0)]);
    let a = &survey.queues[0];
    assert_eq!((a.returned_messages, a.unread_messages_max, a.untold_loss), (ALL, 0, None));
    assert!(
        survey.problems.texts.iter().any(|text| text.contains("up to 0 messages are lost")),
        "{survey:?}"
    );
}

#[test]
fn queues_of_which_nothing_tells_what_they_lost_say_so_each_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    enqueue(dir.path(), ids[0], 3..8);
    let untold = || survey(dir.path()).queues.iter().map(|queue| queue.untold_loss).collect::<Vec<_>>();
    assert_eq!(untold(), [None, None]);
    let file = files_below(&dir.path().join("log")).pop().unwrap();
    wreck(&file, records(&std::fs::read(&file).unwrap())[1] + 40);
    // A record of 56 bytes, of messages of 4 at least.
    assert_eq!(untold(), [None, Some(UntoldLoss::AtMost(14))]);
    std::fs::remove_dir_all(dir.path().join("log")).unwrap();
    std::fs::remove_file(dir.path().join("log.manifest")).unwrap();
    assert_eq!(untold(), [Some(UntoldLoss::Unknown); 2]);
}

#[test]
fn a_newest_file_that_ends_amid_a_record_may_have_been_cut_and_its_note_says_what_was_lost_then() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    enqueue(dir.path(), ids[0], 3..100);
    std::fs::remove_file(dir.path().join("log.manifest")).unwrap();
    let path = newest_log(dir.path());
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let starts = records(&std::fs::read(&path).unwrap());
    // Within the room that is filled in advance.
    file.set_len(starts[40] as u64 + 36).unwrap();
    let survey = survey(dir.path());
    assert_eq!((survey.notes.len(), survey.problems.texts.len()), (1, 0), "{survey:?}");
    let note = &survey.notes[0];
    assert!(note.contains("messages of queue 'a' in vhost '/'"), "{note}");
    let messages = ((64 << 20) - starts[40] as u64 - 36) / 4;
    assert!(
        note.contains("the bytes behind are lost") && note.contains(&format!("{messages} messages at most")),
        "{note}"
    );
    // Zeros behind it are room that was filled in advance.
    file.set_len(1 << 20).unwrap();
    let note = &self::survey(dir.path()).notes[0];
    assert!(note.contains("bytes cannot be read") && !note.contains("the bytes behind are lost"), "{note}");
}

#[test]
fn messages_in_a_missing_file_of_the_log_are_counted_by_those_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    enqueue(dir.path(), ids[0], 3..8);
    let missing = files_below(&dir.path().join("log")).pop().unwrap();
    enqueue(dir.path(), ids[0], 8..10);
    enqueue(dir.path(), ids[1], 3..4);
    std::fs::remove_file(&missing).unwrap();
    let (queues, told) = unread(dir.path());
    assert_eq!(queues, [(5, 5), (4, 0)]);
    assert!(!told.contains("cannot be known"), "{told}");
}

/// The newest file of the log of a server that was killed with these messages in it is missing: the manifest says that there was one, and not
/// where it ended.
fn lose_newest_file_of_killed(dir: &Path, id: QueueId, numbers: std::ops::Range<u64>) {
    let manifest = dir.join("log.manifest");
    let before = files_below(&dir.join("log"));
    let disk = std::sync::Arc::new(platform::RealDisk);
    let (log, _) = commitlog::Log::open(disk, &dir.join("log"), commitlog::LogOptions::default()).unwrap();
    let alive = std::fs::read(&manifest).unwrap();
    log.close().unwrap();
    enqueue(dir, id, numbers);
    files_below(&dir.join("log"))
        .iter()
        .filter(|file| !before.contains(file))
        .for_each(|file| std::fs::remove_file(file).unwrap());
    std::fs::write(&manifest, alive).unwrap();
}

#[test]
fn a_missing_newest_file_of_a_killed_server_is_told_at_every_queue() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    lose_newest_file_of_killed(dir.path(), ids[0], 3..8);
    let told = survey(dir.path());
    let most = (128 << 20) / 4;
    for queue in &told.queues {
        assert_eq!((queue.messages, queue.untold_loss), (ALL, Some(UntoldLoss::AtMost(most))), "{told:?}");
    }
    let texts = &told.problems.texts;
    assert!(texts.iter().any(|text| text.contains("files after ")), "{told:?}");
    let is_counted = |text: &String| {
        text.contains("the newest file is missing") && text.contains(&format!("{most} messages at most"))
    };
    assert!(texts.iter().any(is_counted), "{told:?}");
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
    // The others as well: their content is known, and not that of the newest.
    files_below(&dir.path().join("log")).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let all = survey(dir.path()).queues.iter().map(|queue| queue.untold_loss).collect::<Vec<_>>();
    assert!(all.iter().all(|told| matches!(told, Some(UntoldLoss::AtMost(all)) if *all > most)), "{all:?}");
}

#[test]
fn what_a_missing_newest_file_of_the_metadata_leaves_unknown_is_told_at_every_vhost_and_queue() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = filled(dir.path())[..] else { panic!("two queues") };
    let (meta, manifest) = (dir.path().join("meta"), dir.path().join("meta.manifest"));
    let before = files_below(&meta);
    // A life in which a queue is declared and another deleted, and that is killed.
    let broker = open(dir.path()).unwrap();
    let alive = std::fs::read(&manifest).unwrap();
    let c = declare(&broker, "c");
    let (vhost, name) = (b"/".as_slice().into(), b"b".as_slice().into());
    let delete = Command::DeleteQueue(metadata::DeleteQueue { vhost, name, id: None });
    broker.commit(metadata::Entry::new("rmq-cli", delete)).unwrap().wait().unwrap();
    broker.shutdown();
    drop(broker);
    std::fs::write(&manifest, alive).unwrap();
    store(dir.path(), c);
    let is_whole = survey(dir.path());
    assert!(is_whole.problems.is_empty() && is_whole.outdated_vhosts.is_empty(), "{is_whole:?}");
    assert!(is_whole.queues.iter().all(|queue| queue.declaration == Declaration::Known), "{is_whole:?}");
    let newer = files_below(&meta).into_iter().filter(|file| !before.contains(file));
    newer.for_each(|file| std::fs::remove_file(file).unwrap());
    let told = survey(dir.path());
    let vhosts = told.outdated_vhosts.iter().map(|vhost| (&*vhost.name, vhost.queues)).collect::<Vec<_>>();
    assert_eq!(vhosts, [("/", 2)], "{told:?}");
    let known = told.queues.iter().map(|queue| (queue.id, queue.declaration)).collect::<Vec<_>>();
    let expected = [(a.0, Declaration::Outdated), (b.0, Declaration::Outdated), (c.0, Declaration::Lost)];
    assert_eq!(known, expected, "{told:?}");
    let salvaged_c = format!("salvaged-{}", c.0);
    assert_eq!(queues(&told), [("a", ALL, 0), ("b", 0, 0), (&*salvaged_c, ALL, 0)]);
    assert_eq!(told.queues[1].gone_messages, ALL, "its files went when it was deleted");
    let texts = &told.problems.texts;
    assert!(texts.iter().any(|text| text.starts_with("meta/: the newest file is missing")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("will have told that the queue was deleted")), "{texts:?}");
    let names = [("a", ALL), ("b", 0), (&*salvaged_c, ALL)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(salvaged(dir.path()), names);
}

#[test]
fn what_was_declared_behind_a_damaged_record_of_the_metadata_is_known() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let (file, of_a, _) = declarations(dir.path());
    wreck(&file, of_a + 40);
    let told = survey(dir.path());
    let known = told.queues.iter().map(|queue| (&*queue.name, queue.declaration)).collect::<Vec<_>>();
    assert_eq!(known[0], ("b", Declaration::Known), "{told:?}");
    assert_eq!(known[1].1, Declaration::Lost, "{told:?}");
    assert_eq!(told.outdated_vhosts.len(), 1, "{told:?}");
}

#[test]
fn messages_without_metadata_go_to_queues_named_after_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    std::fs::remove_dir_all(dir.path().join("meta")).unwrap();
    let named = ids.iter().map(|id| (format!("salvaged-{}", id.0), ALL));
    assert_eq!(salvaged(dir.path()), named.collect::<Vec<_>>());
}

/// Where the records begin in a file of a log.
fn records(file: &[u8]) -> Vec<usize> {
    let length = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let next =
        |at: &usize| Some(at + 32 + length(*at)).filter(|next| next + 32 < file.len() && length(*next) > 0);
    std::iter::successors(Some(32), next).collect()
}

/// The file with the declarations, that of `a` next to last, that of `b` last; and where these two begin.
fn declarations(dir: &Path) -> (std::path::PathBuf, usize, usize) {
    let file = files_below(&dir.join("meta")).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let starts = records(&bytes);
    (file, starts[starts.len() - 2], starts[starts.len() - 1])
}

#[test]
fn messages_of_a_queue_whose_declaration_is_damaged_go_to_one_named_after_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let (file, of_a, _) = declarations(dir.path());
    wreck(&file, of_a + 40);
    let salvaged_a = format!("salvaged-{}", ids[0].0);
    let survey = survey(dir.path());
    assert_eq!(queues(&survey), [("b", ALL, 0), (&*salvaged_a, ALL, 0)]);
    let is_told =
        |text: &String| text.contains("do not name 1 queues of which log/ or segments/ hold 3 messages");
    assert!(survey.problems.texts.iter().any(is_told), "{survey:?}");
    assert_eq!(salvaged(dir.path()), [("b".to_owned(), ALL), (salvaged_a, ALL)]);
}

#[test]
fn messages_of_a_queue_whose_declaration_was_cut_off_go_to_one_named_after_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let (file, _, of_b) = declarations(dir.path());
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..of_b]).unwrap();
    let salvaged_b = format!("salvaged-{}", ids[1].0);
    assert_eq!(salvaged(dir.path()), [("a".to_owned(), ALL), (salvaged_b, ALL)]);
}

#[test]
fn messages_of_a_queue_whose_declaration_a_killed_server_wrote_last_are_told_and_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let ids = killed(dir.path());
    store(dir.path(), ids[1]);
    assert_eq!(salvaged(dir.path()), both(0, ALL));
    damage_last_declaration(dir.path());
    assert!(survey(dir.path()).problems.texts[0].contains("log/ or segments/ hold 3 messages"));
    assert_eq!(salvaged(dir.path()), [("a".to_owned(), 0), (format!("salvaged-{}", ids[1].0), ALL)]);
}

#[test]
fn records_of_a_deleted_queue_are_not_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let broker = open(dir.path()).unwrap();
    let (vhost, name) = (b"/".as_slice().into(), b"b".as_slice().into());
    let delete = Command::DeleteQueue(metadata::DeleteQueue { vhost, name, id: None });
    broker.commit(metadata::Entry::new("rmq-cli", delete)).unwrap().wait().unwrap();
    broker.shutdown();
    drop(broker);
    store(dir.path(), ids[1]);
    let survey = survey(dir.path());
    assert_eq!((queues(&survey), survey.stray_records > 0), (vec![("a", ALL, 0)], true), "{survey:?}");
    assert!(survey.problems.is_empty(), "{survey:?}");
}

#[test]
fn missing_log_files_are_told_and_what_segments_hold_is_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    files_below(&dir.path().join("log")).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let survey = survey(dir.path());
    assert!(survey.problems.texts.iter().any(|text| text.contains("holds no log file")), "{survey:?}");
    assert_eq!(queues(&survey), [("a", ALL, 0), ("b", ALL, 0)], "segments hold the blocks");
    assert!(survey.problems.texts.iter().any(|text| text.contains("3 messages in 1 blocks")), "{survey:?}");
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
    std::fs::remove_dir_all(dir.path().join("log")).unwrap();
    let manifest = dir.path().join("log.manifest");
    assert!(manifest.exists());
    std::fs::remove_file(manifest).unwrap();
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
    std::fs::remove_dir_all(dir.path().join("meta")).unwrap();
    let named = ids.iter().map(|id| (format!("salvaged-{}", id.0), ALL));
    assert_eq!(salvaged(dir.path()), named.collect::<Vec<_>>());
}

#[test]
fn a_directory_in_use_and_a_target_that_holds_something_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let broker = open(dir.path()).unwrap();
    assert!(matches!(Offline::open(dir.path()), Err(OfflineError::InUse(_))));
    broker.shutdown();
    drop(broker);
    let to = tempfile::tempdir().unwrap();
    std::fs::write(to.path().join("something"), "").unwrap();
    let refused = Offline::open(dir.path()).unwrap().salvage(to.path()).unwrap_err();
    assert!(matches!(refused, OfflineError::TargetNotEmpty(_)), "{refused}");
    assert!(matches!(Offline::open(&dir.path().join("none")), Err(OfflineError::NoFolder(_))));
}

#[test]
fn a_dump_shows_records_up_to_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let mut lines = Vec::new();
    for file in files_below(dir.path())
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "log" || extension == "seg"))
    {
        let more = dump(file, 10, |line| {
            lines.push(line);
            Ok(())
        });
        more.unwrap();
    }
    assert!(lines.iter().any(|line| line.contains("state record, ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("queue 'a' in '/' number ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("block at byte 32: 48 bytes")), "{lines:?}");
    assert!(dump(&dir.path().join("warren.lock"), 1, |_| Ok(())).is_err());
}

#[test]
fn each_kind_of_record_has_a_name_of_its_own() {
    let kinds = [1, 3, 4, 5, 6, 7, 8, 99];
    let names: std::collections::HashSet<&str> =
        kinds.into_iter().map(|kind| dump::kind_name("log", kind)).collect();
    assert_eq!(names.len(), kinds.len());
}

#[test]
fn a_dump_shows_snapshots_and_those_that_are_damaged() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let new = tempfile::tempdir().unwrap();
    let to = new.path().join("new");
    Offline::open(dir.path()).unwrap().salvage(&to).unwrap();
    let shown = |path: &Path, limit| {
        let mut lines = Vec::new();
        let show = |line| {
            lines.push(line);
            Ok(())
        };
        let more = dump(path, limit, show).unwrap();
        (lines, more)
    };
    let snapshot = |folder: &str| {
        let is_snapshot = |file: &std::path::PathBuf| file.extension().is_some_and(|it| it == "snap");
        files_below(&to.join(folder)).into_iter().find(is_snapshot).unwrap()
    };
    let (lines, more) = shown(&snapshot("meta"), 1000);
    assert!(more == 0 && lines[0].starts_with("snapshot of the metadata at position 0: "), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("queue 'a' in '/' number ")), "{lines:?}");
    let (first, more) = shown(&snapshot("meta"), 1);
    assert_eq!((&first[..], more), (&lines[..1], lines.len() as u64 - 1));
    let epoch = shown(&snapshot("segments"), 10).0;
    assert!(epoch.len() == 1 && epoch[0].starts_with("the folder of segments was opened "), "{epoch:?}");
    flip(&snapshot("meta"), 60);
    let aside = snapshot("meta").with_extension("snap.damaged");
    std::fs::copy(snapshot("meta"), &aside).unwrap();
    for path in [snapshot("meta"), aside] {
        assert_eq!(shown(&path, 10).0, ["the snapshot is damaged: its checksum does not match"]);
    }
    assert!(
        dump(&to.join("meta").join("metadata.snap"), 1, |_| Ok(())).is_err(),
        "a name without a position"
    );
}

/// The newest file of the log that has records.
fn newest_log(dir: &Path) -> std::path::PathBuf {
    let files = files_below(&dir.join("log"));
    let used = |file: &std::path::PathBuf| std::fs::read(file).unwrap()[32..].iter().any(|byte| *byte != 0);
    files.into_iter().rfind(used).unwrap()
}

#[test]
fn what_only_a_wrecked_last_record_named_is_found_though_it_may_have_been_an_unfinished_write() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    // Nothing says how far the log was synced, as after a crash.
    std::fs::remove_file(dir.path().join("log.manifest")).unwrap();
    let file = newest_log(dir.path());
    let starts = records(&std::fs::read(&file).unwrap());
    wreck(&file, starts.last().unwrap() + 40);
    let survey = survey(dir.path());
    assert_eq!(queues(&survey), [("a", ALL, 0), ("b", ALL, 0)]);
    assert_eq!(survey.queues[1].returned_messages, ALL, "of which the record told");
    assert!(survey.notes[0].contains("bytes cannot be read: a write that a crash interrupted"), "{survey:?}");
    assert!(
        survey.notes[1].contains("put before the others"),
        "which a server that was killed leaves too: {survey:?}"
    );
    assert!(survey.problems.is_empty(), "{survey:?}");
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
}

#[test]
fn an_unfinished_write_is_a_note_and_brings_nothing_back_that_was_settled() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let disk = std::sync::Arc::new(platform::RealDisk);
    let stray = |id: u64| {
        let options = commitlog::SegmentOptions::default();
        let segments =
            commitlog::Segments::open(disk.clone(), &dir.path().join("segments"), options).unwrap();
        segments.write_block(id, &STORED).unwrap();
        segments.sync(id).unwrap();
    };
    // As one of which all is settled, before its segment goes.
    survey(dir.path()).queues.iter().for_each(|queue| stray(queue.id));
    std::fs::remove_file(dir.path().join("log.manifest")).unwrap();
    let file = newest_log(dir.path());
    let mut bytes = std::fs::read(&file).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let start = *records(&bytes).last().unwrap();
    let end = start + 32 + u32::from_be_bytes(bytes[start..start + 4].try_into().unwrap()) as usize;
    assert!(end >= used);
    bytes.resize(end + 4096, 0);
    bytes[end + 100..end + 200].fill(7);
    std::fs::write(&file, bytes).unwrap();
    let survey = survey(dir.path());
    assert_eq!((survey.problems.texts.len(), survey.notes.len()), (0, 1), "{survey:?}");
    assert_eq!(salvaged(dir.path()), both(ALL, ALL));
    open(dir.path()).unwrap().shutdown();
}
