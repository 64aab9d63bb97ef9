//! Routing and binding changes at the sizes that the founding documents report; `cargo bench -p routing`.
//!
//! Handles are `Arc`s hashed by id, as in the broker. One item is one route, or one binding changed.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, main as run_all};
use message::{Table as Arguments, TableBuf};
use routing::{
    Destination, Exchange, ExchangeKind, Lookup, Message, QueueHandle, Retired, Scratch, Table, route,
};

fn main() {
    run_all();
}

#[derive(Clone)]
struct Handle(Arc<u64>);

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Eq for Handle {}

impl QueueHandle for Handle {
    type Exchange = Exchange<Handle>;

    fn cmp_names(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

fn queues(count: u64) -> Vec<Destination<Handle>> {
    (0..count).map(|id| Destination::Queue(Handle(Arc::new(id)))).collect()
}

/// An exchange with these bindings.
fn exchange<'d>(
    kind: ExchangeKind,
    bindings: impl IntoIterator<Item = (String, &'d Destination<Handle>)>,
) -> Exchange<Handle> {
    let exchange = Exchange::new(1, b"x", kind);
    let _ = exchange.edit(|table| {
        for (key, destination) in bindings {
            table.bind(key.as_bytes(), Arguments::EMPTY, destination);
        }
    });
    exchange
}

/// Numbers below `count` in an order that no cache foresees.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..u64::MAX).map(move |n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % count)
}

/// Routes a thousand prepared messages per iteration, each with one key.
fn bench_routes(bencher: Bencher, exchange: &Exchange<Handle>, keys: &[String]) {
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    bencher.counter(ItemsCount::new(keys.len())).bench_local(|| {
        for key in keys {
            let message = Message { keys: &[key.as_bytes()], ..Message::default() };
            route(black_box(exchange), &message, &|_| None, &mut scratch, &mut out);
            assert!(!black_box(&out).is_empty());
        }
    });
}

/// Looks the keys up in a table loaded once, without copying the result.
fn bench_lookups(bencher: Bencher, exchange: &Exchange<Handle>, keys: &[String]) {
    bencher.counter(ItemsCount::new(keys.len())).bench_local(|| {
        let table = exchange.load();
        for key in keys {
            let Lookup::Queues(queues) = table.lookup(black_box(key.as_bytes())) else {
                panic!("no such list")
            };
            black_box(queues.as_slice());
        }
    });
}

mod direct_among_1m {
    use super::*;

    fn prepare() -> (Exchange<Handle>, Vec<String>) {
        let queues = queues(1000);
        let named = (0..1_000_000u64).map(|n| (format!("key.{n}"), &queues[(n % 1000) as usize]));
        let keys = scattered(1_000_000).take(1000).map(|n| format!("key.{n}")).collect();
        (exchange(ExchangeKind::Direct, named), keys)
    }

    #[divan::bench]
    fn routes(bencher: Bencher) {
        let (exchange, keys) = prepare();
        bench_routes(bencher, &exchange, &keys);
    }

    #[divan::bench]
    fn lookups(bencher: Bencher) {
        let (exchange, keys) = prepare();
        bench_lookups(bencher, &exchange, &keys);
    }

    /// Other keys every time: nothing is in a cache.
    #[divan::bench(sample_count = 20, sample_size = 1)]
    fn lookups_cold(bencher: Bencher) {
        let (exchange, _) = prepare();
        let keys: Vec<String> = scattered(1_000_000).take(200_000).map(|n| format!("key.{n}")).collect();
        bench_lookups(bencher, &exchange, &keys);
    }
}

/// 10,000 devices: each its own filter and all of them `broadcast.#`.
mod mqtt_devices {
    use super::*;

    const DEVICES: u64 = 10_000;

    fn prepare(filter: &str) -> Exchange<Handle> {
        let queues = queues(DEVICES);
        let own = (0..DEVICES).map(|n| (format!("devices.{n}.{filter}"), &queues[n as usize]));
        let shared = (0..DEVICES).map(|n| ("broadcast.#".to_owned(), &queues[n as usize]));
        exchange(ExchangeKind::Topic, own.chain(shared))
    }

    fn keys() -> Vec<String> {
        scattered(DEVICES).take(10_000).map(|n| format!("devices.{n}.commands")).collect()
    }

    #[divan::bench(args = ["commands", "*", "#"])]
    fn unicast_routes(bencher: Bencher, filter: &str) {
        bench_routes(bencher, &prepare(filter), &keys());
    }

    #[divan::bench(args = ["commands", "*", "#"])]
    fn unicast_lookups(bencher: Bencher, filter: &str) {
        bench_lookups(bencher, &prepare(filter), &keys());
    }

    #[divan::bench]
    fn broadcast_to_10k_copied(bencher: Bencher) {
        bench_routes(bencher, &prepare("#"), &["broadcast.news".to_owned()]);
    }

    #[divan::bench]
    fn broadcast_to_10k_shared(bencher: Bencher) {
        bench_lookups(bencher, &prepare("#"), &["broadcast.news".to_owned()]);
    }

    /// The shared list, and one look at each handle in it.
    #[divan::bench]
    fn broadcast_to_10k_shared_and_walked(bencher: Bencher) {
        let exchange = prepare("#");
        bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
            let table = exchange.load();
            let Lookup::Queues(queues) = table.lookup(black_box(b"broadcast.news")) else {
                panic!("no such list")
            };
            queues
                .chunks()
                .flatten()
                .map(|queue| Arc::as_ptr(&queue.0) as usize)
                .fold(0, |sum, ptr| sum ^ ptr)
        });
    }

    #[divan::bench(args = ["commands", "#"], sample_count = 20, sample_size = 1)]
    fn insert_each_published(bencher: Bencher, filter: &str) {
        let queues = queues(DEVICES);
        let bindings: Vec<String> = (0..DEVICES).map(|n| format!("devices.{n}.{filter}")).collect();
        bencher.counter(ItemsCount::new(2 * DEVICES)).bench_local(|| {
            let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
            let mut retired = Retired::new();
            for (key, queue) in bindings.iter().zip(&queues) {
                for key in [key.as_bytes(), b"broadcast.#"] {
                    retired.retire(exchange.edit(|table| table.bind(key, Arguments::EMPTY, queue)).1);
                }
            }
            exchange
        });
    }
}

mod one_key_10k {
    use super::*;

    fn prepare(kind: ExchangeKind) -> Exchange<Handle> {
        let queues = queues(10_000);
        exchange(kind, queues.iter().map(|queue| ("one.key".to_owned(), queue)))
    }

    #[divan::bench(args = [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic])]
    fn routes_copied(bencher: Bencher, kind: ExchangeKind) {
        bench_routes(bencher, &prepare(kind), &["one.key".to_owned()]);
    }

    #[divan::bench(args = [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic])]
    fn routes_shared(bencher: Bencher, kind: ExchangeKind) {
        bench_lookups(bencher, &prepare(kind), &["one.key".to_owned()]);
    }

    #[divan::bench(sample_count = 20, sample_size = 1)]
    fn insert_in_one_batch(bencher: Bencher) {
        let queues = queues(10_000);
        bencher.counter(ItemsCount::new(queues.len())).bench_local(|| {
            exchange(ExchangeKind::Topic, queues.iter().map(|queue| ("one.key".to_owned(), queue)))
        });
    }

    #[divan::bench(sample_count = 20, sample_size = 1)]
    fn insert_each_published(bencher: Bencher) {
        let queues = queues(10_000);
        bencher.counter(ItemsCount::new(queues.len())).bench_local(|| {
            let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
            let mut retired = Retired::new();
            for queue in &queues {
                retired.retire(exchange.edit(|table| table.bind(b"one.key", Arguments::EMPTY, queue)).1);
            }
            exchange
        });
    }
}

/// 2,000 clients come and go with 4 filters each; one publish of the table per client.
mod churn {
    use super::*;

    fn filters(client: usize) -> [String; 4] {
        ["status", "*.state", "#", "telemetry.*.#"].map(|filter| format!("clients.{client}.{filter}"))
    }

    #[divan::bench(sample_count = 20, sample_size = 1)]
    fn insert_8k(bencher: Bencher) {
        let queues = queues(2000);
        let filters: Vec<_> = (0..queues.len()).map(filters).collect();
        bencher.counter(ItemsCount::new(4 * queues.len())).bench_local(|| {
            let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
            let mut retired = Retired::new();
            for (queue, filters) in queues.iter().zip(&filters) {
                let bind = |table: &mut Table<Handle>| {
                    for filter in filters {
                        table.bind(filter.as_bytes(), Arguments::EMPTY, queue);
                    }
                };
                retired.retire(exchange.edit(bind).1);
            }
            exchange
        });
    }

    /// Every client in turn leaves and comes back.
    #[divan::bench(sample_count = 20, sample_size = 1)]
    fn leave_and_return(bencher: Bencher) {
        let queues = queues(2000);
        let filters: Vec<_> = (0..queues.len()).map(filters).collect();
        let all = queues
            .iter()
            .zip(&filters)
            .flat_map(|(queue, filters)| filters.iter().map(move |f| (f.clone(), queue)));
        let exchange = exchange(ExchangeKind::Topic, all);
        let mut retired = Retired::new();
        bencher.counter(ItemsCount::new(8 * queues.len())).bench_local(|| {
            for (queue, filters) in queues.iter().zip(&filters) {
                let filters = || filters.iter().map(String::as_bytes);
                retired.retire(
                    exchange.edit(|t| filters().for_each(|f| _ = t.unbind(f, Arguments::EMPTY, queue))).1,
                );
                retired.retire(
                    exchange.edit(|t| filters().for_each(|f| _ = t.bind(f, Arguments::EMPTY, queue))).1,
                );
            }
        });
    }
}

/// A queue with 100,000 bindings among 200,000 goes away: one batch, one publish, and the old table is freed.
#[divan::bench(args = ["key", "#"], sample_count = 20, sample_size = 1)]
fn delete_queue_with_100k_bindings(bencher: Bencher, filter: &str) {
    let queues = queues(2);
    let key = |n: u32| format!("site.{n}.{filter}");
    let all = (0..200_000).map(|n| (key(n), &queues[(n % 2) as usize]));
    let table = exchange(ExchangeKind::Topic, all).table();
    let leaving: Vec<String> = (0..200_000).filter(|n| n % 2 == 0).map(key).collect();
    bencher.counter(ItemsCount::new(leaving.len())).bench_local(|| {
        let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
        drop(exchange.publish(Table::clone(&table)));
        exchange.edit(|table| {
            leaving.iter().all(|key| table.unbind(key.as_bytes(), Arguments::EMPTY, &queues[0]))
        })
    });
}

/// Many filters that overlap: 1,000 bindings over three words with every mix of wildcards.
#[divan::bench]
fn topic_many_overlapping_filters(bencher: Bencher) {
    let queues = queues(1000);
    let bindings = queues.iter().enumerate().map(|(n, queue)| {
        let word = |part: &str, at: usize| match n / at % 10 {
            0 => "*".to_owned(),
            1 if part != "b" => "#".to_owned(),
            other => format!("{part}{other}"),
        };
        (format!("{}.{}.{}", word("a", 1), word("b", 10), word("c", 100)), queue)
    });
    let exchange = exchange(ExchangeKind::Topic, bindings);
    let keys: Vec<String> = scattered(512)
        .take(1000)
        .map(|n| format!("a{}.b{}.c{}", n % 8 + 2, n / 8 % 8 + 2, n / 64 + 2))
        .collect();
    bench_routes(bencher, &exchange, &keys);
}

#[divan::bench(args = [1, 10, 1000])]
fn fanout(bencher: Bencher, count: u64) {
    let queues = queues(count);
    let exchange = exchange(ExchangeKind::Fanout, queues.iter().map(|queue| (String::new(), queue)));
    bench_routes(bencher, &exchange, &[String::new()]);
}

/// Each binding asks for a format, a region and an id; messages have these and two headers more.
#[divan::bench]
fn headers_among_10k(bencher: Bencher) {
    let queues = queues(10_000);
    let fields = |n: u64| {
        let mut table = TableBuf::new();
        table.push_str("format", ["pdf", "zip"][(n % 2) as usize]).push_i64("region", (n % 7) as i64);
        table.push_i64("id", n as i64);
        table
    };
    let exchange = Exchange::new(1, b"x", ExchangeKind::Headers);
    let _ = exchange.edit(|table| {
        for (n, queue) in (0..).zip(&queues) {
            table.bind(b"", fields(n).as_table(), queue);
        }
    });
    let messages: Vec<TableBuf> = scattered(10_000)
        .take(1000)
        .map(|n| {
            let mut table = fields(n);
            table.push_str("trace", "0123456789abcdef").push_bool("retry", false);
            table
        })
        .collect();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    bencher.counter(ItemsCount::new(messages.len())).bench_local(|| {
        for headers in &messages {
            let message = Message { keys: &[b""], headers: Some(headers.as_table()), properties: None };
            route(black_box(&exchange), &message, &|_| None, &mut scratch, &mut out);
            assert_eq!(out.len(), 1);
        }
    });
}
