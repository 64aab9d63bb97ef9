//! lapin against the broker that `AMQP_URL` names: the RabbitMQ tutorials' patterns, then what applications meet when things go wrong.
//! Refuses to know anything of the broker but its address (and `BROKER_RESTART`, a shell command that restarts it on the same port).
//! Without `AMQP_URL` nothing is tested, and each test says so: `cargo xtask suites` always sets it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps that tests share are tests too, though clippy sees no #[test] on them"
)]

mod broker;
mod corners;
mod encrypted;
mod patterns;
