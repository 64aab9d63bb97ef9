//! Several nodes as one broker: the other nodes, the frames to them and from them, and the metadata that all of them have.
//!
//! Refuses to know: sockets, bytes of frames between links.

mod answering;
mod applied;
mod awaited;
mod counted;
mod doors;
mod driver;
mod elsewhere;
mod far;
mod formation;
mod frames;
mod inquiries;
mod leaving;
mod long_messages;
mod machine;
mod member;
pub mod memory;
mod name;
mod node;
mod outgoing;
pub mod peers;
mod progress;
mod reconciling;
mod replica;
pub(crate) mod replicas;
mod telling;
#[cfg(test)]
mod tests;
mod trust;
mod versions;
mod view;
mod watch;

pub(crate) use counted::{Counted, CountedKind};
pub use doors::{StreamDoor, StreamDoors};
pub(crate) use far::Surroundings;
pub use inquiries::{ANSWER_BYTES_MAX, Answerer};
pub use name::{NodeName, WrongNodeName};
pub use node::{Cluster, ClusterOptions, Purpose};
pub use replicas::Place;
pub use view::{View, ViewedMember};
