//! Real data directories from which parts go missing between two starts.

use std::path::Path;
use std::sync::Arc;

use commitlog::{Afterlife, Log, LogOptions, Position, SegmentOptions, Segments};
use metadata::{Command, DeclareQueue};
use platform::RealDisk;
use queues::{Machine, RecordKind};
use stdx::QueueId;

use crate::cell::condition::Condition;
use crate::{Broker, BrokerOptions, StartError};

/// Messages in the block that [`store`] places in a segment.
pub(crate) const PLACED_COUNT: u32 = 3;

/// A stored persistent message without any part.
pub(crate) const STORED: [u8; 16] = [0, 0, 0, 12, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(crate) fn open(dir: &Path) -> Result<Broker, StartError> {
    Broker::open(dir, BrokerOptions { fsync: false, ..BrokerOptions::default() })
}

/// Declares a durable queue.
pub(crate) fn declare(broker: &Broker, name: &str) -> QueueId {
    let command = Command::DeclareQueue(DeclareQueue {
        vhost: b"/".as_slice().into(),
        name: name.as_bytes().into(),
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: metadata::Arguments::default(),
        queue_type: metadata::QueueType::Classic,
    });
    broker.commit(metadata::Entry::new("rmq-cli", command)).unwrap().wait().unwrap();
    broker.vhost("/").unwrap().queue(name.as_bytes()).unwrap().id
}

/// A directory with the queues `a` and `b`.
pub(crate) fn filled(dir: &Path) -> Vec<QueueId> {
    let broker = open(dir).unwrap();
    let ids = ["a", "b"].map(|name| declare(&broker, name));
    broker.shutdown();
    for id in ids {
        store(dir, id);
    }
    ids.to_vec()
}

/// A directory with the queue `a`, of which no record of a message tells.
pub(crate) fn declared(dir: &Path) -> QueueId {
    let broker = open(dir).unwrap();
    let id = declare(&broker, "a");
    broker.shutdown();
    id
}

/// Gives a queue one block in a segment and a state record that names it, as an earlier life may have left them.
pub(crate) fn store(dir: &Path, id: QueueId) {
    store_block(dir, id, &[STORED; PLACED_COUNT as usize].concat());
}

/// The same with these [`PLACED_COUNT`] messages.
pub(crate) fn store_block(dir: &Path, id: QueueId, block: &[u8]) {
    let disk = Arc::new(RealDisk);
    let segments = Segments::open(disk.clone(), &dir.join("segments"), SegmentOptions::default()).unwrap();
    let place = segments.write_block(id.0, block).unwrap();
    segments.sync(id.0).unwrap();
    let (log, _) = Log::open(disk, &dir.join("log"), LogOptions::default()).unwrap();
    log.append(id.0, RecordKind::State as u8, |out| {
        out.extend_from_slice(&[2, 1]);
        out.extend_from_slice(&u64::from(PLACED_COUNT).to_be_bytes());
        out.extend_from_slice(&1_u32.to_be_bytes());
        out.push(1);
        out.extend_from_slice(&0_u64.to_be_bytes());
        out.extend_from_slice(&PLACED_COUNT.to_be_bytes());
        out.push(0);
        out.extend_from_slice(&place.segment.to_be_bytes());
        out.extend_from_slice(&u64::from(place.offset).to_be_bytes());
        out.extend_from_slice(&place.len.to_be_bytes());
        out.extend_from_slice(&0_u64.to_be_bytes());
        out.extend_from_slice(&0_u32.to_be_bytes());
    });
    log.close().unwrap();
}

/// Gives a queue one block that stays in the log, in a kept file, so many messages to a record, and a state record that names it.
pub(crate) fn store_in_log(dir: &Path, id: QueueId, per_record: usize) {
    let open = || Log::open(Arc::new(RealDisk), &dir.join("log"), LogOptions::default()).unwrap().0;
    let log = open();
    let numbers: Vec<u64> = (0..u64::from(PLACED_COUNT)).collect();
    let append = |numbers: &[u64]| {
        log.append(id.0, RecordKind::Enqueue as u8, |out| {
            for number in numbers {
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(&STORED);
            }
        })
    };
    let ends: Vec<Position> = numbers.chunks(per_record).map(append).collect();
    log.close().unwrap();
    // A file of its own.
    let log = open();
    let (end, bytes) = (ends[ends.len() - 1], 32 * ends.len() as u64 + 24 * u64::from(PLACED_COUNT));
    log.append(id.0, RecordKind::State as u8, |out| {
        out.extend_from_slice(&[3, 1]);
        out.extend_from_slice(&u64::from(PLACED_COUNT).to_be_bytes());
        out.extend_from_slice(&1_u32.to_be_bytes());
        out.push(3);
        out.extend_from_slice(&0_u64.to_be_bytes());
        out.extend_from_slice(&PLACED_COUNT.to_be_bytes());
        out.push(0);
        out.extend_from_slice(&(end.0 - bytes).to_be_bytes());
        out.extend_from_slice(&u32::try_from(bytes).unwrap().to_be_bytes());
        out.extend_from_slice(&0_u64.to_be_bytes());
        out.extend_from_slice(&0_u32.to_be_bytes());
    });
    log.sync_barrier().unwrap();
    log.retire_files_below(Position(end.0), |_| Afterlife::Kept).unwrap();
    log.close().unwrap();
}

/// A directory with the queue `a`, whose messages are in a kept file.
pub(crate) fn filled_in_log(dir: &Path) -> QueueId {
    let broker = open(dir).unwrap();
    let id = declare(&broker, "a");
    broker.shutdown();
    drop(broker);
    store_in_log(dir, id, PLACED_COUNT as usize);
    id
}

pub(crate) fn kept_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = files_below(&dir.join("log"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "kept"));
    files
}

pub(crate) fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

pub(crate) fn segment_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = files_below(&dir.join("segments"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "seg"));
    files
}

/// The error of opening after `damage`; opening must give the same error again, and leave all segments.
fn refusal(damage: impl Fn(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    damage(dir.path());
    let segments = segment_files(dir.path());
    let refused = open(dir.path()).err().expect("it is refused").to_string();
    assert_eq!(open(dir.path()).err().expect("it is refused again").to_string(), refused);
    assert_eq!(segment_files(dir.path()), segments, "no segment was removed");
    refused
}

fn remove(dir: &Path, folder: &str) {
    std::fs::remove_dir_all(dir.join(folder)).unwrap();
}

#[test]
fn a_missing_folder_is_refused_by_its_name() {
    for folder in ["meta", "log", "segments"] {
        let text = refusal(|dir| remove(dir, folder));
        let named = text.contains(&format!("the folder {folder}/"));
        assert!(named, "{text}");
    }
}

#[test]
fn folders_without_the_files_in_them_are_refused() {
    for folder in ["meta", "log"] {
        refusal(|dir| {
            files_below(&dir.join(folder)).iter().for_each(|file| std::fs::remove_file(file).unwrap());
        });
    }
}

#[test]
fn metadata_that_were_replaced_by_empty_ones_are_refused() {
    let text = refusal(|dir| {
        remove(dir, "meta");
        std::fs::remove_file(dir.join("meta.manifest")).unwrap();
        let fresh = tempfile::tempdir().unwrap();
        let _log = Log::open(Arc::new(RealDisk), &fresh.path().join("meta"), LogOptions::default()).unwrap();
        std::fs::create_dir(dir.join("meta")).unwrap();
        for file in files_below(&fresh.path().join("meta")) {
            std::fs::copy(&file, dir.join("meta").join(file.file_name().unwrap())).unwrap();
        }
    });
    assert!(text.contains("the message log holds records"), "{text}");
}

#[test]
fn a_missing_or_short_segment_closes_its_queue_and_no_other() {
    for damage in [
        |file: &Path| std::fs::remove_file(file).unwrap(),
        |file: &Path| {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            file.set_len(40).unwrap();
        },
    ] {
        let dir = tempfile::tempdir().unwrap();
        let ids = filled(dir.path());
        let of_a = format!("{:016x}-", ids[0].0);
        let files = segment_files(dir.path());
        damage(files.iter().find(|file| file.to_string_lossy().contains(&of_a)).unwrap());
        let broker = open(dir.path()).unwrap();
        let vhost = broker.vhost("/").unwrap();
        let condition = |name: &[u8]| vhost.queue(name).unwrap().condition();
        assert_eq!((condition(b"a"), condition(b"b")), (Condition::Crashed, Condition::Running));
        broker.shutdown();
    }
}

#[test]
fn a_block_that_stayed_in_the_log_is_there_after_a_start_and_the_file_with_it() {
    let dir = tempfile::tempdir().unwrap();
    filled_in_log(dir.path());
    let stray = dir.path().join("log/00000000000fffff.kept");
    std::fs::copy(&kept_files(dir.path())[0], &stray).unwrap();
    for _ in 0..2 {
        let broker = open(dir.path()).unwrap();
        let stats = broker.vhost("/").unwrap().queue(b"a").unwrap().stats().wait();
        assert_eq!((stats.ready, stats.disk_bytes), (PLACED_COUNT.into(), 32 + 24 * u64::from(PLACED_COUNT)));
        broker.shutdown();
        assert!(kept_files(dir.path()).len() == 1 && !stray.exists(), "one is needed, the other is not");
    }
}

#[test]
fn what_a_recovered_state_record_says_of_the_logs_end_outlives_what_it_says_of_blocks() {
    let dir = tempfile::tempdir().unwrap();
    filled_in_log(dir.path());
    let broker = open(dir.path()).unwrap();
    let queue = broker.vhost("/").unwrap().queue(b"a").unwrap();
    assert_eq!(queue.purge_by_operator().wait(), u64::from(PLACED_COUNT));
    assert_eq!(
        queue.read_used(|machine, _| machine.store().expect("it has one").log_ranges().count()),
        Some(0)
    );
    // Until the purge is durable a crash brings the block back: nobody may drop its file for lack of blocks in it.
    let kept = broker.0.services.log.kept_files();
    assert!(broker.0.services.log_places.stated_end() > kept[0].start, "{kept:?}");
    broker.shutdown();
}

#[test]
fn a_missing_or_short_kept_file_closes_its_queue() {
    for damage in [
        |file: &Path| std::fs::remove_file(file).unwrap(),
        |file: &Path| std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(70).unwrap(),
    ] {
        let dir = tempfile::tempdir().unwrap();
        filled_in_log(dir.path());
        damage(&kept_files(dir.path())[0]);
        let broker = open(dir.path()).unwrap();
        assert_eq!(broker.vhost("/").unwrap().queue(b"a").unwrap().condition(), Condition::Crashed);
        broker.shutdown();
    }
}

#[test]
fn damage_of_the_epoch_file_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    for file in files_below(&dir.path().join("segments")) {
        if file.extension().is_some_and(|extension| extension == "snap") {
            std::fs::write(file, b"rotten").unwrap();
        }
    }
    open(dir.path()).unwrap().shutdown();
}

#[test]
fn what_a_queue_left_whose_declaration_was_lost_is_not_found_in_the_next_one_declared() {
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let lost = QueueId(ids[1].0 + 1);
    store(dir.path(), lost);
    let broker = open(dir.path()).unwrap();
    assert_ne!(declare(&broker, "c"), lost);
    broker.shutdown();
    drop(broker);
    let broker = open(dir.path()).unwrap();
    let queue = broker.vhost("/").unwrap().queue(b"c").unwrap();
    assert_eq!(queue.stats().wait().ready, 0);
    broker.shutdown();
}

/// The folder that a killed server leaves: nothing was closed. The queues `a` and `b`, and messages in `b`.
pub(crate) fn killed(dir: &Path) -> Vec<QueueId> {
    let life = tempfile::tempdir().unwrap();
    let broker = open(life.path()).unwrap();
    let ids = ["a", "b"].map(|name| declare(&broker, name));
    for file in files_below(life.path()) {
        let to = dir.join(file.strip_prefix(life.path()).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(file, to).unwrap();
    }
    broker.shutdown();
    ids.to_vec()
}

/// Changes a byte in the last record of the metadata log, the declaration of `b`.
pub(crate) fn damage_last_declaration(dir: &Path) {
    let file = files_below(&dir.join("meta")).pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last - 3..=last].iter_mut().for_each(|byte| *byte = !*byte);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_last_declaration_is_refused_when_its_queue_has_messages() {
    let dir = tempfile::tempdir().unwrap();
    let ids = killed(dir.path());
    store(dir.path(), ids[1]);
    damage_last_declaration(dir.path());
    let files = || files_below(dir.path()).into_iter().map(|file| std::fs::read(file).unwrap());
    let before: Vec<_> = files().collect();
    for _ in 0..2 {
        let refused = open(dir.path()).err().expect("it is refused").to_string();
        assert!(refused.contains("3 messages of 1 queues") && refused.contains("diag salvage"), "{refused}");
    }
    assert_eq!(files().collect::<Vec<_>>(), before, "nothing was changed");
}

#[test]
fn an_unfinished_last_declaration_is_cut_off_when_its_queue_has_no_messages() {
    let dir = tempfile::tempdir().unwrap();
    let ids = killed(dir.path());
    store(dir.path(), ids[0]);
    damage_last_declaration(dir.path());
    let broker = open(dir.path()).unwrap();
    let vhost = broker.vhost("/").unwrap();
    assert!(vhost.queue(b"a").is_some() && vhost.queue(b"b").is_none());
    broker.shutdown();
}
