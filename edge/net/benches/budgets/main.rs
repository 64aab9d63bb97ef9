//! Memory of things, counted by the allocator: idle queues, bindings, connections, messages that wait, messages that
//! are not acked. Prints a table with the budget of each and fails when one is exceeded.
//!
//! `cargo bench -p net --bench budgets` (three minutes, 2 GB of disk below the target folder), or with a factor for the counts:
//! `cargo bench -p net --bench budgets -- 0.1`. With the word `objects` messages are left out: so `make test` runs it. Everything goes through a real socket, so nothing that a message or an object
//! causes anywhere is left out. Memory that exists once (buffers of threads, the bound of a queue's memory) is not in the figures:
//! they are differences between many and more.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

mod client;

use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, BrokerOptions, QueueStats};
use net::{Endpoint, Listener, ListenerOptions};
use platform::{RealClock, RealRandom};
use protocols::amqp091::{Door, Settings};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use wire::amqp091::TableBuf;

use client::{Client, Message};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Messages of backlogs and objects of each kind at factor 1.
const COUNT: f64 = 100_000.0;

/// Longer than what an empty queue keeps for its next message.
const REST: Duration = Duration::from_secs(7);

/// Messages published before confirms are awaited.
const PART: usize = 500;

/// The same before a measurement: buffers on the way become as large then as they ever do, and stay so.
const PART_BEFORE: usize = 4 * PART;

/// Times that a backlog grows while it is measured: the newest block has room for messages that may come, more or less of it each time.
const ROUNDS: usize = 16;

/// The messages that a queue keeps in memory have this bound, whatever is in them.
const QUEUE_MEMORY_BYTES_MAX: u64 = 4 << 20;

/// A measured cost.
struct Line {
    what: String,
    bytes_each: f64,
    /// Its budget; `None` where the figure is only told.
    budget: Option<f64>,
}

/// Everything that is alive on the heap, bytes.
fn live_bytes() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}

/// [`live_bytes`] as soon as it stands still: threads may still be at work.
fn settled_bytes() -> f64 {
    let mut before = live_bytes();
    loop {
        std::thread::sleep(Duration::from_millis(150));
        let now = live_bytes();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// A broker behind a real socket.
struct Bench {
    broker: Broker,
    address: SocketAddr,
    scale: f64,
    lines: Vec<Line>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn start(scale: f64) -> Bench {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room for messages");
        let options = BrokerOptions { fsync: false, ..BrokerOptions::default() };
        let broker = Broker::open(folder.path(), options).expect("a folder of its own");
        let (tell, told) = std::sync::mpsc::channel();
        let served = broker.clone();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let loopback = [SocketAddr::from(([127, 0, 0, 1], 0))];
                let listener = Listener::bind(&loopback, ListenerOptions::default()).expect("a free port");
                tell.send(listener.local_address().expect("it is bound")).expect("somebody waits");
                let settings = Arc::new(Settings { heartbeat_s: 0, ..Settings::default() });
                let (clock, random) = (Arc::new(RealClock::default()), Arc::new(RealRandom));
                let door = Door { broker: served, settings };
                listener.accept(Endpoint::default(), door, clock, random).await;
            });
        });
        let address = told.recv().expect("the listener starts");
        Bench { broker, address, scale, lines: Vec::new(), _folder: folder }
    }

    fn count(&self, factor: f64) -> usize {
        (COUNT * self.scale * factor) as usize
    }

    fn tell(&mut self, what: &str, bytes_each: f64, budget: Option<f64>) {
        self.lines.push(Line { what: what.to_owned(), bytes_each, budget });
    }

    fn stats(&self, queue: &str) -> QueueStats {
        let vhost = self.broker.vhost("/").expect("the default one");
        vhost.queue(queue.as_bytes()).expect("it is declared").stats().wait()
    }

    /// Bytes that each of `count` repetitions keeps.
    fn cost(&mut self, what: &str, count: usize, budget: Option<f64>, mut make: impl FnMut(&Bench)) {
        let before = settled_bytes();
        make(self);
        let bytes = settled_bytes() - before;
        self.tell(what, bytes / count as f64, budget);
    }
}

fn queues(bench: &mut Bench) {
    let count = bench.count(1.0);
    let mut client = Client::open(bench.address);
    // Tables that grow by doubling are filled to seven eighths, as they are after 117,000 queues: neither best nor worst.
    client.declare_many("warm-", 0..1000, &TableBuf::new());
    bench.cost("idle queue, durable, never used", count, Some(448.0), |_| {
        client.declare_many("idle-", 0..count, &TableBuf::new());
    });
    bench.cost("binding of a queue to a direct exchange, key of 11 bytes", count, None, |_| {
        client.bind_many("idle-", "amq.direct", 0..count);
    });
    // So few that no table doubles by them. The extra of a plain queue is its argument, and the time when it is to be woken.
    let few = count / 50;
    for argument in ["x-expires", "x-message-ttl"] {
        let mut day = TableBuf::new();
        day.push_i64(argument, 86_400_000);
        let what = format!(
            "idle queue with {argument}, its argument of {} bytes with it",
            day.as_table().raw().len()
        );
        bench.cost(&what, few, Some(544.0), |_| {
            client.declare_many(argument, 0..few, &day);
            std::thread::sleep(REST);
        });
    }
    // So few that the first has not come to rest when the last is used.
    used(
        bench,
        &mut client,
        ("spent-", few),
        Duration::ZERO,
        "the same queue when a message has just gone through it, on top",
        None,
    );
    std::thread::sleep(REST);
    let what = "the same queue after a message went through it and it came to rest, on top";
    used(bench, &mut client, ("used-", count / 10), REST, what, Some(64.0));
}

/// Queues through each of which a message goes.
fn used(
    bench: &mut Bench,
    client: &mut Client,
    (prefix, count): (&str, usize),
    rest: Duration,
    what: &str,
    budget: Option<f64>,
) {
    client.declare_many(prefix, 0..count, &TableBuf::new());
    bench.cost(what, count, budget, |_| {
        for number in 0..count {
            client.publish(&Message::sized(12), &format!("{prefix}{number:06}"), 1);
        }
        for number in 0..count {
            client.get_and_ack(&format!("{prefix}{number:06}"));
        }
        std::thread::sleep(rest);
    });
}

fn connections(bench: &mut Bench) {
    let count = bench.count(0.02).clamp(10, 4000);
    let mut clients: Vec<Client> = (0..10).map(|_| Client::open(bench.address)).collect();
    bench.cost("idle connection with a channel, client properties of pika", count, Some(6144.0), |bench| {
        clients.extend((0..count).map(|_| Client::open(bench.address)));
    });
}

fn backlogs(bench: &mut Bench) {
    let mut ttl = TableBuf::new();
    ttl.push_i64("x-message-ttl", 3_600_000);
    let [ten, all] = [10, 255].map(|levels| {
        let mut priorities = TableBuf::new();
        priorities.push_i64("x-max-priority", levels);
        priorities
    });
    let plain = TableBuf::new();
    let small = Message::sized(100);
    let large = Message::sized(1000);
    let ranked = |priorities| Message { priorities, ..small };
    let kinds: [(&str, &TableBuf, Message, f64); 9] = [
        ("ready, 100 bytes, transient", &plain, small, 1.0),
        ("ready, 1000 bytes, transient", &plain, large, 1.0),
        ("ready, 1000 bytes, persistent", &plain, Message { persistent: true, ..large }, 1.0),
        ("ready, 1000 bytes, TTL of the queue", &ttl, large, 2.0),
        ("ready, 100 bytes, TTL of the queue", &ttl, small, 2.0),
        ("ready, 1000 bytes, TTL of each message", &plain, Message { expires: true, ..large }, 2.0),
        (
            "ready, 100 bytes, TTL of each message, ten priorities",
            &ten,
            Message { expires: true, ..ranked(10) },
            2.0,
        ),
        ("ready, 100 bytes, ten priorities", &ten, ranked(10), 2.0),
        ("ready, 100 bytes, 255 priorities", &all, ranked(255), 2.0),
    ];
    for (what, arguments, message, budget) in kinds {
        let mut client = Client::open(bench.address);
        client.use_confirms();
        let name = what.replace([' ', ','], "-");
        client.declare(&name, arguments);
        // The bound of what a queue keeps in memory is reached before the measurement begins.
        fill(&mut client, &name, message, (bench.count(2.0), PART_BEFORE));
        let count = bench.count(0.75);
        let mut sizes = vec![beside_messages(bench, &name)];
        for _ in 0..ROUNDS {
            fill(&mut client, &name, message, (count, PART));
            sizes.push(beside_messages(bench, &name));
        }
        bench.tell(what, slope(&sizes) / count as f64, Some(budget));
        client.delete(&name);
    }
}

/// Bytes alive on the heap beside the messages that a queue may keep in memory: those have a bound of their own, and come and go by blocks.
/// Bytes that the queue keeps beyond that bound are not left out.
fn beside_messages(bench: &Bench, queue: &str) -> f64 {
    let bytes = settled_bytes();
    bytes - bench.stats(queue).resident_bytes.min(QUEUE_MEMORY_BYTES_MAX) as f64
}

/// How much is added from one to the next: of the straight line that is nearest to them.
fn slope(sizes: &[f64]) -> f64 {
    let middle = (sizes.len() - 1) as f64 / 2.0;
    let from_middle = || (0..sizes.len()).map(|nth| nth as f64 - middle);
    let weighed: f64 = from_middle().zip(sizes).map(|(at, size)| at * size).sum();
    weighed / from_middle().map(|at| at * at).sum::<f64>()
}

/// Publishes in parts of so many messages.
fn fill(client: &mut Client, queue: &str, message: Message, (count, part): (usize, usize)) {
    for first in (0..count).step_by(part) {
        client.publish(&message, queue, part.min(count - first));
    }
}

fn unacked(bench: &mut Bench) {
    let mut publisher = Client::open(bench.address);
    let count = bench.count(3.0);
    publisher.use_confirms();
    publisher.declare("unacked", &TableBuf::new());
    fill(&mut publisher, "unacked", Message::sized(100), (2 * count, PART));
    let mut consumer = Client::open(bench.address);
    consumer.consume("unacked", 2 * count);
    consumer.receive(count);
    let what = "delivered and not acked, 100 bytes, one consumer";
    bench.cost(what, count, Some(64.0), |_| consumer.receive(count));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let scale = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1.0);
    let mut bench = Bench::start(scale);
    queues(&mut bench);
    connections(&mut bench);
    if !words.iter().any(|word| word == "objects") {
        backlogs(&mut bench);
        unacked(&mut bench);
    }
    let mut exceeded = 0;
    println!("{:76} {:>10} {:>8}", "bytes of heap for each", "measured", "budget");
    for Line { what, bytes_each, budget } in &bench.lines {
        let is_exceeded = budget.is_some_and(|budget| *bytes_each > budget);
        exceeded += usize::from(is_exceeded);
        let budget = budget.map_or("-".to_owned(), |budget| format!("{budget}"));
        println!("{what:76} {bytes_each:10.2} {budget:>8}{}", if is_exceeded { "  EXCEEDED" } else { "" });
    }
    std::process::exit(i32::from(exceeded > 0));
}
