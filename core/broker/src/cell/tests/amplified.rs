//! What many queues write a copy of, on a disk that is nearly full: it must leave room for what consumers settle.

use std::path::Path;
use std::task::{Context, Waker};
use std::time::Duration;

use platform::{Disk, OpenMode, SimClock, SimDisk};

use super::*;
use crate::alarms::{DiskLimit, Raised};
use crate::control::bindings::{BindRequest, DestinationName};
use crate::driven::{Driver, Engine};
use crate::foundation::FileSizes;
use crate::test_broker::driven_on;

/// A copy of each: below what queues share.
const BODY_BYTES: usize = 12 << 10;

/// A quarter of the disk.
const RESERVE_BYTES: u64 = 10 << 20;

/// A broker on a disk of 40 MiB, whose `amq.fanout` leads to some queues.
struct Small {
    broker: Broker,
    driver: Driver,
    principal: Principal,
    clock: Arc<SimClock>,
    disk: SimDisk,
    queues: Vec<Arc<Queue>>,
}

impl Small {
    fn new(queues: usize) -> Small {
        let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
        let (broker, driver, principal) = driven_on(&disk, &clock, FileSizes::default());
        let mut small = Small { broker, driver, principal, clock, disk: disk.clone(), queues: Vec::new() };
        small.queues = (0..queues).map(|nth| small.declare(&format!("{nth}"), no_arguments())).collect();
        for queue in &small.queues {
            let destination = DestinationName::Queue(queue.name());
            let source = b"amq.fanout";
            let request = BindRequest { source, destination, routing_key: b"", arguments: no_arguments() };
            assert!(small.broker.bind(&small.principal, request).is_ok());
        }
        small.broker.alarms().set_disk_limit(DiskLimit::Bytes(0));
        disk.set_space_bytes(Some(40 << 20));
        small.driver.run_until_idle();
        small
    }

    fn declare(&self, name: &str, arguments: Table<'_>) -> Arc<Queue> {
        let (durable, exclusive, auto_delete) = (true, false, false);
        let declare = QueueDeclare { name: name.as_bytes(), durable, exclusive, auto_delete, arguments };
        self.broker.declare_queue(&self.principal, declare).expect("it can be declared").queue
    }

    /// Sends messages to the queue that is called source.
    fn publish_some(&mut self, numbers: std::ops::Range<u32>) {
        self.publish_to(b"source", numbers);
    }

    fn publish_to(&mut self, queue: &[u8], numbers: std::ops::Range<u32>) {
        let mut publisher = Publisher::new(&self.broker, &self.principal);
        for number in numbers {
            let body = body(number);
            let message = message(b"", queue, &body);
            publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
        }
        publisher.flush();
        self.driver.run_until_idle();
    }

    /// A queue whose messages fill the disk and have all expired; and how many they are.
    fn fill_with_mortals(&mut self) -> (Arc<Queue>, u32) {
        let mut arguments = TableBuf::new();
        arguments.push_str("x-dead-letter-exchange", b"amq.fanout").push_i64("x-message-ttl", 1000);
        let source = self.declare("source", arguments.as_table());
        let mut sent = 0;
        while !self.broker.alarms().raised().has(Raised::DISK_FULL) {
            self.publish_some(sent..sent + 16);
            sent += 16;
        }
        self.clock.advance(Duration::from_secs(2));
        (source, sent)
    }

    /// Bytes that are free, and those in reserve.
    fn left_bytes(&self) -> u64 {
        let reserve = self.disk.open(Path::new("/data/warren.reserve"), OpenMode::Read);
        let reserved = reserve.map_or(0, |file| file.len().expect("it is there"));
        self.disk.free_bytes(Path::new("/data")).expect("it is known") + reserved
    }

    /// Gets and acks all that a queue has.
    fn drain(&mut self, queue: &Arc<Queue>) -> Vec<u32> {
        let mut bodies = Vec::new();
        loop {
            let (_, mut call) = self.broker.get(&self.principal, queue.name(), true).expect("it is there");
            self.driver.run_until_idle();
            let got = call.try_take().expect("it is answered").expect("it is in service");
            let Some(got) = got else { return bodies };
            queue.settle(SettleHow::Ack, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
            bodies.push(u32::from_le_bytes(got.body[..4].try_into().expect("it is longer")));
        }
    }
}

fn body(number: u32) -> Vec<u8> {
    let mut body = vec![0; BODY_BYTES];
    body[..4].copy_from_slice(&number.to_le_bytes());
    body
}

fn message<'a>(exchange: &'a [u8], routing_key: &'a [u8], body: &'a [u8]) -> Incoming<'a> {
    Incoming { mandatory: false, exchange, routing_key, properties: PERSISTENT, body }
}

#[test]
fn letters_to_three_queues_leave_room_on_a_full_disk_and_go_on_as_consumers_make_some() {
    let mut small = Small::new(3);
    let (source, sent) = small.fill_with_mortals();
    let mut got = [(); 3].map(|()| Vec::new());
    for _ in 0..200 {
        source.submit(Event::Tick);
        small.driver.run_until_idle();
        assert!(!small.broker.alarms().raised().has(Raised::LOG_WAITS), "acks can be written");
        for (queue, got) in small.queues.clone().iter().zip(&mut got) {
            got.append(&mut small.drain(queue));
        }
        if got.iter().all(|got| got.len() == sent as usize) {
            break;
        }
        small.clock.advance(Duration::from_secs(1));
    }
    assert!(got.iter().all(|got| *got == Vec::from_iter(0..sent)));
}

#[test]
fn starts_send_no_more_letters_than_there_is_room_for() {
    let mut small = Small::new(3);
    let (source, _) = small.fill_with_mortals();
    source.submit(Event::Tick);
    for _ in 0..20 {
        small.driver.run_until_idle();
        small.clock.advance(Duration::from_secs(1));
    }
    assert!(ready(&small.queues[0]) > 0 && ready(&source) > 0, "some are sent");
    drop(source);
    let (disk, clock) = (small.disk.clone(), small.clock.clone());
    drop(small);
    let letters: Vec<u64> = (0..10)
        .map(|_| {
            let (_broker, _driver, principal) = driven_on(&disk, &clock, FileSizes::default());
            ready(&principal.vhost.queue(b"0").expect("it is there"))
        })
        .collect();
    assert!(letters[9] < letters[4] + 5, "{letters:?} letters, from start to start");
}

#[test]
fn where_room_is_scarce_letters_come_from_the_queue_of_which_something_goes_first() {
    let mut small = Small::new(1);
    let mut arguments = TableBuf::new();
    arguments.push_str("x-dead-letter-exchange", b"amq.fanout").push_i64("x-message-ttl", 1_000_000);
    let names = ["source", "younger", "youngest"];
    let sources = names.map(|name| small.declare(name, arguments.as_table()));
    let numbers = [0..640, 1000..1640, 2000..2640];
    for (name, numbers) in names.iter().zip(numbers) {
        numbers.step_by(16).for_each(|first| small.publish_to(name.as_bytes(), first..first + 16));
    }
    let free_bytes = small.disk.free_bytes(Path::new("/data")).expect("it is known");
    small.disk.set_space_bytes(Some((40 << 20) - free_bytes + (4 << 20)));
    small.clock.advance(Duration::from_secs(2_000));
    // The youngest come first, and have some: then it shows that there is not enough for all.
    for _ in 0..60 {
        sources.iter().rev().for_each(|source| source.submit(Event::Tick));
        small.driver.run_until_idle();
        small.clock.advance(Duration::from_secs(1));
    }
    let target = small.queues[0].clone();
    let letters = small.drain(&target);
    assert_eq!(letters.len(), 3 * 640, "one file after the other went");
    let of_source = letters[..640].iter().filter(|number| **number < 640).count();
    assert!(of_source > 400, "{of_source} of the first 640 letters are of the oldest");
}

#[test]
fn letters_leave_room_for_being_written_anew_where_they_lie_between_those_of_other_queues() {
    let mut small = Small::new(3);
    let mut arguments = TableBuf::new();
    arguments.push_str("x-dead-letter-exchange", b"amq.fanout");
    let source = small.declare("source", arguments.as_table());
    while !small.broker.alarms().raised().has(Raised::DISK_FULL) {
        small.publish_some(0..16);
    }
    let rest_without_checkpoints =
        |small: &mut Small| small.driver.run_until_idle_without(Some(Engine::Checkpointer));
    for nth in 0..600 {
        let (_, mut call) = small.broker.get(&small.principal, b"source", true).expect("it is there");
        rest_without_checkpoints(&mut small);
        if let Ok(Some(got)) = call.try_take().expect("it is answered") {
            source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
        }
        // For less time than letters wait before they get more.
        if nth % 24 == 0 {
            small.clock.advance(Duration::from_secs(1));
            source.submit(Event::Tick);
        }
        rest_without_checkpoints(&mut small);
    }
    // What checkpoints may write, and then the least part of the reserve that letters leave.
    let (left_bytes, copies) = (small.left_bytes(), 3 * ready(&small.queues[0]));
    let least_bytes = RESERVE_BYTES / 3;
    assert!(copies > 3 * 50, "some are sent: {copies}, {left_bytes} left");
    assert!(left_bytes > copies * BODY_BYTES as u64 + least_bytes, "{left_bytes} for {copies} copies");
    small.clock.advance(Duration::from_secs(1));
    small.driver.run_until_idle();
    assert!(small.left_bytes() > least_bytes, "{} of {RESERVE_BYTES} are left", small.left_bytes());
}

#[test]
fn a_publisher_to_sixty_queues_hands_over_in_parts_and_is_told_to_look() {
    let small = Small::new(60);
    let services = small.broker.services();
    let waiting_bytes_max = services.alarms.waiting_bytes_max();
    let (mut publisher, mut channel) =
        (Publisher::new(&small.broker, &small.principal), PublishChannel::new());
    let mut sent = 0;
    loop {
        publisher.publish(&mut channel, message(b"amq.fanout", b"", &body(sent))).expect("it is routed");
        sent += 1;
        let mut cx = Context::from_waker(Waker::noop());
        if publisher.take_look() && publisher.poll_ready(&mut cx).is_pending() {
            break;
        }
    }
    publisher.flush();
    let copies_bytes = 60 * (BODY_BYTES as u64 + 200);
    assert!(services.log.pending_bytes() > waiting_bytes_max);
    assert!(services.log.pending_bytes() < waiting_bytes_max * 5 / 4 + 3 * copies_bytes);
}

#[test]
fn what_its_queues_would_write_of_a_message_or_a_transaction_needs_room() {
    let small = Small::new(60);
    let (mut publisher, mut channel) =
        (Publisher::new(&small.broker, &small.principal), PublishChannel::new());
    let body = body(0);
    let messages = |count| std::iter::repeat_n(message(b"amq.fanout", b"", &body), count);
    assert!(publisher.check_transaction(&mut channel, messages(20)).is_ok());
    let Err(Refused::Storage(why)) = publisher.check_transaction(&mut channel, messages(60)) else {
        panic!("it would fill the disk")
    };
    assert!(why.contains("too few for a transaction of 44"), "{why}");
}
