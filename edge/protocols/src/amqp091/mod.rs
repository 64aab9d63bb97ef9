//! AMQP 0-9-1, the server's side, in RabbitMQ's dialect.
//!
//! Principal type: [`Session`], one connection. The way of a frame: `session.rs` (phases) → `frames.rs` (which frame may
//! come now) → `methods/` (one file per class) or `content.rs` and `publish.rs` (messages). Answers of queues
//! go through `deliver.rs` and `confirms.rs` straight into the outbox. `errors.rs` is the one place that turns refusals of the
//! broker into reply codes and texts.
//!
//! Behaviour is numbered B1, B2, ... in the compatibility reference; where a branch follows one it says so. Texts and
//! orders were compared with RabbitMQ 4.3.6.

mod channel;
mod confirms;
mod consume;
mod content;
mod control;
mod deliver;
mod errors;
mod frames;
mod handshake;
mod methods;
mod overdue;
mod pending;
mod publish;
mod release;
mod running;
mod session;
mod settings;
mod settle;
mod transaction;

pub use session::{Door, Session};
pub use settings::{GlobalQos, Settings};
