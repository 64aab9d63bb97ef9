//! Bytes that tables of 100,000 bindings keep allocated, without what the queues' handles point to:
//! `cargo bench -p routing --bench memory`, column "grow" or "max alloc" divided by 100,000.

use divan::{AllocProfiler, Bencher};
use message::{Table as Arguments, TableBuf};
use routing::{Destination, ExchangeKind, Table};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const COUNT: u64 = 100_000;

fn main() {
    divan::main();
}

/// Handles are as large as a pointer and own nothing.
fn build(kind: ExchangeKind, key: impl Fn(u64) -> String, queue: impl Fn(u64) -> u64) -> Table<u64> {
    let mut table = Table::new(kind);
    for n in 0..COUNT {
        table.bind(key(n).as_bytes(), Arguments::EMPTY, &Destination::Queue(queue(n)));
    }
    table
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn direct_own_keys(bencher: Bencher) {
    bencher.bench_local(|| build(ExchangeKind::Direct, |n| format!("orders.{n}"), |n| n));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn direct_one_key(bencher: Bencher) {
    bencher.bench_local(|| build(ExchangeKind::Direct, |_| "orders".to_owned(), |n| n));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn fanout(bencher: Bencher) {
    bencher.bench_local(|| build(ExchangeKind::Fanout, |_| String::new(), |n| n));
}

#[divan::bench(sample_count = 1, sample_size = 1, args = ["commands", "#", "*.state"])]
fn topic_own_filters(bencher: Bencher, filter: &str) {
    bencher.bench_local(|| build(ExchangeKind::Topic, |n| format!("devices.{n}.{filter}"), |n| n));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn topic_four_filters_per_client(bencher: Bencher) {
    let filters = ["status", "*.state", "#", "telemetry.*.#"];
    bencher.bench_local(|| {
        build(ExchangeKind::Topic, |n| format!("clients.{}.{}", n / 4, filters[(n % 4) as usize]), |n| n / 4)
    });
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn headers_three_arguments(bencher: Bencher) {
    bencher.bench_local(|| {
        let mut table = Table::new(ExchangeKind::Headers);
        for n in 0..COUNT {
            let mut arguments = TableBuf::new();
            arguments.push_str("format", "pdf").push_i64("region", (n % 7).cast_signed());
            arguments.push_i64("id", n.cast_signed());
            table.bind(b"", arguments.as_table(), &Destination::Queue(n));
        }
        table
    });
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn modulus_hash(bencher: Bencher) {
    bencher.bench_local(|| build(ExchangeKind::ModulusHash, |_| String::new(), |n| n));
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn consistent_hash(bencher: Bencher) {
    bencher.bench_local(|| build(ExchangeKind::ConsistentHash, |_| "1".to_owned(), |n| n));
}
