//! STOMP 1.0, 1.1 and 1.2 as RabbitMQ's plugin has it. Principal types: [`Session`], [`Settings`], [`Door`].
//!
//! Refuses to know: sockets, tasks, other protocols. Destinations are names of exchanges and queues, headers are properties of AMQP 0-9-1.
//! The broker's work is in `work.rs`, frames of an open connection in `running.rs`, its beginning and end in `session.rs`.

mod connect;
mod control;
mod deliver;
mod destination;
mod errors;
mod headers;
mod running;
mod send;
mod session;
mod settings;
mod subscribe;
mod transactions;
mod work;

pub use session::{Door, Session};
pub use settings::Settings;
pub use wire::stomp::FrameEnds;
