//! The command-line tools: their requests and answers, the control socket, and the work of each command.
//!
//! ```text
//!  warren ctl ──► client ──► <data-dir>/ctl.sock ──► server ──► table ──► commands ──► resources ──► broker
//!     │   └──► remote ──► POST /api/ctl ──────────► http ───────────▲      │
//!     └──────────────── format ◄── Answer: rows, text or error ◄───────────┘
//! ```
//!
//! One request line, one answer line, both JSON; see [`Request`](protocol::Request) and [`Answer`](protocol::Answer). Over HTTP the same two
//! are bodies. Knows nothing of HTTP resources.

pub(crate) mod access;
pub(crate) mod alarms;
pub(crate) mod application;
pub(crate) mod client;
pub(crate) mod columns;
pub(crate) mod commands;
pub(crate) mod connections;
pub(crate) mod delayed;
pub(crate) mod delivery;
pub(crate) mod events;
pub(crate) mod everywhere;
pub(crate) mod format;
pub(crate) mod hints;
pub(crate) mod interfaces;
pub(crate) mod limits;
pub(crate) mod listed;
pub(crate) mod maintenance;
pub(crate) mod node;
pub(crate) mod parameters;
pub(crate) mod plugins;
pub(crate) mod policies;
pub(crate) mod profile;
pub(crate) mod protocol;
pub(crate) mod queues;
pub(crate) mod quorum;
pub(crate) mod remote;
pub(crate) mod report;
pub(crate) mod routes;
pub(crate) mod server;
pub(crate) mod shovels;
pub(crate) mod stages;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod topology;
pub(crate) mod upkeep;
pub(crate) mod vhosts;
