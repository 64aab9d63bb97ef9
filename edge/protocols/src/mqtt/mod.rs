//! MQTT 3.1, 3.1.1 and 5, the server's side.
//!
//! Principal type: [`Session`], one connection. A subscription is a binding of the session's queue to the exchange of topics, as in
//! RabbitMQ, so messages cross between MQTT and AMQP by routing alone. The way of a packet: `session.rs` (phases) → `publish.rs` or
//! `subscribe.rs`. Answers of queues go through `deliver.rs` and `acks.rs` straight into the outbox. Work that waits for
//! the broker is written as futures in `work.rs`, `connect.rs` and `subscribe.rs`, which the session polls.

mod acks;
mod connect;
mod control;
mod deliver;
mod errors;
mod inflight;
mod keeper;
mod kept_topics;
mod memory;
mod publish;
mod publishing;
mod retained;
mod running;
mod seldom;
mod session;
mod settings;
mod shared;
mod subscribe;
mod subscriptions;
mod will;
mod work;

pub use session::{Door, Session};
pub use settings::{SessionQueueType, Settings, VhostKey, VhostMaps};
pub use shared::Shared;
