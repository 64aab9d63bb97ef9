//! Several nodes as one broker: who the other nodes are, what goes to them and comes from them, and the metadata that all of them have.
//!
//! Refuses to know: sockets, bytes of frames between links.

mod driver;
mod elsewhere;
mod far;
mod formation;
mod frames;
mod machine;
mod member;
pub mod memory;
mod name;
mod node;
mod outgoing;
pub mod peers;
mod replica;
#[cfg(test)]
mod tests;

pub use name::{NodeName, WrongNodeName};
pub use node::{Cluster, ClusterOptions, View, ViewedMember};
