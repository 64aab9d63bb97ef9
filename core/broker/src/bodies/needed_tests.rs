//! Records of shared bodies on a simulated disk: how long the log needs them.

use std::sync::Arc;

use message::Table;
use platform::{SimClock, SimDisk};

use crate::data::publish::{Incoming, PublishChannel, Publisher};
use crate::driven::{Driven, Engine};
use crate::test_broker::driven_on;
use crate::{
    BindRequest, Broker, DestinationName, Driver, FileSizes, Principal, QueueDeclare, SharedBodySizes,
};

const QUEUES: [&[u8]; 2] = [b"one", b"other"];
const BODY_BYTES: usize = 1000;
const COUNT: u8 = 40;

/// A broker with two queues at a fanout exchange, whose bodies are shared and whose log files are small.
fn fanout(disk: &SimDisk, clock: &Arc<SimClock>) -> (Broker, Driver, Principal) {
    let bodies = SharedBodySizes { bytes_min: 100, ..SharedBodySizes::default() };
    let sizes = FileSizes { log_file_bytes_max: 8 << 10, bodies, ..FileSizes::default() };
    let (broker, mut driver, principal) = driven_on(disk, clock, sizes);
    for name in QUEUES {
        let arguments = Table::from_raw(&[]);
        let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
        broker.declare_queue(&principal, declare).expect("it can be declared");
        driver.run_until_idle();
        let destination = DestinationName::Queue(name);
        let bind = BindRequest { source: b"amq.fanout", destination, routing_key: b"", arguments };
        broker.bind(&principal, bind).expect("both are there");
    }
    driver.run_until_idle();
    (broker, driver, principal)
}

/// Publishes a message to both queues.
fn publish(broker: &Broker, principal: &Principal, byte: u8) {
    let (properties, body) = ([0x10, 0, 2], [byte; BODY_BYTES]);
    let (exchange, routing_key) = (&b"amq.fanout"[..], &b""[..]);
    let message = Incoming { mandatory: false, exchange, routing_key, properties: &properties, body: &body };
    let mut publisher = Publisher::new(broker, principal);
    publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
    publisher.flush();
}

/// First bytes of the bodies that a queue holds; they are settled.
fn take_all(broker: &Broker, driver: &mut Driver, principal: &Principal, name: &[u8]) -> Vec<u8> {
    take_all_with(broker, principal, name, || driver.run_until_idle())
}

fn take_all_with(broker: &Broker, principal: &Principal, name: &[u8], mut run: impl FnMut()) -> Vec<u8> {
    let get = || {
        let (_, mut call) = broker.get(principal, name, false).expect("the queue is there");
        run();
        let got = call.try_take().expect("it is answered").expect("it is in service")?;
        assert!(got.body.len() == BODY_BYTES && got.body.iter().all(|byte| *byte == got.body[0]));
        Some(got.body[0])
    };
    std::iter::from_fn(get).collect()
}

#[test]
fn log_files_stay_while_segments_have_no_room_for_the_bodies_in_them() {
    let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
    let (broker, mut driver, principal) = fanout(&disk, &clock);
    let but_checkpointer = |driver: &mut Driver| driver.run_until_idle_without(Some(Engine::Checkpointer));
    // Most of the log is dead, or none of it would be emptied.
    for bytes in [COUNT..2 * COUNT, 0..COUNT] {
        for name in QUEUES {
            take_all_with(&broker, &principal, name, || but_checkpointer(&mut driver));
        }
        for byte in bytes {
            publish(&broker, &principal, byte);
            but_checkpointer(&mut driver);
        }
    }
    let files = broker.services().log.sealed_files().len();
    assert!(files > 4, "{files}");
    // The checkpoint begins, and nothing of what it asks for can be written.
    disk.set_space_bytes(Some(0));
    assert_eq!(driver.step(Engine::Checkpointer), Driven::Worked);
    for _ in 0..20 {
        driver.step(Engine::Segments);
        driver.step(Engine::Checkpointer);
    }
    disk.set_space_bytes(None);
    // The records of the queues find room now, and the checkpoint ends.
    while driver.step(Engine::MessageLog) == Driven::Worked {}
    driver.step(Engine::Checkpointer);
    drop((broker, principal, driver));
    disk.crash(1);
    let (broker, mut driver, principal) = fanout(&disk, &clock);
    let all: Vec<u8> = (0..COUNT).collect();
    for name in QUEUES {
        assert_eq!(take_all(&broker, &mut driver, &principal, name), all);
    }
}

#[test]
fn the_record_of_a_body_is_needed_until_it_is_durable_that_its_messages_are_settled() {
    let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
    let (broker, mut driver, principal) = fanout(&disk, &clock);
    publish(&broker, &principal, 1);
    driver.run_until_idle();
    let services = broker.services();
    let position = services.log.durable().0;
    let is_free = || services.bodies.is_free_of(position, services.log.durable().0);
    assert!(!is_free(), "both queues name it");
    for name in QUEUES {
        drop(broker.get(&principal, name, false).expect("it is there"));
    }
    assert!(!is_free(), "after a power cut both queues would name it again");
    driver.run_until_idle();
    assert!(is_free());
}
