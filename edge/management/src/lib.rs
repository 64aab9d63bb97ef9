//! The control socket behind the command-line tools, and the HTTP API ([`http`]); the only place that knows JSON.
//!
//! ```text
//!  warren ctl ──► client ──► <data-dir>/ctl.sock ──► server ──► commands ──► broker
//!     │   └──► remote ──► POST /api/ctl ──────────► http ───────────▲      │
//!     └──────────────── format ◄── Answer: rows, text or error ◄───────────┘
//! ```
//!
//! One request line, one answer line, both JSON; see [`Request`] and [`Answer`]. Over HTTP the same two are bodies. Refuses to know AMQP sessions,
//! command lines and terminals.

mod access;
mod alarms;
mod boot;
mod client;
mod columns;
mod commands;
mod connections;
mod definitions;
mod delayed;
mod delivery;
mod events;
mod format;
pub mod http;
mod imports;
mod interfaces;
mod journal;
mod json;
mod limits;
mod maintenance;
mod node;
mod parameters;
mod passwords;
mod plugins;
pub mod policies;
pub mod profile;
pub mod prometheus;
mod protocol;
mod queues;
mod remote;
mod report;
mod routes;
mod server;
pub mod shovels;
mod stages;
mod topology;
mod upkeep;
mod values;
mod vhosts;

pub use boot::{Document, StartImport, When, import_at_start, name_cluster};
pub use client::{CallError, NotAllowed, call};
pub use commands::command_names;
pub use delivery::{ConsumerExplanation, DeliveryExplanation, LogExplanation, explain_delivery};
pub use format::{Format, Headers, render};
pub use imports::{Importer, Scope, Unsupported, import};
pub use journal::{Journal, JournalLine};
pub use maintenance::{Doors, Maintenance};
pub use node::{
    HTTP_PROTOCOL, LISTENER_PROTOCOL, NODE_NAME, Node, NodeListener, NodeNames, NodeTags, PROMETHEUS_PROTOCOL,
};
pub use passwords::hash_password;
pub use protocol::{Answer, DEFINITIONS_BYTES_MAX, Exit, Failure, LINE_BYTES_MAX, Request, Rows};
pub use remote::{ServerUrl, UrlError, call_url};
pub use server::{ControlSocket, SOCKET_NAME};
pub use values::of_event as value_of_event;
