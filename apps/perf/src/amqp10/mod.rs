//! Load on AMQP 1.0: `warren perf --amqp10`. Batching senders and receivers, a thread each.
//!
//! Refuses to know AMQP 0-9-1 and its topologies.

mod client;
mod management;
mod options;
mod receiver;
mod run;
mod sender;

pub(crate) use options::Amqp10Options;
pub(crate) use run::run;
