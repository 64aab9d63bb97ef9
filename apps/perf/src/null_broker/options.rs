//! The arguments of `warren null-broker`.

use clap::{Parser, ValueEnum};
use std::net::SocketAddr;

/// The consumers that get a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deliver {
    /// One consumer, in turn.
    RoundRobin,
    /// Every consumer.
    All,
}

/// Forwards every AMQP 0-9-1 publish to its consumers with no routing, queue or storage: the floor for broker costs.
#[derive(Clone, Debug, Parser)]
#[command(name = "warren null-broker", version)]
pub(crate) struct NullOptions {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Consumers that get a message
    #[arg(long, value_enum, default_value_t = Deliver::RoundRobin)]
    pub(crate) deliver: Deliver,
}
