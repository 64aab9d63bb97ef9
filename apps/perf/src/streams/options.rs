//! The arguments of `warren perf --stream`: names, short forms and defaults are those of stream-perf-test where it has them.

use clap::Parser;

/// Makes load by RabbitMQ's stream protocol and measures rates, latency and CPU.
#[derive(Clone, Debug, Parser)]
#[command(name = "warren perf --stream", version)]
pub(crate) struct StreamOptions {
    /// Where to connect: rabbitmq-stream://USER:PASSWORD@HOST:PORT
    #[arg(short = 'u', long, default_value = "rabbitmq-stream://guest:guest@127.0.0.1:5552")]
    pub(crate) uris: String,
    /// Publishers, each with a connection
    #[arg(short = 'x', long, default_value_t = 1)]
    pub(crate) producers: usize,
    /// Consumers, each with a connection
    #[arg(short = 'y', long, default_value_t = 1)]
    pub(crate) consumers: usize,
    /// Streams, by name: publishers and consumers take turns among them
    #[arg(long, default_value = "perf-stream", value_delimiter = ',')]
    pub(crate) streams: Vec<String>,
    /// The streams are there: they are neither created nor deleted
    #[arg(long)]
    pub(crate) predeclared: bool,
    /// Leave the streams behind
    #[arg(long)]
    pub(crate) keep: bool,
    /// Bytes of a body; from 8 on latency is measured
    #[arg(short = 's', long, default_value_t = 10)]
    pub(crate) size: usize,
    /// Entries in a publish frame
    #[arg(short = 'b', long, default_value_t = 100)]
    pub(crate) batch_size: usize,
    /// Messages in an entry; above 1 entries are batches without compression
    #[arg(long, default_value_t = 1)]
    pub(crate) sub_entry_size: u16,
    /// Entries of a publisher without a confirm, at most
    #[arg(short = 'c', long, default_value_t = 10_000)]
    pub(crate) confirms: u64,
    /// Messages per second of each publisher; 0 is as many as possible
    #[arg(short = 'r', long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Where consumers begin: first, last, next, or a number
    #[arg(short = 'o', long, default_value = "next")]
    pub(crate) offset: String,
    /// Chunks that a consumer may be sent ahead
    #[arg(long, default_value_t = 10)]
    pub(crate) initial_credits: u16,
    /// The filter value of all messages
    #[arg(long)]
    pub(crate) filter_value: Option<String>,
    /// Filter values of consumers
    #[arg(long, value_delimiter = ',')]
    pub(crate) filter_values: Vec<String>,
    /// Limit of the streams' bytes
    #[arg(long, default_value = "20000000000")]
    pub(crate) max_length_bytes: String,
    /// Names publishers, so that the broker stores no message twice
    #[arg(long)]
    pub(crate) producer_names: bool,
    /// Seconds to run
    #[arg(short = 'z', long, default_value_t = 10)]
    pub(crate) time: u64,
    /// Ends when each consumer has so many messages; 0 is never
    #[arg(long, default_value_t = 0)]
    pub(crate) cmessages: u64,
    /// Process of the broker on this machine: its CPU time and memory are measured
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// One line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
