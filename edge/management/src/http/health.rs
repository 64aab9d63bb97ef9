//! Health checks: 200 `{"status": "ok"}` or 503 with a reason, and the older tests. Knows RabbitMQ's names of protocols.

use std::sync::Arc;

use broker::Queue;
use regex::Regex;
use serde_json::{Value, json};

use super::auth::Access;
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Lane, Method, Route, route};
use crate::resources::alarms;
use crate::resources::membership;
use crate::resources::node::certificates::ahead_s;
use crate::resources::node::cluster::is_critical;
use crate::resources::node::{
    HTTPS_PROTOCOL, NODE_NAME, NodeCertificates, NodeListener, PROMETHEUS_TLS_PROTOCOL, TLS_LISTENER_PROTOCOL,
};
use crate::resources::values::text;

/// A check that any user of the API may make.
const fn check(path: &'static str, about: &'static str, handler: fn(&Call) -> Answer) -> Route {
    route(Method::Get, path, Access::Management, about, handler).in_lane(Lane::Checks)
}

/// A check for load balancers, which have no login.
const fn open_check(path: &'static str, about: &'static str, handler: fn(&Call) -> Answer) -> Route {
    route(Method::Get, path, Access::Anyone, about, handler).in_lane(Lane::Checks)
}

pub(crate) const ROUTES: &[Route] = &[
    check("/api/health/checks/alarms", "Whether no alarm is on in the cluster.", no_alarms),
    check("/api/health/checks/local-alarms", "Whether no alarm is on at this node.", no_alarms),
    check("/api/health/checks/virtual-hosts", "Whether all virtual hosts run.", fine),
    check("/api/health/checks/port-listener/{port}", "Whether somebody listens on a port.", port_listener),
    check(
        "/api/health/checks/protocol-listener/{protocols}",
        "Whether the node listens for each protocol of a list, between commas.",
        protocol_listener,
    ),
    check(
        "/api/health/checks/certificate-expiration/{within}/{unit}",
        "Whether no certificate expires within so many `days`, `weeks`, `months` or `years`.",
        certificates,
    ),
    check(
        "/api/health/checks/node-is-quorum-critical",
        "Whether queues would lose their quorum without this node.",
        quorum_critical,
    ),
    check(
        "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts",
        "Whether all quorum queues have leaders.",
        leaders,
    ),
    check(
        "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
        "Whether quorum queues with such names have leaders.",
        leaders,
    ),
    check(
        "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}",
        "Whether the quorum queues of a virtual host have leaders.",
        leaders,
    ),
    check(
        "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
        "Whether quorum queues with such names have leaders.",
        leaders,
    ),
    check("/api/health/checks/metadata-store/initialized", "Whether the metadata are there.", fine),
    check(
        "/api/health/checks/metadata-store/initialized/with-data",
        "Whether users, queues and bindings are loaded.",
        with_data,
    ),
    open_check("/api/health/checks/is-in-service", "Whether the node serves clients.", in_service),
    open_check(
        "/api/health/checks/ready-to-serve-clients",
        "Whether the node serves clients and has room for more.",
        ready,
    ),
    open_check(
        "/api/health/checks/below-node-connection-limit",
        "Whether the node has room for more connections.",
        below_limit,
    ),
    open_check(
        "/api/health/checks/reached-target-cluster-size",
        "Whether all nodes of the cluster have joined.",
        fine,
    ),
    route(
        Method::Get,
        "/api/aliveness-test/{vhost}",
        Access::Vhost,
        "Whether a virtual host serves clients; makes no queue, as in RabbitMQ 4.",
        alive,
    )
    .in_lane(Lane::Checks),
    check("/api/healthchecks/node", "The oldest check, as `is-in-service`.", in_service),
    check("/api/healthchecks/node/{node}", "The oldest check, as `is-in-service`.", node_in_service),
    route(Method::Delete, "/api/reset", Access::Administrator, "Resets rates of all nodes.", reset),
    route(Method::Delete, "/api/reset/{node}", Access::Administrator, "Resets rates of a node.", reset),
];

fn ok() -> Reply {
    Reply::Json(json!({"status": "ok"}))
}

fn failed(mut json: Value) -> Answer {
    json["status"] = "failed".into();
    Ok(Reply::Status(503, json))
}

fn fine(_: &Call) -> Answer {
    Ok(ok())
}

fn no_alarms(call: &Call) -> Answer {
    let on = alarms_on(call.broker().alarms().raised());
    if on.is_empty() {
        return Ok(ok());
    }
    failed(json!({"reason": "There are alarms in effect in the cluster", "alarms": on}))
}

/// RabbitMQ's objects of alarms; that of the disk says what waits for it, and what frees room.
fn alarms_on(raised: broker::Raised) -> Vec<Value> {
    let on = [
        (broker::Raised::MEMORY, "memory"),
        (broker::Raised::DISK, "disk"),
        (broker::Raised::STORAGE_FAILED, "storage"),
    ];
    let on = on.iter().filter(|(alarm, _)| raised.has(*alarm)).map(|(alarm, resource)| {
        let mut told = json!({"node": crate::resources::node::NODE_NAME, "resource": resource});
        if *alarm == broker::Raised::DISK {
            told["reason"] = crate::resources::alarms::LETTERS_WAIT.into();
        }
        told
    });
    on.collect()
}

fn port_listener(call: &Call) -> Answer {
    let port = whole(call.part("port")).ok_or_else(|| Problem::bad("Invalid port"))?;
    let mut ports: Vec<u16> = call.node().listeners.iter().map(|it| it.address.port()).collect();
    if ports.iter().any(|open| port == i128::from(*open)) {
        return Ok(Reply::Json(json!({"status": "ok", "port": number(port)})));
    }
    ports.sort_unstable();
    failed(json!({"reason": "No active listener", "missing": number(port), "ports": ports}))
}

/// A whole number of any size that makes sense, and of many that do not: RabbitMQ's have no bound.
fn whole(text: &str) -> Option<i128> {
    text.parse().ok()
}

fn number(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| number.to_string().into(), Value::from)
}

/// RabbitMQ's short name of a protocol.
fn short(protocol: &str) -> String {
    match protocol.to_ascii_lowercase().as_str() {
        "amqp091" | "amqp0.9.1" | "amqp-0-9-1" | "amqp10" | "amqp1.0" => "amqp".into(),
        "amqps" => "amqp/ssl".into(),
        "https" => "https".into(),
        other => other.into(),
    }
}

fn protocol_listener(call: &Call) -> Answer {
    let mut open: Vec<&str> = call.node().listeners.iter().map(|it| it.protocol).collect();
    open.sort_unstable();
    open.dedup();
    let asked = call.part("protocols").split(',');
    let missing: Vec<&str> = asked.filter(|protocol| !open.contains(&short(protocol).as_str())).collect();
    if missing.is_empty() {
        return Ok(Reply::Json(json!({"status": "ok", "protocols": open})));
    }
    failed(json!({"reason": "No active listener", "missing": missing, "protocols": open}))
}

fn certificates(call: &Call) -> Answer {
    let within = whole(call.part("within")).ok_or_else(|| Problem::bad("Invalid expiration value."))?;
    let within = i64::try_from(within).unwrap_or(if within < 0 { i64::MIN } else { i64::MAX });
    let unit = call.part("unit").to_ascii_lowercase();
    let until_s = ahead_s(within, &unit).ok_or_else(|| {
        Problem::bad("Time unit not recognised. Supported units: days, weeks, months, years.")
    })?;
    let node = call.node();
    let of = |listener| node.certificates.iter().filter_map(move |one| expiring(listener, one, until_s));
    let expired: Vec<Value> = node.listeners.iter().flat_map(of).collect();
    if expired.is_empty() {
        return Ok(ok());
    }
    failed(json!({"reason": "Certificates expiring", "expired": expired}))
}

/// The facts that RabbitMQ shows of a listener some of whose certificates end before that time.
fn expiring(listener: &NodeListener, certificates: &NodeCertificates, until_s: i64) -> Option<Value> {
    let is_its = match listener.protocol {
        TLS_LISTENER_PROTOCOL => certificates.keys == "ssl_options",
        HTTPS_PROTOCOL => certificates.keys == "management.ssl",
        PROMETHEUS_TLS_PROTOCOL => certificates.keys == "prometheus.ssl",
        _ => false,
    };
    let material = certificates.slot.material();
    let ends = |is_authority: bool| -> Vec<String> {
        let in_use = material.certificates.iter();
        let of_kind = in_use.filter(|one| one.is_authority() == is_authority);
        let soon = of_kind.filter(|one| one.facts.not_after_s < until_s);
        soon.map(|one| one.facts.end().replace('T', " ").replace('Z', "")).collect()
    };
    let (own, authorities) = (ends(false), ends(true));
    (is_its && own.len() + authorities.len() > 0).then(|| {
        let options = certificates.slot.options();
        json!({
            "node": NODE_NAME, "protocol": listener.protocol, "interface": listener.address.ip().to_string(),
            "port": listener.address.port(), "cacertfile": options.ca_file, "cacertfile_expires_on": authorities,
            "certfile": options.certificate_file, "certfile_expires_on": own,
        })
    })
}

/// RabbitMQ's object of a queue that a check names.
fn named(queues: &[Arc<Queue>]) -> Vec<Value> {
    let object = |queue: &Arc<Queue>| {
        json!({
            "name": text(queue.name()), "readable_name": membership::readable(queue), "virtual_host": queue.vhost_name(),
            "type": "rabbit_quorum_queue",
        })
    };
    queues.iter().map(object).collect()
}

fn quorum_critical(call: &Call) -> Answer {
    let metadata = is_critical(call.node());
    let mut queues = named(&membership::critical(call.broker()));
    if metadata == Some(true) {
        queues.push(json!({"name": "rabbitmq_metadata", "readable_name": "rabbitmq_metadata", "virtual_host": "", "type": "process"}));
    }
    match metadata {
        None => Ok(Reply::Json(json!({"status": "ok", "reason": "single node cluster"}))),
        Some(_) if queues.is_empty() => Ok(ok()),
        Some(_) => failed(json!({
            "reason": "There are queues that would lose their quorum if the target node is shut down",
            "queues": queues,
        })),
    }
}

/// Whether the quorum queues of a vhost or of all have leaders.
fn leaders(call: &Call) -> Answer {
    let pattern = |text: &str| {
        Regex::new(text).map_err(|_| Problem::bad(format!("'{text}' is not a regular expression")))
    };
    let of_queues = pattern(call.part_if("pattern").unwrap_or(".*"))?;
    let of_vhosts = match call.part_if("vhost") {
        Some(_) => format!("^{}$", regex::escape(call.vhost()?.name())),
        None => ".*".into(),
    };
    let queues = membership::leaderless(call.broker(), &pattern(&of_vhosts)?, &of_queues);
    if queues.is_empty() {
        return Ok(ok());
    }
    failed(json!({"reason": "There are leaderless quorum queues", "queues": named(&queues)}))
}

fn with_data(call: &Call) -> Answer {
    if call.broker().vhosts().is_empty() {
        return failed(json!({"reason": "metadata store does not have any data yet"}));
    }
    Ok(ok())
}

/// RabbitMQ's two checks have two texts.
fn in_service(call: &Call) -> Answer {
    if call.node().maintenance.is_on() {
        return failed(json!({"reason": "this rabbit node is not currently available to serve"}));
    }
    runs(call)
}

fn runs(call: &Call) -> Answer {
    match alarms::failure(call.broker()) {
        None => Ok(ok()),
        Some(why) => failed(json!({"reason": why})),
    }
}

fn node_in_service(call: &Call) -> Answer {
    call.check_node(call.part("node"))?;
    in_service(call)
}

fn alive(call: &Call) -> Answer {
    call.vhost()?;
    call.principal()?;
    in_service(call)
}

fn is_full(call: &Call) -> bool {
    let open = call.broker().connections().count() as u64;
    call.broker().options().connections_max.is_some_and(|max| open >= max)
}

fn below_limit(call: &Call) -> Answer {
    if is_full(call) {
        return failed(json!({"reason": "node connection limit is reached"}));
    }
    Ok(ok())
}

fn ready(call: &Call) -> Answer {
    if call.node().maintenance.is_on() {
        return failed(json!({"reason": "the rabbit node is not currently available to serve"}));
    }
    if is_full(call) { below_limit(call) } else { runs(call) }
}

fn reset(call: &Call) -> Answer {
    call.part_if("node").map_or(Ok(()), |node| call.check_node(node))?;
    call.app.samples.reset();
    Ok(Reply::NoContent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::Raised;

    #[test]
    fn the_alarm_of_the_disk_says_what_waits_and_what_frees_room() {
        let on = alarms_on(Raised::DISK.with(Raised::MEMORY));
        assert_eq!((on.len(), &on[1]["resource"]), (2, &json!("disk")));
        assert!(on[1]["reason"].as_str().is_some_and(|why| why.contains("purge or delete")), "{on:?}");
        assert!(on[0].get("reason").is_none() && alarms_on(Raised::default()).is_empty());
    }
}
