//! Links to the other nodes of a cluster: dial, accept, authenticate, three connections a pair, bounds, signs of life.
//!
//! Principal type: [`Links`]. A link is three connections, one per lane, so that no sign of life waits behind a body and no entry waits
//! behind old blocks (`docs/decisions/three-connections-between-nodes.md`). A peer that is not authenticated sends a hello of at most 1 KiB
//! and a proof, within seconds, or is closed; nothing else of it is read.
//!
//! Refuses to know the meaning of frames of the broker's kinds, and the members of a cluster.

mod acceptor;
mod dialer;
mod frames;
mod handshake;
mod link;
mod links;
mod outbox;
mod registry;
mod secret;
#[cfg(test)]
mod tests;
mod transport;

pub use links::{Links, LinksOptions};
pub use secret::LinkSecret;
pub use transport::LinkTls;
