//! Cost of groups: `cargo bench -p multiraft`. CPU of an entry of 1 KiB on three replicas in one process, memory of idle groups, and
//! CPU of their ticks. Three nodes, one thread, a log that keeps nothing, a net without delay.

#![allow(clippy::print_stdout, reason = "figures are what a benchmark is for")]

use std::alloc::System;
use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use commitlog::{Position, RECORD_HEADER_BYTES};
use multiraft::{Body, EntryLog, Envelope, Group, Members, RaftRs, ReplicaId, Role, Settings};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NODES: usize = 3;

/// Counts bytes, as if they were written.
#[derive(Default)]
struct Nowhere {
    end: Cell<u64>,
}

impl EntryLog for Nowhere {
    fn append(&self, _group: u64, _kind: u8, head: &[u8], body: &Bytes) -> Position {
        black_box(crc32fast::hash(head));
        self.end.set(self.end.get() + (RECORD_HEADER_BYTES + head.len() + body.len()) as u64);
        Position(self.end.get())
    }
}

/// Groups on three nodes, group by group.
struct Cluster {
    logs: Vec<Nowhere>,
    groups: Vec<Vec<Group<RaftRs>>>,
    applied: u64,
}

impl Cluster {
    fn new(count: u64, heartbeat_ticks: u16) -> Self {
        let logs: Vec<Nowhere> = (0..NODES).map(|_| Nowhere::default()).collect();
        let ids: Vec<ReplicaId> = (1..=NODES as u64).map(ReplicaId).collect();
        let replicas = |group: u64| {
            let create = |(log, id): (&Nowhere, &ReplicaId)| {
                let mut settings = Settings::new(group, *id);
                settings.timing.heartbeat_ticks = heartbeat_ticks;
                Group::create(settings, Members::of(&ids), &Bytes::new(), log).expect("a group")
            };
            logs.iter().zip(&ids).map(create).collect()
        };
        let groups = (1..=count).map(replicas).collect();
        let mut cluster = Self { logs, groups, applied: 0 };
        for at in 0..cluster.groups.len() {
            cluster.settle(at);
            cluster.groups[at][at % NODES].campaign();
            cluster.settle(at);
        }
        cluster
    }

    /// Passes messages of a group on until there are none; everything is durable at once.
    fn settle(&mut self, at: usize) {
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for node in 0..NODES {
                let (log, group) = (&self.logs[node], &mut self.groups[at]);
                let mut effects = group[node].run(log);
                group[node].durable(Position(log.end.get()));
                let later = group[node].run(log);
                effects.send.extend(later.send);
                self.applied += (effects.apply.len() + later.apply.len()) as u64;
                is_quiet &= effects.send.is_empty();
                self.pass_on(at, effects.send);
            }
        }
    }

    /// Ticks of all replicas. Each message makes a turn of its receiver. Nothing is stored.
    fn tick_all(&mut self) {
        for at in 0..self.groups.len() {
            for node in 0..NODES {
                self.groups[at][node].tick();
                let mut waiting = self.groups[at][node].run(&self.logs[node]).send;
                while let Some(envelope) = waiting.pop() {
                    let to = usize::try_from(envelope.message.to.0).expect("a node") - 1;
                    self.groups[at][to].step(envelope.message, Vec::new()).expect("a message");
                    waiting.extend(self.groups[at][to].run(&self.logs[to]).send);
                }
            }
        }
    }

    fn pass_on(&mut self, at: usize, envelopes: Vec<Envelope>) {
        for envelope in envelopes {
            let to = usize::try_from(envelope.message.to.0).expect("a node") - 1;
            let here = |body| match body {
                Body::Here(bytes) => bytes,
                Body::InLog(_) => unreachable!("recent bodies are in memory"),
            };
            let bodies = envelope.bodies.into_iter().map(here).collect();
            self.groups[at][to].step(envelope.message, bodies).expect("a message");
        }
    }

    fn leader(&mut self, at: usize) -> &mut Group<RaftRs> {
        self.groups[at].iter_mut().find(|group| group.status().role == Role::Leader).expect("a leader")
    }
}

/// CPU time of this thread: other work on the machine does not count.
fn cpu_time() -> Duration {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says how long a thread has run");
    let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}

/// CPU time of one entry on all three replicas together.
fn entries(batch: u64) -> Duration {
    let mut cluster = Cluster::new(1, 3);
    let body = Bytes::from(vec![7; 1024]);
    let rounds = 200_000 / batch;
    let started = cpu_time();
    for _ in 0..rounds {
        for _ in 0..batch {
            cluster.leader(0).propose(body.clone()).expect("a leader");
        }
        cluster.settle(0);
    }
    let spent = cpu_time() - started;
    assert!(cluster.applied >= rounds * batch * NODES as u64);
    spent / u32::try_from(rounds * batch).expect("a count")
}

fn idle(count: u64, heartbeat_ticks: u16) {
    let region = Region::new(ALLOCATOR);
    let mut cluster = Cluster::new(count, heartbeat_ticks);
    let stats = region.change();
    let bytes = stats.bytes_allocated - stats.bytes_deallocated;
    let per_replica = bytes / (cluster.groups.len() * NODES);
    cluster.tick_all();
    // Three seconds of ticks of 100 ms, heartbeats among them.
    let started = cpu_time();
    for _ in 0..30 {
        cluster.tick_all();
    }
    let spent = cpu_time() - started;
    let percent = spent.as_secs_f64() * 100.0 / 3.0 / NODES as f64;
    println!(
        "{count} idle groups, a heartbeat each {heartbeat_ticks} ticks: {per_replica} bytes a replica, {percent:.2} % of a core per node"
    );
}

fn main() {
    for batch in [1, 50] {
        println!(
            "entries of 1 KiB, {batch} in a turn: {:?} each, on three replicas together",
            entries(batch)
        );
    }
    for count in [1000, 10_000] {
        idle(count, 3);
        idle(count, 5);
    }
}
