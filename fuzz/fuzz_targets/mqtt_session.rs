//! Feeds `protocols::fuzzing::mqtt_session`, which says what it checks, on a broker in a temporary folder.
#![no_main]

use std::sync::LazyLock;

use broker::{Broker, BrokerOptions};
use tempfile::TempDir;

static BROKER: LazyLock<(Broker, TempDir)> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a temporary folder");
    let broker = Broker::open(folder.path(), BrokerOptions::default()).expect("a broker in an empty folder");
    (broker, folder)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocols::fuzzing::mqtt_session(&BROKER.0, data));
