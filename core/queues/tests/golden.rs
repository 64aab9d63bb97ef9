//! Queue records against bytes that never change: `tests/golden`, a line for each field as `docs/formats/queue-records.md` has them. The
//! records there are read as they were meant, and written again as they were; records of older versions are read.
//!
//! Knows nothing of where records lie.

#![expect(
    clippy::unwrap_used,
    reason = "tests; clippy exempts only functions marked #[test], not their helpers"
)]

use std::sync::Arc;

use message::MessageView;
use queues::{
    BlockPlace, Classic, HeldBody, IncomingMessage, LogRange, LoggedBlock, Machine, MessageSeq, Place,
    PlacedBlock, QueueConfig, RecordKind, Recovering, SettledRun, SharedBody, SharedRef, record,
};

macro_rules! golden {
    ($name:literal) => {
        bytes_of(include_str!(concat!("golden/", $name)))
    };
}

/// The bytes before each `#`.
fn bytes_of(text: &str) -> Vec<u8> {
    let hex: String = text.lines().flat_map(|line| line.split('#').next().unwrap().trim().chars()).collect();
    let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

const EXPIRY_MS: u64 = 1_800_000_000_000;
const PROPERTIES: &[u8] = b"\x90\x00\x0atext/plain\x02";
const REROUTED: &[u8] = b"\x08reroutedt\x01";

/// A message, and when it expires.
type Sample = (IncomingMessage<'static>, Option<u64>);

fn plain() -> Sample {
    let message = MessageView { exchange: b"", routing_key: b"q", properties: b"\0\0", body: b"hello" };
    let incoming = IncomingMessage {
        message,
        persistent: true,
        priority: 0,
        ttl_ms: None,
        annotations: b"",
        shared: None,
        is_alike: false,
    };
    (incoming, None)
}

fn full() -> Sample {
    let message =
        MessageView { exchange: b"x", routing_key: b"key", properties: PROPERTIES, body: b"dead once" };
    (IncomingMessage { message, annotations: REROUTED, ..plain().0 }, Some(EXPIRY_MS))
}

fn empty() -> Sample {
    let message = MessageView { body: b"", ..plain().0.message };
    (IncomingMessage { message, ..plain().0 }, None)
}

fn transient() -> Sample {
    let message = MessageView {
        exchange: b"amq.fanout",
        routing_key: b"",
        body: b"gone with the node",
        ..plain().0.message
    };
    (IncomingMessage { message, persistent: false, ..plain().0 }, None)
}

fn held(id: u64, bytes: usize) -> HeldBody {
    HeldBody { body: SharedBody::named(id, bytes as u32), bytes: Arc::new(vec![0; bytes].into()) }
}

/// With body 77, 60 bytes.
fn shared(body: &HeldBody) -> (IncomingMessage<'_>, Option<u64>) {
    let message =
        MessageView { exchange: b"amq.fanout", routing_key: b"", properties: PROPERTIES, body: &body.bytes };
    (IncomingMessage { message, shared: Some(body), ..plain().0 }, None)
}

/// With body 258, 16 MiB.
fn shared_and_full(body: &HeldBody) -> (IncomingMessage<'_>, Option<u64>) {
    let message = MessageView { routing_key: b"k", ..shared(body).0.message };
    (IncomingMessage { message, annotations: REROUTED, ..shared(body).0 }, Some(EXPIRY_MS + 1))
}

fn stored(sample: (IncomingMessage<'_>, Option<u64>)) -> Vec<u8> {
    let mut out = Vec::new();
    record::store(&mut out, &sample.0, sample.1);
    out
}

/// Checks that the first stored message is the message that was stored; returns the rest.
fn check<'a>(bytes: &'a [u8], (incoming, expiry_ms): (IncomingMessage<'_>, Option<u64>)) -> &'a [u8] {
    let (found, taken) = record::parse(bytes).unwrap();
    let reference = incoming.shared.map(|held| SharedRef { id: held.body.id(), bytes: held.body.bytes() });
    let body = if reference.is_some() { b"" } else { incoming.message.body };
    assert_eq!(found.message, MessageView { body, ..incoming.message });
    assert_eq!((found.annotations, found.persistent), (incoming.annotations, incoming.persistent));
    assert_eq!((found.expiry_ms, found.shared), (expiry_ms, reference));
    assert_eq!(found.body_bytes(), incoming.message.body.len());
    &bytes[taken..]
}

fn check_enqueued(golden: &[u8], entries: &[(MessageSeq, (IncomingMessage<'_>, Option<u64>))]) {
    let found: Vec<_> = record::enqueued(golden).map(Option::unwrap).collect();
    let mut written = Vec::new();
    for ((seq, bytes), (expected_seq, sample)) in found.iter().zip(entries) {
        assert_eq!(seq, expected_seq);
        assert!(check(bytes, *sample).is_empty());
        record::write_enqueued(&mut written, *expected_seq, &stored(*sample));
    }
    assert_eq!((found.len(), &written[..]), (entries.len(), golden));
}

#[test]
fn messages_that_enter_a_queue_are_written_and_read_as_ever() {
    let entries = [
        (MessageSeq::new(0, 5), plain()),
        (MessageSeq::new(0, 6), full()),
        (MessageSeq::new(0, 9), empty()),
        (MessageSeq::new(1, 3), plain()),
    ];
    check_enqueued(&golden!("enqueue.hex"), &entries);
    assert_eq!(RecordKind::from_code(1), Some(RecordKind::Enqueue));
    let (small, large) = (held(77, 60), held(258, 1 << 24));
    let entries = [
        (MessageSeq::new(0, 5), plain()),
        (MessageSeq::new(0, 6), shared(&small)),
        (MessageSeq::new(1, 4), shared_and_full(&large)),
    ];
    check_enqueued(&golden!("enqueue-shared.hex"), &entries);
    assert_eq!(RecordKind::from_code(5), Some(RecordKind::EnqueueShared));
}

#[test]
fn messages_that_are_alike_are_read_as_ever() {
    let bodies: [&[u8]; 3] = [b"hello", b"", b"hello again"];
    let with_body = |(incoming, expiry_ms): Sample, body| {
        stored((IncomingMessage { message: MessageView { body, ..incoming.message }, ..incoming }, expiry_ms))
    };
    let run = bodies.map(|body| with_body(full(), body));
    let numbers = [5, 6, 7].map(|number| MessageSeq::new(0, number));
    let mut expected: Vec<(MessageSeq, Vec<u8>)> = numbers.into_iter().zip(run).collect();
    expected.push((MessageSeq::new(1, 3), stored(plain())));
    let golden = golden!("enqueue-alike.hex");
    let mut found = Vec::new();
    let show = |seq, stored: &[u8]| found.push((seq, stored.to_vec()));
    assert!(record::each_enqueued(RecordKind::EnqueueAlike, &golden, show));
    assert_eq!(found, expected);
    assert_eq!(RecordKind::from_code(8), Some(RecordKind::EnqueueAlike));
    let range = LogRange { position: 0, bytes: golden.len() as u32 };
    let block = LoggedBlock { first: numbers[1], count: 2, range, own_bytes: 0 };
    let payload = (RecordKind::EnqueueAlike, 0..golden.len());
    let whole = expected[1..3].iter().flat_map(|(_, stored)| stored.clone()).collect();
    assert_eq!(block.assemble(golden, [payload]), Some(whole));
}

#[test]
fn settlements_are_written_and_read_as_ever() {
    let golden = golden!("settle.hex");
    let runs = [
        SettledRun { first: MessageSeq::new(0, 5), count: 2, body_bytes: 14 },
        SettledRun { first: MessageSeq::new(2, 0x01_02_03), count: 1, body_bytes: 0 },
    ];
    assert_eq!(record::settled(&golden).collect::<Vec<_>>(), runs.map(Some));
    let mut written = Vec::new();
    runs.iter().for_each(|run| record::write_settled(&mut written, run));
    assert_eq!(written, golden);
    assert_eq!(RecordKind::from_code(4), Some(RecordKind::Settle));
}

#[test]
fn a_block_of_a_segment_is_written_and_read_as_ever() {
    let golden = golden!("block.hex");
    let body = held(77, 60);
    let rest = [plain(), full(), transient()].into_iter().fold(&golden[..], |rest, one| check(rest, one));
    let (hole, taken) = record::parse(rest).unwrap();
    let nothing = MessageView { exchange: b"", routing_key: b"", properties: b"", body: b"" };
    assert_eq!((hole.message, hole.persistent, hole.expiry_ms, hole.shared), (nothing, false, None, None));
    assert!(check(&rest[taken..], shared(&body)).is_empty());
    let mut written = [plain(), full(), transient()].map(stored).concat();
    record::store_hole(&mut written);
    written.extend(stored(shared(&body)));
    assert_eq!(written, golden);
}

#[test]
fn a_block_that_was_written_anew_is_written_and_read_as_ever() {
    let golden = golden!("block-holes.hex");
    let (body, mut rest, mut found) = (held(77, 60), &golden[..], Vec::new());
    while !rest.is_empty() {
        let (what, taken) = record::parse_in_block(rest).unwrap();
        found.push(match what {
            record::InBlock::Holes(count) => count,
            record::InBlock::Message(_) => 0,
            record::InBlock::Run(_) => unreachable!("an older version wrote it"),
        });
        rest = &rest[taken..];
    }
    assert_eq!(found, [3, 0, 0, 1, 0, 0, 2]);
    let mut written = Vec::new();
    record::store_holes(&mut written, 3);
    written.extend([plain(), full()].map(stored).concat());
    record::store_holes(&mut written, 1);
    written.extend([stored(transient()), stored(shared(&body))].concat());
    record::store_holes(&mut written, 2);
    assert_eq!(written, golden);
}

#[test]
fn a_packed_block_of_a_segment_is_written_and_read_as_ever() {
    let golden = golden!("block-packed.hex");
    let with_body = |body| {
        let (incoming, expiry_ms) = full();
        stored((IncomingMessage { message: MessageView { body, ..incoming.message }, ..incoming }, expiry_ms))
    };
    let mut whole = [stored(plain()), with_body(b"hello")].concat();
    record::store_holes(&mut whole, 2);
    whole.extend([&b""[..], b"hello again", b"dead once"].map(with_body).concat());
    assert_eq!(record::unpack_block(&golden).as_deref(), Some(&whole[..]));
    assert_eq!(record::pack_block(&whole), golden);
}

#[test]
fn a_block_of_the_log_is_put_together_from_its_records_as_ever() {
    let records = [golden!("enqueue.hex"), golden!("enqueue-shared.hex")];
    let bytes = records.concat();
    let first_bytes = records[0].len();
    let payloads =
        [(RecordKind::Enqueue, 0..first_bytes), (RecordKind::EnqueueShared, first_bytes..bytes.len())];
    let range = LogRange { position: 0, bytes: bytes.len() as u32 };
    let block = LoggedBlock { first: MessageSeq::new(1, 3), count: 2, range, own_bytes: 0 };
    let large = held(258, 1 << 24);
    let expected = [stored(plain()), stored(shared_and_full(&large))].concat();
    assert_eq!(block.assemble(bytes, payloads), Some(expected));
}

/// The content of a state record, of whichever version.
fn read_state(bytes: &[u8]) -> Recovering {
    let mut recovering = Recovering::default();
    recovering.apply(RecordKind::State, bytes, &(0x3456000..0x3456789)).unwrap();
    recovering
}

fn written(recovering: &Recovering) -> Vec<u8> {
    let mut out = Vec::new();
    recovering.write_state(&mut out);
    out
}

/// As it is written today: small blocks, which begin with these messages, are packed.
fn of_version_7(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] = 7;
    for first in [200u64, 11] {
        let is_small_block = |bytes: &[u8]| bytes[0] == 2 && bytes[5..] == first.to_be_bytes();
        let at = bytes.windows(13).position(is_small_block).expect("it is there");
        let count = u32::from_be_bytes(bytes[at + 1..at + 5].try_into().unwrap());
        let (mut block, mut next, mut end) = (Vec::new(), first, at + 5);
        for _ in 0..count {
            let number = u64::from_be_bytes(bytes[end..end + 8].try_into().unwrap());
            if number > next {
                record::store_holes(&mut block, (number - next) as u32);
            }
            let (_, taken) = record::parse(&bytes[end + 8..]).unwrap();
            block.extend_from_slice(&bytes[end + 8..end + 8 + taken]);
            (next, end) = (number + 1, end + 8 + taken);
        }
        let length = (block.len() as u32).to_be_bytes();
        bytes.splice(at..end, [&[6], &first.to_be_bytes()[..], &length, &block].concat());
    }
    bytes
}

/// As versions from 6 on have it: what lives of the copy of each block on disk follows its bytes of live bodies, which end here; it is not
/// known what messages have in common.
fn of_version_6(mut bytes: Vec<u8>, live_bytes: &[(usize, u32)]) -> Vec<u8> {
    bytes[0] = 6;
    for (at, live_bytes) in live_bytes.iter().rev() {
        bytes.splice(*at..*at, [live_bytes.to_be_bytes(), [0; 4]].concat());
    }
    bytes
}

/// The same of version 5, which has it but for what messages have in common.
fn of_version_5(mut bytes: Vec<u8>, live_bytes: &[(usize, u32)]) -> Vec<u8> {
    bytes[0] = 6;
    for (nth, (at, _)) in live_bytes.iter().enumerate().rev() {
        let at = at + 4 * (nth + 1);
        bytes.splice(at..at, [0; 4]);
    }
    bytes
}

/// Where bytes of live bodies end in state records of older versions, and what is supposed of the live bytes of these blocks: as many for each
/// message as the block has.
const OLD_BLOCK: (usize, u32) = (56, 4000 * 64 / 70);
const LOGGED_BLOCK: (usize, u32) = (110, 900);
const SHARED_BLOCK: (usize, u32) = (156, 220 * 3 / 4);
const LOGGED_SHARED_BLOCK: (usize, u32) = (222, 333);

const ALL_BLOCKS: [(usize, u32); 4] = [OLD_BLOCK, LOGGED_BLOCK, SHARED_BLOCK, LOGGED_SHARED_BLOCK];

fn in_segment(first: u64, count: u32, (offset, bytes): (u64, u32)) -> PlacedBlock {
    let place = Place::Segment(BlockPlace { segment: (1 << 32) + 5, offset, bytes });
    PlacedBlock { place, first: MessageSeq(first), count, messages: count.into(), body_bytes: 70 }
}

fn in_log(first: u64, count: u32, position: u64, bytes: u32, body_bytes: u64) -> PlacedBlock {
    let place = Place::Log(LogRange { position, bytes });
    PlacedBlock { place, first: MessageSeq(first), count, messages: count.into(), body_bytes }
}

/// The block of kind 1 that all versions have: six of its messages are settled.
fn old_block() -> PlacedBlock {
    PlacedBlock { messages: 64, ..in_segment(2, 70, (32, 4000)) }
}

fn logged_block() -> PlacedBlock {
    in_log(72, 8, 0x0123_4567, 900, 800)
}

/// The settled messages of the old block are not there, the messages of the record itself are, and the next ones get the next numbers.
fn check_queue(recovering: Recovering, messages: u64, body_bytes: u64) {
    assert_eq!(recovering.contents(), (messages, body_bytes));
    let config = QueueConfig { durable: true, max_priority: 1, ..QueueConfig::default() };
    let queue = Classic::recovered(recovering, config, 0, &mut SharedBody::clone);
    assert_eq!(queue.counts().ready, messages);
    assert_eq!(queue.oldest_log_position(), 0x0345_6789);
}

#[test]
fn a_state_record_of_version_2_is_read() {
    let golden = golden!("state-v2.hex");
    let recovering = read_state(&golden);
    assert_eq!(recovering.placed_blocks().collect::<Vec<_>>(), [old_block()]);
    assert_eq!(recovering.segments().collect::<Vec<_>>(), [(1 << 32) + 5]);
    assert_eq!((recovering.log_ranges().count(), recovering.bodies().count()), (0, 0));
    assert_eq!(written(&recovering), of_version_7(of_version_6(golden, &[OLD_BLOCK])));
    check_queue(recovering, 64 + 3, 70 + 5 + 9);
}

#[test]
fn a_state_record_of_version_3_is_read() {
    let golden = golden!("state-v3.hex");
    let recovering = read_state(&golden);
    assert_eq!(recovering.placed_blocks().collect::<Vec<_>>(), [old_block(), logged_block()]);
    assert_eq!(recovering.log_ranges().collect::<Vec<_>>(), [LogRange { position: 0x0123_4567, bytes: 900 }]);
    assert_eq!(recovering.bodies().count(), 0);
    assert_eq!(written(&recovering), of_version_7(of_version_6(golden, &[OLD_BLOCK, LOGGED_BLOCK])));
    check_queue(recovering, 64 + 8 + 3, 70 + 800 + 5 + 9);
}

/// Checks the part that versions 4 to 7 share.
fn check_shared(recovering: &Recovering) {
    let blocks = [
        old_block(),
        logged_block(),
        PlacedBlock { messages: 3, ..in_segment(80, 4, (4044, 220)) },
        in_log(90, 3, 0x0234_5678, 333, (1 << 24) + 65),
    ];
    assert_eq!(recovering.placed_blocks().collect::<Vec<_>>(), blocks);
    let (small, large_body) = (SharedRef { id: 77, bytes: 60 }, SharedRef { id: 258, bytes: 1 << 24 });
    assert_eq!(recovering.bodies().collect::<Vec<_>>(), [small, small, large_body, small]);
    assert_eq!(recovering.body_id_max(), 258);
}

#[test]
fn a_state_record_of_version_4_is_read() {
    let golden = golden!("state-v4.hex");
    let recovering = read_state(&golden);
    check_shared(&recovering);
    assert_eq!(written(&recovering), of_version_7(of_version_6(golden, &ALL_BLOCKS)));
    check_queue(recovering, 64 + 8 + 3 + 3 + 4, 70 + 800 + 70 + (1 << 24) + 65 + 5 + 9 + 60);
}

#[test]
fn a_state_record_of_version_5_is_read() {
    let golden = golden!("state-v5.hex");
    let recovering = read_state(&golden);
    check_shared(&recovering);
    assert_eq!(written(&recovering), of_version_7(of_version_5(golden, &ALL_BLOCKS)));
    check_queue(recovering, 64 + 8 + 3 + 3 + 4, 70 + 800 + 70 + (1 << 24) + 65 + 5 + 9 + 60);
}

#[test]
fn a_state_record_of_version_6_is_read() {
    let golden = golden!("state-v6.hex");
    let recovering = read_state(&golden);
    check_shared(&recovering);
    assert_eq!(written(&recovering), of_version_7(golden));
    check_queue(recovering, 64 + 8 + 3 + 3 + 4, 70 + 800 + 70 + (1 << 24) + 65 + 5 + 9 + 60);
}

#[test]
fn a_state_record_of_version_7_is_written_and_read_as_ever() {
    let golden = golden!("state-v7.hex");
    let recovering = read_state(&golden);
    check_shared(&recovering);
    assert_eq!(written(&recovering), golden);
    check_queue(recovering, 64 + 8 + 3 + 3 + 3 + 3, 70 + 800 + 70 + (1 << 24) + 65 + 5 + 9 + 60 + 10);
}

#[test]
fn enqueued_and_settled_messages_become_the_state_they_are() {
    let mut recovering = read_state(&golden!("state-v3.hex"));
    let first = MessageSeq::new(0, 300);
    let mut enqueue = Vec::new();
    record::write_enqueued(&mut enqueue, first, &stored(plain()));
    record::write_enqueued(&mut enqueue, first.next(), &stored(full()));
    recovering.apply(RecordKind::Enqueue, &enqueue, &(0x3456789..0x3456900)).unwrap();
    let mut settle = Vec::new();
    for (first, count, body_bytes) in [(first, 1, 5), (MessageSeq::new(1, 11), 1, 0)] {
        record::write_settled(&mut settle, &SettledRun { first, count, body_bytes });
    }
    recovering.apply(RecordKind::Settle, &settle, &(0x3456900..0x3456980)).unwrap();
    let state = written(&recovering);
    assert_eq!(read_state(&state).contents(), (64 + 8 + 2 + 1, 70 + 800 + 5 + 9 + 9));
}
