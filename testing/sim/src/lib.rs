//! The broker's core from a seed: real metadata machine, routing, queue cells, logs, segments and checkpoints over a simulated disk and
//! clock. It runs in one thread, through several lives per seed, beside a naive model of what must be there.
//!
//! Seven kinds of histories. [`run`]: random work on queues of all sorts, beside a model that allows every outcome until one is seen;
//! reading order `kinds` (which queues there are), `life` (a broker and a session between two ends), `model` (the oracle),
//! `history` (what happens), `audit` (what is compared), `damage` (what rotten disks come to). [`run_house`]: small parties with
//! exact oracles, see `house`. [`run_newborn`]: queues that are used before their
//! declaration is answered, in many short lives. [`run_short`]: the first two in lives that are short of memory, see `short`. [`run_full`]: dead letters on
//! a disk that is full, see `full`. [`run_fleet`]: sessions of MQTT, and [`run_brook`]: a stream, both parties of `house`. Between the lives of all, `again`: starts without work, which change nothing.
//!
//! Refuses to know sockets, and knows protocols only where what is tested is a session's (transactions, MQTT): all else talks to
//! `core/broker` as a session does.

mod again;
mod audit;
mod census;
mod damage;
mod estate;
mod faulty;
mod full;
mod history;
mod house;
mod kinds;
mod life;
mod model;
mod session;
mod short;
mod streams;

pub use full::run as run_full;
pub use history::{Summary, run};
pub use house::{run as run_house, run_brook, run_fleet, run_newborn};
pub use short::run as run_short;
