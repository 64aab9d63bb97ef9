//! The load generator (`warren perf`), the benchmark suite (`warren bench`) and the null broker (`warren null-broker`).
//!
//! They speak AMQP 0-9-1, AMQP 1.0, MQTT and the stream protocol through `wire` only and know nothing of Warren's inside, so that they measure any broker
//! alike. Their hot paths touch a message with a few instructions: publishes are encoded once and stamped in place,
//! deliveries are read in place, and one write or read carries as many as fit.
//!
//! [`run`], [`bench`] and [`null_broker`] are the commands.

mod amqp10;
mod command;
mod io;
mod load;
mod mqtt;
mod null_broker;
mod streams;
mod suite;
mod threads;

pub use command::{bench, null_broker, run};
