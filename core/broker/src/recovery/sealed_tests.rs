//! Files of the message log that earlier lives of a node filled.

use std::path::Path;
use std::sync::Arc;

use message::Table;
use platform::{Disk, SimClock, SimDisk};

use crate::data::publish::{Incoming, PublishChannel, Publisher};
use crate::test_broker::driven_on;
use crate::{FileSizes, QueueDeclare};

/// Fills several files of the log with messages that are settled at once, in lives that are too short for more than one each; how many files there
/// are after the last.
fn files_after_short_lives(lives: usize) -> usize {
    let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
    let sizes = FileSizes { log_file_bytes_max: 4 << 10, ..FileSizes::default() };
    for _ in 0..lives {
        let (broker, mut driver, principal) = driven_on(&disk, &clock, sizes);
        let arguments = Table::from_raw(&[]);
        let declare =
            QueueDeclare { name: b"q", durable: true, exclusive: false, auto_delete: false, arguments };
        broker.declare_queue(&principal, declare).expect("it can be declared");
        driver.run_until_idle();
        for _ in 0..5 {
            let mut publisher = Publisher::new(&broker, &principal);
            let (properties, body) = (&[0x10, 0, 2][..], &[1; 1000][..]);
            let message = Incoming { mandatory: false, exchange: b"", routing_key: b"q", properties, body };
            publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
            drop(publisher);
            driver.run_until_idle();
            drop(broker.get(&principal, b"q", false).expect("it is there"));
            driver.run_until_idle();
        }
        drop((broker, driver, principal));
        disk.kill();
    }
    disk.list(Path::new("/data/log")).expect("it is there").len()
}

#[test]
fn log_files_that_earlier_lives_filled_go_though_each_life_fills_few() {
    let few = files_after_short_lives(3);
    assert_eq!(files_after_short_lives(30), few.max(files_after_short_lives(6)));
}
