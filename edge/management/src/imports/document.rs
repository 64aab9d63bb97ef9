//! The shape of RabbitMQ's definitions document (B171). Refuses to know what its entries mean; keys that are not named
//! here are passed over.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Document {
    pub(super) users: Vec<User>,
    pub(super) vhosts: Vec<Vhost>,
    pub(super) permissions: Vec<Permission>,
    pub(super) topic_permissions: Vec<Permission>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) global_parameters: Vec<Parameter>,
    pub(super) policies: Vec<Policy>,
    pub(super) queues: Vec<Queue>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) bindings: Vec<Binding>,
}

impl Document {
    /// Forgets which vhosts entries name, and drops what is of the node and not of a vhost.
    pub(super) fn confine(&mut self) {
        self.users.clear();
        self.vhosts.clear();
        self.permissions.clear();
        self.topic_permissions.clear();
        self.global_parameters.clear();
        self.parameters.iter_mut().for_each(|it| it.vhost = None);
        self.policies.iter_mut().for_each(|it| it.vhost = None);
        self.queues.iter_mut().for_each(|it| it.vhost = None);
        self.exchanges.iter_mut().for_each(|it| it.vhost = None);
        self.bindings.iter_mut().for_each(|it| it.vhost = None);
    }
}

/// A list, or in old documents words between commas.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Words {
    List(Vec<String>),
    Text(String),
}

impl Default for Words {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Words {
    pub(super) fn into_list(self) -> Vec<Box<str>> {
        let words = match self {
            Self::List(words) => words,
            Self::Text(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        };
        words.into_iter().filter(|word| !word.is_empty()).map(String::into_boxed_str).collect()
    }
}

/// A text that may be left out, but not be null: that would take away what is there.
fn text<'de, D: Deserializer<'de>>(given: D) -> Result<Option<String>, D::Error> {
    String::deserialize(given).map(Some)
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) name: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) password_hash: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) password: Option<String>,
    pub(super) hashing_algorithm: Option<String>,
    /// Not to be left out: that would take them away.
    pub(super) tags: Words,
    #[serde(default)]
    pub(super) limits: Value,
}

#[derive(Deserialize)]
pub(super) struct Vhost {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) tags: Option<Words>,
    pub(super) default_queue_type: Option<String>,
    #[serde(default)]
    pub(super) metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) description: Option<String>,
    pub(super) tags: Option<Words>,
    pub(super) default_queue_type: Option<String>,
    pub(super) protected_from_deletion: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct Permission {
    pub(super) user: String,
    pub(super) vhost: Option<String>,
    #[serde(default)]
    pub(super) exchange: String,
    /// Of no topic permission, and of every other one.
    #[serde(default, deserialize_with = "text")]
    pub(super) configure: Option<String>,
    pub(super) write: String,
    pub(super) read: String,
}

#[derive(Deserialize)]
pub(super) struct Parameter {
    pub(super) vhost: Option<String>,
    #[serde(default)]
    pub(super) component: String,
    pub(super) name: String,
    pub(super) value: Value,
}

#[derive(Deserialize)]
pub(super) struct Policy {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    /// Pattern, definition, priority, apply-to.
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct Queue {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default = "yes")]
    pub(super) durable: bool,
    #[serde(default)]
    pub(super) auto_delete: bool,
    #[serde(default, deserialize_with = "object")]
    pub(super) arguments: Map<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct Exchange {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default = "yes")]
    pub(super) durable: bool,
    #[serde(default)]
    pub(super) auto_delete: bool,
    #[serde(default)]
    pub(super) internal: bool,
    #[serde(default, deserialize_with = "object")]
    pub(super) arguments: Map<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct Binding {
    pub(super) vhost: Option<String>,
    pub(super) source: String,
    pub(super) destination: String,
    pub(super) destination_type: String,
    pub(super) routing_key: String,
    #[serde(default, deserialize_with = "object")]
    pub(super) arguments: Map<String, Value>,
}

/// What entries written by hand leave out is as RabbitMQ has it: durable, and not deleted by itself.
const fn yes() -> bool {
    true
}

/// An object; an empty list is an empty one, as RabbitMQ's older exports have it.
fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    match Value::deserialize(from)? {
        Value::Object(object) => Ok(object),
        Value::Array(list) if list.is_empty() => Ok(Map::new()),
        other => Err(serde::de::Error::custom(format!("arguments are an object, not {other}"))),
    }
}
