//! Definitions as RabbitMQ's JSON document (B171): export, and the two commands. Refuses to know files.

use broker::Broker;
use metadata::{
    AddVhost, Bind, DeclareExchange, DeclareQueue, Definitions, DestinationName, Gathered, Limits, PutUser,
    QueueType, SetGlobalParameter, SetParameter, SetPermissions, SetPolicy, SetTopicPermissions,
    SetVhostLimits, VhostMetadata,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, arguments, usage};
use crate::ctl::protocol::{Answer, DEFINITIONS_BYTES_MAX, Exit, Failure, Request, Rows};
use crate::definitions::imports::{Importer, Row, Scope, Unsupported, import};
use crate::resources::limits::shown;
use crate::resources::parameters::{LIMITS, OWN, VHOST_LIMITS};
use crate::resources::policies::{OPERATOR_POLICY, definition_object};
use crate::resources::values::{table, text};
use crate::resources::vhosts::metadata_object;

/// The version of RabbitMQ whose shape of definitions this is.
const RABBITMQ_VERSION: &str = "4.3.0";

/// Everything but exclusive queues and predeclared exchanges, as one document.
pub(crate) fn export_definitions(broker: &Broker, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    check_format(request)?;
    let definitions = broker.read_metadata(Gathered::of_state).into_definitions();
    let mut out = Bounded(Vec::new());
    let written = write_document(&mut out, &definitions, &broker.cluster_name());
    drop(definitions);
    written.map_err(|error| {
        let text = format!("Error:\nFailed to export definitions: {error}");
        Failure::new(Exit::UNAVAILABLE, text)
    })?;
    let ok = String::from_utf8(out.0).expect("JSON is UTF-8");
    Ok(Answer::Done { ok })
}

/// Merges a document, its only argument, with the objects of the broker: nothing is deleted, exchanges and queues that exist stay as they are. The
/// answer is a table of the entries that were left out. A document with a mistake changes nothing. Entries without a vhost go to the one asked for;
/// when none is, they are a mistake.
pub(crate) fn import_definitions(broker: &Broker, request: &Request) -> Outcome {
    let [document] = arguments(request)?;
    check_format(request)?;
    let unsupported =
        if request.has("skip-unsupported") { Unsupported::Skipped } else { Unsupported::Refused };
    let vhost = request.options.get("vhost").map(String::as_str);
    let imported = import(broker, document, Scope::Node(vhost), unsupported, Importer::Node);
    let rows = imported.map_err(|error| {
        Failure::new(Exit::DATA, format!("Error:\nFailed to import definitions: {error}"))
    })?;
    if rows.is_empty() {
        return Ok(Answer::done());
    }
    let cells = |row: Row| vec![row.kind.into(), row.vhost.into(), row.name.into(), row.why.into()];
    let columns = ["left_out", "vhost", "name", "why"].map(String::from).into();
    Ok(Answer::Rows(Rows { columns, rows: rows.into_iter().map(cells).collect() }))
}

fn check_format(request: &Request) -> Result<(), Failure> {
    match request.options.get("format").map(|name| name.to_ascii_lowercase()) {
        None => Ok(()),
        Some(name) if name == "json" => Ok(()),
        Some(name) => Err(usage(&format!("definitions in format '{name}' are not supported, only json"))),
    }
}

/// Bytes up to [`DEFINITIONS_BYTES_MAX`].
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > DEFINITIONS_BYTES_MAX {
            let text = format!("they have more than {DEFINITIONS_BYTES_MAX} bytes");
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The author of the document, and its kind.
fn begin<M: SerializeMap>(map: &mut M, format: &str) -> Result<(), M::Error> {
    map.serialize_entry("rabbit_version", RABBITMQ_VERSION)?;
    map.serialize_entry("rabbitmq_version", RABBITMQ_VERSION)?;
    map.serialize_entry("product_name", "Warren")?;
    map.serialize_entry("product_version", env!("CARGO_PKG_VERSION"))?;
    map.serialize_entry("rabbitmq_definition_format", format)
}

/// The end of both kinds of documents.
fn objects<M: SerializeMap>(
    map: &mut M,
    of: &Definitions,
    shape: fn(Value) -> Value,
) -> Result<(), M::Error> {
    map.serialize_entry("policies", &List(|| of.policies.iter().map(policy).map(shape)))?;
    map.serialize_entry("queues", &List(|| of.queues.iter().map(queue).map(shape)))?;
    map.serialize_entry("exchanges", &List(|| of.exchanges.iter().map(exchange).map(shape)))?;
    map.serialize_entry("bindings", &List(|| of.bindings.iter().map(binding).map(shape)))
}

/// Writes the document with RabbitMQ's top keys; only one entry of it exists as JSON values at a time.
pub(crate) fn write_document(
    out: &mut impl std::io::Write,
    of: &Definitions,
    cluster_name: &str,
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Serializer::new(out);
    let mut map = json.serialize_map(None)?;
    begin(&mut map, "cluster")?;
    map.serialize_entry("original_cluster_name", cluster_name)?;
    map.serialize_entry("explanation", &format!("Definitions of cluster '{cluster_name}'"))?;
    let globals = || of.global_parameters.iter().filter(|it| !OWN.contains(&&*it.name));
    map.serialize_entry("users", &List(|| of.users.iter().map(user)))?;
    map.serialize_entry("vhosts", &List(|| of.vhosts.iter().map(|it| vhost(it, &of.vhost_limits))))?;
    map.serialize_entry("permissions", &List(|| of.permissions.iter().map(permission)))?;
    map.serialize_entry("topic_permissions", &List(|| of.topic_permissions.iter().map(topic_permission)))?;
    let limits = || of.vhost_limits.iter().map(vhost_limits);
    let operators = || of.operator_policies.iter().map(operator_policy);
    let parameters = || of.parameters.iter().map(parameter).chain(operators()).chain(limits());
    map.serialize_entry("parameters", &List(parameters))?;
    map.serialize_entry("global_parameters", &List(|| globals().map(global)))?;
    objects(&mut map, of, |entry| entry)?;
    map.end()
}

/// Writes the document of one vhost with RabbitMQ's top keys; entries name no vhost.
pub(crate) fn write_vhost_document(
    out: &mut impl std::io::Write,
    of: &Definitions,
    name: &str,
    metadata: &VhostMetadata,
    limits: &Limits,
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Serializer::new(out);
    let mut map = json.serialize_map(None)?;
    begin(&mut map, "single_virtual_host")?;
    map.serialize_entry("original_vhost_name", name)?;
    map.serialize_entry("explanation", &format!("Definitions of virtual host '{name}'"))?;
    map.serialize_entry("description", &*metadata.description)?;
    map.serialize_entry("metadata", &metadata_object(metadata))?;
    map.serialize_entry("limits", &shown(limits))?;
    let operators = || of.operator_policies.iter().map(operator_policy);
    let parameters = || of.parameters.iter().map(parameter).chain(operators());
    map.serialize_entry("parameters", &List(|| parameters().map(without_vhost)))?;
    objects(&mut map, of, without_vhost)?;
    map.end()
}

fn without_vhost(mut entry: Value) -> Value {
    if let Value::Object(object) = &mut entry {
        object.remove("vhost");
    }
    entry
}

/// A list whose entries are made one by one as they are written.
struct List<F>(F);

impl<F: Fn() -> I, I: Iterator<Item = Value>> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq((self.0)())
    }
}

/// JSON kept as text.
fn embedded(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn user(it: &PutUser) -> Value {
    json!({
        "name": text(&it.name),
        "password_hash": it.credentials.to_base64(),
        "hashing_algorithm": it.credentials.hashing.name(),
        "tags": words(&it.tags),
        "limits": shown(&it.limits),
    })
}

fn words(words: &[Box<str>]) -> Value {
    words.iter().map(|word| &**word).collect()
}

fn vhost(it: &AddVhost, limits: &[SetVhostLimits]) -> Value {
    let limits = limits.iter().find(|set| set.vhost == it.name);
    let limits = limits.map_or_else(|| json!({}), |set| shown(&set.limits));
    json!({ "name": text(&it.name), "limits": limits, "metadata": metadata_object(&it.metadata) })
}

fn parameter(it: &SetParameter) -> Value {
    let (vhost, value) = (text(&it.vhost), embedded(&it.value));
    json!({ "vhost": vhost, "component": *it.component, "name": *it.name, "value": value })
}

fn vhost_limits(it: &SetVhostLimits) -> Value {
    json!({ "vhost": text(&it.vhost), "component": VHOST_LIMITS, "name": LIMITS, "value": shown(&it.limits) })
}

fn global(it: &SetGlobalParameter) -> Value {
    json!({ "name": *it.name, "value": embedded(&it.value) })
}

fn permission(it: &SetPermissions) -> Value {
    json!({
        "user": text(&it.user),
        "vhost": text(&it.vhost),
        "configure": *it.configure,
        "write": *it.write,
        "read": *it.read,
    })
}

fn topic_permission(it: &SetTopicPermissions) -> Value {
    json!({
        "user": text(&it.user),
        "vhost": text(&it.vhost),
        "exchange": text(&it.exchange),
        "write": *it.write,
        "read": *it.read,
    })
}

fn policy(it: &SetPolicy) -> Value {
    json!({
        "vhost": text(&it.vhost),
        "name": *it.name,
        "pattern": *it.pattern,
        "apply-to": it.apply_to.name(),
        "priority": it.priority,
        "definition": definition_object(&it.definition),
    })
}

fn operator_policy(it: &SetPolicy) -> Value {
    let value = json!({
        "pattern": *it.pattern,
        "definition": definition_object(&it.definition),
        "priority": it.priority,
        "apply-to": it.apply_to.name(),
    });
    json!({ "vhost": text(&it.vhost), "component": OPERATOR_POLICY, "name": *it.name, "value": value })
}

fn queue(it: &DeclareQueue) -> Value {
    let kind = match it.queue_type {
        QueueType::Classic => "classic",
        QueueType::Quorum => "quorum",
        QueueType::Stream => "stream",
    };
    json!({
        "name": text(&it.name),
        "vhost": text(&it.vhost),
        "type": kind,
        "durable": it.durable,
        "auto_delete": it.auto_delete,
        "arguments": table(it.arguments.raw()),
    })
}

fn exchange(it: &DeclareExchange) -> Value {
    json!({
        "name": text(&it.name),
        "vhost": text(&it.vhost),
        "type": *it.kind,
        "durable": it.durable,
        "auto_delete": it.auto_delete,
        "internal": it.internal,
        "arguments": table(it.arguments.raw()),
    })
}

fn binding(it: &Bind) -> Value {
    let (destination, kind) = match &it.destination {
        DestinationName::Queue(name) => (name, "queue"),
        DestinationName::Exchange(name) => (name, "exchange"),
    };
    json!({
        "source": text(&it.source),
        "vhost": text(&it.vhost),
        "destination": text(destination),
        "destination_type": kind,
        "routing_key": text(&it.key),
        "arguments": table(it.arguments.raw()),
    })
}
