//! The benchmark suite (`warren bench`): the 14 tests of the RabbitMQ team's published suite and a few of ours, against
//! Warren and any number of peers, with one self-contained report.
//!
//! ```text
//!  options ─► catalogue (what to run) ─► contender (a broker) ─► runner ─► results (JSON) ─► report (HTML)
//! ```
//!
//! Load is made by `warren perf` in processes of its own, so that every figure comes with a command that repeats it.

mod catalogue;
mod compare;
mod contender;
mod options;
mod process;
mod report;
mod restart;
mod results;
mod runner;

pub(crate) use options::{BenchCommand, BenchOptions};

pub(crate) use compare::compare;
pub(crate) use runner::run;
