//! Load on the stream protocol: `warren perf --stream`. Batching publishers and consumers, a thread or two each.
//!
//! Refuses to know AMQP 0-9-1 and its topologies.

mod client;
mod consumer;
mod options;
mod producer;
mod run;

pub(crate) use options::StreamOptions;
pub(crate) use run::run;
