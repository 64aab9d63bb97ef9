//! Behaviour of the classic queue machine: events in, effects out.

mod alike;
mod compact;
mod credit;
mod in_log;
mod letters;
mod listing;
mod memory;
mod portions;
mod reconfigure;
mod returns;
mod schedule;
mod shared;
mod unique;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use stdx::ConnectionId;

use super::Classic;
use crate::logged::{LogRange, LoggedBlock, OwnBytes};
use crate::record::{self, BlockPlace, RecordKind, SettledRun};
use crate::store::{Holes, Recovering};
use crate::{
    BlockBytes, BlockToken, BodyBuffer, BodyBytes, BodyKeeper, ConsumerId, ConsumerSpec, CreditNews,
    DeadReason, Delayed, Delivery, DiskAnswer, Effects, GetToken, Gone, HeldBody, IncomingMessage,
    LARGE_BODY_BYTES, LargeBody, Machine, MessageSeq, QueueConfig, SettleHow, SettleRun, SharedBody,
};
use message::MessageView;

/// Nobody.
#[derive(Debug)]
struct NoKeeper;

impl BodyKeeper for NoKeeper {
    fn released(&self, _: u64) {}
}

/// Everything the machine asked for, and a log to recover from.
#[derive(Default)]
struct World {
    delivered: Vec<(u32, MessageSeq, bool, Vec<u8>)>,
    /// Bodies that were lent.
    lent: Vec<LargeBody>,
    /// Deliveries a consumer takes before it is full; none is no limit.
    room: Option<usize>,
    dead: Vec<(DeadReason, Vec<u8>)>,
    /// Removals of dead messages that were not reported as logged.
    removals: Vec<SettledRun>,
    log: Vec<(RecordKind, Vec<u8>)>,
    /// Where what was lent to the log ends.
    log_lent: Vec<usize>,
    /// Ends of the records of the log, when blocks may stay in it; otherwise it is as if others took turns in it.
    log_end: u64,
    is_sparse: bool,
    /// So much of others lies between records of the queue.
    others_bytes: u64,
    ranges: Vec<Range<u64>>,
    kept: Vec<(BlockToken, LogRange)>,
    moves: Vec<(BlockToken, LoggedBlock, Holes)>,
    /// Blocks to be written anew, and segments given up.
    rewrites: Vec<(BlockToken, BlockPlace, Holes)>,
    deleted: Vec<u64>,
    writes: Vec<(BlockToken, BlockBytes)>,
    reads: Vec<(BlockToken, Option<OwnBytes>, Vec<SharedBody>)>,
    let_go: Vec<u64>,
    bodies_logged: Vec<u64>,
    got: Vec<Option<Vec<u8>>>,
    credit_news: Vec<(u32, CreditNews)>,
    wakes: Vec<u64>,
    gone: Vec<Gone>,
    syncs: usize,
    checkpoints: usize,
}

impl Effects for World {
    fn deliver(&mut self, consumer: ConsumerId, run: &[Delivery<'_>]) -> usize {
        let taken = self.room.unwrap_or(run.len()).min(run.len());
        if let Some(room) = &mut self.room {
            *room -= taken;
        }
        let log = |one: &Delivery<'_>| (consumer.token, one.seq, one.redelivered, one.message.body.to_vec());
        self.delivered.extend(run[..taken].iter().map(log));
        taken
    }
    fn deliver_large(&mut self, consumer: ConsumerId, delivery: &Delivery<'_>, body: LargeBody) -> usize {
        assert!(delivery.message.body == &body[..]);
        let taken = self.deliver(consumer, std::slice::from_ref(delivery));
        self.lent.extend((taken > 0).then_some(body));
        taken
    }
    fn credit_news(&mut self, consumer: ConsumerId, news: CreditNews) {
        self.credit_news.push((consumer.token, news));
    }

    fn got(&mut self, _: GetToken, message: Option<(Delivery<'_>, u64)>) {
        self.got.push(message.map(|(delivery, _)| delivery.message.body.to_vec()));
    }
    fn consumer_cancelled(&mut self, _: ConsumerId) {}
    fn append(&mut self, kind: RecordKind, write: &mut dyn FnMut(&mut Vec<u8>)) -> Range<u64> {
        let mut payload = Vec::new();
        write(&mut payload);
        let start = self.log_end + if self.is_sparse { 1 << 20 } else { self.others_bytes };
        self.log_end = start + payload.len() as u64 + 1;
        self.log.push((kind, payload));
        self.ranges.push(start..self.log_end);
        start..self.log_end
    }
    fn append_lent(&mut self, kind: RecordKind, head: &[u8], tail: BlockBytes) -> Range<u64> {
        self.log_lent.push(tail.as_ptr().addr() + tail.len());
        self.append(kind, &mut |out| out.extend([head, &tail].concat()))
    }
    fn dead_letter(
        &mut self,
        reason: DeadReason,
        removal: Option<SettledRun>,
        message: MessageView<'_>,
        _: &[u8],
        _: Option<HeldBody>,
    ) {
        self.removals.extend(removal);
        self.dead.push((reason, message.body.to_vec()));
    }
    fn write_block(&mut self, token: BlockToken, bytes: BlockBytes) {
        self.writes.push((token, bytes));
    }
    fn read_block(&mut self, token: BlockToken, own: Option<OwnBytes>, bodies: Vec<SharedBody>) {
        self.reads.push((token, own, bodies));
    }
    fn log_body(&mut self, held: &HeldBody) {
        self.bodies_logged.push(held.body.id());
    }
    fn let_body_go(&mut self, body: &SharedBody) {
        self.let_go.push(body.id());
    }
    fn keep_in_log(&mut self, token: BlockToken, range: LogRange) {
        self.kept.push((token, range));
    }
    fn move_logged(&mut self, token: BlockToken, block: LoggedBlock, holes: Holes) {
        self.moves.push((token, block, holes));
    }
    fn seal_segment(&mut self, _: u64) {}
    fn move_block(&mut self, token: BlockToken, place: BlockPlace, holes: Holes) {
        self.rewrites.push((token, place, holes));
    }
    fn sync_blocks(&mut self) {
        self.syncs += 1;
    }
    fn delete_segment(&mut self, segment: u64) {
        self.deleted.push(segment);
    }
    fn wake_at(&mut self, time_ms: u64) {
        self.wakes.push(time_ms);
    }
    fn gone(&mut self, why: Gone) {
        self.gone.push(why);
    }
    fn checkpointed(&mut self) {
        self.checkpoints += 1;
    }
}

impl World {
    fn is_disk_idle(&self) -> bool {
        self.writes.is_empty()
            && self.reads.is_empty()
            && self.kept.is_empty()
            && self.moves.is_empty()
            && self.rewrites.is_empty()
    }

    /// A block as the log has it.
    fn fetch(&self, block: &LoggedBlock) -> Vec<u8> {
        let (mut bytes, mut payloads) = (Vec::new(), Vec::new());
        for (record, (kind, payload)) in self.ranges.iter().zip(&self.log) {
            if kind.is_enqueue() && block.range.touches(std::slice::from_ref(record)) {
                payloads.push((*kind, bytes.len()..bytes.len() + payload.len()));
                bytes.extend_from_slice(payload);
            }
        }
        block.assemble(bytes, payloads).expect("what is read is there")
    }
}

fn message(body: &[u8]) -> IncomingMessage<'_> {
    let message = MessageView { exchange: b"", routing_key: b"q", properties: &[0, 0], body };
    IncomingMessage {
        message,
        persistent: true,
        priority: 0,
        ttl_ms: None,
        annotations: &[],
        shared: None,
        is_alike: false,
    }
}

fn consumer(token: u32, prefetch: u32) -> ConsumerSpec {
    ConsumerSpec {
        id: ConsumerId { connection: ConnectionId::alone(1), token },
        tag: b"tag"[..].into(),
        channel: 1,
        ack_required: true,
        prefetch,
        by_credit: false,
        delivered_before: 0,
        filter: None,
        priority: 0,
        exclusive: false,
        arguments: Box::default(),
    }
}

/// A queue of a type, as benches make it.
trait Opened: Machine {
    fn new(config: QueueConfig) -> Self;
    fn again(contents: Recovering, config: Arc<QueueConfig>, now_ms: u64) -> Self;
}

impl Opened for Classic {
    fn new(config: QueueConfig) -> Classic {
        Classic::new(config, 0)
    }

    fn again(contents: Recovering, config: Arc<QueueConfig>, now_ms: u64) -> Classic {
        Classic::recovered(contents, config, now_ms, &mut SharedBody::clone)
    }
}

impl Opened for Delayed {
    fn new(config: QueueConfig) -> Delayed {
        Delayed::new(config, 0)
    }

    fn again(contents: Recovering, config: Arc<QueueConfig>, now_ms: u64) -> Delayed {
        Delayed::recovered(contents, config, now_ms, &mut SharedBody::clone)
    }
}

type Bench = BenchOf<Classic>;

/// A queue, its world, and a clock that stands still unless moved.
struct BenchOf<Q> {
    queue: Q,
    world: World,
    now_ms: u64,
    /// Segment contents by offset.
    disk: BTreeMap<u64, BlockBytes>,
    /// Bodies by number.
    shared: BTreeMap<u64, BodyBytes>,
    /// Where blocks are written.
    segment: u64,
}

impl<Q: Opened> BenchOf<Q> {
    fn new(config: QueueConfig) -> BenchOf<Q> {
        let world = World { is_sparse: true, ..World::default() };
        BenchOf {
            queue: Q::new(config),
            world,
            now_ms: 0,
            disk: BTreeMap::new(),
            shared: BTreeMap::new(),
            segment: 1,
        }
    }

    fn publish_whole(&mut self, head: &IncomingMessage<'_>, body: BodyBuffer) {
        let outcome = self.queue.publish_whole(head, body, self.now_ms, &mut self.world);
        assert!(outcome.rejected.is_empty());
    }

    fn publish(&mut self, batch: &[IncomingMessage<'_>]) -> Vec<u32> {
        self.queue.publish(batch, self.now_ms, &mut self.world).rejected
    }

    fn consume(&mut self, spec: ConsumerSpec) {
        let id = spec.id;
        assert!(self.queue.add_consumer(spec, self.now_ms));
        self.queue.resume(id, self.now_ms, &mut self.world);
    }

    fn settle(&mut self, how: SettleHow, seq: MessageSeq, count: u32) {
        let consumer = Some(ConsumerId { connection: ConnectionId::alone(1), token: 1 });
        self.queue.settle(how, &[SettleRun { consumer, first: seq, count }], self.now_ms, &mut self.world);
    }

    /// Does what the machine asked of the disk until it asks no more.
    fn run_disk(&mut self) {
        while !self.world.is_disk_idle() {
            for (token, _) in std::mem::take(&mut self.world.kept) {
                assert!(self.queue.disk_answered(
                    DiskAnswer::Logged(token, true),
                    self.now_ms,
                    &mut self.world
                ));
            }
            for (token, block, holes) in std::mem::take(&mut self.world.moves) {
                let bytes = holes.punch(self.world.fetch(&block)).expect("a block");
                self.world.writes.push((token, bytes.into()));
            }
            for (token, place, holes) in std::mem::take(&mut self.world.rewrites) {
                let bytes = holes.punch(self.disk[&place.offset].to_vec()).expect("a block");
                self.world.writes.push((token, bytes.into()));
            }
            for (token, bytes) in std::mem::take(&mut self.world.writes) {
                let seq = MessageSeq(token.0);
                let bytes = BlockBytes::from(record::pack_block(&bytes).into_owned());
                let offset = (u64::from(seq.level()) << 24) + seq.number();
                let place = BlockPlace { segment: self.segment, offset, bytes: bytes.len() as u32 };
                self.disk.insert(offset, bytes);
                assert!(self.queue.disk_answered(
                    DiskAnswer::Written(token, Some(place)),
                    self.now_ms,
                    &mut self.world
                ));
            }
            for (token, own, bodies) in std::mem::take(&mut self.world.reads) {
                let bytes = own.map(|own| match own {
                    OwnBytes::Segment(place) => {
                        record::unpack_block(&self.disk[&place.offset]).expect("a block").into_owned()
                    }
                    OwnBytes::Log(block) => self.world.fetch(&block),
                });
                let held = |body: SharedBody| HeldBody { bytes: self.shared[&body.id()].clone(), body };
                let bodies: Vec<HeldBody> = bodies.into_iter().map(held).collect();
                assert!(self.queue.disk_answered(
                    DiskAnswer::Read(token, bytes, &bodies),
                    self.now_ms,
                    &mut self.world
                ));
            }
        }
    }

    /// The letters of all that have died are safe.
    fn take_letters(&mut self) {
        let removals = std::mem::take(&mut self.world.removals);
        self.queue.letters_taken(&removals, self.now_ms, &mut self.world);
    }

    fn bodies(&self) -> Vec<&[u8]> {
        self.world.delivered.iter().map(|(_, _, _, body)| &body[..]).collect()
    }

    fn restarted(&self) -> Q {
        self.restarted_with(|_| {})
    }

    /// The queue after a restart that looks at the disk.
    fn restarted_with(&self, look: impl FnOnce(&mut Recovering)) -> Q {
        let mut recovering = Recovering::default();
        for (record, (kind, payload)) in self.world.ranges.iter().zip(&self.world.log) {
            recovering.apply(*kind, payload, record).expect("what was written is read");
        }
        look(&mut recovering);
        Q::again(recovering, self.queue.config().clone(), self.now_ms)
    }
}

fn durable() -> QueueConfig {
    QueueConfig { durable: true, ..QueueConfig::default() }
}

/// A message that nobody sends.
fn imagined(properties: &[u8]) -> MessageView<'_> {
    MessageView { exchange: b"", routing_key: b"", properties, body: b"" }
}

#[test]
fn messages_come_in_the_order_they_went_in_and_wait_for_the_window() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"1"), message(b"2"), message(b"3")]);
    bench.consume(consumer(1, 2));
    assert_eq!(bench.bodies(), [b"1", b"2"]);
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    assert_eq!(bench.bodies(), [b"1", b"2", b"3"]);
    assert_eq!(bench.queue.counts().ready, 0);
}

#[test]
fn a_requeued_message_stands_where_it_stood_and_is_marked() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"1"), message(b"2"), message(b"3")]);
    bench.consume(consumer(1, 2));
    bench.settle(SettleHow::Requeue, MessageSeq(0), 1);
    let (_, seq, redelivered, body) = bench.world.delivered.last().expect("redelivered");
    assert_eq!((*seq, *redelivered, &body[..]), (MessageSeq(0), true, &b"1"[..]));
}

#[test]
fn settling_twice_or_what_was_never_handed_out_changes_nothing() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"1"), message(b"2")]);
    bench.consume(consumer(1, 1));
    bench.settle(SettleHow::Ack, MessageSeq(1), 5);
    assert_eq!((bench.queue.counts().ready, bench.queue.store.unacked), (1, 1));
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    assert_eq!(bench.queue.store.unacked, 1);
}

#[test]
fn equal_consumers_take_turns_and_a_full_one_is_passed_over() {
    let mut bench = Bench::new(durable());
    bench.consume(consumer(1, 1));
    bench.consume(consumer(2, 0));
    bench.publish(&[message(b"1"), message(b"2"), message(b"3"), message(b"4")]);
    let tokens: Vec<u32> = bench.world.delivered.iter().map(|(token, ..)| *token).collect();
    assert_eq!(tokens, [1, 2, 2, 2]);
}

#[test]
fn what_a_full_outbox_refuses_stays_ready_until_it_resumes() {
    let mut bench = Bench::new(durable());
    bench.world.room = Some(1);
    bench.consume(consumer(1, 0));
    bench.publish(&[message(b"1"), message(b"2")]);
    assert_eq!(bench.queue.counts().ready, 1);
    bench.world.room = None;
    bench.queue.resume(ConsumerId { connection: ConnectionId::alone(1), token: 1 }, 0, &mut bench.world);
    assert_eq!(bench.bodies(), [b"1", b"2"]);
}

#[test]
fn limits_drop_from_the_head_or_refuse() {
    let mut bench = Bench::new(QueueConfig { max_length: Some(1), dead_letters: true, ..durable() });
    assert!(bench.publish(&[message(b"1"), message(b"2")]).is_empty());
    assert_eq!(bench.world.dead, [(DeadReason::MaxLength, b"1".to_vec())]);
    let overflow = crate::Overflow::RejectPublish;
    let mut bench = Bench::new(QueueConfig { max_length: Some(1), overflow, ..durable() });
    assert_eq!(bench.publish(&[message(b"1"), message(b"2")]), [1]);
}

#[test]
fn what_is_told_of_a_message_that_a_queue_would_not_keep_is_what_it_does() {
    use crate::{Afterwards, Overflow, TurnedAway};
    let none = durable;
    let told = |config: QueueConfig, body: &[u8]| {
        let mut bench = Bench::new(config);
        let why = bench.queue.turns_away(&imagined(&[0, 0]), body.len() as u64);
        let refused = bench.publish(&[message(body)]).len();
        assert_eq!(why.is_some(), bench.queue.counts().ready == 0, "{why:?}");
        (why, refused, bench.world.dead.len())
    };
    let over = |afterwards| Some(TurnedAway::OverLimit(afterwards));
    let none_fits = QueueConfig { max_length: Some(0), ..none() };
    assert_eq!(told(none_fits.clone(), b"1"), (over(Afterwards::Gone), 0, 0));
    let buries = QueueConfig { dead_letters: true, ..none_fits };
    assert_eq!(told(buries.clone(), b"1"), (over(Afterwards::DeadLettered), 0, 1));
    let small = QueueConfig { max_length_bytes: Some(2), ..none() };
    assert_eq!(told(small.clone(), b"123"), (over(Afterwards::Gone), 0, 0));
    assert_eq!(told(small, b"12"), (None, 0, 0));
    let expires = QueueConfig { message_ttl_ms: Some(0), ..none() };
    assert_eq!(told(expires, b"1"), (Some(TurnedAway::Expires(Afterwards::Gone)), 0, 0));
    let full = |afterwards| Some(TurnedAway::Full(afterwards));
    let refuses = QueueConfig { overflow: Overflow::RejectPublish, ..buries.clone() };
    assert_eq!(told(refuses, b"1"), (full(Afterwards::Gone), 1, 0));
    let refuses = QueueConfig { overflow: Overflow::RejectPublishDlx, ..buries };
    assert_eq!(told(refuses.clone(), b"1"), (full(Afterwards::DeadLettered), 1, 1));
    assert_eq!(told(QueueConfig { dead_letters: false, ..refuses }, b"1"), (full(Afterwards::Gone), 1, 0));
}

#[test]
fn a_message_without_time_to_live_is_for_who_waits_and_one_before_others_is_dropped_first() {
    let mut bench = Bench::new(QueueConfig { message_ttl_ms: Some(0), ..durable() });
    bench.consume(consumer(1, 1));
    assert_eq!(bench.queue.turns_away(&imagined(&[0, 0]), 1), None);
    bench.publish(&[message(b"1")]);
    assert_eq!(bench.bodies(), [b"1"]);
    assert!(bench.queue.turns_away(&imagined(&[0, 0]), 1).is_some(), "its prefetch is used");
    let mut bench = Bench::new(QueueConfig { max_length: Some(1), max_priority: 3, ..durable() });
    bench.publish(&[message(b"1")]);
    assert_eq!(bench.queue.turns_away(&imagined(&[0, 0]), 1), None, "the other one goes");
    let urgent = [0x08, 0, 2];
    assert!(matches!(bench.queue.turns_away(&imagined(&urgent), 1), Some(crate::TurnedAway::OverLimit(_))));
    let view = MessageView { properties: &urgent, ..message(b"2").message };
    bench.publish(&[IncomingMessage { message: view, priority: 2, ..message(b"") }]);
    bench.consume(consumer(1, 0));
    assert_eq!(bench.bodies(), [b"1"]);
}

#[test]
fn a_queue_that_refuses_keeps_what_it_took_when_deliveries_come_back() {
    let overflow = crate::Overflow::RejectPublish;
    let mut bench = Bench::new(QueueConfig { max_length: Some(1), overflow, ..durable() });
    assert!(bench.publish(&[message(b"1")]).is_empty());
    bench.queue.get(GetToken(1), 0, &mut bench.world);
    assert!(bench.publish(&[message(b"2")]).is_empty(), "only ready messages count");
    let run = SettleRun { consumer: None, first: MessageSeq(0), count: 1 };
    bench.queue.settle(SettleHow::Requeue, &[run], 0, &mut bench.world);
    assert_eq!(bench.queue.counts().ready, 2);
}

#[test]
fn expired_messages_die_at_the_head_and_the_machine_asks_to_be_woken() {
    let mut bench = Bench::new(QueueConfig { message_ttl_ms: Some(50), dead_letters: true, ..durable() });
    bench.publish(&[message(b"1")]);
    assert_eq!(bench.world.wakes, [50]);
    bench.now_ms = 50;
    bench.queue.tick(50, &mut bench.world);
    assert_eq!(bench.world.dead, [(DeadReason::Expired, b"1".to_vec())]);
}

#[test]
fn a_backlog_beyond_the_bound_goes_to_disk_and_comes_back_in_order() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 256 << 10, ..durable() });
    let bodies: Vec<Vec<u8>> =
        (0..4000u32).map(|number| [&number.to_be_bytes()[..], &[7; 500]].concat()).collect();
    for chunk in bodies.chunks(50) {
        let batch: Vec<_> = chunk.iter().map(|body| message(body)).collect();
        bench.publish(&batch);
        bench.run_disk();
    }
    let stats = bench.queue.stats(0);
    assert!(stats.memory_bytes < 1 << 20, "{} bytes in memory", stats.memory_bytes);
    assert!(stats.disk_bytes > 1 << 20);
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert!(bench.bodies().into_iter().eq(bodies.iter().map(|body| &body[..])));
}

#[test]
fn large_messages_that_nobody_waits_for_are_on_disk_only_and_come_back_one_by_one() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 1 << 20, ..durable() });
    let bodies: Vec<Vec<u8>> = (0..6).map(|number| vec![number; 3 << 20]).collect();
    for body in &bodies {
        bench.publish(&[message(body)]);
        bench.run_disk();
    }
    let resident = |bench: &Bench| bench.queue.stats(0).resident_bytes;
    assert_eq!(resident(&bench), 0);
    bench.consume(consumer(1, 1));
    for number in 0..6 {
        bench.run_disk();
        assert!(resident(&bench) < 4 << 20, "{}", resident(&bench));
        bench.settle(SettleHow::Ack, MessageSeq(number), 1);
    }
    assert!(bench.bodies().into_iter().eq(bodies.iter().map(|body| &body[..])));
    assert_eq!((resident(&bench), bench.queue.stats(0).disk_bytes), (0, 0));
    bench.publish(&[message(&bodies[0])]);
    assert_eq!(bench.bodies().len(), 7, "a block that is all settled takes messages again");
}

#[test]
fn large_bodies_are_lent_whatever_becomes_of_their_messages() {
    let mut bench = Bench::new(durable());
    let sizes = [10, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, 10, 1 << 20, 3 << 20, 10, 20];
    let bodies: Vec<Vec<u8>> = (0..).zip(sizes).map(|(number, size)| vec![number; size]).collect();
    let lent: Vec<&Vec<u8>> = bodies.iter().filter(|body| body.len() >= LARGE_BODY_BYTES).collect();
    bench.publish(&bodies.iter().map(|body| message(body)).collect::<Vec<_>>());
    bench.consume(consumer(1, 1));
    (0..sizes.len() as u64).for_each(|number| bench.settle(SettleHow::Ack, MessageSeq(number), 1));
    assert!(bench.bodies().into_iter().eq(bodies.iter().map(|body| &body[..])));
    assert_eq!(bench.queue.stats(0).unacked, 0);
    assert!(bench.world.lent.iter().map(|body| &body[..]).eq(lent.into_iter().map(|body| &body[..])));
}

#[test]
fn a_body_that_came_whole_is_where_it_was_in_the_queue_the_log_and_the_delivery() {
    const ROOM: usize = 100;
    for (room, is_copied) in [(ROOM, false), (0, true)] {
        let mut bench = Bench::new(durable());
        bench.publish(&[message(b"before")]);
        let memory = vec![7; room + LARGE_BODY_BYTES];
        let at = memory[room..].as_ptr();
        bench.publish_whole(&message(b""), BodyBuffer::behind(memory, room));
        bench.publish(&[message(b"after")]);
        bench.consume(consumer(1, 1));
        (0..3).for_each(|number| bench.settle(SettleHow::Ack, MessageSeq(number), 1));
        let body = vec![7; LARGE_BODY_BYTES];
        assert!(bench.bodies() == [&b"before"[..], &body[..], &b"after"[..]]);
        let lent_at = bench.world.lent[0].as_ptr();
        assert_eq!(lent_at != at, is_copied);
        // Its record is what it would be of a copy.
        let mut other = Bench::new(durable());
        for body in [&b"before"[..], &body[..], &b"after"[..]] {
            other.publish(&[message(body)]);
        }
        assert!(bench.world.log[..3] == other.world.log);
        assert_eq!(bench.world.log_lent, [lent_at.addr() + LARGE_BODY_BYTES]);
        assert_eq!((bench.queue.stats(0).unacked, bench.queue.resident_bytes()), (0, 0));
    }
}

#[test]
fn a_large_body_is_lent_to_who_need_not_ack_it_unless_there_is_no_room() {
    let mut bench = Bench::new(durable());
    bench.consume(ConsumerSpec { ack_required: false, ..consumer(1, 0) });
    let memory = vec![7; LARGE_BODY_BYTES];
    let at = memory.as_ptr();
    bench.publish_whole(&message(b""), memory.into());
    assert_eq!((bench.world.lent[0].as_ptr(), bench.world.lent[0].own_bytes()), (at, LARGE_BODY_BYTES));
    let keeper: Weak<dyn BodyKeeper> = Weak::<NoKeeper>::new();
    let bytes: BodyBytes = Arc::new(vec![8; LARGE_BODY_BYTES].into());
    let held = HeldBody { body: SharedBody::new(1, LARGE_BODY_BYTES as u32, keeper), bytes };
    bench.publish(&[IncomingMessage { shared: Some(&held), ..message(&held.bytes) }]);
    assert_eq!((bench.world.lent[1].as_ptr(), bench.world.lent[1].own_bytes()), (held.bytes.as_ptr(), 0));
    assert_eq!((bench.queue.stats(0).ready, bench.world.log.len()), (0, 0));
    bench.world.room = Some(0);
    bench.publish_whole(&message(b""), vec![9; LARGE_BODY_BYTES].into());
    assert_eq!((bench.queue.stats(0).ready, bench.world.log.len(), bench.world.lent.len()), (1, 1, 2));
}

#[test]
fn a_small_share_moves_all_but_the_head_and_the_newest_block_to_disk() {
    let mut bench = Bench::new(durable());
    for _ in 0..40 {
        let body = vec![7; 10_000];
        bench.publish(&vec![message(&body); 10]);
    }
    assert!(bench.queue.resident_bytes() > 3 << 20);
    bench.queue.store.share_memory(128 << 10);
    bench.queue.relieve(&mut bench.world);
    bench.run_disk();
    assert!(bench.queue.resident_bytes() < 256 << 10, "{}", bench.queue.resident_bytes());
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.bodies().len(), 400);
}

#[test]
fn a_restart_brings_back_what_was_not_settled_and_nothing_else() {
    let mut bench = Bench::new(durable());
    let transient = IncomingMessage { persistent: false, ..message(b"transient") };
    bench.publish(&[message(b"1"), message(b"2"), transient, message(b"3")]);
    bench.consume(consumer(1, 4));
    bench.settle(SettleHow::Ack, MessageSeq(1), 1);
    let mut again = bench.restarted();
    assert_eq!(again.counts().ready, 2);
    let mut world = World::default();
    for get in 0..2 {
        again.get(GetToken(get), 0, &mut world);
    }
    assert_eq!(world.got, [Some(b"1".to_vec()), Some(b"3".to_vec())]);
}

#[test]
fn a_checkpoint_replaces_all_records_before_it() {
    let mut bench = Bench::new(durable());
    bench.publish(&[message(b"1"), message(b"2"), message(&[5; 40_000]), message(b"3")]);
    bench.consume(consumer(1, 1));
    bench.settle(SettleHow::Ack, MessageSeq(0), 1);
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert_eq!(bench.world.syncs, 1);
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.world.checkpoints, 1);
    let state =
        bench.world.log.iter().rposition(|(kind, _)| *kind == RecordKind::State).expect("a state record");
    bench.world.log.drain(..state);
    assert_eq!(bench.restarted().counts().ready, 3);
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer_and_not_before_it_had_one() {
    let mut bench = Bench::new(QueueConfig { auto_delete: true, ..QueueConfig::default() });
    bench.queue.tick(0, &mut bench.world);
    assert!(bench.world.gone.is_empty());
    bench.consume(consumer(1, 0));
    bench.queue.cancel(ConsumerId { connection: ConnectionId::alone(1), token: 1 }, 0, &mut bench.world);
    assert_eq!(bench.world.gone, [Gone::LastConsumer]);
}

#[test]
fn the_length_in_bytes_is_exact_after_a_restart_though_blocks_stay_on_disk() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..durable() });
    let bodies: Vec<Vec<u8>> = (0..2000).map(|number| vec![1; number % 300]).collect();
    for (nth, body) in bodies.iter().enumerate() {
        bench.publish(&[IncomingMessage { persistent: nth % 7 != 0, ..message(body) }]);
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    assert_eq!(bench.world.checkpoints, 1);
    bench.consume(consumer(1, 150));
    bench.run_disk();
    for first in [3, 40, 41, 42, 100] {
        bench.settle(SettleHow::Ack, MessageSeq(first), 2);
        bench.run_disk();
    }
    let kept: u64 = (0..2000)
        .filter(|nth| nth % 7 != 0 && ![3, 4, 40, 41, 42, 43, 100, 101].contains(nth))
        .map(|nth| bodies[nth].len() as u64)
        .sum();
    let again = bench.restarted();
    assert_eq!((again.stats(0).ready_bytes, again.stats(0).unacked_bytes), (kept, 0));
    assert!(again.stats(0).memory_bytes < 1 << 20);
}

#[test]
fn a_state_record_of_another_version_is_refused_with_its_version() {
    let refused = Recovering::default().apply(RecordKind::State, &[1, 0], &(0..9));
    assert_eq!(refused, Err(crate::RecordError::Version(1)));
    let damaged = Recovering::default().apply(RecordKind::State, &[2, 1, 0], &(0..9));
    assert_eq!(damaged, Err(crate::RecordError::Damaged));
}

#[test]
fn messages_rejected_from_disk_are_read_back_block_by_block() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, dead_letters: true, ..durable() });
    let body = vec![3; 10_000];
    bench.consume(consumer(1, 0));
    for _ in 0..500 {
        bench.publish(&[message(&body)]);
        bench.run_disk();
    }
    assert_eq!(bench.queue.store.unacked, 500);
    assert!(bench.queue.stats(0).disk_bytes > 4 << 20, "most of it is on disk");
    bench.settle(SettleHow::Reject, MessageSeq(0), 500);
    assert_eq!(bench.world.reads.len(), 1, "one block at a time");
    bench.run_disk();
    assert_eq!((bench.world.dead.len(), bench.queue.store.unacked), (500, 0));
}

#[test]
fn a_backlog_with_gaps_costs_no_memory_by_the_message_after_a_restart() {
    let mut bench = Bench::new(QueueConfig { memory_bytes_max: 128 << 10, ..durable() });
    for _ in 0..200 {
        let batch: Vec<_> =
            (0..100).map(|nth| IncomingMessage { persistent: nth % 2 == 0, ..message(&[9; 20]) }).collect();
        bench.publish(&batch);
        bench.run_disk();
    }
    bench.queue.checkpoint(u64::MAX, &[], &mut bench.world);
    bench.run_disk();
    assert!(bench.queue.disk_answered(DiskAnswer::Synced(true), bench.now_ms, &mut bench.world));
    let mut again = bench.restarted();
    assert_eq!(again.counts().ready, 10_000);
    let memory_bytes = again.stats(0).memory_bytes;
    assert!(memory_bytes < 96 << 10, "{memory_bytes} bytes in memory");
    std::mem::swap(&mut again, &mut bench.queue);
    bench.consume(consumer(1, 0));
    bench.run_disk();
    assert_eq!(bench.world.delivered.len(), 10_000);
}
