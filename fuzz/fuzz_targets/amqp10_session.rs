//! Feeds `protocols::fuzzing::amqp10_session`, which says what it checks, on a broker with the queue `q`.
#![no_main]

use std::sync::LazyLock;

use broker::{Broker, BrokerOptions};
use tempfile::TempDir;

static BROKER: LazyLock<(Broker, TempDir)> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a temporary folder");
    let broker = Broker::open(folder.path(), BrokerOptions::default()).expect("a broker in an empty folder");
    protocols::fuzzing::declare_queue(&broker, b"q");
    (broker, folder)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocols::fuzzing::amqp10_session(&BROKER.0, data));
