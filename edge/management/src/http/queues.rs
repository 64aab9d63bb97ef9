//! Queues: listed, shown, declared, purged, deleted; messages taken from them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use broker::{Kind, Queue, QueueDeclare, QueueGlance, QueueStats, QueueTotals};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stdx::QueueId;

use super::app::App;
use super::auth::Access;
use super::bindings;
use super::call::{Call, flag, nested, text as words_of};
use super::listing::{self, Listing, Wanted};
use super::messages;
use super::problem::Problem;
use super::rates::{self, Ranges};
use super::reply::{Answer, Reply, put};
use super::route::{Method, Route, route};
use super::shapes::{add_idle_since, connection, connection_details, consumer_object, lossy, object};
use crate::ctl::everywhere::{Question, ask_each};
use crate::resources::consumers::ConsumerRow;
use crate::resources::members;
use crate::resources::queues::{QueueRow, state};
use crate::resources::values::{raw_table, table, text};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/queues", Access::Management, "Queues of all virtual hosts.", list),
    route(
        Method::Get,
        "/api/queues/detailed",
        Access::Management,
        "Queues of all virtual hosts, with more details.",
        list_detailed,
    ),
    route(Method::Get, "/api/queues/{vhost}", Access::Vhost, "Queues of a virtual host.", list),
    route(
        Method::Get,
        "/api/users/{user}/queues",
        Access::Management,
        "Queues that a user declared; none if the user does not exist.",
        list_of_user,
    ),
    route(Method::Get, "/api/queues/{vhost}/{name}", Access::Vhost, "One queue, with its consumers.", show),
    route(
        Method::Put,
        "/api/queues/{vhost}/{name}",
        Access::Vhost,
        "Declares a queue: `{\"durable\", \"auto_delete\", \"arguments\"}`.",
        declare,
    ),
    route(
        Method::Delete,
        "/api/queues/{vhost}/{name}",
        Access::Vhost,
        "Deletes a queue; with `if-empty=true` and `if-unused=true` only if it is empty and unused.",
        delete,
    ),
    route(
        Method::Get,
        "/api/queues/{vhost}/{name}/bindings",
        Access::VhostIfAny,
        "Bindings that end at a queue; none if the queue does not exist.",
        bindings::of_queue,
    ),
    route(
        Method::Delete,
        "/api/queues/{vhost}/{name}/contents",
        Access::Vhost,
        "Purges a queue: deletes its ready messages.",
        purge,
    ),
    route(
        Method::Post,
        "/api/queues/{vhost}/{name}/actions",
        Access::Administrator,
        "Acts on a queue: `{\"action\"}`; RabbitMQ's actions are those of mirrored queues, which do not exist.",
        act,
    ),
    route(
        Method::Post,
        "/api/queues/{vhost}/{name}/get",
        Access::Vhost,
        "Takes messages: `{\"count\", \"ackmode\", \"encoding\", \"truncate\"}`.",
        messages::get,
    )
    .with_messages(),
];

/// How much of a queue is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Details {
    /// The fields that lists show.
    Some,
    /// The fields that the detailed list and the page of one queue show.
    All,
    /// The fields that are known without asking the queue, without statistics; or a little less of it, with lengths.
    None { totals: bool },
}

impl Details {
    /// That much, unless there are no statistics.
    fn for_call(self, call: &Call) -> Details {
        if call.hides_statistics() { Details::None { totals: call.shows_queue_totals() } } else { self }
    }
}

/// Keys for which the queue need not be asked.
const KNOWN: &[&str] = &[
    "arguments",
    "auto_delete",
    "durable",
    "effective_policy_definition",
    "exclusive",
    "internal",
    "internal_owner",
    "name",
    "node",
    "operator_policy",
    "owner_pid_details",
    "policy",
    "state",
    "storage_version",
    "type",
    "vhost",
];

fn list(call: &Call) -> Answer {
    answer(call, Details::Some, None)
}

fn list_detailed(call: &Call) -> Answer {
    answer(call, Details::All, None)
}

fn list_of_user(call: &Call) -> Answer {
    answer(call, Details::Some, Some(call.part("user").as_bytes()))
}

/// Queues of the vhosts asked for, all or those that a user declared.
fn answer(call: &Call, details: Details, declared_by: Option<&[u8]>) -> Answer {
    let mut all: Vec<Arc<Queue>> = Vec::new();
    for vhost in call.vhosts()? {
        all.append(&mut vhost.queues());
    }
    if declared_by.is_some() {
        all.retain(|queue| queue.declared_by() == declared_by);
    }
    let details = details.for_call(call);
    let (app, ranges) = (call.app.clone(), Ranges::of(call));
    let render = move |queues: &[Arc<Queue>], wanted: &Wanted| render(&app, queues, wanted, details, ranges);
    let name = |queue: &Arc<Queue>| Cow::Owned(lossy(queue.name()).into_owned());
    let order = |one: &Arc<Queue>, other: &Arc<Queue>| {
        one.vhost_name().cmp(other.vhost_name()).then_with(|| one.name().cmp(other.name()))
    };
    let peek: fn(&Arc<Queue>, &str) -> Option<Value> = match details {
        Details::Some | Details::All => peek,
        Details::None { .. } => |_, _| None,
    };
    listing::answer(call, Listing::new(all, name, render).of_many(order, peek))
}

/// The field that lists are mostly sorted by, as [`render`] would show it.
fn peek(queue: &Arc<Queue>, path: &str) -> Option<Value> {
    let is_elsewhere = queue.is_elsewhere();
    let counted: fn(&QueueGlance) -> u64 = match path {
        "name" => return Some(text(queue.name())),
        "vhost" => return Some(queue.vhost_name().into()),
        "type" => return Some(queue.queue_kind().name().into()),
        "state" => return Some(state(queue).into()),
        "durable" => return Some(queue.is_durable().into()),
        "messages" => |it| it.ready + it.unacked,
        "messages_ready" => |it| it.ready,
        "messages_unacknowledged" => |it| it.unacked,
        "message_bytes" => |it| it.ready_bytes + it.unacked_bytes,
        "message_bytes_ready" => |it| it.ready_bytes,
        "memory" => |it| it.memory_bytes,
        "consumers" => |it| it.consumers.into(),
        // A queue that never had a message has no statistics.
        _ if path.starts_with("message_stats.") && !is_elsewhere => {
            return (queue.glance().totals == QueueTotals::NONE).then_some(Value::Null);
        }
        _ => return None,
    };
    (!is_elsewhere).then(|| counted(&queue.glance()).into())
}

fn render(
    app: &super::app::Inner,
    queues: &[Arc<Queue>],
    wanted: &Wanted,
    details: Details,
    ranges: Ranges,
) -> Vec<Value> {
    let asks = wanted.beyond(KNOWN) && details != (Details::None { totals: false });
    let mut told = if asks { contents_elsewhere(app, queues, details, ranges) } else { HashMap::new() };
    let here: Vec<Arc<Queue>> =
        queues.iter().filter(|queue| !told.contains_key(&queue.id())).cloned().collect();
    let mut rows = match details {
        _ if !asks => here.iter().map(QueueRow::unasked).collect(),
        Details::All => QueueRow::asked(&here),
        Details::Some | Details::None { .. } => QueueRow::glanced(&here),
    }
    .into_iter();
    let each = queues.iter().map(|queue| {
        let Some(contents) = told.remove(&queue.id()) else {
            let row = rows.next().unwrap_or_else(|| QueueRow::unasked(queue));
            let mut json = known(app, &row, details);
            if asks {
                add_contents(app, &mut json, &row, details, wanted, ranges);
            }
            return Value::Object(json);
        };
        let mut json = known(app, &QueueRow::unasked(queue), details);
        json.extend(contents);
        Value::Object(json)
    });
    each.collect()
}

/// Queues of another node, which is asked for what is in them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AskedContents {
    /// Vhost and name of each.
    queues: Vec<(String, Vec<u8>)>,
    details: Details,
    ranges: Ranges,
}

/// The contents that the nodes that have queues, or lead them, report. A node that does not answer says nothing.
fn contents_elsewhere(
    app: &super::app::Inner,
    queues: &[Arc<Queue>],
    details: Details,
    ranges: Ranges,
) -> HashMap<QueueId, Map<String, Value>> {
    let mut by_node: BTreeMap<String, Vec<&Arc<Queue>>> = BTreeMap::new();
    for queue in queues {
        if let Some((name, true)) = queue.home_elsewhere() {
            by_node.entry(name.as_str().to_owned()).or_default().push(queue);
        }
    }
    let named = |queue: &&Arc<Queue>| (queue.vhost_name().to_owned(), queue.name().to_vec());
    let questions = by_node.iter().map(|(name, theirs)| {
        let queues = theirs.iter().map(named).collect();
        (name.as_str(), Question::Contents(AskedContents { queues, details, ranges }))
    });
    let mut told = HashMap::new();
    for (name, bytes) in ask_each(&app.node, questions) {
        let contents: Vec<Option<Map<String, Value>>> = serde_json::from_slice(&bytes).unwrap_or_default();
        let theirs = by_node.get(&name).into_iter().flatten();
        told.extend(theirs.zip(contents).filter_map(|(queue, contents)| Some((queue.id(), contents?))));
    }
    told
}

/// Answers another node with the contents of queues of this one; `None` for a queue that this node does not have.
pub(crate) fn contents_of_queues(app: &App, asked: &AskedContents) -> Vec<Option<Map<String, Value>>> {
    let found = |(vhost, name): &(String, Vec<u8>)| {
        app.0.broker.vhost(vhost)?.queue(name).filter(|queue| !queue.is_elsewhere())
    };
    let queues: Vec<Option<Arc<Queue>>> = asked.queues.iter().map(found).collect();
    let here: Vec<Arc<Queue>> = queues.iter().flatten().cloned().collect();
    let mut rows = match asked.details {
        Details::All => QueueRow::asked(&here),
        Details::Some | Details::None { .. } => QueueRow::glanced(&here),
    }
    .into_iter();
    let each = queues.iter().map(|queue| {
        let row = queue.as_ref().and_then(|_| rows.next())?;
        let mut json = Map::new();
        add_contents(&app.0, &mut json, &row, asked.details, &Wanted::All, asked.ranges);
        Some(json)
    });
    each.collect()
}

fn known(app: &super::app::Inner, row: &QueueRow, details: Details) -> Map<String, Value> {
    let queue = &row.queue;
    let nodes = members::nodes_of(queue);
    let mut json = object(json!({
        "arguments": table(queue.arguments().as_table().raw()),
        "auto_delete": queue.is_auto_delete(),
        "durable": queue.is_durable(),
        "exclusive": queue.exclusive_owner().is_some(),
        "name": row.name(),
        "node": nodes.leader,
        "state": row.state(),
        "type": queue.queue_kind().name(),
        "vhost": queue.vhost_name(),
    }));
    match queue.queue_kind() {
        Kind::Quorum => members::add_known(&mut json, queue, nodes),
        Kind::Stream => members::add_nodes(&mut json, nodes),
        Kind::Classic => {}
    }
    if details == (Details::None { totals: true }) {
        return json;
    }
    json.insert("effective_policy_definition".into(), row.definition());
    json.insert("internal".into(), false.into());
    json.insert("internal_owner".into(), false.into());
    let is_whole = details != Details::Some;
    // Lists name a policy where there is one, pages of one queue always, and lists without statistics.
    for (name, policy) in [("policy", row.policy()), ("operator_policy", row.operator_policy())] {
        if is_whole || policy.is_some() {
            json.insert(name.into(), policy.into());
        }
    }
    if matches!(details, Details::Some | Details::All) && queue.queue_kind() == Kind::Classic {
        json.insert("storage_version".into(), 2.into());
    }
    if details == Details::All {
        let owner = queue.exclusive_owner().and_then(|owner| connection(&app.broker, owner));
        if let Some(owner) = owner {
            json.insert("owner_pid_details".into(), connection_details(&owner.info()));
        }
    }
    json
}

/// Adds the fields that a glance at the queue shows; nobody waits for it.
fn add_contents(
    app: &super::app::Inner,
    json: &mut Map<String, Value>,
    row: &QueueRow,
    details: Details,
    wanted: &Wanted,
    ranges: Ranges,
) {
    let (queue, glance) = (&row.queue, &row.counts);
    if matches!(details, Details::None { .. }) {
        json.insert("messages".into(), (glance.ready + glance.unacked).into());
        json.insert("messages_ready".into(), glance.ready.into());
        json.insert("messages_unacknowledged".into(), glance.unacked.into());
        json.entry("online").or_insert(Value::Null);
        return;
    }
    rates::add_queue(app, json, queue, glance, wanted, ranges);
    if queue.queue_kind() == Kind::Stream {
        members::add_contents_of_stream(json, queue);
    }
    json.extend(object(json!({
        "consumers": glance.consumers,
        "consumer_capacity": row.capacity(),
        "consumer_utilisation": row.capacity(),
        "memory": glance.memory_bytes,
        "message_bytes": glance.ready_bytes + glance.unacked_bytes,
        "message_bytes_persistent": glance.persistent_bytes,
        "message_bytes_ram": glance.in_memory.body_bytes,
        "message_bytes_ready": glance.ready_bytes,
        "message_bytes_unacknowledged": glance.unacked_bytes,
        "messages_persistent": glance.persistent,
        "messages_ram": glance.in_memory.messages(),
        "messages_ready_ram": glance.in_memory.ready,
        "messages_unacknowledged_ram": glance.in_memory.unacked,
    })));
    if details == Details::All {
        json.insert("message_bytes_on_disk".into(), glance.disk_bytes.into());
        let (own, messages) = queue.memory_bytes();
        json.insert("memory".into(), (own + messages).into());
    }
    // Lists have it where there is one, pages of one queue always.
    if details == Details::All || glance.head_timestamp_s.is_some() {
        json.insert("head_message_timestamp".into(), glance.head_timestamp_s.into());
    }
    if let Some(stats) = &row.stats {
        add_tags_and_disk(json, row, stats);
    }
}

fn add_tags_and_disk(json: &mut Map<String, Value>, row: &QueueRow, stats: &QueueStats) {
    if row.queue.queue_kind() == Kind::Quorum {
        members::add_contents(json, &row.queue, stats);
    }
    add_idle_since(json, stats.active_ms);
    // Warren's own.
    json.insert("disk_bytes".into(), row.disk_bytes().into());
    json.insert("disk_live_ratio".into(), row.live_ratio().into());
    let tag = |tag: Option<&[u8]>| tag.map_or(Value::Null, text);
    json.insert("exclusive_consumer_tag".into(), tag(row.exclusive_tag()));
    json.insert("single_active_consumer_tag".into(), tag(row.single_active_tag()));
}

fn show(call: &Call) -> Answer {
    let queue = call.queue()?;
    if Details::All.for_call(call) != Details::All {
        let json = known(&call.app, &QueueRow::unasked(&queue), Details::None { totals: false });
        return listing::one(call, Value::Object(json));
    }
    let row = QueueRow::asked_alone(&queue);
    let mut json = known(&call.app, &row, Details::All);
    add_contents(&call.app, &mut json, &row, Details::All, &Wanted::All, Ranges::of(call));
    let consumers = ConsumerRow::of_queue(&queue, row.stats.unwrap_or_default());
    json.insert("consumer_details".into(), consumers.map(|row| consumer_object(call, &row)).collect());
    json.insert("incoming".into(), json!([]));
    json.insert("deliveries".into(), json!([]));
    let there = contents_elsewhere(&call.app, std::slice::from_ref(&queue), Details::All, Ranges::of(call));
    json.extend(there.into_values().flatten());
    listing::one(call, Value::Object(json))
}

fn declare(call: &Call) -> Answer {
    let principal = call.principal()?;
    let object = call.object()?;
    let arguments = raw_table(&nested(&object, "arguments")?).map_err(Problem::bad)?;
    if let Some(node) = words_of(&object, "node")?.filter(|node| !call.node().names.mean(node)) {
        return Err(Problem::bad(format!("Node {node} is not a cluster member")));
    }
    // A property that a queue cannot have over HTTP is passed over, but it has to be a flag.
    if let Some(other) = object.get("exclusive").filter(|it| !it.is_boolean()) {
        return Err(Problem::bad(json!(["not_boolean", other])));
    }
    let name = call.part("name").as_bytes();
    let is_new = principal.vhost.queue(name).is_none();
    let declare = QueueDeclare {
        name,
        durable: flag(&object, "durable")?,
        exclusive: false,
        auto_delete: flag(&object, "auto_delete")?,
        arguments: arguments.as_table(),
    };
    call.broker().declare_queue(&principal, declare)?.counts.wait()?;
    Ok(put(is_new))
}

fn delete(call: &Call) -> Answer {
    call.queue()?;
    let (if_unused, if_empty) = (call.flag("if-unused"), call.flag("if-empty"));
    let principal = call.principal()?;
    let name = call.part("name").as_bytes();
    call.broker().delete_queue(&principal, name, if_unused, if_empty)?.wait()?;
    Ok(Reply::NoContent)
}

fn purge(call: &Call) -> Answer {
    call.queue()?;
    let principal = call.principal()?;
    call.broker().purge_queue(&principal, call.part("name").as_bytes())?.wait();
    Ok(Reply::NoContent)
}

/// `sync` and `cancel_sync` went with mirrored queues.
fn act(call: &Call) -> Answer {
    call.vhost().map_err(|_| Problem::no_vhost())?;
    call.queue()?;
    let object = call.object_with(&["action"])?;
    Err(Problem::bad(json!(["unknown", object["action"]])))
}
