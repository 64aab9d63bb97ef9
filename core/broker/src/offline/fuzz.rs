//! Folders that a broker left, damaged at random places with fixed seeds: whatever the damage, a salvage ends, the server opens what comes
//! out, and every message is in it whose bytes are whole in a segment. Damage of one byte in a record costs nothing at all.
//!
//! The broker has no threads: the seed decides the places in its folder, too, and a seed that fails replays exactly.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use commitlog::{Found, SegmentFile, inspect_log_file, list_kept_files, list_log_files, list_segments};
use message::TableBuf;
use platform::{RealDisk, SeededRandom, SimClock, SimMemory};
use queues::may_be_block;

use super::report_fuzz::is_shorter_unseen;
use super::{Depth, Offline, Survey};
use crate::data::publish::{Incoming, PublishChannel, Publisher};
use crate::driven::{Driven, Driver, Engine};
use crate::test_broker::connect;
use crate::{
    BindRequest, Broker, BrokerOptions, Commits, DestinationName, FileSizes, Foundation, Principal,
    QueueDeclare, SharedBodySizes,
};

const MIXED: [&str; 3] = ["plain", "prio", "ttl"];
const ALONE: &str = "alone";
const FANS: [&str; 2] = ["fan0", "fan1"];
const MESSAGES: usize = 400;
const SEEDS: [u64; 6] = [1, 2, 5, 6, 9, 27];
const FLIP_SEEDS: [u64; 2] = [3, 4];
const LOGLESS_SEEDS: [u64; 1] = [1];
const SETTLED: usize = 60;
const BODY_BYTES: usize = 400;

/// Bodies in the order of delivery, by queue.
pub(super) type Held = BTreeMap<String, Vec<String>>;

/// A broker in a real folder whose engines move when they are told to, and a connection to it.
pub(super) struct Node {
    broker: Broker,
    driver: Driver,
    principal: Principal,
    clock: Arc<SimClock>,
}

impl Node {
    pub(super) fn open(folder: &Path) -> Node {
        let sizes = FileSizes {
            log_file_bytes_max: 64 << 10,
            segment_bytes_max: 64 << 10,
            bodies: SharedBodySizes {
                bytes_min: 300,
                recent_bytes_max: 4 << 10,
                unwritten_bytes_max: 64 << 10,
            },
            ..FileSizes::default()
        };
        let clock = Arc::new(SimClock::new(1_700_000_000_000));
        let foundation = Foundation {
            disk: Arc::new(RealDisk),
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(1)),
            memory: Arc::new(SimMemory::new(1 << 30)),
            sizes,
            commits: Commits::AtOnce,
        };
        let options =
            BrokerOptions { fsync: false, queue_memory_bytes_max: 16 << 10, ..BrokerOptions::default() };
        let (broker, mut driver) = Broker::open_driven(&foundation, folder, options).expect("it opens");
        driver.run_until_idle();
        // Metadata may be what was damaged.
        let _may_be_there = (broker.add_vhost("/"), broker.add_user("guest", "guest", &[]));
        let all = [".*"; 3].map(str::to_owned);
        let _commit = broker.set_permissions("guest", "/", &all).expect("both are there");
        driver.run_until_idle();
        let principal = connect(&broker).expect("the default vhost");
        Node { broker, driver, principal, clock }
    }

    pub(super) fn declare(&mut self, name: &str) {
        let mut arguments = TableBuf::new();
        match name {
            "prio" => drop(arguments.push_i64("x-max-priority", 3)),
            "ttl" => drop(arguments.push_i64("x-message-ttl", 86_400_000)),
            _ => {}
        }
        let (name, arguments) = (name.as_bytes(), arguments.as_table());
        let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
        let _counts = self.broker.declare_queue(&self.principal, declare).expect("it can be declared");
        if name.starts_with(b"fan") {
            let destination = DestinationName::Queue(name);
            let arguments = TableBuf::new();
            let arguments = arguments.as_table();
            let bind = BindRequest { source: b"amq.fanout", destination, routing_key: b"", arguments };
            self.driver.run_until_idle();
            self.broker.bind(&self.principal, bind).expect("both are there");
        }
        self.driver.run_until_idle();
    }

    pub(super) fn publish(&self, nth: usize, queues: &[&str]) {
        let mut publisher = Publisher::new(&self.broker, &self.principal);
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

    /// Takes up to so many messages, and settles them.
    pub(super) fn take(&mut self, queue: &str, count: usize) -> Vec<String> {
        let get = || {
            let asked = self.broker.get(&self.principal, queue.as_bytes(), false);
            let (_, mut call) = asked.expect("the queue is there");
            let got = call.try_take().unwrap_or_else(|| {
                self.driver.run_until_idle();
                call.try_take().expect("it is answered when all is done")
            });
            let got = got.expect("it is in service");
            got.map(|got| String::from_utf8_lossy(&got.body).into_owned())
        };
        std::iter::from_fn(get).take(count).collect()
    }

    /// Some of what waits gets done, as the threads of a broker on a busy machine do it: any of them may come late.
    pub(super) fn work(&mut self, random: &SeededRandom) {
        for _ in 0..random.below(6) {
            let engine = *one_of(&Engine::ALL, random);
            for _ in 0..=random.below(8) {
                if self.driver.step(engine) != Driven::Worked {
                    break;
                }
            }
        }
        if random.chance(1, 20) {
            self.clock.advance(Duration::from_millis(random.below(8_000)));
        }
    }

    /// All that waits gets done.
    pub(super) fn rest(&mut self) {
        self.driver.run_until_idle();
    }

    pub(super) fn stop(self) {
        self.driver.shutdown();
    }
}

pub(super) fn body(queue: &str, nth: usize) -> String {
    format!("{:.<BODY_BYTES$}", format!("{queue}:{nth:04}:"))
}

/// A folder, the same as a killed server would have left it, and what each queue holds in the first.
struct Base {
    stopped: tempfile::TempDir,
    killed: tempfile::TempDir,
    live: Held,
}

impl Base {
    fn fill(seed: u64) -> Base {
        let random = SeededRandom::new(seed);
        let (stopped, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut node = Node::open(stopped.path());
        let all = [&MIXED[..], &FANS, &[ALONE]].concat();
        all.iter().for_each(|name| node.declare(name));
        for nth in 0..MESSAGES {
            node.publish(nth, &[&MIXED[..], &["fan"]].concat());
            node.work(&random);
        }
        for nth in 0..MESSAGES {
            node.publish(nth, &[ALONE]);
            node.work(&random);
        }
        node.rest();
        all.iter().for_each(|name| assert_eq!(node.take(name, SETTLED).len(), SETTLED));
        node.rest();
        copy(stopped.path(), killed.path());
        node.stop();
        let reading = tempfile::tempdir().expect("a folder");
        copy(stopped.path(), reading.path());
        let live = drain(reading.path(), all.iter().map(|name| (*name).to_owned()));
        Base { stopped, killed, live }
    }
}

/// All that these queues of a folder hold; they are empty afterwards.
pub(super) fn drain(folder: &Path, names: impl Iterator<Item = String>) -> Held {
    let mut node = Node::open(folder);
    let held = names.map(|name| (name.clone(), node.take(&name, usize::MAX))).collect::<Held>();
    node.stop();
    held
}

/// Copies a folder in which nothing moves meanwhile.
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

/// The seeds that every run tries; others are asked for with `TEST_SEED=FROM-TO`.
pub(super) fn seeds(usual: &[u64]) -> Vec<u64> {
    let asked = std::env::var("TEST_SEED").unwrap_or_default();
    let range = asked.split_once('-').and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?));
    range.map_or_else(|| usual.to_vec(), Iterator::collect)
}

/// Bodies of `live` messages in whole blocks of segments.
fn in_segments(folder: &Path, live: &Held) -> HashSet<String> {
    let dir = folder.join("segments");
    let mut text = Vec::new();
    for (stream, segment) in list_segments(&RealDisk, &dir).expect("it is there") {
        let file = SegmentFile::open(&RealDisk, &dir, stream, segment).expect("it is there");
        file.whole_blocks(may_be_block, |_, block| text.extend_from_slice(block));
    }
    // Bodies have letters, digits, colons and dots only.
    let text: String =
        text.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect();
    let bodies_of = |name: &'static str| {
        let begins = text.match_indices(name).map(|(at, _)| at);
        begins.filter_map(|at| text.get(at..at + BODY_BYTES)).collect::<HashSet<&str>>()
    };
    let there: HashSet<&str> = MIXED.into_iter().chain([ALONE]).flat_map(bodies_of).collect();
    live.values().flatten().filter(|body| there.contains(body.as_str())).cloned().collect()
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

/// The damage that is done to a file.
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
    for seed in seeds(&FLIP_SEEDS) {
        let base = Base::fill(seed);
        let random = SeededRandom::new(seed);
        for nth in 0..4 {
            let from = if nth % 2 == 0 { &base.stopped } else { &base.killed };
            let damaged = tempfile::tempdir().unwrap();
            copy(from.path(), damaged.path());
            let file = one_of(&files(damaged.path(), "log"), &random).clone();
            let what = harm(&file, Harm::Flip, &random);
            let (survey, held) = salvaged(damaged.path());
            assert!(held == base.live, "seed {seed}, {what}: {:?}", survey.problems);
        }
    }
}

/// Damages a copy of the folder in one to three places; says where.
fn harm_some(folder: &Path, random: &SeededRandom) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..=random.below(3) {
        let part = one_of(&["log", "log", "segments"], random);
        let harms = [
            Harm::Flip,
            Harm::Wreck(2),
            Harm::Wreck(60),
            Harm::Zeros(512),
            Harm::Zeros(4096),
            Harm::Cut,
            Harm::Gone,
        ];
        let found = files(folder, part);
        if !found.is_empty() {
            done.push(harm(one_of::<PathBuf>(&found, random), *one_of(&harms, random), random));
        }
    }
    done
}

#[test]
fn no_message_is_lost_whose_bytes_are_whole_in_a_segment() {
    let seeds = seeds(&SEEDS);
    let mut in_segments_before = 0;
    for seed in &seeds {
        let base = Base::fill(*seed);
        in_segments_before += in_segments(base.stopped.path(), &base.live).len();
        let random = SeededRandom::new(*seed);
        let from = if seed % 2 == 0 { &base.stopped } else { &base.killed };
        let damaged = tempfile::tempdir().unwrap();
        copy(from.path(), damaged.path());
        let done = (seed, harm_some(damaged.path(), &random));
        let whole = in_segments(damaged.path(), &base.live);
        let (survey, held) = salvaged(damaged.path());
        if is_mistaken(from.path(), damaged.path()) || is_shorter_unseen(from.path(), damaged.path()) {
            continue;
        }
        let all: HashSet<&String> = held.values().flatten().collect();
        let lost: Vec<&String> = whole.iter().filter(|body| !all.contains(body)).collect();
        assert!(lost.is_empty(), "{done:?}: {} lost, {:?}\n{survey:?}", lost.len(), lost[0]);
        for (name, bodies) in &held {
            let own = if name.starts_with("fan") { "fan" } else { name };
            let sent: HashSet<String> = (0..MESSAGES).map(|nth| body(own, nth)).collect();
            assert!(bodies.iter().all(|held| sent.contains(held)), "{done:?}: {name} holds what nobody sent");
            let different: HashSet<&String> = bodies.iter().collect();
            assert!(different.len() == bodies.len(), "{done:?}: {name} holds messages twice");
        }
    }
    assert!(in_segments_before > seeds.len() * MESSAGES / 10, "{in_segments_before} in segments only");
}

#[test]
fn without_the_log_all_whole_blocks_come_back_in_the_order_of_their_levels() {
    for seed in seeds(&LOGLESS_SEEDS) {
        let base = Base::fill(seed);
        for folder in [base.stopped.path(), base.killed.path()] {
            std::fs::remove_dir_all(folder.join("log")).unwrap();
            let whole = in_segments(folder, &base.live);
            let (survey, held) = salvaged(folder);
            let all: HashSet<&String> = held.values().flatten().collect();
            assert!(whole.iter().all(|body| all.contains(body)), "seed {seed}: {survey:?}");
            let nth = |body: &String| body.split(':').nth(1).unwrap().parse::<usize>().unwrap();
            let priorities: Vec<usize> = held["prio"].iter().map(|body| (nth(body) % 5).min(3)).collect();
            assert!(priorities.is_sorted_by(|one, next| one >= next), "seed {seed}: {priorities:?}");
        }
    }
}
