//! Messages that the broker itself publishes: the trace of messages (B175), events (B176) and log lines.
//!
//! Refuses to know queues: everything goes through exchanges, by one bounded outlet.
pub(crate) mod before;
pub(crate) mod certificates;
pub(crate) mod changes;
pub(crate) mod erlang;
pub(crate) mod events;
pub(crate) mod lines;
pub(crate) mod log;
mod nodes;
pub(crate) mod outlet;
mod rules;
pub(crate) mod sessions;
pub(crate) mod shovels;
mod speaker;
pub(crate) mod stalls;
pub(crate) mod tap;
pub(crate) mod trace;
pub(crate) mod trace_switch;
