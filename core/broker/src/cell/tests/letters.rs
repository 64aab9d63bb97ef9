//! Very many dead letters at once: those that cannot be sent or stored yet wait as messages.

use std::time::Duration;

use platform::SimDisk;

use super::*;
use crate::alarms::{DiskLimit, Raised};
use crate::control::bindings::{BindRequest, DestinationName};
use crate::driven::{Driven, Driver, Engine};
use crate::foundation::FileSizes;
use crate::test_broker::{driven, driven_on};

#[test]
fn messages_stop_dying_while_too_many_letters_wait_and_go_on_afterwards() {
    const COUNT: u32 = 60_000;
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let (source, target) = source_and_target(&bench);
    (0..COUNT / 1000).for_each(|_| assert_eq!(bench.publish("source", &["x"; 1000]), []));
    let (first, _) = bench.get("source").expect("it works").expect("a message");
    (1..COUNT).for_each(|_| assert!(bench.get("source").is_ok_and(|got| got.is_some())));
    let reject =
        |first, count| source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first, count }]);
    std::thread::scope(|scope| {
        let gate = target.inbox.lock();
        scope.spawn(|| reject(first, 1));
        // The first letter stands at the gate; the others wait behind it, or do not die before it has passed.
        while source.services().letters_out.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        reject(MessageSeq(first.0 + 1), COUNT - 1);
        while !source.inbox.lock().is_empty() || !source.is_inbox_full() {
            std::thread::yield_now();
        }
        let waiting = source.inbox_bytes.load(Ordering::Relaxed);
        assert!(waiting < 5 << 20, "{waiting} bytes of letters wait");
        drop(gate);
    });
    while ready(&target) < COUNT.into() || source.oldest_log_position() != 0 {
        bench.sync();
    }
    assert_eq!(source.inbox_bytes.load(Ordering::Relaxed), 0);
}

/// A durable queue.
fn declare(broker: &Broker, principal: &Principal, name: &[u8], arguments: &TableBuf) -> Arc<Queue> {
    let arguments = arguments.as_table();
    let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
    broker.declare_queue(principal, declare).expect("it can be declared");
    principal.vhost.queue(name).expect("it is declared")
}

/// Arguments of a queue whose messages go to another one when they die: after so long, ms, if they do by themselves.
fn dies_to(target: &[u8], ttl_ms: Option<i64>) -> TableBuf {
    let mut arguments = TableBuf::new();
    arguments.push_str("x-dead-letter-exchange", b"").push_str("x-dead-letter-routing-key", target);
    ttl_ms.into_iter().for_each(|ttl_ms| {
        arguments.push_i64("x-message-ttl", ttl_ms);
    });
    arguments
}

fn publish(broker: &Broker, principal: &Principal, queue: &[u8], properties: &[u8], body: &[u8]) {
    let mut publisher = Publisher::new(broker, principal);
    let message = Incoming { mandatory: false, exchange: b"", routing_key: queue, properties, body };
    publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
    publisher.flush();
}

#[test]
fn messages_stop_dying_while_the_log_has_much_to_write_and_go_on_when_it_has_written() {
    let (broker, mut driver, principal, clock) = driven();
    let declare = |name, arguments: TableBuf| declare(&broker, &principal, name, &arguments);
    let source = declare(b"source", dies_to(b"target", Some(10)));
    let (target, _filler) = (declare(b"target", TableBuf::new()), declare(b"filler", TableBuf::new()));
    driver.run_until_idle();
    publish(&broker, &principal, b"source", &[0, 0], b"dies");
    (0..20).for_each(|_| publish(&broker, &principal, b"filler", PERSISTENT, &vec![1; 1 << 20]));
    clock.advance(Duration::from_millis(20));
    source.submit(Event::Tick);
    assert_eq!((ready(&source), ready(&target)), (1, 0));
    driver.run_until_idle();
    assert_eq!((ready(&source), ready(&target)), (0, 1));
}

#[test]
fn a_message_that_died_is_not_forgotten_before_its_letter_is_durable() {
    let (broker, mut driver, principal, _) = driven();
    let source = declare(&broker, &principal, b"source", &dies_to(b"target", None));
    let target = declare(&broker, &principal, b"target", &TableBuf::new());
    publish(&broker, &principal, b"source", PERSISTENT, b"dies");
    driver.run_until_idle();
    let (_, mut call) = broker.get(&principal, b"source", true).expect("it is there");
    let got = call.try_take().expect("it is in memory").expect("it is in service").expect("a message");
    source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
    // The letter is in its queue, and only there: while the disk is full, files of which nobody needs anything may go.
    driver.run_until_idle_without(Some(Engine::MessageLog));
    assert_eq!((ready(&source), ready(&target)), (0, 1));
    let out = || source.services().letters_out.load(Ordering::Acquire);
    assert!(out() == 1 && source.oldest_log_position() > 0);
    while driver.step(Engine::MessageLog) == Driven::Worked {}
    driver.run_until_idle();
    assert!(out() == 0 && source.oldest_log_position() == 0);
}

#[test]
fn while_the_disk_alarm_is_on_nothing_is_dead_lettered_and_all_of_it_goes_when_the_alarm_clears() {
    let (disk, clock) = (SimDisk::new(), Arc::new(platform::SimClock::new(1_000_000)));
    let (broker, mut driver, principal) = driven_on(&disk, &clock, FileSizes::default());
    let mut short = dies_to(b"target", None);
    short.push_i64("x-max-length", 1);
    let mut plain = TableBuf::new();
    plain.push_i64("x-message-ttl", 1000);
    let sources = [
        declare(&broker, &principal, b"expires", &dies_to(b"target", Some(1000))),
        declare(&broker, &principal, b"rejected", &dies_to(b"target", None)),
        declare(&broker, &principal, b"short", &short),
        declare(&broker, &principal, b"plain", &plain),
    ];
    let target = declare(&broker, &principal, b"target", &TableBuf::new());
    disk.set_space_bytes(Some(4 << 30));
    for source in &sources {
        publish(&broker, &principal, source.name(), PERSISTENT, b"one");
    }
    driver.run_until_idle();
    broker.alarms().set_disk_limit(DiskLimit::Bytes(8 << 30));
    assert!(broker.alarms().raised().has(Raised::DISK));
    let (_, mut call) = broker.get(&principal, b"rejected", true).expect("it is there");
    driver.run_until_idle();
    let got = call.try_take().expect("it is answered").expect("it is in service").expect("a message");
    sources[1].settle(SettleHow::Reject, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
    // A publisher that is not blocked yet.
    publish(&broker, &principal, b"short", PERSISTENT, b"two");
    clock.advance(Duration::from_secs(2));
    for source in &sources {
        source.submit(Event::Tick);
    }
    driver.run_until_idle();
    let (_, mut call) = broker.get(&principal, b"expires", true).expect("it is there");
    driver.run_until_idle();
    assert!(matches!(call.try_take(), Some(Ok(None))), "an expired message is not delivered");
    let counts = || sources.each_ref().map(|source| source.stats().wait()).map(|it| it.ready + it.unacked);
    assert_eq!(counts(), [1, 1, 2, 0], "without a dead letter exchange a message goes as always");
    assert_eq!(ready(&target), 0);
    broker.alarms().set_disk_limit(DiskLimit::Bytes(0));
    driver.run_until_idle();
    assert_eq!((counts(), ready(&target)), ([0, 0, 1, 0], 3));
}

/// Gets the first message of a queue and acks it.
fn take(broker: &Broker, driver: &mut Driver, principal: &Principal, queue: &Arc<Queue>) -> Option<Vec<u8>> {
    let (_, mut call) = broker.get(principal, queue.name(), true).expect("it is there");
    driver.run_until_idle();
    let got = call.try_take().expect("it is answered").expect("it is in service")?;
    queue.settle(SettleHow::Ack, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
    Some(got.body.to_vec())
}

/// Bytes of log that a letter takes, of small messages that die together and go to some queues.
fn logged_bytes(queues: usize) -> u64 {
    const COUNT: u64 = 1000;
    let (broker, mut driver, principal, clock) = driven();
    let mut arguments = TableBuf::new();
    arguments.push_str("x-dead-letter-exchange", b"amq.fanout").push_i64("x-message-ttl", 1000);
    let declare = |name: &[u8], arguments: &TableBuf| declare(&broker, &principal, name, arguments);
    let source = declare(&[b's'; 200], &arguments);
    let targets: Vec<Arc<Queue>> =
        (0..queues).map(|nth| declare(format!("{nth}").as_bytes(), &TableBuf::new())).collect();
    for target in &targets {
        let destination = DestinationName::Queue(target.name());
        let source = b"amq.fanout";
        let request = BindRequest { source, destination, routing_key: b"", arguments: no_arguments() };
        assert!(broker.bind(&principal, request).is_ok());
    }
    let mut publisher = Publisher::new(&broker, &principal);
    let mut channel = PublishChannel::new();
    for nth in 0..COUNT {
        let (body, routing_key, properties) = (nth.to_be_bytes(), source.name(), PERSISTENT);
        let message = Incoming { mandatory: false, exchange: b"", routing_key, properties, body: &body };
        publisher.publish(&mut channel, message).expect("it is routed");
    }
    publisher.flush();
    driver.run_until_idle();
    let before = source.services().log.end().0;
    clock.advance(Duration::from_secs(2));
    source.submit(Event::Tick);
    driver.run_until_idle();
    assert!(targets.iter().all(|target| ready(target) == COUNT));
    let last = take(&broker, &mut driver, &principal, &targets[queues - 1]).expect("a letter");
    assert_eq!(last, 0u64.to_be_bytes(), "in their order");
    (source.services().log.end().0 - before) / COUNT
}

#[test]
fn what_letters_have_in_common_is_logged_once_for_each_of_their_queues() {
    // A letter is 1,350 bytes; for each queue 12 of its own and a part of the head of its block, for which all count whole, and 16 for the
    // removal.
    let bytes = [1, 3].map(logged_bytes);
    assert!(bytes[0] < 100 && bytes[1] < 250, "{bytes:?}");
}
