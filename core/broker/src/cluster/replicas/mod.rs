//! Quorum queues of several nodes: the leader's machine decides, and its members do what it logs.
//!
//! [`leading`] is what the leader keeps of its members. [`role`] begins and ends the part that this node has in a queue. [`shipping`] sends what was
//! logged, and [`following`] takes it. [`clients`] keeps what clients of this node have at a queue while its leader changes, [`held`] their
//! unsettled deliveries, and [`claiming`] brings these to the next leader. [`absent`] and [`absences`] keep those of
//! unreachable nodes. [`seen`] knows which handovers were taken. The members themselves, and the leader, are in the metadata:
//! `metadata::Replicas`.

mod absences;
mod absent;
mod claiming;
mod clients;
mod following;
mod held;
mod leading;
mod role;
pub(in crate::cluster) mod seen;
mod shipping;
mod shown;
mod taking_part;
#[cfg(test)]
mod tests;
mod watching;

pub(crate) use held::Holder;
pub(crate) use role::{Claiming, Replica, ReplicaEvent};
pub(crate) use shipping::Shipped;
pub use shown::Place;
