//! The table of all configuration keys, one module per section. To add a key, add its definition to a section and its
//! field to [`super::Options`]; parser, reference and tests follow.

mod accepted;
mod access;
mod alarms;
mod cluster;
mod limits;
mod logging;
mod management;
mod mqtt;
mod network;
mod node;
mod prometheus;
mod queues;
mod seeds;
mod shovels;
mod stomp;
mod stream;
mod table;
mod tls;
mod web;

pub use table::{all, sections};
