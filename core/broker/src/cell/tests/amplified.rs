//! Messages that many queues write a copy of, on a disk that is nearly full.

use std::task::{Context, Waker};

use platform::{SimClock, SimDisk};

use super::*;
use crate::alarms::DiskLimit;
use crate::control::bindings::{BindRequest, DestinationName};
use crate::driven::Driver;
use crate::foundation::FileSizes;
use crate::test_broker::driven_on;

/// A copy of each: below what queues share.
const BODY_BYTES: usize = 12 << 10;

/// A broker on a disk of 40 MiB, whose `amq.fanout` leads to some queues.
struct Small {
    broker: Broker,
    driver: Driver,
    principal: Principal,
    queues: Vec<Arc<Queue>>,
}

impl Small {
    fn new(queues: usize) -> Small {
        let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
        let (broker, driver, principal) = driven_on(&disk, &clock, FileSizes::default());
        let mut small = Small { broker, driver, principal, queues: Vec::new() };
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
        self.broker.declare_queue(&self.principal, declare).expect("it can be declared");
        self.principal.vhost.queue(name.as_bytes()).expect("it is declared")
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
