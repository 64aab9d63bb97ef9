//! Resources as the command-line tools, the HTTP API and the metrics share them: how a resource is read, checked and shown as JSON.
//!
//! One file per resource. Knows neither command lines nor HTTP requests.

pub(crate) mod alarms;
pub(crate) mod bindings;
pub(crate) mod connections;
pub(crate) mod consumers;
pub(crate) mod delivery;
pub(crate) mod exchanges;
pub(crate) mod json;
pub(crate) mod limits;
pub(crate) mod members;
pub(crate) mod membership;
pub(crate) mod mqtt_vhosts;
pub(crate) mod node;
pub(crate) mod parameters;
pub(crate) mod passwords;
pub(crate) mod policies;
pub(crate) mod queues;
pub(crate) mod routes;
pub(crate) mod shovels;
pub(crate) mod stages;
pub(crate) mod streams;
pub(crate) mod users;
pub(crate) mod values;
pub(crate) mod vhosts;
