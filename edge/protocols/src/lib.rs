//! Protocol sessions without I/O: bytes and the time in, bytes and broker calls out. One folder per protocol.
//!
//! Principal types: [`Session`], what drives a connection of any protocol, [`amqp091::Session`] and [`amqp10::Session`], one connection each, [`AmqpSession`], which becomes either, [`mqtt::Session`], [`stomp::Session`] and
//! [`stream::Session`]. [`Outbox`] is the output side of a connection,
//! the same for every protocol.
//!
//! Refuses to know: sockets, TLS, tasks, clocks, threads; how queues, routing and storage work behind the broker's API.
//! No protocol's folder imports another's.

pub mod amqp091;
pub mod amqp10;
mod amqp_door;
mod budget;
mod closing;
mod connection;
mod control;
#[cfg(test)]
mod dice;
mod erlang;
#[doc(hidden)]
pub mod fuzzing;
mod held_back;
mod large;
mod login;
mod moved;
pub mod mqtt;
mod now;
mod outbox;
mod overdue;
mod peer;
mod product;
mod refusals;
mod reply_code;
mod session;
mod settlements;
pub mod stomp;
pub mod stream;
mod unacked;

pub use amqp_door::{AmqpDoor, AmqpSession};
pub use budget::Budget;
pub use connection::{Configured, Connection, DoorOf};
pub use login::{Anonymous, Logins, Mechanism, basic_login};
pub use now::Now;
pub use outbox::{LateBytes, OUTPUT_BYTES_LOW, OUTPUT_BYTES_MAX, Outbox, Output, OutputBytes};
pub use peer::{Peer, RequestLogin};
pub use product::Product;
pub use refusals::{ReplyParts, reply_of};
pub use session::{Door, Progress, Session, State};
