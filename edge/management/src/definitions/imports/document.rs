//! The shape of RabbitMQ's definitions document (B171). Refuses to know what its entries mean; keys that are not named
//! here are passed over.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::Problem;
use crate::resources::json::{self, FirstCounts};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Document {
    #[serde(deserialize_with = "entries")]
    pub(super) users: Vec<User>,
    #[serde(deserialize_with = "entries")]
    pub(super) vhosts: Vec<Vhost>,
    #[serde(deserialize_with = "entries")]
    pub(super) permissions: Vec<Permission>,
    #[serde(deserialize_with = "entries")]
    pub(super) topic_permissions: Vec<Permission>,
    #[serde(deserialize_with = "entries")]
    pub(super) parameters: Vec<Parameter>,
    #[serde(deserialize_with = "entries")]
    pub(super) global_parameters: Vec<GlobalParameter>,
    #[serde(deserialize_with = "entries")]
    pub(super) policies: Vec<Policy>,
    #[serde(deserialize_with = "entries")]
    pub(super) queues: Vec<Queue>,
    #[serde(deserialize_with = "entries")]
    pub(super) exchanges: Vec<Exchange>,
    #[serde(deserialize_with = "entries")]
    pub(super) bindings: Vec<Binding>,
}

/// The parts of a vhost, and not of the node.
const OF_VHOST: [&str; 5] = ["parameters", "policies", "queues", "exchanges", "bindings"];

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// It is none, or an entry of it is none; then that is named.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        match serde_json::from_str(text) {
            // Names that stand twice in an object, of which the first counts, and mistakes are too rare to keep every document twice
            // in memory.
            Err(error) if error.is_data() => {
                let bytes_max = json::document_bytes_max(text.len());
                let read = json::within(bytes_max, || json::parse_bounded(text.as_bytes()));
                from_counted(read.map_err(|error| no_document(&error))?)
            }
            read => read.map_err(|error| no_document(&error)),
        }
    }

    /// Reads what is of a vhost, whichever vhosts its entries name. Everything else may be whatever it likes.
    ///
    /// # Errors
    /// As of [`Self::parse`].
    pub(super) fn parse_confined(text: &str) -> Result<Self, Problem> {
        let read = json::parse_bounded(text.as_bytes()).map_err(|error| no_document(&error))?;
        let Value::Object(mut sections) = read else {
            return Ok(Self::default());
        };
        sections.retain(|name, _| OF_VHOST.contains(&&**name));
        let entries = sections.values_mut().filter_map(Value::as_array_mut).flatten();
        entries.filter_map(Value::as_object_mut).for_each(|entry| drop(entry.remove("vhost")));
        from_counted(Value::Object(sections))
    }
}

fn no_document(error: &serde_json::Error) -> Problem {
    format!("not a definitions document: {error}")
}

/// A document from values that are counted already, and take more memory than what is made of them.
fn from_counted(value: Value) -> Result<Document, Problem> {
    let Value::Object(mut all) = value else { return Err("not a definitions document".into()) };
    json::within(usize::MAX, || {
        Ok(Document {
            users: section(&mut all, "users", "user")?,
            vhosts: section(&mut all, "vhosts", "vhost")?,
            permissions: section(&mut all, "permissions", "permissions")?,
            topic_permissions: section(&mut all, "topic_permissions", "topic permissions")?,
            parameters: section(&mut all, "parameters", "parameter")?,
            global_parameters: section(&mut all, "global_parameters", "global parameter")?,
            policies: section(&mut all, "policies", "policy")?,
            queues: section(&mut all, "queues", "queue")?,
            exchanges: section(&mut all, "exchanges", "exchange")?,
            bindings: section(&mut all, "bindings", "binding")?,
        })
    })
}

/// Entries of a section, one by one, so that one that is wrong can be named. Entries that are null are passed over.
fn section<T: DeserializeOwned>(
    all: &mut Map<String, Value>,
    name: &str,
    what: &str,
) -> Result<Vec<T>, Problem> {
    let entries = match all.remove(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(format!("'{name}' of the document is not a list")),
    };
    let there = entries.into_iter().enumerate().filter(|(_, entry)| !entry.is_null());
    let read = there.map(|(at, entry)| match entry.is_object() {
        true => one(&entry).map_err(|problem| format!("{}: {problem}", words(what, at, &entry))),
        false => Err(format!("entry {} of '{name}' is not an object", at + 1)),
    });
    read.collect()
}

/// An entry, or what is wrong with it.
fn one<T: DeserializeOwned>(entry: &Value) -> Result<T, String> {
    T::deserialize(entry).map_err(|error| {
        let problem = error.to_string();
        // A field with a value of the wrong type is as wrong when it stands alone.
        let is_wrong = |field: &(&String, &Value)| {
            let alone: Map<String, Value> = [(field.0.clone(), field.1.clone())].into_iter().collect();
            T::deserialize(&Value::Object(alone)).is_err_and(|error| error.to_string() == problem)
        };
        let is_missing = problem.starts_with("missing field");
        let mut fields = entry.as_object().into_iter().flatten().filter(|_| !is_missing);
        match fields.find(is_wrong) {
            Some((field, _)) => format!("'{field}': {problem}"),
            None => problem,
        }
    })
}

/// How people know an entry.
fn words(what: &str, at: usize, entry: &Value) -> String {
    let text = |field: &str| entry[field].as_str();
    let is_of_user = what.ends_with("permissions");
    let name = text(if is_of_user {
        "user"
    } else if what == "binding" {
        "source"
    } else {
        "name"
    });
    let mut words = match name {
        Some(name) if is_of_user => format!("{what} of user '{name}'"),
        Some(source) if what == "binding" => {
            format!("binding of '{source}' to '{}'", text("destination").unwrap_or("?"))
        }
        Some(name) => format!("{what} '{name}'"),
        None => format!("{what} without a name, number {}", at + 1),
    };
    if let Some(vhost) = text("vhost") {
        words.push_str(&format!(" in vhost '{vhost}'"));
    }
    words
}

/// A list, or in old documents words between commas.
pub(super) enum Words {
    List(Vec<String>),
    Text(String),
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bad = || serde::de::Error::custom("tags are a list of texts, or one text");
        match value(from)? {
            Value::String(text) => Ok(Self::Text(text)),
            list @ Value::Array(_) => Vec::deserialize(list).map(Self::List).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
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

/// A text or null, but not left out.
fn text_or_null<'de, D: Deserializer<'de>>(given: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(given)
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
    #[serde(default, deserialize_with = "value")]
    pub(super) limits: Value,
}

#[derive(Deserialize)]
pub(super) struct Vhost {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) tags: Option<Words>,
    pub(super) default_queue_type: Option<String>,
    #[serde(default, deserialize_with = "metadata")]
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
    /// Of every topic permission, and of no other one.
    #[serde(default, deserialize_with = "text")]
    pub(super) exchange: Option<String>,
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
    #[serde(deserialize_with = "value")]
    pub(super) value: Value,
}

/// Names that are words of Erlang are no texts in RabbitMQ's exports.
#[derive(Deserialize)]
pub(super) struct GlobalParameter {
    #[serde(deserialize_with = "word")]
    pub(super) name: String,
    #[serde(deserialize_with = "value")]
    pub(super) value: Value,
}

pub(super) struct Policy {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    /// Pattern, definition, priority, apply-to.
    pub(super) rest: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bad = |text: String| serde::de::Error::custom(text);
        let Value::Object(mut rest) = value(from)? else { return Err(bad("a policy is an object".into())) };
        let vhost = match rest.remove("vhost") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name),
            Some(other) => return Err(bad(format!("the vhost of a policy is a text, not {other}"))),
        };
        match rest.remove("name") {
            Some(Value::String(name)) => Ok(Self { vhost, name, rest }),
            None => Err(bad("missing field `name` of a policy".into())),
            Some(other) => Err(bad(format!("the name of a policy is a text, not {other}"))),
        }
    }
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
    pub(super) durable: Option<bool>,
    pub(super) auto_delete: Option<bool>,
    pub(super) internal: Option<bool>,
    #[serde(default, deserialize_with = "object")]
    pub(super) arguments: Map<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct Binding {
    pub(super) vhost: Option<String>,
    pub(super) source: String,
    pub(super) destination: String,
    pub(super) destination_type: String,
    /// Null of what was bound over RabbitMQ's HTTP API without one: it keeps that, and exports it. Not to be left out.
    #[serde(deserialize_with = "text_or_null")]
    pub(super) routing_key: Option<String>,
    #[serde(default, deserialize_with = "object")]
    pub(super) arguments: Map<String, Value>,
}

/// The default of RabbitMQ for entries written by hand: durable, and not deleted by itself.
const fn yes() -> bool {
    true
}

/// Entries of a section. They are counted as they come: an entry of a few bytes of text takes hundreds of memory.
fn entries<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Entries(PhantomData))
}

struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        // Entries that are null are nobody's: RabbitMQ passes them over.
        while let Some(entry) = from.next_element::<Option<T>>()? {
            json::take(2 * size_of::<T>())?;
            all.extend(entry);
        }
        Ok(all)
    }
}

/// A text. RabbitMQ 4.3 keeps names of global parameters as atoms, and exports those of `null`, `true` and `false` as JSON's.
fn word<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match value(from)? {
        Value::String(text) => Ok(text),
        word @ (Value::Null | Value::Bool(_)) => Ok(word.to_string()),
        other => Err(serde::de::Error::custom(format!("invalid type: {other}, expected a string"))),
    }
}

/// Any value.
fn value<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    FirstCounts::deserialize(from).map(|it| it.0)
}

/// The description of a vhost. A value that is no object says nothing, as in RabbitMQ.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<Metadata, D::Error> {
    match value(from)? {
        object @ Value::Object(_) => Metadata::deserialize(object).map_err(serde::de::Error::custom),
        _ => Ok(Metadata::default()),
    }
}

/// An object; an empty list is an empty one, as RabbitMQ's older exports have it.
fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    match FirstCounts::deserialize(from)?.0 {
        Value::Object(object) => Ok(object),
        Value::Array(list) if list.is_empty() => Ok(Map::new()),
        other => Err(serde::de::Error::custom(format!("arguments are an object, not {other}"))),
    }
}
