//! Queues that live on another node: operations on them here go through the link to their home, and results come back.
//!
//! [`origin`] is the side of the node whose client asks, [`home`] that of the node which has the messages; [`frames`] is what they say to each
//! other, all of it on the live lane and in order. When the link ends, both sides give up what it carried: publishes are nacked, consumers are
//! cancelled, deliveries that were not settled are put back.

mod carried;
mod fars;
mod frames;
mod home;
mod known;
pub(super) mod origin;
mod outlet;
pub(super) mod replicas;
mod replies;

pub(crate) use known::Surroundings;
pub(super) use known::{Far, Fars};
