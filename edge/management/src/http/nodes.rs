//! The node: its limits, what it uses of them, where its memory is.

use broker::Broker;
use serde_json::{Map, Value, json};

use super::auth::Access;
use super::call::Call;
use super::elsewhere;
use super::listing;
use super::node_facts::{self, Process};
use super::problem::Problem;
use super::rates;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::ctl::everywhere;
use crate::resources::node::cluster::{Member, members};
use crate::resources::node::{NODE_NAME, Node, memory, resident_bytes};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/nodes", Access::Monitoring, "All nodes of the cluster.", nodes),
    route(Method::Get, "/api/nodes/{node}", Access::Monitoring, "One node.", node),
    route(
        Method::Get,
        "/api/nodes/{node}/memory",
        Access::Monitoring,
        "Where the node's memory is, bytes.",
        memory_bytes,
    ),
    route(
        Method::Get,
        "/api/nodes/{node}/memory/relative",
        Access::Monitoring,
        "Where the node's memory is, per cent.",
        memory_relative,
    ),
    route(
        Method::Get,
        "/api/nodes/{node}/memory/ets",
        Access::Monitoring,
        "Erlang's tables in memory: there are none.",
        no_tables,
    ),
    route(
        Method::Get,
        "/api/nodes/{node}/memory/ets/relative",
        Access::Monitoring,
        "The same, per cent.",
        no_tables,
    ),
    route(
        Method::Get,
        "/api/nodes/{node}/memory/ets/{filter}",
        Access::Monitoring,
        "Those of some owner.",
        no_tables,
    ),
    route(
        Method::Get,
        "/api/nodes/{node}/memory/ets/{filter}/relative",
        Access::Monitoring,
        "Those of some owner, per cent.",
        no_tables,
    ),
];

fn nodes(call: &Call) -> Answer {
    if call.is_from_node {
        return listing::of_values(call, vec![node_object(call)]);
    }
    let pages = elsewhere::lists(call);
    let all = members(call.node()).into_iter();
    let all = all.map(|member| {
        if member.name.as_str() == NODE_NAME { node_object(call) } else { other_object(&member, &pages) }
    });
    listing::of_values(call, all.collect())
}

/// Another node's description of itself, or this node's knowledge of it.
fn other_object(member: &Member, pages: &[Value]) -> Value {
    let page = pages.iter().find(|page| page["name"] == *member.name);
    page.map_or_else(|| short_object(member), Clone::clone)
}

/// This node's knowledge of another node.
fn short_object(member: &Member) -> Value {
    let mut json = json!({"name": member.name, "type": "disc", "running": member.is_running});
    if let Some(vitals) = member.vitals {
        json["mem_alarm"] = vitals.is_memory_short.into();
        json["disk_free_alarm"] = vitals.is_disk_short.into();
    }
    json
}

fn node(call: &Call) -> Answer {
    let other = members(call.node()).into_iter().find(|member| member.name == call.part("node"));
    if let Some(member) = other.filter(|member| member.name.as_str() != NODE_NAME) {
        if call.is_from_node {
            return Err(Problem::missing());
        }
        let pages = elsewhere::pages(call);
        return listing::one(call, other_object(&member, &pages));
    }
    check(call)?;
    let mut json = node_object(call);
    if call.flag("memory") {
        json["memory"] = breakdown(parts_of(call.broker()));
    }
    listing::one(call, json)
}

fn check(call: &Call) -> Result<(), Problem> {
    call.check_node(call.part("node"))
}

fn node_object(call: &Call) -> Value {
    let (mut json, used) = facts(call.broker(), call.node());
    for (name, value) in rates::node(call, &used) {
        json[name] = if name.ends_with("_avg_time") { 0.0.into() } else { value };
    }
    json
}

/// The page of this node without what is counted over time, for another node.
pub(crate) fn facts_of(broker: &Broker, node: &Node) -> Value {
    let (mut json, used) = facts(broker, node);
    for (name, value) in used {
        json[name] = value.into();
    }
    json
}

/// This node: its name, its settings, and its use of memory, disk and files.
fn facts(broker: &Broker, node: &Node) -> (Value, Vec<(&'static str, u64)>) {
    let levels = broker.alarms().levels();
    let raised = broker.alarms().raised();
    let process = Process::now();
    let memory_used = levels.memory_used_bytes.unwrap_or_else(resident_bytes);
    let disk_free = levels.disk_free_bytes.unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let uptime_ms = u64::try_from(node.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let json = json!({
        "name": NODE_NAME,
        "type": "disc",
        "running": true,
        "being_drained": node.maintenance.is_on(),
        "partitions": [],
        "os_pid": std::process::id().to_string(),
        "uptime": uptime_ms,
        "run_queue": 0,
        "processors": cores,
        "rates_mode": "basic",
        "net_ticktime": 60,
        "rabbitmq_version": node.rabbitmq_version,
        "warren_version": node.version,
        "erlang_version": "0",
        "erlang_full_version": node_facts::runtime(node),
        "crypto_lib_version": "",
        "exchange_types": node_facts::exchange_types(),
        "auth_mechanisms": node_facts::auth_mechanisms(),
        "applications": [{"name": "warren", "description": "Warren", "version": node.version}],
        "contexts": node_facts::contexts(node),
        "log_files": node.log_locations,
        "db_dir": node.data_dir,
        "config_files": [],
        "enabled_plugins": ["rabbitmq_management"],
        "cluster_links": [],
        "ra_open_file_metrics": {},
        "metrics_gc_queue_length": {},
        "mem_calculation_strategy": "rss",
        "mem_limit": levels.memory_limit_bytes(),
        "mem_alarm": raised.has(broker::Raised::MEMORY),
        "disk_free_limit": levels.disk_limit_bytes(),
        "disk_free_alarm": raised.has(broker::Raised::DISK),
        "fd_total": process.files_max,
        "sockets_total": 0,
        "proc_total": process.threads_max,
    });
    (json, node_facts::used(memory_used, disk_free))
}

/// Keys in which RabbitMQ breaks its memory down; those that do not exist here are 0.
const PARTS: [&str; 26] = [
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "queue_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "quorum_ets",
    "mnesia",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
];

/// Bytes of the memory of this node, by part.
pub(crate) fn parts_of(broker: &Broker) -> Map<String, Value> {
    let mut parts: Map<String, Value> = PARTS.iter().map(|part| ((*part).to_owned(), 0.into())).collect();
    for (name, bytes) in memory(broker) {
        parts.insert(name.into(), bytes.into());
    }
    parts
}

/// The parts of the node that is asked for, which may be another member of the cluster.
fn parts(call: &Call) -> Result<Map<String, Value>, Problem> {
    let name = call.part("node");
    let other = members(call.node()).into_iter().any(|it| it.name == name && it.name.as_str() != NODE_NAME);
    if other {
        return everywhere::memory_of(call.node(), name).ok_or_else(Problem::missing);
    }
    check(call)?;
    Ok(parts_of(call.broker()))
}

fn breakdown(mut parts: Map<String, Value>) -> Value {
    // All of the parts together are the resident memory: uncounted bytes are a part, too.
    let total: u64 = parts.values().filter_map(Value::as_u64).sum();
    let used = total - parts["allocated_unused"].as_u64().unwrap_or(0);
    parts.insert("strategy".into(), "rss".into());
    parts.insert("total".into(), json!({"erlang": used, "rss": total, "allocated": total}));
    Value::Object(parts)
}

fn memory_bytes(call: &Call) -> Answer {
    Ok(Reply::Json(json!({"memory": breakdown(parts(call)?)})))
}

/// Rounded up, as RabbitMQ does: anything above nothing is at least one per cent.
fn memory_relative(call: &Call) -> Answer {
    let mut parts = parts(call)?;
    let total: u64 = parts.values().filter_map(Value::as_u64).sum();
    for value in parts.values_mut() {
        *value = (value.as_u64().unwrap_or(0) * 100).div_ceil(total.max(1)).into();
    }
    parts.insert("total".into(), 100.into());
    Ok(Reply::Json(json!({"memory": parts})))
}

/// RabbitMQ's answer for an owner that has none.
fn no_tables(call: &Call) -> Answer {
    check(call)?;
    Ok(Reply::Json(json!({"ets_tables_memory": "no_tables"})))
}
