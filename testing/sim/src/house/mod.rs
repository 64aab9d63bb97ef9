//! Tenants: several small parties on one broker, through several lives. Each has queues of its own and an oracle that is exact about them.
//! The disk stalls, is slow, is full for a while, fails calls, rots and loses unsynced bytes.
//!
//! Reading order: `ledger` (what all oracles share), `site` (what a tenant can do), `hands` (what it has fetched), `tenant` (what each can be asked), `life` (what
//! happens to all of them), then the tenants: `ring` (dead letters in a cycle, and for a queue that comes and goes), `delayed`, `fleeting` (queues that go by
//! themselves), `bulk` (large messages, policies),
//! `transactions` (over a real session, by `client`); where memory is short, `flood` (more than a consumer takes); alone in histories of their own: `newborn` (queues that are used before their
//! declaration is answered), `fleet` (sessions of MQTT, by `mqtt_client`), and `brook` (a stream). Both clients are on a `line`.

mod brook;
mod bulk;
mod client;
mod delayed;
mod ending;
mod fleet;
mod fleeting;
mod flood;
mod hands;
mod ledger;
mod life;
mod line;
mod mqtt_client;
mod newborn;
mod ring;
mod site;
mod tenant;
mod transactions;

pub use brook::run as run_brook;
pub use fleet::run as run_fleet;
pub(crate) use life::run_short;
pub use life::{run, run_newborn};
