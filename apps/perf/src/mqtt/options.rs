//! The arguments of `warren perf --mqtt`: names and short forms are those of `warren perf` where it has them.

use clap::{Parser, ValueEnum};
use wire::mqtt::{Qos, Version};

/// Makes load by MQTT and measures rates, latency and CPU.
///
/// With --reconnects or --churn what counts as published are connections or changes of subscriptions, and as confirmed those that were
/// answered.
#[derive(Clone, Debug, Parser)]
#[command(name = "warren perf --mqtt", version)]
pub(crate) struct MqttOptions {
    /// Where to connect: mqtt://USER:PASSWORD@HOST:PORT. Of several addresses clients take turns
    #[arg(
        short = 'u',
        long = "uri",
        default_value = "mqtt://guest:guest@127.0.0.1:1883",
        value_delimiter = ','
    )]
    pub(crate) uris: Vec<String>,
    /// Version of the protocol: 3.1, 3.1.1 or 5
    #[arg(long, default_value = "5")]
    pub(crate) protocol: Protocol,
    /// Publishers, each with a connection [default: 1, or 0 with --connections, --reconnects or --churn]
    #[arg(short = 'x', long)]
    pub(crate) producers: Option<usize>,
    /// Subscribers, each with a connection [default: 1, or 0 with --connections, --reconnects or --churn]
    #[arg(short = 'y', long)]
    pub(crate) consumers: Option<usize>,
    /// Clients that subscribe to a topic of their own and wait
    #[arg(long, default_value_t = 0)]
    pub(crate) connections: usize,
    /// Clients that connect, subscribe to a topic of their own, disconnect, and begin again
    #[arg(long, default_value_t = 0)]
    pub(crate) reconnects: usize,
    /// Clients that subscribe to topics of their own, unsubscribe, and begin again
    #[arg(long, default_value_t = 0)]
    pub(crate) churn: usize,
    /// Topics: publishers and subscribers take turns among them
    #[arg(long, default_value = "perf/mqtt", value_delimiter = ',')]
    pub(crate) topics: Vec<String>,
    /// Topic filters of subscribers [default: the topics]
    #[arg(long, value_delimiter = ',')]
    pub(crate) filters: Vec<String>,
    /// Quality of service of publishers and subscriptions: 0, 1 or 2
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) qos: u8,
    /// Messages are retained
    #[arg(long)]
    pub(crate) retain: bool,
    /// Sessions of subscribers, and of clients that reconnect or change subscriptions, outlive their connections
    #[arg(long)]
    pub(crate) persistent: bool,
    /// Leave such sessions behind
    #[arg(long)]
    pub(crate) keep: bool,
    /// Begin of the names of clients and of their own topics
    #[arg(long, default_value = "perf")]
    pub(crate) id: String,
    /// Bytes of a payload; from 8 on latency is measured
    #[arg(short = 's', long, default_value_t = 12)]
    pub(crate) size: usize,
    /// Messages of a publisher that are not answered, at most; counts from QoS 1 on
    #[arg(short = 'c', long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=30_000))]
    pub(crate) confirm: u16,
    /// Messages in a write of a publisher, or topic filters in a SUBSCRIBE of a client that changes subscriptions, at most
    #[arg(short = 'b', long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) batch_size: u16,
    /// Messages per second of each publisher; 0 is as many as possible
    #[arg(short = 'r', long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Threads for publishers, and threads for all others
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Seconds to run
    #[arg(short = 'z', long, default_value_t = 10)]
    pub(crate) time: u64,
    /// Ends when each subscriber has so many messages; 0 is never
    #[arg(long, default_value_t = 0)]
    pub(crate) cmessages: u64,
    /// Process of the broker on this machine: its CPU time and memory are measured
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// One line of JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// A version of the protocol, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    #[value(name = "3.1")]
    V31,
    #[value(name = "3.1.1")]
    V311,
    #[value(name = "5")]
    V5,
}

impl MqttOptions {
    pub(super) fn version(&self) -> Version {
        match self.protocol {
            Protocol::V31 => Version::V31,
            Protocol::V311 => Version::V311,
            Protocol::V5 => Version::V5,
        }
    }

    pub(super) fn qos(&self) -> Qos {
        Qos::of_bits(self.qos).unwrap_or_default()
    }

    fn default_count(&self) -> usize {
        usize::from(self.connections == 0 && self.reconnects == 0 && self.churn == 0)
    }

    pub(super) fn producers(&self) -> usize {
        self.producers.unwrap_or_else(|| self.default_count())
    }

    pub(super) fn consumers(&self) -> usize {
        self.consumers.unwrap_or_else(|| self.default_count())
    }

    /// The topic of the nth publisher.
    pub(super) fn topic(&self, nth: usize) -> &str {
        &self.topics[nth % self.topics.len()]
    }

    /// The topic filter of the nth subscriber.
    pub(super) fn filter(&self, nth: usize) -> &str {
        let filters = if self.filters.is_empty() { &self.topics } else { &self.filters };
        &filters[nth % filters.len()]
    }
}
