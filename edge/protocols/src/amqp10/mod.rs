//! AMQP 1.0, the server's side, as RabbitMQ 4.3 speaks it.
//!
//! Principal type: [`Session`], one connection. The way of a frame: `session.rs` (phases) → `running.rs` (which session it is for) →
//! `link.rs` (attach, detach), `publish.rs` (messages), `flow.rs` and `settle.rs`. Answers of queues go through
//! `deliver.rs` and `confirms.rs` straight into the outbox. `errors.rs` says in which frame a refusal travels.
//!
//! A link that receives is a consumer which its queue serves by credit; a link that sends is a channel of publishes with confirms.

mod address;
mod address_v1;
mod allowance;
mod attach;
mod attach_v1;
mod confirms;
mod control;
mod deliver;
mod errors;
mod filters;
mod flow;
mod handshake;
mod link;
mod listed;
mod management;
mod overdue;
mod publish;
mod refusals;
mod release;
mod running;
mod session;
mod settings;
mod settle;

pub use session::{Door, Session};
pub use settings::Settings;
