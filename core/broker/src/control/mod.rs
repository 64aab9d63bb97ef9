//! The control plane: everything that changes metadata.
pub mod bindings;
mod commits;
pub(crate) mod committing;
pub(crate) mod deletions;
pub(crate) mod durable;
pub mod exchanges;
pub mod explain;
pub(crate) mod follow;
pub(crate) mod long_changes;
pub mod operator;
mod policies;
pub(crate) mod proposals;
pub mod queues;
pub(crate) mod seeds;
pub(crate) mod translate;
mod unsynced;
pub mod users;
pub(crate) mod writer;
