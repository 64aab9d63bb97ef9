//! The parts of the one binary: command line, configuration, logging and the wiring of the server.
//!
//! This crate may know everybody and nobody may know it. It refuses to know how any protocol, queue or log works.

pub mod cli;
mod cluster;
pub mod config;
pub mod ctl;
pub mod definitions;
pub mod diag;
mod emptying;
mod entrances;
mod environment;
mod http;
pub mod lives;
pub mod logging;
mod mqtt;
mod names;
mod node;
mod pid_file;
mod prometheus;
mod readiness;
pub mod server;
mod shovels;
mod signals;
mod start_lines;
mod stomp;
mod stream;
mod tls;
