//! Dynamic shovels: messages moved from a queue or exchange of one broker to another, for ever or until a queue is empty.
//!
//! ```text
//!  runtime parameter ─► Shovels (one supervisor) ─► worker (one task per shovel)
//!                                                     │  source link ──deliveries──► forwarder ──publishes──► destination link
//!                                                     │      ▲────────── acks ◄────── settles ◄── confirms ───────┘
//!                                                     └─ status
//! ```
//!
//! Principal type: [`Shovels`]. A side speaks AMQP 0-9-1 or AMQP 1.0. Between sides of the same protocol properties and bodies pass as they were
//! received; nothing is decoded that is not changed. The
//! source is acked when the destination has confirmed (`on-confirm`), so a kill of either side or of this process loses nothing.
//!
//! Refuses to know: JSON and the control socket (the reader of parameters hands in a [`Definition`]), and how a connection
//! within this process is made ([`Local`]).
mod amqp10;
mod client;
mod connect;
mod definition;
mod forward;
mod headers;
mod link;
mod port;
mod standing;
mod status;
mod supervisor;
mod unconfirmed;
mod uri;
mod worker;

pub use client::LinkError;
pub use connect::{Local, Login};
pub use definition::{
    AckMode, Amount, Definition, Destination, From, Property, Protocol, Rules, Source, Stamp, To, Topology,
};
pub use status::{Blocked, Count, Progress, Report, State};
pub use supervisor::{NotFound, ReadDefinition, Shovels};
pub use uri::{Uri, UriProblem};
