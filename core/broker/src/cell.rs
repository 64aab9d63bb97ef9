//! The queue cell: an inbox of event batches and a pure machine behind a lock that is only ever tried.
//!
//! A thread that brings an event and gets the lock runs the machine until the inbox is empty; a thread that does not get it leaves the
//! event and goes. Nobody waits. Effects on other queues (dead letters) and on metadata (auto-delete) run after the
//! cell is released. A panic of the machine ends the service of its queue and of nothing else (`cell/crash.rs`).

pub(crate) mod adjusting;
mod asked;
pub(crate) mod condition;
pub(crate) mod configs;
mod counting_room;
pub(crate) mod crash;
mod events;
pub(crate) mod examine;
mod examining;
pub(crate) mod gather;
mod glance;
mod letters;
mod lives;
pub(crate) mod machine;
pub(crate) mod place;
pub(crate) mod portions;
mod queue;
mod reload;
mod rest;
pub(crate) mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod turn;
mod waiting;
pub(crate) mod watch;
mod watching;

pub(crate) use lives::Life;
pub(crate) use queue::{Attached, CellState, Event, GetReply};
pub use queue::{Queue, QueueRef};
