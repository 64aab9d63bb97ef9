//! Cells of a real broker on a folder of its own: the effect of one queue's fault on others, and of a crash between two
//! cells. Stopping at a point is done by holding a cell, never by waiting.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use message::{Table, TableBuf};
use parking_lot::Mutex;
use queues::{ConsumerId, ConsumerSpec, CreditNews, Delivery, Machine, MessageSeq, SettleHow, SettleRun};

use super::{Event, Queue};
use crate::call::Call;
use crate::cell::condition::Condition;
use crate::data::consume::{ConsumeRequest, ConsumerSink};
use crate::data::publish::{Incoming, PublishChannel, Publisher};
use crate::foundation::Foundation;
use crate::test_broker::connect;
use crate::{Broker, BrokerOptions, ConfirmRange, ConfirmSink, Consuming, Principal, QueueDeclare, Refused};

mod amplified;
mod asserts;
mod formats;
mod gets;
mod letters;
pub(super) mod memory_queue;
mod stalls;
mod streams;
mod types;

/// delivery-mode 2.
const PERSISTENT: &[u8] = &[0x10, 0, 2];

/// A session that writes down what it is told.
#[derive(Default)]
struct Told {
    /// Takes nothing, and does not say when it can: a session with a fault.
    refuses: std::sync::atomic::AtomicBool,
    delivered: Mutex<Vec<(MessageSeq, Vec<u8>)>>,
    cancelled: Mutex<Vec<u32>>,
    confirmed: Mutex<Vec<ConfirmRange>>,
    credit_news: Mutex<Vec<CreditNews>>,
}

impl ConsumerSink for Told {
    fn deliver(&self, _: u32, run: &[Delivery<'_>]) -> usize {
        if self.refuses.load(Ordering::Relaxed) {
            return 0;
        }
        self.delivered.lock().extend(run.iter().map(|one| (one.seq, one.message.body.to_vec())));
        run.len()
    }
    fn credit_news(&self, _: u32, news: CreditNews) {
        self.credit_news.lock().push(news);
    }
    fn cancelled(&self, token: u32) {
        self.cancelled.lock().push(token);
    }
}

impl ConfirmSink for Told {
    fn confirmed(&self, range: ConfirmRange) {
        self.confirmed.lock().push(range);
    }
}

/// A broker, a connection to it and the folder it lies in.
struct Bench {
    broker: Broker,
    principal: Principal,
    told: Arc<Told>,
}

impl Bench {
    fn open(folder: &Path) -> Bench {
        Bench::with(folder, BrokerOptions::default())
    }

    fn with(folder: &Path, options: BrokerOptions) -> Bench {
        let foundation = Foundation::real(Arc::new(platform::RealDisk));
        Bench::on(&foundation, folder, options)
    }

    fn on(foundation: &Foundation, folder: &Path, options: BrokerOptions) -> Bench {
        let options = BrokerOptions { fsync: false, ..options };
        let broker = crate::recovery::open(foundation, folder, options, None).expect("a folder of its own");
        let principal = connect(&broker).expect("the default vhost");
        Bench { broker, principal, told: Arc::default() }
    }

    fn declare(&self, name: &str, arguments: Table<'_>) -> Arc<Queue> {
        let declare = QueueDeclare {
            name: name.as_bytes(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
        };
        let declared = self.broker.declare_queue(&self.principal, declare).expect("it can be declared");
        declared.counts.wait().expect("the disk is fine");
        self.principal.vhost.queue(name.as_bytes()).expect("it is declared")
    }

    /// Publishes with confirms and waits for the disk; the numbers that were refused.
    fn publish(&self, queue: &str, bodies: &[&str]) -> Vec<u64> {
        let mut channel = PublishChannel::new();
        self.told.confirmed.lock().clear();
        channel.enable_confirms(self.told.clone());
        let mut publisher = Publisher::new(&self.broker, &self.principal);
        for body in bodies {
            let message = Incoming {
                mandatory: false,
                exchange: b"",
                routing_key: queue.as_bytes(),
                properties: PERSISTENT,
                body: body.as_bytes(),
            };
            publisher.publish(&mut channel, message).expect("it is routed");
        }
        publisher.flush();
        // Another thread may be about to leave the queue and take the batch along.
        while self.told.confirmed.lock().is_empty() {
            self.sync();
        }
        let confirmed = self.told.confirmed.lock();
        let [range] = &confirmed[..] else { panic!("one answer: {confirmed:?}") };
        assert_eq!((range.first, range.last), (1, bodies.len() as u64));
        range.rejected.clone()
    }

    /// Publishes one message without a confirm.
    fn publish_transient(&self, queue: &str, body: &str) {
        let mut publisher = Publisher::new(&self.broker, &self.principal);
        let message = Incoming {
            mandatory: false,
            exchange: b"",
            routing_key: queue.as_bytes(),
            properties: &[0, 0],
            body: body.as_bytes(),
        };
        publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
        publisher.flush();
    }

    /// Everything logged is durable, and everybody was told.
    fn sync(&self) {
        self.broker.services().settle_all();
    }

    fn get(&self, queue: &str) -> Result<Option<(MessageSeq, String)>, Refused> {
        let (_, call) = self.broker.get(&self.principal, queue.as_bytes(), true)?;
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        Ok(call.wait()?.map(|got| (got.seq, text(&got.body))))
    }

    fn consuming(&self, queue: &str, token: u32) -> Result<(Arc<Queue>, Consuming), Refused> {
        let spec = ConsumerSpec {
            id: ConsumerId { connection: self.principal.connection, token },
            tag: b"tag"[..].into(),
            channel: 1,
            ack_required: true,
            prefetch: 1,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority: 0,
            exclusive: false,
            arguments: Box::default(),
        };
        let request = ConsumeRequest { queue: queue.as_bytes(), spec };
        self.broker.consume(&self.principal, request, self.told.clone())
    }

    fn consume(&self, queue: &str, token: u32) -> Result<(), Refused> {
        let (queue, consuming) = self.consuming(queue, token)?;
        consuming.wait()?;
        queue.resume(ConsumerId { connection: self.principal.connection, token });
        Ok(())
    }

    /// The state that a crash now would leave, opened: the files as they are.
    fn crashed_copy(&self, folder: &Path) -> (Bench, tempfile::TempDir) {
        self.sync();
        let copy = tempfile::tempdir().expect("a folder");
        copy_tree(folder, copy.path());
        (Bench::open(copy.path()), copy)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.broker.shutdown();
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("it is there").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

fn ready(queue: &Arc<Queue>) -> u64 {
    queue.stats().wait().ready
}

fn no_arguments() -> Table<'static> {
    Table::from_raw(&[])
}

#[test]
fn a_panic_in_one_queue_ends_the_service_of_that_queue_and_of_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (broken, whole) = (bench.declare("broken", no_arguments()), bench.declare("whole", no_arguments()));
    assert_eq!(bench.publish("broken", &["1", "2", "3"]), []);
    bench.consume("broken", 7).expect("it consumes");
    broken.reloads.forbid();
    broken.fails_next.store(true, Ordering::Relaxed);
    assert_eq!(bench.publish("broken", &["4", "5"]), [1, 2], "what is not safe is not confirmed");
    assert_eq!(*bench.told.cancelled.lock(), [7]);
    assert_eq!(broken.condition(), Condition::Crashed);
    let refused = || Refused::Crashed(broken.resource());
    assert_eq!(bench.get("broken"), Err(refused()));
    assert_eq!(bench.consume("broken", 8), Err(refused()));
    assert!(matches!(bench.broker.check_queue(&bench.principal, b"broken"), Err(Refused::Crashed(_))));
    assert_eq!(bench.publish("broken", &["6"]), [1]);
    assert_eq!(bench.publish("whole", &["7"]), []);
    assert_eq!(bench.get("whole").expect("it works").map(|(_, body)| body), Some("7".into()));
    assert!(broken.oldest_log_position() > 0 && whole.oldest_log_position() > 0, "the log keeps its records");
    drop(bench);
    let again = Bench::open(folder.path());
    let bodies: Vec<_> =
        (0..4).map(|_| again.get("broken").expect("it is back").map(|(_, body)| body)).collect();
    assert_eq!(bodies, [Some("1".into()), Some("2".into()), Some("3".into()), None]);
}

#[test]
fn a_crashed_queue_can_be_deleted_and_declared_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    queue.reloads.forbid();
    queue.fails_next.store(true, Ordering::Relaxed);
    assert_eq!(bench.publish("q", &["1"]), [1]);
    let deleted = bench.broker.delete_queue(&bench.principal, b"q", false, false).expect("it may be deleted");
    assert!(deleted.wait().is_ok());
    bench.declare("q", no_arguments());
    assert_eq!(bench.publish("q", &["2"]), []);
    assert_eq!(bench.get("q").expect("it works").map(|(_, body)| body), Some("2".into()));
}

/// `source`, whose dead letters go to `target`.
fn source_and_target(bench: &Bench) -> (Arc<Queue>, Arc<Queue>) {
    let mut arguments = TableBuf::new();
    arguments.push_str("x-dead-letter-exchange", b"").push_str("x-dead-letter-routing-key", b"target");
    (bench.declare("source", arguments.as_table()), bench.declare("target", no_arguments()))
}

#[test]
fn a_crash_before_the_target_has_the_dead_letter_leaves_the_message_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    assert_eq!(bench.publish("source", &["dies"]), []);
    let (seq, _) = bench.get("source").expect("it works").expect("a message");
    let busy = target.state.lock();
    source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: seq, count: 1 }]);
    while target.inbox.lock().is_empty() {
        std::thread::yield_now();
    }
    {
        let (crashed, _folder) = bench.crashed_copy(folder.path());
        let there = |name: &[u8]| ready(&crashed.principal.vhost.queue(name).expect("it is durable"));
        assert_eq!((there(b"source"), there(b"target")), (1, 0));
    }
    drop(busy);
    target.run();
    let (crashed, _folder) = bench.crashed_copy(folder.path());
    assert_eq!(crashed.get("target").expect("it works").map(|(_, body)| body), Some("dies".into()));
    // The answer comes by way of the background thread.
    while source.oldest_log_position() != 0 {
        std::thread::yield_now();
    }
    let (crashed, _folder) = bench.crashed_copy(folder.path());
    let there = |name: &[u8]| ready(&crashed.principal.vhost.queue(name).expect("it is durable"));
    assert_eq!((there(b"source"), there(b"target")), (0, 1));
}

/// Puts a queue out of service.
fn crash(bench: &Bench, queue: &Queue) {
    queue.fails_next.store(true, Ordering::Relaxed);
    assert_eq!(bench.publish(std::str::from_utf8(queue.name()).expect("ASCII"), &["crash"]), [1]);
}

fn reject_next(bench: &Bench, queue: &Arc<Queue>) {
    let name = std::str::from_utf8(queue.name()).expect("ASCII");
    let (seq, _) = bench.get(name).expect("it works").expect("a message");
    queue.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: seq, count: 1 }]);
}

#[test]
fn a_dead_letter_for_a_crashed_queue_waits_until_it_is_in_service_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    assert_eq!(bench.publish("source", &["dies"]), []);
    // Not reloaded before the disk has answered.
    target.reloads.disk_asked();
    crash(&bench, &target);
    reject_next(&bench, &source);
    bench.sync();
    {
        let (crashed, _folder) = bench.crashed_copy(folder.path());
        let there = |name: &[u8]| ready(&crashed.principal.vhost.queue(name).expect("it is durable"));
        assert_eq!((there(b"source"), there(b"target")), (1, 0), "nobody else has it");
    }
    target.submit(Event::BlocksSynced(true));
    while source.oldest_log_position() != 0 {
        bench.sync();
    }
    let (crashed, _folder) = bench.crashed_copy(folder.path());
    let there = |name: &[u8]| ready(&crashed.principal.vhost.queue(name).expect("it is durable"));
    assert_eq!((there(b"source"), there(b"target")), (0, 1));
    assert_eq!(bench.get("target").expect("it is back").map(|(_, body)| body), Some("dies".into()));
}

#[test]
fn a_dead_letter_for_a_crashed_queue_is_dropped_with_the_queue() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    assert_eq!(bench.publish("source", &["dies"]), []);
    target.reloads.forbid();
    crash(&bench, &target);
    reject_next(&bench, &source);
    bench.sync();
    assert!(source.oldest_log_position() > 0);
    let deleted = bench.broker.delete_queue(&bench.principal, b"target", false, false).expect("it may be");
    assert!(deleted.wait().is_ok());
    while source.oldest_log_position() != 0 {
        bench.sync();
    }
}

#[test]
fn dead_letters_that_are_too_many_to_wait_for_a_crashed_queue_are_back_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    let body = "x".repeat(1 << 20);
    (0..18).for_each(|_| assert_eq!(bench.publish("source", &[&body]), []));
    target.reloads.forbid();
    crash(&bench, &target);
    (0..18).for_each(|_| reject_next(&bench, &source));
    // Blocks that are not in memory are read first.
    let sent = &source.services().counters.rejected_sent;
    while sent.load(Ordering::Relaxed) < 18 || source.inbox_bytes.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    // Letters that wait go with the queue that they wait for; 16 MiB are 15 letters with their other parts.
    let deleted = bench.broker.delete_queue(&bench.principal, b"target", false, false).expect("it may be");
    assert!(deleted.wait().is_ok());
    while source.services().letters_out.load(Ordering::Acquire) > 0 {
        bench.sync();
    }
    assert_eq!(ready(&source), 0);
    let (again, _folder) = bench.crashed_copy(folder.path());
    assert_eq!(ready(&again.principal.vhost.queue(b"source").expect("it is durable")), 3);
}

#[test]
fn a_queue_that_comes_back_from_a_crash_does_not_hear_of_letters_that_it_sent_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    assert_eq!(bench.publish("source", &["dies"]), []);
    let busy = target.state.lock();
    reject_next(&bench, &source);
    while target.inbox.lock().is_empty() {
        std::thread::yield_now();
    }
    crash(&bench, &source);
    while source.condition() != Condition::Running {
        std::thread::yield_now();
    }
    drop(busy);
    target.run();
    while source.services().letters_out.load(Ordering::Acquire) > 0 {
        bench.sync();
    }
    assert_eq!(ready(&target), 1);
    assert_eq!((source.condition(), ready(&source)), (Condition::Running, 1));
    reject_next(&bench, &source);
    while source.oldest_log_position() != 0 {
        bench.sync();
    }
    assert_eq!((source.condition(), ready(&source), ready(&target)), (Condition::Running, 0, 2));
}

#[test]
fn dead_letters_that_are_on_their_way_are_not_overtaken() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    assert_eq!(bench.publish("source", &["first", "second"]), []);
    let seqs = [(); 2].map(|()| bench.get("source").expect("it works").expect("a message").0);
    let reject =
        |seq| source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: seq, count: 1 }]);
    std::thread::scope(|scope| {
        let gate = target.inbox.lock();
        scope.spawn(|| reject(seqs[0]));
        // The other thread has taken the first letter and stands at the gate; here nobody waits for it.
        while source.services().letters_out.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        reject(seqs[1]);
        drop(gate);
    });
    // A thread whose turn is over leaves the second to another one.
    while ready(&target) < 2 || source.inbox_bytes.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    let bodies = [(); 2].map(|()| bench.get("target").expect("it works").map(|(_, body)| body));
    assert_eq!(bodies, [Some("first".into()), Some("second".into())]);
}

#[test]
fn queues_that_dead_letter_into_each_other_come_to_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let mut queues = Vec::new();
    for nth in 0..200 {
        let next = format!("q{}", nth + 1);
        let mut arguments = TableBuf::new();
        arguments
            .push_str("x-dead-letter-exchange", b"")
            .push_str("x-dead-letter-routing-key", next.as_bytes());
        arguments.push_i64("x-max-length", 0);
        queues.push(bench.declare(&format!("q{nth}"), arguments.as_table()));
    }
    let last = bench.declare("q200", no_arguments());
    assert_eq!(bench.publish("q0", &["travels"]), []);
    while ready(&last) == 0 || queues.iter().any(|queue| queue.oldest_log_position() != 0) {
        std::thread::yield_now();
    }
    assert_eq!(bench.get("q200").expect("it works").map(|(_, body)| body), Some("travels".into()));
}

#[test]
fn a_consumer_whose_connection_ends_before_the_answer_is_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(dir.path());
    let queue = bench.declare("q", no_arguments());
    with_busy_cell(&queue, || drop(bench.consuming("q", 7).expect("it may consume")));
    assert_eq!(queue.counts().wait().expect("it answers").consumers, 0);
    let (_, consuming) = bench.consuming("q", 8).expect("it may consume");
    consuming.wait().expect("it consumes");
    assert_eq!(queue.counts().wait().expect("it answers").consumers, 1);
}

#[test]
fn a_message_for_a_get_that_nobody_waits_for_is_put_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    assert_eq!(bench.publish("q", &["1"]), []);
    for ack_required in [true, false] {
        let (reply, call) = Call::pair();
        let busy = queue.state.lock();
        queue.submit(Event::Get(ack_required, reply));
        drop(call);
        drop(busy);
        queue.run();
        let stats = queue.stats().wait();
        assert_eq!((stats.ready, stats.unacked), (1, 0), "ack required: {ack_required}");
    }
}

#[test]
fn a_clean_stop_right_after_a_death_does_not_bring_the_message_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, _) = source_and_target(&bench);
    assert_eq!(bench.publish("source", &["dies"]), []);
    let (seq, _) = bench.get("source").expect("it works").expect("a message");
    source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: seq, count: 1 }]);
    drop(bench);
    let again = Bench::open(folder.path());
    assert_eq!(again.get("source"), Ok(None));
    assert_eq!(again.get("target").expect("it works").map(|(_, body)| body), Some("dies".into()));
}

#[test]
fn a_crashed_queue_is_reloaded_from_log_and_segments_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    let large = "x".repeat(100_000);
    for _ in 0..100 {
        assert_eq!(bench.publish("q", &[&large]), []);
    }
    assert!(queue.stats().wait().disk_bytes > 0, "some of it lies in segments");
    let (seq, _) = bench.get("q").expect("it works").expect("a message");
    queue.settle(SettleHow::Ack, &[SettleRun { consumer: None, first: seq, count: 1 }]);
    bench.consume("q", 7).expect("it consumes");
    assert_eq!(bench.told.delivered.lock().len(), 1);
    queue.fails_next.store(true, Ordering::Relaxed);
    assert_eq!(bench.publish("q", &["refused"]), [1]);
    while queue.condition() != Condition::Running {
        std::thread::yield_now();
    }
    assert_eq!(*bench.told.cancelled.lock(), [7]);
    let late = bench.told.delivered.lock()[0].0;
    let stale = ConsumerId { connection: bench.principal.connection, token: 7 };
    queue.settle(SettleHow::Ack, &[SettleRun { consumer: Some(stale), first: late, count: 1 }]);
    assert_eq!(ready(&queue), 99);
    assert_eq!(bench.publish("q", &["last"]), []);
    let mut bodies = 0;
    while let Some((_, body)) = bench.get("q").expect("it works") {
        bodies += 1;
        assert_eq!(body == "last", bodies == 100, "in order");
    }
    assert_eq!(bodies, 100);
}

#[test]
fn a_queue_that_crashes_again_and_again_stays_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    for _ in 0..3 {
        queue.fails_next.store(true, Ordering::Relaxed);
        assert_eq!(bench.publish("q", &["refused"]), [1]);
        while queue.condition() != Condition::Running {
            std::thread::yield_now();
        }
    }
    queue.fails_next.store(true, Ordering::Relaxed);
    assert_eq!(bench.publish("q", &["refused"]), [1]);
    assert_eq!(queue.condition(), Condition::Crashed);
}

#[test]
fn a_queue_that_came_back_from_a_crash_rests_when_it_is_empty_and_still_knows_who_is_of_an_earlier_life() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    assert_eq!(bench.publish("q", &["1"]), []);
    bench.consume("q", 7).expect("it consumes");
    crash(&bench, &queue);
    while queue.condition() != Condition::Running {
        std::thread::yield_now();
    }
    assert_eq!(queue.purge_by_operator().wait(), 1);
    queue.submit(Event::Rest);
    // Another thread may be at it.
    while queue.state.lock().used().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(bench.publish("q", &["2"]), []);
    bench.consume("q", 8).expect("it consumes");
    let (seq, body) = bench.told.delivered.lock().last().cloned().expect("delivered");
    assert_eq!(body, b"2");
    let ack = |token| {
        let consumer = Some(ConsumerId { connection: bench.principal.connection, token });
        queue.settle(SettleHow::Ack, &[SettleRun { consumer, first: seq, count: 1 }]);
        queue.stats().wait().unacked
    };
    assert_eq!((ack(7), ack(8)), (1, 0));
}

#[test]
fn many_backlogs_together_keep_no_more_in_memory_than_the_node_allows() {
    const QUEUES: u64 = 48;
    const LIMIT_BYTES: u64 = 32 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    // The memory that this process uses, with all other tests in it, is above the limit, and shares would be smaller still.
    let memory = Arc::new(platform::SimMemory::new(1 << 40));
    let foundation = Foundation { memory: memory.clone(), ..Foundation::real(Arc::new(platform::RealDisk)) };
    let bench = Bench::on(&foundation, folder.path(), BrokerOptions::default());
    bench.broker.alarms().set_memory_limit(crate::MemoryLimit::Bytes(LIMIT_BYTES));
    let body = "x".repeat(10_000);
    let bodies = [&body[..]; 25];
    let fill = |name: &str| (0..4).for_each(|_| assert_eq!(bench.publish(name, &bodies), []));
    for number in 0..QUEUES {
        let name = format!("backlog-{number}");
        bench.declare(&name, no_arguments());
        fill(&name);
    }
    // 48 MB were published, a quarter of the limit may stay, and messages that came since all queues looked.
    while bench.broker.memory_use().messages > LIMIT_BYTES / 4 * 5 / 4 {
        std::thread::yield_now();
    }
    // When others have gone, a queue may have as much as it is configured for.
    for number in 1..QUEUES {
        let queue = bench.declare(&format!("backlog-{number}"), no_arguments());
        assert_eq!(ready(&queue), 100);
        queue.purge_by_operator().wait();
    }
    fill("backlog-0");
    // A purge is answered before its turn is over.
    while bench.broker.services().memory_shares().bytes() as u64 != LIMIT_BYTES / 4 {
        std::thread::yield_now();
    }
    // Queues too short to have a share give up what the log has while the node is short of memory.
    let short = bench.declare("short", no_arguments());
    assert_eq!(bench.publish("short", &[&body]), []);
    let resident = || short.state.lock().used().map_or(0, |state| state.machine.resident_bytes());
    assert!(resident() > body.len());
    memory.set_used_bytes(LIMIT_BYTES + 1);
    while resident() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_queue_that_was_used_and_is_empty_keeps_a_few_bytes_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("used", no_arguments());
    let new_bytes = queue.memory_bytes().0;
    for round in 1..=3 {
        assert_eq!(bench.publish("used", &["1", "2"]), []);
        assert_eq!(queue.purge_by_operator().wait(), 2);
        assert!(queue.state.lock().used().is_some(), "it was in use a moment ago");
        queue.submit(Event::Rest);
        assert!(queue.state.lock().used().is_none());
        assert!(queue.memory_bytes().0 < new_bytes + 48, "{} of {new_bytes}", queue.memory_bytes().0);
        assert_eq!(queue.stats().wait().totals.published, 2 * round);
        assert!(queue.state.lock().used().is_none(), "a question does not wake it");
    }
    assert_eq!(bench.publish("used", &["3"]), []);
    let (again, _copy) = bench.crashed_copy(folder.path());
    let (_, body) = again.get("used").expect("it is in service").expect("it has a message");
    assert_eq!(body, "3");
}

/// Fills an inbox while the queue cannot be run.
fn with_busy_cell(queue: &Arc<Queue>, bring: impl FnOnce()) {
    let busy = queue.state.lock();
    bring();
    drop(busy);
}

#[test]
fn a_turn_ends_though_more_has_come_and_the_rest_keeps_its_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    let calls: Mutex<Vec<Call<_>>> = Mutex::default();
    with_busy_cell(&queue, || {
        for nth in 0..200_u32 {
            bench.publish_transient("q", &nth.to_string());
            calls.lock().push(queue.counts());
        }
    });
    let answered = |nth: usize| calls.lock()[nth].try_take();
    queue.turn();
    assert!(answered(0).is_some_and(|counts| counts.is_ok_and(|counts| counts.ready == 1)));
    assert!(answered(199).is_none(), "it was not all done in one turn");
    with_busy_cell(&queue, || bench.publish_transient("q", "200"));
    queue.run();
    while ready(&queue) < 201 {
        std::thread::yield_now();
    }
    let bodies = (0..201).map(|_| bench.get("q").expect("it works").expect("a message").1);
    assert!(bodies.eq((0..201).map(|nth| nth.to_string())), "what came later stands behind");
    assert!(answered(199).is_some_and(|counts| counts.is_ok_and(|counts| counts.ready == 200)));
}

#[test]
fn what_one_frame_settles_or_purges_is_done_in_several_turns() {
    const COUNT: u32 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let queue = bench.declare("q", no_arguments());
    let mut seqs = Vec::new();
    for nth in 0..COUNT {
        bench.publish_transient("q", &nth.to_string());
    }
    for _ in 0..COUNT {
        seqs.push(bench.get("q").expect("it works").expect("a message").0);
    }
    let all = SettleRun { consumer: None, first: seqs[0], count: COUNT };
    let unacked = || queue.state.lock().used().map_or(0, |state| state.machine.stats(0).unacked);
    let ready_now = || queue.state.lock().used().map_or(0, |state| state.machine.counts().ready);
    with_busy_cell(&queue, || queue.settle(SettleHow::Requeue, &[all]));
    queue.turn();
    assert!(unacked() > 0 && ready_now() > 0, "{} are back", ready_now());
    queue.run();
    while ready(&queue) < COUNT.into() {
        std::thread::yield_now();
    }
    assert_eq!(bench.get("q").expect("it works").expect("a message").0, seqs[0]);
    let mut purged = None;
    with_busy_cell(&queue, || purged = Some(queue.purge_by_operator()));
    queue.turn();
    assert!(ready_now() > 0, "not all at once");
    queue.run();
    assert_eq!(purged.expect("just asked").wait(), u64::from(COUNT) - 1);
}
