//! Shared bodies in a node's data directory: a body that queues name is found, or its lack is told.

use std::path::Path;
use std::sync::Arc;

use commitlog::{Afterlife, Log, LogOptions, SegmentOptions, Segments};
use platform::RealDisk;
use queues::{RecordKind, SettleRun};
use stdx::QueueId;

use super::record::{BODY, PLACES, write_body, write_place};
use super::store::STREAM;
use crate::call::Call;
use crate::cell::Event;
use crate::cell::condition::Condition;
use crate::offline::{Depth, LostFrom, Offline, Survey};
use crate::recovery::tests::{PLACED_COUNT, filled, filled_in_log, kept_files, open, segment_files};
use crate::{Broker, GotMessage, Refused, SettleHow};

const BODY_ID: u64 = 77;
const BYTES: usize = 20_000;
const OWN: u64 = PLACED_COUNT as u64;

/// Where the body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Log,
    Segment,
    Nowhere,
}

/// As [`filled`]; both queues have one more message, with the same body, behind the others.
fn shared(dir: &Path, at: At) -> Vec<QueueId> {
    let ids = filled(dir);
    let disk = Arc::new(RealDisk);
    let body = vec![5; BYTES];
    let segments = Segments::open(disk.clone(), &dir.join("segments"), SegmentOptions::default()).unwrap();
    let (log, _) = Log::open(disk, &dir.join("log"), LogOptions::default()).unwrap();
    match at {
        At::Log => drop(log.append(STREAM, BODY, |out| write_body(out, BODY_ID, &body))),
        At::Segment => {
            let place = segments.write_block(STREAM, &body).unwrap();
            segments.sync(STREAM).unwrap();
            log.append(STREAM, PLACES, |out| write_place(out, BODY_ID, place));
        }
        At::Nowhere => {}
    }
    for id in &ids {
        log.append(id.0, RecordKind::EnqueueShared as u8, |out| write_enqueued(out, OWN));
    }
    log.close().unwrap();
    ids
}

/// The queue `a` with one message in a block that stays in a kept file of the log; its body is in a segment.
fn shared_in_kept_file(dir: &Path) {
    let id = filled_in_log(dir);
    let segments =
        Segments::open(Arc::new(RealDisk), &dir.join("segments"), SegmentOptions::default()).unwrap();
    let place = segments.write_block(STREAM, &vec![5; BYTES]).unwrap();
    segments.sync(STREAM).unwrap();
    let open = || Log::open(Arc::new(RealDisk), &dir.join("log"), LogOptions::default()).unwrap().0;
    let log = open();
    let end = log.append(id.0, RecordKind::EnqueueShared as u8, |out| write_enqueued(out, OWN));
    log.close().unwrap();
    // A file of its own.
    let log = open();
    log.append(STREAM, PLACES, |out| write_place(out, BODY_ID, place));
    log.append(id.0, RecordKind::State as u8, |out| {
        const RECORD_BYTES: u32 = 32 + 36;
        out.extend_from_slice(&[4, 1]);
        out.extend_from_slice(&(OWN + 1).to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 1, 5]);
        out.extend_from_slice(&OWN.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 1, 0]);
        out.extend_from_slice(&(end.0 - u64::from(RECORD_BYTES)).to_be_bytes());
        out.extend_from_slice(&RECORD_BYTES.to_be_bytes());
        out.extend_from_slice(&(BYTES as u64).to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        out.extend_from_slice(&BODY_ID.to_be_bytes());
        out.extend_from_slice(&(BYTES as u32).to_be_bytes());
    });
    log.sync_barrier().unwrap();
    log.retire_files_below(end, |_| Afterlife::Kept).unwrap();
    log.close().unwrap();
}

/// An entry of an enqueue record: a message with the shared body.
fn write_enqueued(out: &mut Vec<u8>, number: u64) {
    write_enqueued_with(out, number, BODY_ID);
}

fn write_enqueued_with(out: &mut Vec<u8>, number: u64, body_id: u64) {
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 24, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&body_id.to_be_bytes());
    out.extend_from_slice(&(BYTES as u32).to_be_bytes());
}

fn survey(dir: &Path) -> Survey {
    Offline::open(dir).unwrap().survey(Depth::Blocks).unwrap()
}

fn queues(survey: &Survey) -> Vec<(&str, u64, u64)> {
    survey.queues.iter().map(|queue| (&*queue.name, queue.messages, queue.lost_messages)).collect()
}

fn conditions(broker: &Broker) -> [Condition; 2] {
    let vhost = broker.vhost("/").unwrap();
    [b"a", b"b"].map(|name| vhost.queue(name).unwrap().condition())
}

fn get(broker: &Broker, name: &[u8]) -> Result<Option<GotMessage>, Refused> {
    let (reply, call) = Call::pair();
    broker.vhost("/").unwrap().queue(name).unwrap().submit(Event::Get(true, reply));
    call.wait()
}

/// Takes all messages of a queue; the bodies' lengths.
fn drain(broker: &Broker, name: &[u8]) -> Vec<usize> {
    let queue = broker.vhost("/").unwrap().queue(name).unwrap();
    let mut lengths = Vec::new();
    while let Some(got) = get(broker, name).unwrap() {
        assert!(got.body.iter().all(|byte| *byte == 5));
        lengths.push(got.body.len());
        let run = SettleRun { consumer: None, first: got.seq, count: 1 };
        queue.settle(SettleHow::Ack, &[run]);
    }
    lengths
}

#[test]
fn a_body_in_the_log_or_in_a_segment_is_found_by_every_queue_that_names_it() {
    for at in [At::Log, At::Segment] {
        let dir = tempfile::tempdir().unwrap();
        shared(dir.path(), at);
        let before = survey(dir.path());
        assert_eq!(before.problems.texts, [""; 0]);
        assert_eq!(queues(&before), [("a", OWN + 1, 0), ("b", OWN + 1, 0)]);
        assert_eq!((before.segments_unneeded, before.stray_records), (0, 0));
        let broker = open(dir.path()).unwrap();
        assert_eq!(drain(&broker, b"a"), [0, 0, 0, BYTES]);
        broker.shutdown();
        drop(broker);
        let broker = open(dir.path()).unwrap();
        assert_eq!((drain(&broker, b"a"), drain(&broker, b"b")), (Vec::new(), vec![0, 0, 0, BYTES]));
        broker.shutdown();
        drop(broker);
        open(dir.path()).unwrap().shutdown();
        assert_eq!(segment_files(dir.path()).len(), 0, "nobody needs the body any more");
    }
}

#[test]
fn bodies_in_the_log_are_not_in_memory_before_somebody_wants_them() {
    const COUNT: u64 = 30;
    let dir = tempfile::tempdir().unwrap();
    let ids = filled(dir.path());
    let (log, _) = Log::open(Arc::new(RealDisk), &dir.path().join("log"), LogOptions::default()).unwrap();
    let body = vec![5; BYTES];
    for nth in 0..COUNT {
        log.append(STREAM, BODY, |out| write_body(out, BODY_ID + nth, &body));
        for id in &ids {
            let enqueue = |out: &mut Vec<u8>| write_enqueued_with(out, OWN + nth, BODY_ID + nth);
            log.append(id.0, RecordKind::EnqueueShared as u8, |out| enqueue(out));
        }
    }
    log.close().unwrap();
    let broker = open(dir.path()).unwrap();
    let held = || broker.services().bodies.memory_bytes().1;
    assert_eq!(held(), 0);
    let expected: Vec<usize> = [vec![0; OWN as usize], vec![BYTES; COUNT as usize]].concat();
    assert_eq!(drain(&broker, b"a"), expected);
    assert!(held() > 0, "they are kept for the other queue");
    assert_eq!(drain(&broker, b"b"), expected);
    broker.shutdown();
}

#[test]
fn a_salvaged_directory_has_the_body_once() {
    for at in [At::Log, At::Segment] {
        let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        shared(dir.path(), at);
        let to = new.path().join("new");
        assert_eq!(Offline::open(dir.path()).unwrap().salvage(&to).unwrap().messages, 2 * OWN + 2);
        assert_eq!(survey(&to).problems.texts, [""; 0]);
        let broker = open(&to).unwrap();
        assert_eq!(
            (drain(&broker, b"a"), drain(&broker, b"b")),
            (vec![0, 0, 0, BYTES], vec![0, 0, 0, BYTES])
        );
        broker.shutdown();
    }
}

#[test]
fn a_block_in_a_kept_file_of_the_log_finds_its_body_after_a_start_and_in_a_salvaged_directory() {
    let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    shared_in_kept_file(dir.path());
    let before = survey(dir.path());
    assert_eq!((before.problems.texts, before.queues[0].body_bytes), (Vec::new(), BYTES as u64));
    let to = new.path().join("new");
    assert_eq!(Offline::open(dir.path()).unwrap().salvage(&to).unwrap().messages, 1);
    assert_eq!(survey(&to).problems.texts, [""; 0]);
    for dir in [dir.path(), &to] {
        let broker = open(dir).unwrap();
        assert_eq!(drain(&broker, b"a"), [BYTES]);
        broker.shutdown();
        drop(broker);
        open(dir).unwrap().shutdown();
        assert_eq!((segment_files(dir).len(), kept_files(dir).len()), (0, 0), "nobody needs them any more");
    }
}

#[test]
fn queues_whose_body_is_nowhere_are_out_of_service_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    shared(dir.path(), At::Nowhere);
    let survey = survey(dir.path());
    assert_eq!(queues(&survey), [("a", OWN, 1), ("b", OWN, 1)]);
    assert_eq!(survey.queues[0].lost_from, LostFrom { bodies: 1, ..LostFrom::default() });
    assert_eq!(survey.problems.texts, ["1 shared bodies cannot be read"]);
    let broker = open(dir.path()).unwrap();
    assert_eq!(conditions(&broker), [Condition::Crashed; 2]);
    broker.shutdown();
}

#[test]
fn a_missing_or_short_segment_of_bodies_closes_the_queues_that_name_one_of_them() {
    for damage in [
        |file: &Path| std::fs::remove_file(file).unwrap(),
        |file: &Path| {
            std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(1000).unwrap();
        },
    ] {
        let dir = tempfile::tempdir().unwrap();
        shared(dir.path(), At::Segment);
        let of_bodies = format!("{STREAM:016x}-");
        let files = segment_files(dir.path());
        damage(files.iter().find(|file| file.to_string_lossy().contains(&of_bodies)).unwrap());
        assert_eq!(queues(&survey(dir.path())), [("a", OWN, 1), ("b", OWN, 1)]);
        let broker = open(dir.path()).unwrap();
        assert_eq!(conditions(&broker), [Condition::Crashed; 2]);
        broker.shutdown();
    }
}

#[test]
fn a_body_that_cannot_be_read_back_crashes_its_queue_and_is_not_handed_out() {
    let dir = tempfile::tempdir().unwrap();
    shared(dir.path(), At::Segment);
    let of_bodies = format!("{STREAM:016x}-");
    let files = segment_files(dir.path());
    let file = files.iter().find(|file| file.to_string_lossy().contains(&of_bodies)).unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    bytes[500] ^= 1;
    std::fs::write(file, bytes).unwrap();
    let broker = open(dir.path()).unwrap();
    assert_eq!(conditions(&broker), [Condition::Running; 2]);
    for _ in 0..OWN {
        assert!(get(&broker, b"a").unwrap().is_some());
    }
    assert!(get(&broker, b"a").is_err());
    broker.shutdown();
}
