//! Feature flags and deprecated features. Warren has no flags: what it can do does not wait for other nodes.

use broker::Broker;
use serde_json::{Value, json};

use super::auth::Access;
use super::call::Call;
use super::listing;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::table::{Method, Route, route};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/feature-flags", Access::Management, "Feature flags; none.", flags),
    route(
        Method::Put,
        "/api/feature-flags/{name}/enable",
        Access::Administrator,
        "Enables a feature flag; `all` has nothing to do.",
        enable,
    ),
    route(
        Method::Get,
        "/api/deprecated-features",
        Access::Management,
        "What RabbitMQ deprecates, and whether it is permitted here.",
        deprecated,
    ),
    route(
        Method::Get,
        "/api/deprecated-features/used",
        Access::Management,
        "Those of them that are in use.",
        used,
    ),
];

/// Name, phase, and RabbitMQ's page about it, of features that this node knows.
const DEPRECATED: [(&str, &str, &str); 5] = [
    ("queue_master_locator", "denied_by_default", ""),
    ("global_qos", "denied_by_default", GLOBAL_QOS),
    ("management_metrics_collection", "permitted_by_default", METRICS),
    (TRANSIENT, "permitted_by_default", TRANSIENT_PAGE),
    ("classic_queue_mirroring", "removed", MIRRORING),
];

const TRANSIENT: &str = "transient_nonexcl_queues";
const PAGE: &str = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/";
const GLOBAL_QOS: &str = "#removal-of-global-qos";
const METRICS: &str = "#disable-metrics-delivery-via-the-management-api--ui";
const TRANSIENT_PAGE: &str = "#removal-of-transient-non-exclusive-queues";
const MIRRORING: &str = "#removal-of-classic-queue-mirroring";

fn is_permitted(broker: &Broker, name: &str) -> bool {
    match name {
        TRANSIENT => broker.options().transient_queues,
        "global_qos" | "management_metrics_collection" => true,
        _ => false,
    }
}

fn page(anchor: &str) -> String {
    if anchor.is_empty() { String::new() } else { format!("{PAGE}{anchor}") }
}

fn flags(_: &Call) -> Answer {
    Ok(Reply::Json(json!([])))
}

fn enable(call: &Call) -> Answer {
    if call.part("name") == "all" { Ok(Reply::NoContent) } else { Err(Problem::bad("unsupported")) }
}

fn deprecated(call: &Call) -> Answer {
    let one = |(name, phase, anchor): &(&str, &str, &str)| -> Value {
        let state = if is_permitted(call.broker(), name) { "permitted" } else { "denied" };
        json!({
            "name": name,
            "desc": "",
            "deprecation_phase": phase,
            "state": state,
            "doc_url": page(anchor),
            "provided_by": "warren",
        })
    };
    listing::of_values(call, DEPRECATED.iter().map(one).collect())
}

/// Queues that are neither durable nor exclusive are what can be seen.
fn used(call: &Call) -> Answer {
    let broker = call.broker();
    let is_used = broker.vhosts().iter().any(|vhost| {
        vhost.queues().iter().any(|queue| !queue.is_durable() && queue.exclusive_owner().is_none())
    });
    let transient = json!({
        "name": TRANSIENT,
        "desc": "",
        "deprecation_phase": "permitted_by_default",
        "doc_url": page(TRANSIENT_PAGE),
        "provided_by": "warren",
    });
    listing::of_values(call, if is_used { vec![transient] } else { Vec::new() })
}
