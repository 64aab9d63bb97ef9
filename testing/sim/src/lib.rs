//! The broker's core from a seed: real metadata machine, routing, queue cells, logs, segments and checkpoints over a simulated
//! disk and clock, in one thread, through several lives per seed, beside a naive model of what must be there.
//!
//! Reading order: `kinds` (which queues there are), `life` (a broker and a session between two ends), `model` (the oracle),
//! `history` (what happens), `audit` (what is compared), `damage` (what rotten disks come to),
//! `again` (starts without work in between). Refuses to know protocols and sockets: it talks to `core/broker` as a session does.

mod again;
mod audit;
mod census;
mod damage;
mod estate;
mod faulty;
mod history;
mod kinds;
mod life;
mod model;
mod session;

pub use history::{Summary, run};
