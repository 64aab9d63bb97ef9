//! The messages of a queue: blocks in memory, in segments and in the log, in the order of their numbers.
//!
//! A message has a number within its priority level. Numbers below the level's cursor were handed out; those that came
//! back wait in an ordered set, so that a requeued message stands where it stood (B129). Blocks beyond the memory
//! bound go to segments and come back when the cursor reaches them. Blocks that lie together in the shared log stay there
//! instead of going to a segment.
//!
//! Refuses to know: consumers, and how records become durable.
//!
//! Invariants: numbers from the cursor on are all present and unsettled; a settled message is never delivered again;
//! a block is freed only when all its messages are settled.
pub(crate) mod bitmap;
pub(crate) mod block;
pub(crate) mod bodies;
pub(crate) mod compact;
pub(crate) mod filling;
pub(crate) mod following;
pub(crate) mod holes;
pub(crate) mod in_log;
pub(crate) mod index;
pub(crate) mod level;
pub(crate) mod listing;
pub(crate) mod messages;
mod peeking;
pub(crate) mod recovery;
pub(crate) mod returned;
pub(crate) mod spill;
pub(crate) mod stray;

pub use compact::SegmentRoom;
pub use holes::Holes;
pub use messages::Store;
pub use recovery::{Left, PlacedBlock, RecordError, Recovering};
pub use stray::{StrayBlock, may_be_block};
