//! How this process's node is called. Refuses to know who decides it.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// The name of a node that was given none and belongs to no cluster.
pub const DEFAULT_NODE_NAME: &str = "warren@localhost";

static NAME: OnceLock<String> = OnceLock::new();

/// How the node is called where RabbitMQ has the name of an Erlang node; reads as text.
pub const NODE_NAME: OwnName = OwnName;

/// The name of this process's node: [`DEFAULT_NODE_NAME`] unless it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnName;

/// Names this process's node, before anything shows it; the first name counts.
pub fn set_node_name(name: &str) {
    NAME.get_or_init(|| name.to_owned());
}

impl OwnName {
    /// The text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        NAME.get().map_or(DEFAULT_NODE_NAME, String::as_str)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(self) -> &'static [u8] {
        self.as_str().as_bytes()
    }
}

impl Deref for OwnName {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for OwnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for OwnName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl PartialEq<OwnName> for &str {
    fn eq(&self, name: &OwnName) -> bool {
        *self == name.as_str()
    }
}

impl PartialEq<OwnName> for str {
    fn eq(&self, name: &OwnName) -> bool {
        self == name.as_str()
    }
}

impl From<OwnName> for String {
    fn from(name: OwnName) -> String {
        name.as_str().to_owned()
    }
}

impl From<OwnName> for Value {
    fn from(name: OwnName) -> Value {
        name.as_str().into()
    }
}
