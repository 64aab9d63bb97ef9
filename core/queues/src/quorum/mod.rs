//! Quorum queues: what is the type's own. Today a group has one member, this node.
//!
//! Refuses to know: `classic`, terms, votes, peers.

mod follow;
mod giving_back;
mod live;
mod returns;
mod rules;

pub use follow::{Fill, FollowError};
pub use live::{Cursor, Garbled, LiveSet};
pub(crate) use returns::Returns;
pub use rules::{DELIVERY_LIMIT, Letters, PRIORITY_MAX, Retry, RetryOf};
pub(crate) use rules::{rules, settle_rules};
