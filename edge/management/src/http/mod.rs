//! The HTTP API of RabbitMQ's management plugin.
//!
//! ```text
//!  socket ─► listener ─► router ─► table ─► [auth] ─► handler (a thread that may block) ─► Reply or Problem
//!            bounds      path      route     tags      broker                                JSON
//! ```
//!
//! Principal types: [`HttpListener`], the socket with its bounds, and [`App`], what handlers know. One file per family of
//! resources; each exports its rows of the route table, from which router, `OPTIONS`, the reference page and the OpenAPI
//! document are made. A handler is a function of a `Call` and runs on a thread that may block. At most [`CALLS_MAX`] of them run at once,
//! so that no request slows the data plane down by more than its share of the processor.
//!
//! Shapes, status codes and texts are those of RabbitMQ 4.3.6, compared by `testing/management`. Refuses to know AMQP
//! sessions and files; the files beside `/api` come from the maker of the [`App`].

mod accept;
mod answering;
mod answers;
mod app;
mod attempts;
pub(crate) mod auth;
mod bindings;
pub(crate) mod body;
mod bounds;
mod call;
mod channels;
mod connections;
mod consumers;
mod ctl;
mod definitions;
mod elsewhere;
mod exchanges;
mod explain;
mod features;
mod health;
mod insight;
mod limits;
mod listener;
mod listing;
mod messages;
mod multipart;
mod node_facts;
mod nodes;
mod notation;
mod openapi;
mod overview;
mod parameters;
mod permissions;
mod places;
mod policies;
mod problem;
mod profile;
pub(crate) mod query;
mod queues;
mod rates;
mod replicas;
mod reply;
mod response;
mod room;
mod route;
mod router;
mod samples;
mod schemas;
mod sending;
mod shapes;
mod shovels;
mod slots;
mod sort_key;
mod streams;
mod sums;
mod table;
mod users;
mod vhosts;

pub(crate) use answering::answer as answer_node;
pub use app::{App, Asset, Assets, Change, Headers, HttpOptions};
pub use bounds::CALLS_MAX;
pub(crate) use elsewhere::Asked as AskedOfNode;
pub use listener::{CONNECTIONS_MAX, HttpListener};
pub(crate) use nodes::{facts_of as facts_of_node, parts_of as memory_of_node};
pub(crate) use profile::{Asked as AskedProfile, answer as profile_of_node};
pub(crate) use queues::{AskedContents, contents_of_queues};
pub use router::router;
