//! A power cut between the deletion of a queue and its sync.

use std::sync::Arc;
use std::time::Duration;

use message::TableBuf;
use platform::{SimClock, SimDisk};

use crate::data::publish::{Incoming, PublishChannel, Publisher};
use crate::driven::{Driven, Engine};
use crate::test_broker::driven_on;
use crate::{Broker, Driver, FileSizes, Principal, QueueDeclare};

const COUNT: u64 = 10;

fn declare(broker: &Broker, principal: &Principal, name: &[u8]) {
    let arguments = TableBuf::new();
    let arguments = arguments.as_table();
    let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
    broker.declare_queue(principal, declare).expect("it can be declared");
}

fn publish(broker: &Broker, principal: &Principal, queue: &[u8]) {
    let mut publisher = Publisher::new(broker, principal);
    let (body, properties) = ([1; 1000], [0x10, 0, 2]);
    let message = Incoming {
        mandatory: false,
        exchange: b"",
        routing_key: queue,
        properties: &properties,
        body: &body,
    };
    publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
    publisher.flush();
}

/// Whatever can be done while the metadata log is not written.
fn run_but_metadata(driver: &mut Driver) {
    let others = || Engine::ALL.into_iter().filter(|engine| *engine != Engine::MetadataLog);
    while others().any(|engine| driver.step(engine) == Driven::Worked) {}
}

/// A queue with messages is deleted, others fill the log and are drained; then the power goes.
fn messages_after_power_cut(is_deletion_synced: bool) -> Option<u64> {
    let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
    let sizes = FileSizes { log_file_bytes_max: 4 << 10, ..FileSizes::default() };
    let (broker, mut driver, principal) = driven_on(&disk, &clock, sizes);
    [&b"deleted"[..], b"other"].iter().for_each(|name| declare(&broker, &principal, name));
    driver.run_until_idle();
    (0..COUNT).for_each(|_| publish(&broker, &principal, b"deleted"));
    driver.run_until_idle();
    let files_before = disk.file_count();
    let mut deleted = broker.delete_queue(&principal, b"deleted", false, false).expect("it is there");
    if is_deletion_synced {
        driver.run_until_idle();
    }
    for _ in 0..20 {
        (0..4).for_each(|_| publish(&broker, &principal, b"other"));
        run_but_metadata(&mut driver);
        for _ in 0..4 {
            drop(broker.get(&principal, b"other", false).expect("it is there"));
        }
        clock.advance(Duration::from_secs(30));
        run_but_metadata(&mut driver);
    }
    assert_eq!(deleted.try_take().is_some(), is_deletion_synced);
    let files = disk.file_count();
    assert_eq!(files < files_before + 8, is_deletion_synced, "{files_before} files became {files}");
    drop((broker, principal, driver));
    disk.crash(1);
    let (broker, _driver, principal) = driven_on(&disk, &clock, sizes);
    let queue = broker.check_queue(&principal, b"deleted").ok()?;
    drop(principal);
    Some(queue.queue.stats().wait().ready)
}

#[test]
fn a_queue_whose_deletion_was_not_synced_comes_back_with_all_its_messages() {
    assert_eq!(messages_after_power_cut(false), Some(COUNT));
    assert_eq!(messages_after_power_cut(true), None);
}
