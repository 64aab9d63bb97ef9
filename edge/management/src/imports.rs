//! RabbitMQ's definitions document (B171) read into typed definitions, checked as a whole. Refuses to know what is
//! there already.

use ::queues::QueueConfig;
use broker::control::operator::pattern_problem;
use metadata::{
    AddVhost, Arguments, Bind, Credentials, DeclareExchange, DeclareQueue, Definitions, DestinationName,
    Hashing, Name, PutUser, QueueType, SALT_BYTES, SetGlobalParameter, SetParameter, SetPermissions,
    SetPolicy, SetTopicPermissions, VhostMetadata,
};
use platform::{Random, RealRandom};
use routing::ExchangeKind;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::values::raw_table;

/// Longest name and routing key, bytes (short strings of AMQP 0-9-1).
const NAME_BYTES_MAX: usize = 255;

/// What is wrong with a document, for people.
type Problem = String;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    users: Vec<User>,
    vhosts: Vec<Vhost>,
    permissions: Vec<Permission>,
    topic_permissions: Vec<Permission>,
    parameters: Vec<Parameter>,
    global_parameters: Vec<Parameter>,
    policies: Vec<Policy>,
    queues: Vec<Queue>,
    exchanges: Vec<Exchange>,
    bindings: Vec<Binding>,
}

/// A list, or in old documents words between commas.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    List(Vec<String>),
    Text(String),
}

impl Default for Words {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Words {
    fn into_list(self) -> Vec<Box<str>> {
        let words = match self {
            Self::List(words) => words,
            Self::Text(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        };
        words.into_iter().filter(|word| !word.is_empty()).map(String::into_boxed_str).collect()
    }
}

#[derive(Deserialize)]
struct User {
    name: String,
    password_hash: Option<String>,
    password: Option<String>,
    hashing_algorithm: Option<String>,
    #[serde(default)]
    tags: Words,
    #[serde(default)]
    limits: Value,
}

#[derive(Deserialize)]
struct Vhost {
    name: String,
    description: Option<String>,
    tags: Option<Words>,
    default_queue_type: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    description: Option<String>,
    tags: Option<Words>,
    default_queue_type: Option<String>,
    protected_from_deletion: bool,
}

#[derive(Deserialize)]
struct Permission {
    user: String,
    vhost: Option<String>,
    #[serde(default)]
    exchange: String,
    #[serde(default)]
    configure: String,
    write: String,
    read: String,
}

#[derive(Deserialize)]
struct Parameter {
    vhost: Option<String>,
    #[serde(default)]
    component: String,
    name: String,
    value: Value,
}

#[derive(Deserialize)]
struct Policy {
    vhost: Option<String>,
    name: String,
    pattern: String,
    #[serde(rename = "apply-to")]
    apply_to: Option<String>,
    #[serde(default)]
    priority: i64,
    definition: Map<String, Value>,
}

#[derive(Deserialize)]
struct Queue {
    vhost: Option<String>,
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    durable: bool,
    auto_delete: bool,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Deserialize)]
struct Exchange {
    vhost: Option<String>,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Deserialize)]
struct Binding {
    vhost: Option<String>,
    source: String,
    destination: String,
    destination_type: String,
    routing_key: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Reads a document; entries without a vhost get this one.
///
/// # Errors
/// The first mistake, as text for people.
pub(crate) fn read(document: &str, vhost: &str) -> Result<Definitions, Problem> {
    let document: Document =
        serde_json::from_str(document).map_err(|error| format!("not a definitions document: {error}"))?;
    Ok(Definitions {
        users: each(document.users, user)?,
        vhosts: each(document.vhosts, add_vhost)?,
        permissions: each(document.permissions, |it| permission(it, vhost))?,
        topic_permissions: each(document.topic_permissions, |it| topic_permission(it, vhost))?,
        parameters: each(document.parameters, |it| parameter(it, vhost))?,
        global_parameters: each(document.global_parameters, |it| {
            Ok(SetGlobalParameter { name: it.name.into(), value: it.value.to_string().into() })
        })?,
        policies: each(document.policies, |it| policy(it, vhost))?,
        queues: each(document.queues, |it| queue(&it, vhost))?,
        exchanges: each(document.exchanges, |it| exchange(it, vhost))?,
        bindings: each(document.bindings, |it| binding(&it, vhost))?,
    })
}

fn each<T, U>(entries: Vec<T>, entry: impl Fn(T) -> Result<U, Problem>) -> Result<Vec<U>, Problem> {
    entries.into_iter().map(entry).collect()
}

fn bounded(what: &str, name: &str) -> Result<Name, Problem> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("{what} of {} bytes, at most {NAME_BYTES_MAX} are possible", name.len()));
    }
    Ok(name.as_bytes().into())
}

fn named(what: &str, name: &str) -> Result<Name, Problem> {
    if name.is_empty() {
        return Err(format!("{what} without a name"));
    }
    bounded(&format!("name of a {what}"), name)
}

fn vhost_of(given: Option<&str>, default: &str) -> Result<Name, Problem> {
    named("vhost", given.unwrap_or(default))
}

fn user(it: User) -> Result<PutUser, Problem> {
    let credentials = credentials(&it).map_err(|problem| format!("user '{}': {problem}", it.name))?;
    let limits = match it.limits {
        Value::Object(limits) if !limits.is_empty() => Value::Object(limits).to_string().into(),
        _ => Box::default(),
    };
    Ok(PutUser { name: named("user", &it.name)?, credentials, tags: it.tags.into_list(), limits })
}

/// B170; also a password in clear.
fn credentials(it: &User) -> Result<Credentials, Problem> {
    let hashing = match it.hashing_algorithm.as_deref() {
        None => Hashing::default(),
        Some(name) => {
            Hashing::from_name(name).ok_or_else(|| format!("unknown hashing algorithm '{name}'"))?
        }
    };
    match (&it.password_hash, &it.password) {
        (Some(hash), _) => Credentials::from_base64(hashing, hash).map_err(|error| error.to_string()),
        (None, Some(password)) if !password.is_empty() => {
            let mut salt = [0; SALT_BYTES];
            RealRandom.fill(&mut salt);
            Credentials::of_password(hashing, salt, password.as_bytes())
                .ok_or_else(|| "the password cannot be hashed".to_owned())
        }
        (None, _) => Ok(Credentials::none()),
    }
}

fn add_vhost(it: Vhost) -> Result<AddVhost, Problem> {
    let (inner, name) = (it.metadata, named("vhost", &it.name)?);
    let kind = inner.default_queue_type.or(it.default_queue_type);
    let metadata = VhostMetadata {
        description: inner.description.or(it.description).unwrap_or_default().into(),
        tags: inner.tags.or(it.tags).unwrap_or_default().into_list(),
        default_queue_type: kind.filter(|kind| kind != "undefined").map(String::into_boxed_str),
        protected_from_deletion: inner.protected_from_deletion,
    };
    Ok(AddVhost { name, metadata })
}

fn check_patterns(it: &Permission) -> Result<(), Problem> {
    for pattern in [&it.configure, &it.write, &it.read] {
        if let Some(reason) = pattern_problem(pattern) {
            return Err(format!("permissions of user '{}': pattern '{pattern}': {reason}", it.user));
        }
    }
    Ok(())
}

fn permission(it: Permission, vhost: &str) -> Result<SetPermissions, Problem> {
    check_patterns(&it)?;
    Ok(SetPermissions {
        user: named("user", &it.user)?,
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        configure: it.configure.into(),
        write: it.write.into(),
        read: it.read.into(),
    })
}

fn topic_permission(it: Permission, vhost: &str) -> Result<SetTopicPermissions, Problem> {
    check_patterns(&it)?;
    Ok(SetTopicPermissions {
        user: named("user", &it.user)?,
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        exchange: bounded("name of an exchange", &it.exchange)?,
        write: it.write.into(),
        read: it.read.into(),
    })
}

fn parameter(it: Parameter, vhost: &str) -> Result<SetParameter, Problem> {
    Ok(SetParameter {
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        component: it.component.into(),
        name: it.name.into(),
        value: it.value.to_string().into(),
    })
}

fn policy(it: Policy, vhost: &str) -> Result<SetPolicy, Problem> {
    Ok(SetPolicy {
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        name: it.name.into(),
        pattern: it.pattern.into(),
        apply_to: it.apply_to.unwrap_or_else(|| "all".into()).into(),
        priority: it.priority,
        definition: Value::Object(it.definition).to_string().into(),
    })
}

fn table_of(what: &str, name: &str, arguments: &Map<String, Value>) -> Result<Arguments, Problem> {
    let table = raw_table(arguments).map_err(|problem| format!("{what} '{name}': {problem}"))?;
    Ok(table.into())
}

/// Refuses what a client could not declare either: types that are not there, arguments that make no sense.
fn queue(it: &Queue, vhost: &str) -> Result<DeclareQueue, Problem> {
    let arguments = table_of("queue", &it.name, &it.arguments)?;
    let asked = it.arguments.get("x-queue-type").and_then(Value::as_str);
    let kind = asked.or(it.kind.as_deref()).unwrap_or("classic");
    if !matches!(kind, "classic" | "" | "undefined") {
        return Err(format!("queue '{}': type '{kind}' is not available in this version of Warren", it.name));
    }
    if let Err(error) = QueueConfig::from_arguments(arguments.as_table(), QueueType::Classic.arguments()) {
        return Err(format!("queue '{}': argument {}: {:?}", it.name, error.name, error.reason));
    }
    Ok(DeclareQueue {
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        name: named("queue", &it.name)?,
        durable: it.durable,
        auto_delete: it.auto_delete,
        exclusive_owner: None,
        arguments,
        queue_type: QueueType::Classic,
    })
}

fn exchange(it: Exchange, vhost: &str) -> Result<DeclareExchange, Problem> {
    if ExchangeKind::by_name(it.kind.as_bytes()).is_none() {
        return Err(format!("exchange '{}': unknown type '{}'", it.name, it.kind));
    }
    if it.arguments.get("alternate-exchange").is_some_and(|value| !value.is_string()) {
        return Err(format!("exchange '{}': alternate-exchange must be a string", it.name));
    }
    Ok(DeclareExchange {
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        name: named("exchange", &it.name)?,
        kind: it.kind.into(),
        durable: it.durable,
        auto_delete: it.auto_delete,
        internal: it.internal,
        arguments: table_of("exchange", &it.name, &it.arguments)?,
    })
}

fn binding(it: &Binding, vhost: &str) -> Result<Bind, Problem> {
    let destination = match it.destination_type.as_str() {
        "queue" => DestinationName::Queue(named("queue", &it.destination)?),
        "exchange" => DestinationName::Exchange(bounded("name of an exchange", &it.destination)?),
        other => return Err(format!("binding of '{}': unknown destination type '{other}'", it.source)),
    };
    Ok(Bind {
        vhost: vhost_of(it.vhost.as_deref(), vhost)?,
        arguments: table_of("binding of", &it.source, &it.arguments)?,
        source: bounded("name of an exchange", &it.source)?,
        destination,
        key: bounded("routing key", &it.routing_key)?,
    })
}

#[cfg(test)]
mod tests;
