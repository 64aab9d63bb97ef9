//! The configuration: RabbitMQ's `rabbitmq.conf` text in, typed [`Options`] out.
//!
//! One [`Key`] per setting (name, type, bounds, default, documentation, example) lives in [`keys`]; the parser, the
//! error texts, the printed reference and the tests all read that one table. This module refuses to know what the
//! options are for: it opens no socket, sets no global, and hands a plain struct to the caller.
//!
//! Invariants: a file is accepted whole or not at all; every problem of a file is reported at once, with its line;
//! a key without a definition is an error, never ignored.

mod cluster;
mod error;
mod key;
pub mod keys;
mod load;
mod mqtt;
mod nearest;
mod options;
mod prometheus;
mod reference;
mod stomp;
mod stream;
mod substitute;
mod syntax;
mod template;
mod tls;
mod values;
mod web;

pub use cluster::{ClusterOptions, host_and_port};
pub use error::{ConfigError, Problem, ProblemKind};
pub use key::{Key, Section, Take, Unit};
pub use load::{load, parse};
pub use mqtt::MqttOptions;
pub use options::{
    AccessOptions, AlarmOptions, ConsoleLog, DefaultPermissions, Durability, ExchangeLog, FileLog,
    LimitOptions, LogOptions, ManagementListener, ManagementOptions, Mechanism, NetworkOptions, NodeOptions,
    Options, PasswordHashing, PasswordRuleKind, Permit, QueueOptions, ShovelOptions, TcpOptions,
};
pub use prometheus::PrometheusOptions;
pub use reference::{markdown, plain};
pub(crate) use stdx::nearest::nearest_of;
pub use stomp::StompOptions;
pub use stream::StreamOptions;
pub use template::template;
pub use tls::{ClientTlsOptions, HttpTlsOptions, LoginFrom};
pub use values::{Listener, QueueType, Switch};
pub use web::WebListeners;
