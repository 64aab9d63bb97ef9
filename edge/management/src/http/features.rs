//! Feature flags and deprecated features. A flag is enabled as soon as all nodes have its feature.

use broker::Broker;
use serde_json::{Value, json};

use super::auth::Access;
use super::call::Call;
use super::listing;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::node::cluster::{self, FEATURE_FLAGS, FeatureFlag};

/// RabbitMQ's page about most of what it deprecates.
macro_rules! page {
    () => {
        "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/"
    };
}

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/feature-flags", Access::Management, "Feature flags.", flags),
    route(
        Method::Put,
        "/api/feature-flags/{name}/enable",
        Access::Administrator,
        "Checks that all nodes have a feature; flags are enabled by themselves.",
        enable,
    ),
    route(
        Method::Get,
        "/api/deprecated-features",
        Access::Management,
        "Features that RabbitMQ deprecates, and whether they are permitted.",
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

/// Name, phase, and where it is told of, of what RabbitMQ 4.3 lists.
const DEPRECATED: [(&str, &str, &str); 8] = [
    ("queue_master_locator", "denied_by_default", ""),
    ("global_qos", "denied_by_default", concat!(page!(), "#removal-of-global-qos")),
    ("amqp_filter_set_bug", "denied_by_default", FILTER_SETS),
    ("amqp_address_v1", "denied_by_default", "https://www.rabbitmq.com/docs/amqp#addresses"),
    ("management_metrics_collection", "permitted_by_default", METRICS),
    (TRANSIENT, "permitted_by_default", TRANSIENT_PAGE),
    ("classic_queue_mirroring", "removed", concat!(page!(), "#removal-of-classic-queue-mirroring")),
    ("ram_node_type", "removed", concat!(page!(), "#removal-of-ram-nodes")),
];

const TRANSIENT: &str = "transient_nonexcl_queues";
const TRANSIENT_PAGE: &str = concat!(page!(), "#removal-of-transient-non-exclusive-queues");
const METRICS: &str = concat!(page!(), "#disable-metrics-delivery-via-the-management-api--ui");
const FILTER_SETS: &str =
    "https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-messaging-v1.0-os.html#type-filter-set";

fn is_permitted(broker: &Broker, name: &str) -> bool {
    match name {
        TRANSIENT => broker.options().transient_queues,
        "amqp_address_v1" => broker.options().amqp_address_v1,
        "global_qos" | "management_metrics_collection" => true,
        _ => false,
    }
}

fn flags(call: &Call) -> Answer {
    let one = |flag: &FeatureFlag| {
        json!({
            "name": flag.name,
            "desc": flag.about,
            "doc_url": "",
            "provided_by": "warren",
            "stability": "required",
            "state": flag.state(call.node()),
        })
    };
    listing::of_values(call, FEATURE_FLAGS.iter().map(one).collect())
}

fn enable(call: &Call) -> Answer {
    // RabbitMQ's word; the sentence is for the user of the command.
    cluster::enable_feature_flag(call.node(), call.part("name")).map_err(|_| Problem::bad("unsupported"))?;
    Ok(Reply::NoContent)
}

fn deprecated(call: &Call) -> Answer {
    let one = |(name, phase, page): &(&str, &str, &str)| -> Value {
        let state = if is_permitted(call.broker(), name) { "permitted" } else { "denied" };
        json!({
            "name": name,
            "desc": "",
            "deprecation_phase": phase,
            "state": state,
            "doc_url": page,
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
        "doc_url": TRANSIENT_PAGE,
        "provided_by": "warren",
    });
    listing::of_values(call, if is_used { vec![transient] } else { Vec::new() })
}
