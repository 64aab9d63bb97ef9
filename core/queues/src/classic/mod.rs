//! The classic queue: messages are logged and delivered at once, on the store and the service that all types share.
//!
//! Persistent messages of durable queues are in the shared log as soon as they come, which a checkpoint relieves by writing
//! the queue's state anew.
pub(crate) mod enqueue;
pub(crate) mod following;
pub(crate) mod machine;
pub(crate) mod turned_away;

#[cfg(test)]
mod dice;
#[cfg(test)]
mod following_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use machine::Classic;
