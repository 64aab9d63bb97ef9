//! Several nodes as one broker: who the other nodes are, and what goes to them and comes from them.
//!
//! Refuses to know: sockets, bytes of frames.

pub mod memory;
mod name;
pub mod peers;

pub use name::{NODE_NAME_BYTES_MAX, NodeName, WrongNodeName};
