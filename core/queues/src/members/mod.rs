//! The terms between the leader of a queue and its members: which messages live, how far a member has come, and the messages that it lacks.
//!
//! Refuses to know: stores, machines, nodes.

mod follow;
mod live;

pub use follow::{Claim, Fill, FollowError};
pub use live::{Cursor, Garbled, LiveSet};
