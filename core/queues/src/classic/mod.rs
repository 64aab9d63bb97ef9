//! The classic queue: a pure machine over blocks of messages.
//!
//! A message has a number within its priority level. Numbers below the level's cursor were handed out; those that came
//! back wait in an ordered set, so that a requeued message stands where it stood (B129). Blocks beyond the memory
//! bound go to segments and come back when the cursor reaches them. Persistent messages of durable queues are also in
//! the shared log, which a checkpoint relieves by writing the queue's state anew; blocks that lie together in it stay there
//! instead of going to a segment.
//!
//! Invariants: numbers from the cursor on are all present and unsettled; a settled message is never delivered again;
//! a block is freed only when all its messages are settled.
mod bitmap;
mod block;
mod bodies;
mod compact;
mod consumers;
mod enqueue;
mod expiry;
mod holes;
mod in_log;
mod index;
mod letters;
mod level;
mod listing;
mod machine;
mod recovery;
mod rest;
mod schedule;
mod serve;
mod spill;
mod standing;
mod stray;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use compact::SegmentRoom;
pub use holes::Holes;
pub use index::{Afterwards, TurnedAway};
pub use letters::letter_bytes;
pub use machine::{Classic, Gone, PublishOutcome};
pub use recovery::{Left, PlacedBlock, RecordError, Recovering};
pub use schedule::Scheduled;
pub use spill::CheckpointBytes;
pub use standing::{DeliveryView, Head, Standing};
pub use stray::{StrayBlock, may_be_block};
