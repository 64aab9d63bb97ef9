//! Quorum queues: the type's own rules.
//!
//! Refuses to know: `classic`, terms, votes, peers.

mod giving_back;
mod returns;
mod rules;

pub(crate) use returns::Returns;
pub use rules::{DELIVERY_LIMIT, Letters, PRIORITY_MAX, Retry, RetryOf};
pub(crate) use rules::{rules, settle_rules};
