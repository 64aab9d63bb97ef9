//! Runs whose senders and receivers are threads: shared counters, seconds, figures.
//!
//! Refuses to know protocols.

mod counts;
mod measure;

pub(crate) use counts::Counts;
pub(crate) use measure::{Plan, Threads, measure};
