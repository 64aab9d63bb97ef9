//! Data of the first page: the overview, the caller, versions, the cluster's name, extensions.

use broker::Broker;
use serde_json::{Value, json};

use super::auth::{self, Access, is_monitor, sees_vhost};
use super::call::{Call, text};
use super::elsewhere;
use super::node_facts;
use super::permissions;
use super::problem::Problem;
use super::rates;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use super::sums;
use crate::resources::alarms;
use crate::resources::node::NODE_NAME;
use crate::resources::parameters;
use crate::resources::users::Asked;

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/overview",
        Access::Management,
        "The node; listeners, totals and message rates of all nodes.",
        overview,
    ),
    route(Method::Get, "/api/cluster-name", Access::Management, "The cluster's name.", cluster_name),
    route(
        Method::Put,
        "/api/cluster-name",
        Access::Administrator,
        "Names the cluster: `{\"name\": ...}`.",
        set_cluster_name,
    ),
    route(
        Method::Get,
        "/api/whoami",
        Access::Management,
        "The user who asks, with all tags; with `permissions=true` also their permissions in each virtual host.",
        whoami,
    ),
    route(Method::Get, "/api/version", Access::Anyone, "The RabbitMQ version that clients see.", version),
    route(
        Method::Get,
        "/api/extensions",
        Access::Management,
        "Extensions of RabbitMQ's user interface; none.",
        extensions,
    ),
    route(
        Method::Get,
        "/api/auth",
        Access::Anyone,
        "How browsers log in: with a name and a password.",
        auth_settings,
    ),
    route(
        Method::Post,
        "/api/login",
        Access::Form,
        "Checks the name and the password of a form. Answers the user, and the value to send as `Authorization`.",
        login,
    ),
    route(
        Method::Delete,
        "/api/login",
        Access::Anyone,
        "Does nothing, as there are no sessions. Clients of RabbitMQ's API ask for it.",
        |_| Ok(Reply::NoContent),
    ),
    route(
        Method::Get,
        "/api/alarms",
        Access::Monitoring,
        "Resource alarms that are on, one line each.",
        alarm_lines,
    ),
    route(
        Method::Get,
        "/api/config/effective",
        Access::Administrator,
        "Every option in effect, secrets left out.",
        effective_config,
    ),
];

fn overview(call: &Call) -> Answer {
    let (broker, node) = (call.broker(), call.node());
    let mut json = json!({
        "management_version": node.rabbitmq_version,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600],
        },
        "exchange_types": node_facts::exchange_types(),
        "product_version": node.rabbitmq_version,
        "product_name": "RabbitMQ",
        "rabbitmq_version": node.rabbitmq_version,
        "warren_version": node.version,
        "cluster_name": *broker.cluster_name(),
        "cluster_tags": node.tags.cluster,
        "node_tags": node.tags.node,
        "erlang_version": "0",
        "erlang_full_version": node_facts::runtime(node),
        "crypto_lib_version": "",
        "disable_stats": call.hides_statistics(),
        "default_queue_type": broker.options().default_queue_type,
        "is_op_policy_updating_enabled":
            call.app.options.operator_policies == super::Change::Allowed,
        "enable_queue_totals": call.shows_queue_totals(),
        "require_definition_json_extension": call.app.options.json_definitions_only,
        "object_totals": object_totals(call),
        "statistics_db_event_queue": 0,
    });
    if !call.hides_statistics() {
        for (name, value) in rates::overview(call) {
            json[name] = Value::Object(value);
        }
    }
    if is_monitor(&call.user) {
        json["node"] = NODE_NAME.into();
        json["listeners"] = node_facts::listeners(node);
        json["contexts"] = node_facts::contexts(node);
    }
    elsewhere::pages(call).iter().for_each(|other| add_node(&mut json, other));
    super::listing::one(call, json)
}

/// Adds what only another node has or counts: exchanges and queues are the same on all.
fn add_node(json: &mut Value, other: &Value) {
    for name in ["message_stats", "churn_rates", "queue_totals"] {
        if let (Some(Value::Object(own)), Some(Value::Object(more))) = (json.get_mut(name), other.get(name)) {
            sums::add(own, more);
        }
    }
    for name in ["channels", "connections", "consumers"] {
        let totals = [&json["object_totals"][name], &other["object_totals"][name]];
        if let [Some(own), Some(more)] = totals.map(Value::as_u64) {
            json["object_totals"][name] = (own + more).into();
        }
    }
    for name in ["listeners", "contexts"] {
        if let (Some(Value::Array(own)), Some(Value::Array(more))) = (json.get_mut(name), other.get(name)) {
            own.extend(more.iter().cloned());
        }
    }
}

/// Counts of what the user may see.
fn object_totals(call: &Call) -> Value {
    let broker = call.broker();
    let sees_all = is_monitor(&call.user);
    let vhosts: Vec<_> =
        broker.vhosts().into_iter().filter(|vhost| sees_vhost(&call.user, vhost.name())).collect();
    let queues: usize = vhosts.iter().map(|vhost| vhost.queue_count()).sum();
    let exchanges: usize = vhosts.iter().map(|vhost| vhost.exchange_count()).sum();
    let infos = broker.connections().all().into_iter().map(|(_, control)| control.info());
    let infos: Vec<_> = infos.filter(|info| sees_all || info.user == *call.user.name).collect();
    let channels: usize = infos.iter().map(|info| info.channels).sum();
    let mut totals = json!({
        "channels": channels,
        "connections": infos.len(),
        "exchanges": exchanges,
        "queues": queues,
    });
    if sees_all {
        totals["consumers"] = consumer_count(broker).into();
    }
    totals
}

/// Consumers stand in their channels: those are fewer than queues.
fn consumer_count(broker: &Broker) -> usize {
    let all = broker.connections().all().into_iter();
    all.flat_map(|(_, control)| control.channels()).map(|channel| channel.consumer_count).sum()
}

fn cluster_name(call: &Call) -> Answer {
    Ok(Reply::Json(json!({"name": *call.broker().cluster_name()})))
}

fn set_cluster_name(call: &Call) -> Answer {
    let object = call.object_with(&["name"])?;
    let name = text(&object, "name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Problem::bad("the cluster's name is a text that is not empty"))?;
    parameters::record(call.broker(), parameters::CLUSTER_NAME, &name.into()).map_err(Problem::from)?;
    Ok(Reply::NoContent)
}

fn who(call: &Call) -> Value {
    let tags: Vec<String> = call.user.tags().iter().map(|tag| tag.to_string()).collect();
    json!({"name": *call.user.name, "tags": tags, "is_internal_user": true})
}

fn whoami(call: &Call) -> Answer {
    let mut json = who(call);
    // Warren's own: pages then offer only what will not be refused. Anything but this list is for administrators.
    if call.flag("permissions") {
        let own = Asked { user: Some(&call.user.name), vhost: None };
        json["permissions"] = permissions::granted(call.broker(), own).into();
    }
    Ok(Reply::Json(json))
}

/// No cookie comes with it, as in RabbitMQ 4.3.
fn login(call: &Call) -> Answer {
    let header = auth::header_of_form(&call.body)?;
    let (kind, value) = header.split_once(' ').unwrap_or_default();
    Ok(Reply::Json(json!({
        "user": who(call),
        "token": {"type": kind.to_ascii_lowercase(), "value": value},
    })))
}

fn version(call: &Call) -> Answer {
    Ok(Reply::Json(call.node().rabbitmq_version.as_str().into()))
}

fn extensions(_: &Call) -> Answer {
    Ok(Reply::Json(json!([])))
}

fn auth_settings(_: &Call) -> Answer {
    Ok(Reply::Json(json!({"oauth_enabled": false})))
}

fn alarm_lines(call: &Call) -> Answer {
    Ok(Reply::Json(json!({"alarms": alarms::lines(call.broker())})))
}

fn effective_config(call: &Call) -> Answer {
    Ok(Reply::Text("text/plain", call.node().options.clone()))
}
