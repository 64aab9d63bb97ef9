//! The arguments of `warren perf --amqp10`: names and short forms are those of `warren perf` where it has them.

use clap::Parser;

/// Makes load by AMQP 1.0 and measures rates, latency and CPU.
#[derive(Clone, Debug, Parser)]
#[command(name = "warren perf --amqp10", version)]
pub(crate) struct Amqp10Options {
    /// Where to connect: amqp://USER:PASSWORD@HOST:PORT/VHOST
    #[arg(short = 'u', long = "uri", default_value = "amqp://guest:guest@127.0.0.1:5672")]
    pub(crate) uri: String,
    /// Senders, each with a connection
    #[arg(short = 'x', long, default_value_t = 1)]
    pub(crate) producers: usize,
    /// Receivers, each with a connection
    #[arg(short = 'y', long, default_value_t = 1)]
    pub(crate) consumers: usize,
    /// Queues, by name: senders and receivers take turns among them
    #[arg(long, default_value = "perf-amqp10", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,
    /// Type of the queues: classic, quorum, stream
    #[arg(long, default_value = "classic")]
    pub(crate) queue_type: String,
    /// Addresses instead of queues, used as they are by senders and receivers; nothing is declared
    #[arg(long, value_delimiter = ',', conflicts_with = "queues")]
    pub(crate) addresses: Vec<String>,
    /// The queues are there: they are neither declared nor deleted
    #[arg(long)]
    pub(crate) predeclared: bool,
    /// Leave the queues behind
    #[arg(long)]
    pub(crate) keep: bool,
    /// Bytes of a body; from 8 on latency is measured
    #[arg(short = 's', long, default_value_t = 12)]
    pub(crate) size: usize,
    /// Messages are durable
    #[arg(long)]
    pub(crate) durable: bool,
    /// Messages of a sender that are not settled, at most; 0 sends all messages settled
    #[arg(short = 'c', long, default_value_t = 1000)]
    pub(crate) confirm: u32,
    /// Messages in a write, at most
    #[arg(short = 'b', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) batch_size: u32,
    /// Messages per second of each sender; 0 is as many as possible
    #[arg(short = 'r', long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Credit of a receiver
    #[arg(short = 'q', long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) credit: u32,
    /// Messages that a disposition accepts, at most; 0 receives all messages settled
    #[arg(short = 'A', long, default_value_t = 100)]
    pub(crate) multi_ack_every: u32,
    /// Seconds to run
    #[arg(short = 'z', long, default_value_t = 10)]
    pub(crate) time: u64,
    /// Ends when each receiver has so many messages; 0 is never
    #[arg(long, default_value_t = 0)]
    pub(crate) cmessages: u64,
    /// Process of the broker on this machine: its CPU time and memory are measured
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// One line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

impl Amqp10Options {
    /// The address that the nth sender or receiver has.
    pub(super) fn address(&self, nth: usize) -> String {
        match self.addresses.is_empty() {
            true => queue_address(&self.queues[nth % self.queues.len()]),
            false => self.addresses[nth % self.addresses.len()].clone(),
        }
    }

    /// Queues that are declared before the run.
    pub(super) fn declared(&self) -> &[String] {
        if self.predeclared || !self.addresses.is_empty() { &[] } else { &self.queues }
    }
}

/// A queue's address of version 2: its name is percent-encoded.
pub(super) fn queue_address(name: &str) -> String {
    format!("/queues/{}", crate::load::escaped(name))
}
