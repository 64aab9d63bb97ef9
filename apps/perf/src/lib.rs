//! The load generator (`warren perf`) and the null broker (`warren null-broker`).
//!
//! Both speak AMQP 0-9-1 through `wire` only and know nothing of Warren's inside, so that they measure any broker
//! alike. Their hot paths touch a message with a few instructions: publishes are encoded once and stamped in place,
//! deliveries are read in place, and one write or read carries as many as fit.
//!
//! [`run`] and [`null_broker`] are the two commands.

mod command;
mod io;
mod load;
mod null_broker;

pub use command::{null_broker, run};
