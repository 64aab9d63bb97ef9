//! RabbitMQ's stream protocol, the server's side.
//!
//! Principal type: [`Session`], one connection. Publishers append entries to the files of their streams as they came, and subscriptions
//! read chunks of them as they are stored; no queue's cell is on either way. The way of a frame: `session.rs` (phases) → `running.rs` →
//! `publish.rs`, `consume.rs` or `streams.rs`. Confirms and deliveries are written by the connection's own task, which commits wake.
//! Steps that wait for the broker are futures that the session polls.

mod confirms;
mod consume;
mod control;
mod counted;
mod end;
mod errors;
mod groups;
mod handshake;
mod publish;
mod running;
mod session;
mod settings;
mod streams;
mod super_streams;

pub use session::{Door, Session};
pub use settings::Settings;
