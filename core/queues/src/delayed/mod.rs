//! The queue of a delayed exchange: messages wait in it, each for its time, and leave by themselves.
//!
//! Nobody consumes from it. Every message is taken at once, as if handed out, so that blocks, log, checkpoints and recovery
//! treat it as any message of which nobody knows when it is settled. Its due time stands where others have their expiry. A message that is
//! due leaves as an effect, the way dead letters do: its removal is logged when it is safe where it went.
//!
//! Refuses to know: the reason why a message waits, and where it goes.
pub(crate) mod machine;
pub(crate) mod schedule;

pub use machine::{Delayed, Scheduled};
