//! Folders that a broker left, damaged at random places with fixed seeds: whatever the damage, a salvage ends, the server opens what comes
//! out, and every message is in it whose bytes are whole in a segment. Damage of one byte in a record costs nothing at all.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use commitlog::{Found, SegmentFile, inspect_log_file, list_kept_files, list_log_files, list_segments};
use platform::{RealDisk, SeededRandom};
use queues::may_be_block;
use wire::amqp091::TableBuf;

use super::{Depth, Offline, Survey};
use crate::data::publish::{Incoming, PublishChannel, Publisher};
use crate::test_broker::connect;
use crate::{
    BindRequest, Broker, BrokerOptions, DestinationName, FileSizes, Foundation, Principal, QueueDeclare,
    SharedBodySizes,
};

const MIXED: [&str; 3] = ["plain", "prio", "ttl"];
const ALONE: &str = "alone";
const FANS: [&str; 2] = ["fan0", "fan1"];
const MESSAGES: usize = 400;
const SEEDS: [u64; 5] = [1, 2, 5, 6, 9];
const SETTLED: usize = 60;
const BODY_BYTES: usize = 400;

/// Bodies in the order of delivery, by queue.
pub(super) type Held = BTreeMap<String, Vec<String>>;

pub(super) fn open(folder: &Path) -> (Broker, Principal) {
    let sizes = FileSizes {
        log_file_bytes_max: 64 << 10,
        segment_bytes_max: 64 << 10,
        bodies: SharedBodySizes { bytes_min: 300, recent_bytes_max: 4 << 10, unwritten_bytes_max: 64 << 10 },
        ..FileSizes::default()
    };
    let foundation = Foundation { sizes, ..Foundation::real(Arc::new(RealDisk)) };
    let options =
        BrokerOptions { fsync: false, queue_memory_bytes_max: 16 << 10, ..BrokerOptions::default() };
    let broker = crate::recovery::open(&foundation, folder, options).expect("it opens");
    let principal = connect(&broker).expect("the default vhost");
    (broker, principal)
}

pub(super) fn body(queue: &str, nth: usize) -> String {
    format!("{:.<BODY_BYTES$}", format!("{queue}:{nth:04}:"))
}

pub(super) fn declare(broker: &Broker, principal: &Principal, name: &str) {
    let mut arguments = TableBuf::new();
    match name {
        "prio" => drop(arguments.push_i64("x-max-priority", 3)),
        "ttl" => drop(arguments.push_i64("x-message-ttl", 86_400_000)),
        _ => {}
    }
    let (name, arguments) = (name.as_bytes(), arguments.as_table());
    let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
    let declared = broker.declare_queue(principal, declare).expect("it can be declared");
    declared.counts.wait().expect("the disk is fine");
    if FANS.iter().any(|fan| fan.as_bytes() == name) {
        let destination = DestinationName::Queue(name);
        let arguments = TableBuf::new();
        let arguments = arguments.as_table();
        let bind = BindRequest { source: b"amq.fanout", destination, routing_key: b"", arguments };
        broker.bind(principal, bind).expect("it is there").wait().expect("the disk is fine");
    }
}

pub(super) fn publish(broker: &Broker, principal: &Principal, nth: usize, queues: &[&str]) {
    let mut publisher = Publisher::new(broker, principal);
    for queue in queues {
        let (exchange, routing_key) = if *queue == "fan" { ("amq.fanout", "") } else { ("", *queue) };
        // Delivery mode 2, and a priority.
        let properties = [0x18, 0, 2, u8::try_from(nth % 5).expect("below 5")];
        let body = body(queue, nth);
        let message = Incoming {
            mandatory: false,
            exchange: exchange.as_bytes(),
            routing_key: routing_key.as_bytes(),
            properties: &properties,
            body: body.as_bytes(),
        };
        publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
    }
    publisher.flush();
}

pub(super) fn take(broker: &Broker, principal: &Principal, queue: &str, count: usize) -> Vec<String> {
    let get = || {
        let (_, call) = broker.get(principal, queue.as_bytes(), false).expect("the queue is there");
        call.wait().expect("it is in service").map(|got| String::from_utf8_lossy(&got.body).into_owned())
    };
    std::iter::from_fn(get).take(count).collect()
}

/// Fills a folder, and copies it as a killed server would leave it, too. What each queue holds is in the last.
fn fill(folder: &Path, killed: &Path) -> Held {
    let (broker, principal) = open(folder);
    let all = [&MIXED[..], &FANS, &[ALONE]].concat();
    all.iter().for_each(|name| declare(&broker, &principal, name));
    for nth in 0..MESSAGES {
        publish(&broker, &principal, nth, &[&MIXED[..], &["fan"]].concat());
    }
    (0..MESSAGES).for_each(|nth| publish(&broker, &principal, nth, &[ALONE]));
    broker.services().settle_all();
    all.iter().for_each(|name| assert_eq!(take(&broker, &principal, name, SETTLED).len(), SETTLED));
    broker.services().settle_all();
    copy_alive(folder, killed);
    broker.shutdown();
    drop((broker, principal));
    let reading = tempfile::tempdir().expect("a folder");
    copy(folder, reading.path());
    drain(reading.path(), all.iter().map(|name| (*name).to_owned()))
}

/// All that these queues of a folder hold; they are empty afterwards.
pub(super) fn drain(folder: &Path, names: impl Iterator<Item = String>) -> Held {
    let (broker, principal) = open(folder);
    let held =
        names.map(|name| (name.clone(), take(&broker, &principal, &name, usize::MAX))).collect::<Held>();
    broker.shutdown();
    held
}

/// Copies the folder of a broker that runs: at a moment in which it writes and removes nothing.
pub(super) fn copy_alive(from: &Path, to: &Path) {
    let sizes = || -> Option<Vec<_>> {
        let all = crate::recovery::tests::files_below(from).into_iter();
        all.map(|file| std::fs::metadata(&file).ok().map(|it| (file, it.len()))).collect()
    };
    for _ in 0..1_000 {
        let before = sizes();
        std::thread::sleep(std::time::Duration::from_millis(10));
        if before.is_some() && sizes() == before {
            let _from_an_earlier_try = std::fs::remove_dir_all(to);
            if try_copy(from, to).is_ok() && sizes() == before {
                return;
            }
        }
    }
    panic!("it never rests");
}

pub(super) fn copy(from: &Path, to: &Path) {
    try_copy(from, to).expect("it can be copied");
}

fn try_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            try_copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let mut files = crate::recovery::tests::files_below(&folder.join(part));
    files.retain(|file| file.extension().is_some_and(|it| it == "log" || it == "kept" || it == "seg"));
    files
}

/// Bodies of `live` messages in whole blocks of segments.
fn in_segments(folder: &Path, live: &Held) -> HashSet<String> {
    let dir = folder.join("segments");
    let mut text = Vec::new();
    for (stream, segment) in list_segments(&RealDisk, &dir).expect("it is there") {
        let file = SegmentFile::open(&RealDisk, &dir, stream, segment).expect("it is there");
        file.whole_blocks(may_be_block, |_, block| text.extend_from_slice(block));
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let bodies = live.values().flatten().filter(|body| !body.starts_with("fan"));
    bodies.filter(|body| text.contains(body.as_str())).cloned().collect()
}

/// Whether a record of the damaged folder was put right into one that nobody wrote: to the checksum, damage of several bytes looks like one
/// wrong byte once in some thousand times.
pub(super) fn is_mistaken(base: &Path, damaged: &Path) -> bool {
    let each = |folder: &Path, show: &mut dyn FnMut(Found<'_>)| {
        let dir = folder.join("log");
        let mut files = list_kept_files(&RealDisk, &dir).expect("it is there");
        files.extend(list_log_files(&RealDisk, &dir).expect("it is there"));
        files.iter().for_each(|file| inspect_log_file(&RealDisk, file, &mut *show).expect("it can be read"));
    };
    let mut mended = BTreeMap::new();
    each(damaged, &mut |found| {
        if let Found::Mended { record, .. } = found {
            mended.insert(record.position, (record.stream, record.kind, record.payload.to_vec()));
        }
    });
    each(base, &mut |found| {
        if let Found::Record(record) = found
            && mended.get(&record.position) == Some(&(record.stream, record.kind, record.payload.to_vec()))
        {
            mended.remove(&record.position);
        }
    });
    !mended.is_empty()
}

/// Salvages; gives the report and what the queues that it names hold in the new folder, each as much as it says.
pub(super) fn salvaged(folder: &Path) -> (Survey, Held) {
    let new = tempfile::tempdir().expect("a folder");
    let to = new.path().join("new");
    let salvaged = Offline::open(folder).expect("nobody has it").salvage(&to).expect("it can be read");
    let clean = Offline::open(&to).expect("nobody has it").survey(Depth::Blocks).expect("it can be read");
    assert_eq!(clean.problems.texts, [""; 0]);
    let held = drain(&to, salvaged.survey.queues.iter().map(|queue| queue.name.clone()));
    for queue in &salvaged.survey.queues {
        assert_eq!(queue.messages, held[&queue.name].len() as u64, "{queue:?}");
    }
    (salvaged.survey, held)
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Harm {
    Flip,
    Wreck(usize),
    Zeros(usize),
    Cut,
    Gone,
}

pub(super) fn harm(file: &Path, harm: Harm, random: &SeededRandom) -> String {
    let mut bytes = std::fs::read(file).expect("it is there");
    // The end of the newest file is filling.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let at = random.below(used.max(1) as u64) as usize;
    let span = |length: usize| at..(at + length).min(bytes.len());
    match harm {
        Harm::Flip => bytes[at] ^= 1 << random.below(8),
        Harm::Wreck(length) => {
            let span = span(length);
            bytes[span].iter_mut().for_each(|byte| *byte ^= 1 + random.below(255) as u8);
        }
        Harm::Zeros(length) => {
            let span = span(length);
            bytes[span].fill(0);
        }
        Harm::Cut => bytes.truncate(at),
        Harm::Gone => {}
    }
    match harm {
        Harm::Gone => std::fs::remove_file(file).expect("it is there"),
        _ => std::fs::write(file, bytes).expect("it can be written"),
    }
    format!("{harm:?} at byte {at} of {}", file.display())
}

pub(super) fn one_of<'a, T>(all: &'a [T], random: &SeededRandom) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

#[test]
fn whatever_one_wrong_byte_of_the_log_was_nothing_is_lost() {
    let (folder, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let live = fill(folder.path(), killed.path());
    let random = SeededRandom::new(4);
    for _ in 0..4 {
        for base in [folder.path(), killed.path()] {
            let damaged = tempfile::tempdir().unwrap();
            copy(base, damaged.path());
            let file = one_of(&files(damaged.path(), "log"), &random).clone();
            let what = harm(&file, Harm::Flip, &random);
            let (survey, held) = salvaged(damaged.path());
            assert!(held == live, "{what}: {:?}", survey.problems);
        }
    }
}

#[test]
fn no_message_is_lost_whose_bytes_are_whole_in_a_segment() {
    let (folder, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let live = fill(folder.path(), killed.path());
    let in_folder = in_segments(folder.path(), &live).len();
    // How many depends on how many the log got at once: those that lie together there stay in it.
    assert!(in_folder > MESSAGES / 10, "segments hold {in_folder} messages only");
    for seed in SEEDS {
        let random = SeededRandom::new(seed);
        let base = if seed % 2 == 0 { folder.path() } else { killed.path() };
        let damaged = tempfile::tempdir().unwrap();
        copy(base, damaged.path());
        let mut done = vec![format!("seed {seed}")];
        for _ in 0..=random.below(3) {
            let part = one_of(&["log", "log", "segments"], &random);
            let harms = [
                Harm::Flip,
                Harm::Wreck(2),
                Harm::Wreck(60),
                Harm::Zeros(512),
                Harm::Zeros(4096),
                Harm::Cut,
                Harm::Gone,
            ];
            let found = files(damaged.path(), part);
            if !found.is_empty() {
                done.push(harm(one_of::<PathBuf>(&found, &random), *one_of(&harms, &random), &random));
            }
        }
        let whole = in_segments(damaged.path(), &live);
        let (survey, held) = salvaged(damaged.path());
        if is_mistaken(base, damaged.path()) {
            continue;
        }
        let all: HashSet<&String> = held.values().flatten().collect();
        let lost: Vec<&String> = whole.iter().filter(|body| !all.contains(body)).collect();
        assert!(lost.is_empty(), "{done:?}: {} lost, {:?}\n{survey:?}", lost.len(), lost[0]);
        for (name, bodies) in &held {
            let own = if name.starts_with("fan") { "fan" } else { name };
            let is_known = |held: &String| (0..MESSAGES).any(|nth| *held == body(own, nth));
            assert!(bodies.iter().all(is_known), "{done:?}: {name} holds what nobody sent");
            let different: HashSet<&String> = bodies.iter().collect();
            assert!(different.len() == bodies.len(), "{done:?}: {name} holds messages twice");
        }
    }
}

#[test]
fn without_the_log_all_whole_blocks_come_back_in_the_order_of_their_levels() {
    let (folder, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let live = fill(folder.path(), killed.path());
    for base in [folder.path(), killed.path()] {
        std::fs::remove_dir_all(base.join("log")).unwrap();
        let whole = in_segments(base, &live);
        let (survey, held) = salvaged(base);
        let all: HashSet<&String> = held.values().flatten().collect();
        assert!(whole.iter().all(|body| all.contains(body)), "{survey:?}");
        let nth = |body: &String| body.split(':').nth(1).unwrap().parse::<usize>().unwrap();
        let priorities: Vec<usize> = held["prio"].iter().map(|body| (nth(body) % 5).min(3)).collect();
        assert!(priorities.is_sorted_by(|one, next| one >= next), "{priorities:?}");
    }
}
