//! Who gets which message, and which messages leave by rule: consumers, gets, expiry, limits, dead letters, counters.
//!
//! Refuses to know: where messages lie, the log, the network.
pub(crate) mod consumers;
pub(crate) mod expiry;
pub(crate) mod letters;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod standing;
pub(crate) mod totals;

pub use letters::letter_bytes;
pub use schedule::Scheduled;
pub use standing::{DeliveryView, Head, Standing};
pub use totals::{DeliveryTotals, QueueTotals};
