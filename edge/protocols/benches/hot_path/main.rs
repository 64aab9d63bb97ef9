//! Cost of a message between the socket's bytes and the socket's bytes, without sockets: sessions, routing, queues.
//!
//! `cargo bench -p protocols --bench hot_path` prints nanoseconds per message; on a machine that others use, the fastest round counts.
//! `-- --one-round-of N [--without-stages]` does one round of the N-th workload and prints its name and number of messages.
//! `testing/bench/hot_path.sh` counts the instructions of it, which are the same on a busy machine as on an idle one.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

mod client;

use std::time::{Duration, Instant};

use broker::{Broker, BrokerOptions, StageTiming};
use client::{Acks, Client, Message, publishes};

/// A workload: as `testing/bench/workloads.py` has those of the same name.
struct Workload {
    name: &'static str,
    message: Message<'static>,
    acks: Acks,
    confirms: bool,
    queues: usize,
    /// Messages of one read at most: clients that flush each message bring few.
    read_messages_max: u64,
}

const FANOUT: Message<'static> =
    Message { exchange: "amq.fanout", routing_key: "q0", body_bytes: 5, is_persistent: false };
const DIRECT: Message<'static> =
    Message { exchange: "amq.direct", routing_key: "q0", body_bytes: 12, is_persistent: false };
const WHOLE_READS: u64 = u64::MAX;

const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "fanout",
        message: FANOUT,
        acks: Acks::Never,
        confirms: false,
        queues: 1,
        read_messages_max: WHOLE_READS,
    },
    Workload {
        name: "direct",
        message: DIRECT,
        acks: Acks::Every(200),
        confirms: false,
        queues: 1,
        read_messages_max: WHOLE_READS,
    },
    Workload {
        name: "durable",
        message: Message { is_persistent: true, ..DIRECT },
        acks: Acks::Every(200),
        confirms: true,
        queues: 1,
        read_messages_max: WHOLE_READS,
    },
    Workload {
        name: "fanout-10",
        message: FANOUT,
        acks: Acks::Never,
        confirms: false,
        queues: 10,
        read_messages_max: WHOLE_READS,
    },
    Workload {
        name: "each acked, 20 a read",
        message: DIRECT,
        acks: Acks::Each,
        confirms: false,
        queues: 1,
        read_messages_max: 20,
    },
    Workload {
        name: "each acked, one a read",
        message: DIRECT,
        acks: Acks::Each,
        confirms: false,
        queues: 1,
        read_messages_max: 1,
    },
    Workload {
        name: "1 kB, acked",
        message: Message { body_bytes: 1000, ..DIRECT },
        acks: Acks::Every(200),
        confirms: false,
        queues: 1,
        read_messages_max: WHOLE_READS,
    },
    Workload {
        name: "default exchange, confirmed",
        message: Message { exchange: "", ..DIRECT },
        acks: Acks::Every(200),
        confirms: true,
        queues: 1,
        read_messages_max: WHOLE_READS,
    },
];

/// Messages of a round, about.
const ROUND_MESSAGES: u64 = 40_000;

/// How long each workload is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// A broker, one who publishes and those who consume.
struct Bench<'a> {
    workload: &'a Workload,
    publisher: Client,
    consumers: Vec<Client>,
    read: (Vec<u8>, u64),
    _folder: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    fn start(workload: &'a Workload, stages: StageTiming) -> Bench<'a> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room for messages");
        let options = BrokerOptions { fsync: false, stages, ..BrokerOptions::default() };
        let broker = Broker::open(folder.path(), options).expect("a folder of its own");
        let mut publisher = Client::open(&broker);
        let names: Vec<String> = (0..workload.queues).map(|nth| format!("q{nth}")).collect();
        let consumers = names.iter().map(|name| {
            publisher.declare(name, workload.message.exchange);
            let mut consumer = Client::open(&broker);
            consumer.consume(name, workload.acks, 1000);
            consumer
        });
        let consumers = consumers.collect();
        if workload.confirms {
            publisher.confirm();
        }
        // A window of 1000 unacked messages and what is confirmed at once bound what one read may bring.
        let most = if workload.acks == Acks::Never { u64::MAX } else { 800 };
        let read = publishes(&workload.message, workload.read_messages_max.min(most));
        Bench { workload, publisher, consumers, read, _folder: folder }
    }

    /// Publishes and consumes so many reads; returns the number of deliveries.
    fn round(&mut self, reads: u64) -> u64 {
        let mut count = 0;
        for _ in 0..reads {
            self.publisher.give(&self.read.0);
            self.publisher.take();
            for consumer in &mut self.consumers {
                count += consumer.take_and_ack(self.workload.acks);
            }
        }
        count
    }

    /// Takes what is still on its way, so that rounds are alike.
    fn rest(&mut self) -> u64 {
        self.consumers.iter_mut().map(|consumer| consumer.take_and_ack(self.workload.acks)).sum()
    }

    fn reads(&self) -> u64 {
        (ROUND_MESSAGES / self.workload.queues as u64 / self.read.1).max(1)
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let stages = match words.iter().any(|word| word == "--without-stages") {
        true => StageTiming::Off,
        false => StageTiming::On,
    };
    if let Some(at) = words.iter().position(|word| word == "--one-round-of") {
        let nth: usize = words[at + 1].parse().expect("a number of a workload");
        let Some(workload) = WORKLOADS.get(nth) else { return };
        let mut bench = Bench::start(workload, stages);
        let count = bench.round(bench.reads()) + bench.rest();
        println!("{count}\t{}", workload.name);
        return;
    }
    println!("| workload | ns each |\n|---|---:|");
    for workload in &WORKLOADS {
        let mut bench = Bench::start(workload, stages);
        let (began, mut best) = (Instant::now(), f64::INFINITY);
        while began.elapsed() < MEASURED {
            let round = Instant::now();
            let count = bench.round(bench.reads()) + bench.rest();
            best = best.min(round.elapsed().as_nanos() as f64 / count as f64);
        }
        println!("| {} | {best:.0} |", workload.name);
    }
}
