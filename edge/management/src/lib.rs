//! Management: the command-line tools ([`ctl`]), the HTTP API ([`http`]), metrics ([`prometheus`]) and definitions, over one set of
//! [`resources`]. The only library that knows JSON, beside `profiles`.
//!
//! ```text
//!  ctl ──┐
//!  http ─┼──► definitions ──► resources ──► broker
//!  prometheus ─────────────────▲
//! ```
//!
//! Refuses to know AMQP sessions, command lines and terminals.

mod ctl;
mod definitions;
pub mod http;
pub mod prometheus;
mod resources;

pub use ctl::application::{Application, Asked, Order, Orders};
pub use ctl::client::{CallError, NotAllowed, call};
pub use ctl::everywhere::{OTHER_NODE, answer_other_nodes, no_such_node};
pub use ctl::format::{Format, Headers, render};
pub use ctl::listed::{ListedColumns, columns_of};
pub use ctl::protocol::{Answer, DEFINITIONS_BYTES_MAX, Exit, Failure, LINE_BYTES_MAX, Request, Rows};
pub use ctl::remote::{ServerUrl, UrlError, call_url};
pub use ctl::server::{ControlSocket, SOCKET_NAME};
pub use ctl::table::command_names;
pub use definitions::boot::{Document, StartImport, When, import_at_start, name_cluster};
pub use definitions::imports::{Importer, Row as ImportRow, Scope, Unsupported, import};
pub use resources::mqtt_vhosts::MqttVhosts;
pub use resources::node::{
    CLUSTER_PROTOCOL, DEFAULT_NODE_NAME, Doors, HTTP_PROTOCOL, HTTPS_PROTOCOL, Journal, JournalLine,
    LISTENER_PROTOCOL, MQTT_LISTENER_PROTOCOL, MQTT_TLS_LISTENER_PROTOCOL, Maintenance, NODE_NAME, Node,
    NodeCertificates, NodeListener, NodeNames, NodePeers, NodeTags, OwnName, PROMETHEUS_PROTOCOL,
    PROMETHEUS_TLS_PROTOCOL, STOMP_LISTENER_PROTOCOL, STOMP_TLS_LISTENER_PROTOCOL, STREAM_LISTENER_PROTOCOL,
    STREAM_TLS_LISTENER_PROTOCOL, TLS_LISTENER_PROTOCOL, WEB_MQTT_LISTENER_PROTOCOL,
    WEB_MQTT_TLS_LISTENER_PROTOCOL, WEB_STOMP_LISTENER_PROTOCOL, WEB_STOMP_TLS_LISTENER_PROTOCOL,
    set_node_name,
};
pub use resources::passwords::hash_password;
pub use resources::shovels::read as read_shovel;
pub use resources::values::of_event as value_of_event;
