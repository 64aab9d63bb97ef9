//! Costs of the hot shapes of the codecs: `cargo bench -p wire --bench codecs`, or with a name as filter.
//!
//! Before anything is timed, each shape runs under an allocator that counts: decoding in place and encoding into a
//! buffer that is large enough must not allocate at all.

mod amqp10;
mod mqtt;
mod stream;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    amqp10::check();
    stream::check();
    mqtt::check();
    divan::main();
}

/// Runs `work` twice, the first time to let buffers grow, and fails if the second one allocates.
fn allocates_nothing(what: &str, mut work: impl FnMut()) {
    work();
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{what} allocates");
}
