//! Bytes to frames and back for every protocol; no I/O. Also used by clients, the load generator and fuzzers.
//!
//! Bytes from a peer are decoded in place: views borrow the read buffer and parse no more than is asked for.
//! Bytes that go out are appended to a caller's `Vec<u8>`. The crate knows nothing of sockets, time, brokers or limits
//! of a deployment; every bound it applies is an argument or a named constant, and malformed input is an error
//! value, never a panic.
//!
//! One module per protocol: [`amqp091`], [`amqp10`], [`mqtt`], [`stomp`], [`stream`], [`peer`] between nodes, and [`proxy`],
//! which stands before any of those of clients.

pub mod amqp091;
pub mod amqp10;
#[doc(hidden)]
pub mod fuzzing;
pub mod mqtt;
mod parsed;
pub mod peer;
pub mod proxy;
mod reader;
pub mod stomp;
pub mod stream;

pub use parsed::Parsed;
