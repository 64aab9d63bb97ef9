//! What the broker itself publishes: the trace of messages (B175) and events (B176).
//!
//! Refuses to know queues: everything goes through exchanges, by one bounded outlet.
pub(crate) mod changes;
mod erlang;
pub(crate) mod events;
pub(crate) mod outlet;
pub(crate) mod sessions;
pub(crate) mod trace;
