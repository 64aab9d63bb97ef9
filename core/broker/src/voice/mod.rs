//! What the broker itself publishes: the trace of messages (B175).
//!
//! Refuses to know queues: everything goes through exchanges, by one bounded outlet.
pub(crate) mod outlet;
pub(crate) mod trace;
