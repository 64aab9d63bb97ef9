//! The null broker: the floor that a broker's cost per message is held against.
//!
//! It reads 64 KiB at a time, parses each publish, frames its bytes again as a delivery and writes once per wake-up, as a good broker does.
//! It does nothing else: no routing, no queue, no storage, no permissions, one thread. The extra cost of a real broker is the cost of its
//! features.
//!
//! ```text
//!  server (sockets, readiness) ─► session (one connection's protocol) ─► relay (consumers and their outboxes)
//! ```

mod options;
mod relay;
mod server;
mod session;

pub(crate) use options::NullOptions;
#[cfg(test)]
pub(crate) use server::Server;
pub(crate) use server::serve;
