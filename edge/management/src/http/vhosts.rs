//! Virtual hosts: listed, made, described, protected, deleted.

use std::sync::Arc;

use broker::control::users::new_vhost_metadata;
use broker::{Tracing, Vhost};
use metadata::VhostMetadata;
use serde_json::{Map, Value, json};

use super::auth::{Access, sees_vhost};
use super::call::{Call, flag, nested, text};
use super::elsewhere;
use super::listing;
use super::problem::Problem;
use super::rates::{self, Ranges};
use super::reply::{Answer, Reply, put};
use super::route::{Method, Route, route};
use super::shapes::object;
use crate::resources::node::NODE_NAME;
use crate::resources::vhosts::{VhostRow, metadata_object};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/vhosts", Access::Management, "Virtual hosts that the user may see.", list),
    route(Method::Get, "/api/vhosts/{vhost}", Access::Administrator, "One virtual host.", show),
    route(
        Method::Put,
        "/api/vhosts/{vhost}",
        Access::Administrator,
        "Makes or describes a virtual host: `{\"description\", \"tags\", \"default_queue_type\", \
         \"protected_from_deletion\", \"tracing\"}`.",
        put_vhost,
    ),
    route(
        Method::Delete,
        "/api/vhosts/{vhost}",
        Access::Administrator,
        "Deletes a virtual host with its content.",
        delete,
    ),
    route(
        Method::Post,
        "/api/vhosts/{vhost}/deletion/protection",
        Access::Administrator,
        "Protects a virtual host from deletion.",
        protect,
    ),
    route(
        Method::Delete,
        "/api/vhosts/{vhost}/deletion/protection",
        Access::Administrator,
        "Lifts that protection.",
        unprotect,
    ),
    route(
        Method::Post,
        "/api/vhosts/{vhost}/start/{node}",
        Access::Administrator,
        "Starts a virtual host on a node; they all run.",
        start,
    ),
];

fn list(call: &Call) -> Answer {
    let mut vhosts = call.broker().vhosts();
    vhosts.retain(|vhost| sees_vhost(&call.user, vhost.name()));
    let others = if call.hides_statistics() { Vec::new() } else { elsewhere::lists(call) };
    let of_all = |vhost: &Arc<Vhost>| {
        let same = others.iter().filter(|it| it["name"] == vhost.name());
        with_others(vhost_object(call, vhost), same)
    };
    listing::pages_of_values(call, vhosts.iter().map(of_all).collect())
}

fn show(call: &Call) -> Answer {
    let own = vhost_object(call, &call.vhost()?);
    let others = if call.hides_statistics() { Vec::new() } else { elsewhere::pages(call) };
    listing::one(call, with_others(own, others.iter()))
}

/// A vhost as all nodes have it: what they have counted, and in what state it is on each.
fn with_others<'a>(mut own: Map<String, Value>, others: impl Iterator<Item = &'a Value> + Clone) -> Value {
    elsewhere::add_counters(&mut own, others.clone(), &["messages", "recv_oct", "send_oct"]);
    for other in others {
        if let (Some(Value::Object(state)), Some(Value::Object(more))) =
            (own.get_mut("cluster_state"), other.get("cluster_state"))
        {
            state.extend(more.clone());
        }
    }
    Value::Object(own)
}

fn vhost_object(call: &Call, vhost: &Arc<Vhost>) -> Map<String, Value> {
    let row = VhostRow::named(call.broker(), vhost.name());
    let mut json = object(json!({
        "name": row.name,
        "description": *row.metadata.description,
        "tags": row.tags(),
        "default_queue_type": row.default_queue_type().unwrap_or("undefined"),
        "protected_from_deletion": row.metadata.protected_from_deletion,
        "metadata": metadata_object(&row.metadata),
        "tracing": row.is_traced,
        "cluster_state": {NODE_NAME: "running"},
    }));
    if !call.hides_statistics() {
        rates::add_vhost(call, &mut json, vhost, Ranges::of(call));
    }
    json
}

/// Words of a list, or between commas.
pub(crate) fn words(object: &Map<String, Value>, key: &str) -> Result<Option<Vec<Box<str>>>, Problem> {
    let word = |word: &str| Some(word.trim()).filter(|word| !word.is_empty()).map(Box::from);
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.split(',').filter_map(word).collect())),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            Ok(Some(list.iter().filter_map(Value::as_str).filter_map(word).collect()))
        }
        Some(other) => Err(Problem::bad(json!(["not_string", other]))),
    }
}

/// The description of a vhost in a body. A setting that it does not name is as with a new one, also for a vhost that exists; but its
/// protection stays.
struct Said {
    description: Box<str>,
    tags: Vec<Box<str>>,
    default_queue_type: Box<str>,
    protected: Option<bool>,
}

impl Said {
    fn of(object: &Map<String, Value>, default_queue_type: &str) -> Result<Self, Problem> {
        // `null` says nothing here, as in RabbitMQ.
        let mut all = object.clone();
        all.retain(|_, said| !said.is_null());
        let inner = nested(&all, "metadata")?;
        all.extend(inner.into_iter().filter(|(_, said)| !said.is_null()));
        let kind = text(&all, "default_queue_type")?.or(text(&all, "defaultqueuetype")?);
        if kind == Some("") {
            return Err(Problem::bad("default_queue_type must not be an empty string"));
        }
        let kind = kind.filter(|kind| *kind != "undefined");
        if let Some(other) = kind.filter(|kind| !matches!(*kind, "classic" | "quorum" | "stream")) {
            return Err(Problem::bad(format!("{other} is not a valid queue type")));
        }
        let key = "protected_from_deletion";
        Ok(Self {
            description: text(&all, "description")?.unwrap_or_default().into(),
            tags: words(&all, "tags")?.unwrap_or_default(),
            default_queue_type: kind.unwrap_or(default_queue_type).into(),
            protected: if all.contains_key(key) { Some(flag(&all, key)?) } else { None },
        })
    }

    fn apply(&self, metadata: &mut VhostMetadata) {
        metadata.description.clone_from(&self.description);
        metadata.tags.clone_from(&self.tags);
        metadata.default_queue_type = Some(self.default_queue_type.clone());
        if let Some(protected) = self.protected {
            metadata.protected_from_deletion = protected;
        }
    }
}

fn put_vhost(call: &Call) -> Answer {
    let (broker, name) = (call.broker(), call.part("vhost"));
    let object = call.object()?;
    let said = Said::of(&object, &broker.options().default_queue_type)?;
    let tracing = if object.contains_key("tracing") { Some(flag(&object, "tracing")?) } else { None };
    let is_new = broker.vhost(name).is_none();
    if is_new {
        let mut metadata = new_vhost_metadata();
        said.apply(&mut metadata);
        broker.add_vhost_with(name, metadata)?.wait()?;
        // A user who makes a vhost over HTTP may do everything in it.
        broker.set_permissions(&call.user.name, name, &[".*", ".*", ".*"].map(String::from))?.wait()?;
    } else {
        broker.edit_vhost(name, |metadata| said.apply(metadata))?;
    }
    if let Some(on) = tracing {
        broker.trace(name, if on { Tracing::On } else { Tracing::Off });
    }
    Ok(put(is_new))
}

fn delete(call: &Call) -> Answer {
    call.broker().delete_vhost(call.part("vhost"))?.wait()?;
    Ok(Reply::NoContent)
}

fn set_protection(call: &Call, protected: bool) -> Answer {
    let edit = |metadata: &mut VhostMetadata| metadata.protected_from_deletion = protected;
    call.broker().edit_vhost(call.part("vhost"), edit)?;
    Ok(Reply::NoContent)
}

/// RabbitMQ names the vhost when it cannot be protected, and not when it cannot be left alone.
fn protect(call: &Call) -> Answer {
    let name = call.part("vhost");
    if call.broker().vhost(name).is_none() {
        let text =
            format!("Cannot enable deletion protection of virtual host '{name}' because it does not exist");
        return Err(Problem::new(404, "not_found", text));
    }
    set_protection(call, true)
}

fn unprotect(call: &Call) -> Answer {
    set_protection(call, false)
}

fn start(call: &Call) -> Answer {
    let (vhost, node) = (call.part("vhost"), call.part("node"));
    if !call.node().names.mean(node) {
        return Err(Problem::bad(format!("Unknown node: {node}")));
    }
    if call.broker().vhost(vhost).is_none() {
        let text = format!("Request to node {node} failed with {{no_such_vhost,<<\"{vhost}\">>}}");
        return Err(Problem::bad(text));
    }
    Ok(Reply::NoContent)
}
