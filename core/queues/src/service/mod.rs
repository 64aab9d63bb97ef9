//! Rules of service: which client gets which message, and which messages leave: consumers, gets, expiry, limits, dead letters, counters.
//!
//! Refuses to know: where messages lie, the log, the network.
pub(crate) mod consumers;
pub(crate) mod deaths;
pub(crate) mod expiry;
mod lines;
pub(crate) mod listing;
pub(crate) mod rest;
pub(crate) mod serve;
pub(crate) mod standing;
pub(crate) mod state;
pub(crate) mod totals;

pub use standing::{DeliveryView, Head, Standing};
pub use state::Service;
pub use totals::{DeliveryTotals, QueueTotals};
