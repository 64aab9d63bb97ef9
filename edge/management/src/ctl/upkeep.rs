//! Commands of upkeep and diagnosis that operators' scripts call: a command that has nothing to do on a node of its own answers as
//! RabbitMQ does when there is nothing to do. Refuses to know plugins.

use std::net::ToSocketAddrs;

use broker::{Broker, LoginProtocol, LoginRecording, LoginSource, LoginTotals, SIZE_CLASSES};
use regex::Regex;
use serde_json::{Value, json};

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Commands, Outcome, arguments, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::membership;
use crate::resources::node::{NODE_NAME, Node};

/// Commands of upkeep.
pub(crate) const COMMANDS: Commands = &[
    ("check_if_metadata_store_is_initialized", |_| {
        Ok(Answer::message(&format!("Metadata store on node {NODE_NAME} has completed its initialization")))
    }),
    ("check_if_metadata_store_is_initialized_with_data", |_| {
        Ok(Answer::message(&format!("Metadata store on node {NODE_NAME} has completed its initialization")))
    }),
    ("check_if_node_is_mirror_sync_critical", |_| Ok(Answer::message("ok"))),
    ("check_if_new_quorum_queue_replicas_have_finished_initial_sync", |_| {
        Ok(Answer::message(&format!("Node {NODE_NAME} reported no queues with promotable replicas")))
    }),
    ("check_for_quorum_queues_without_an_elected_leader", |it| check_leaders(it.broker, it.request)),
    ("has_reached_target_cluster_size", |_| {
        Ok(Answer::message(&format!("Target cluster size has been reached on node {NODE_NAME}")))
    }),
    ("discover_peers", |_| Ok(Answer::facts(format!("[:\"{NODE_NAME}\"]"), json!([NODE_NAME])))),
    ("message_size_stats", |it| Ok(message_sizes(it.broker))),
    ("list_node_auth_attempt_stats", |it| Ok(logins(it.broker))),
    ("reset_node_auth_attempt_metrics", |it| {
        it.broker.set_logins_back();
        Ok(Answer::done())
    }),
    ("enable_auth_attempt_source_tracking", |it| {
        it.broker.record_login_sources(LoginRecording::On);
        Ok(Answer::done())
    }),
    ("disable_auth_attempt_source_tracking", |it| {
        it.broker.record_login_sources(LoginRecording::Off);
        Ok(Answer::done())
    }),
    ("resolve_hostname", |it| resolve(it.request)),
    ("list_deprecated_features", |it| deprecated(it.request)),
    ("set_log_level", |it| set_log_level(it.node, it.request)),
    ("force_gc", |it| {
        it.broker.alarms().release_memory();
        Ok(Answer::done())
    }),
    ("reconcile_vhosts", |_| Ok(Answer::done())),
    ("reset_stats_db", |_| Ok(Answer::done())),
    ("activate_free_disk_space_monitoring", |_| Ok(Answer::done())),
    ("post_upgrade", |_| Ok(Answer::done())),
];

/// Whether quorum queues of a vhost or of all, by a pattern of their names, have leaders that run.
fn check_leaders(broker: &Broker, request: &Request) -> Outcome {
    let [text] = arguments(request)?;
    let pattern =
        |text: &str| Regex::new(text).map_err(|_| usage(&format!("'{text}' is not a regular expression")));
    let of_vhosts = match request.has("across-all-vhosts") {
        true => ".*".to_owned(),
        false => format!("^{}$", regex::escape(request.vhost())),
    };
    let queues = membership::leaderless(broker, &pattern(&of_vhosts)?, &pattern(text)?);
    if queues.is_empty() {
        return Ok(Answer::message(&format!(
            "Node {NODE_NAME} reported all quorum queues matching the pattern have an elected leader"
        )));
    }
    let lines: Vec<String> =
        queues.iter().map(|queue| format!("{} has no elected leader", membership::readable(queue))).collect();
    Err(Failure::new(Exit::UNAVAILABLE, format!("Error:\n{}", lines.join("\n"))))
}

/// Names of the classes of sizes.
const CLASSES: [&str; SIZE_CLASSES.len() + 1] = [
    "below 100B",
    "between 100B and 1KB",
    "between 1KB and 10KB",
    "between 10KB and 100KB",
    "between 100KB and 1MB",
    "between 1MB and 10MB",
    "between 10MB and 50MB",
    "between 50MB and 100MB",
    "above 100MB",
];

type SizeClass = (&'static str, u64, f64);

/// How many messages of which size came from publishers.
fn message_sizes(broker: &Broker) -> Answer {
    const COLUMNS: &[Column<SizeClass>] = &[
        ("Message Size", |it| it.0.into()),
        ("Count", |it| it.1.into()),
        ("Percentage", |it| format!("{:.2}", it.2).into()),
    ];
    let counts = broker.message_sizes().counts;
    let all = counts.iter().sum::<u64>().max(1) as f64;
    rows(
        COLUMNS,
        CLASSES.into_iter().zip(counts).map(|(class, count)| (class, count, count as f64 * 100.0 / all)),
    )
}

/// Logins since the start, protocol by protocol.
fn logins(broker: &Broker) -> Answer {
    let attempts = login_attempts(broker);
    if attempts.is_empty() {
        let text = format!("Node {NODE_NAME} reported no authentication attempt stats");
        return Answer::facts(text, json!({"node": NODE_NAME, "result": "ok", "attempts": []}));
    }
    let mut text = "protocol\tauth_attempts\tauth_attempts_failed\tauth_attempts_succeeded".to_owned();
    for one in &attempts {
        let word = |key: &str| one[key].as_str().map_or_else(|| one[key].to_string(), str::to_owned);
        let keys = ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"];
        text.push_str(&format!("\n{}", keys.map(word).join("\t")));
    }
    Answer::facts(text, json!({"node": NODE_NAME, "result": "ok", "attempts": attempts}))
}

/// Logins as RabbitMQ shows them; protocols over which nobody tried are left out.
pub(crate) fn login_attempts(broker: &Broker) -> Vec<Value> {
    let all = LoginProtocol::ALL.map(|protocol| (protocol.name(), broker.logins(protocol)));
    let shown = all.into_iter().filter(|(_, it)| it.tried() > 0);
    let object = |(protocol, it): (&str, LoginTotals)| {
        json!({
            "protocol": protocol,
            "auth_attempts": it.tried(),
            "auth_attempts_failed": it.refused,
            "auth_attempts_succeeded": it.succeeded,
        })
    };
    shown.map(object).collect()
}

/// Logins by where they came from, as RabbitMQ shows them.
pub(crate) fn login_sources(broker: &Broker) -> Vec<Value> {
    let object = |(source, it): (LoginSource, LoginTotals)| {
        json!({
            "remote_address": source.address,
            "username": source.user,
            "protocol": source.protocol.name(),
            "auth_attempts": it.tried(),
            "auth_attempts_failed": it.refused,
            "auth_attempts_succeeded": it.succeeded,
        })
    };
    broker.login_sources().into_iter().map(object).collect()
}

/// The addresses that the node finds for a name.
fn resolve(request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let wants_v6 = match request.options.get("address-family").map(|it| it.to_ascii_lowercase()) {
        None => false,
        Some(family) if family == "ipv4" => false,
        Some(family) if family == "ipv6" => true,
        Some(_) => return Err(usage("unsupported IP address family; try ipv4 or ipv6")),
    };
    let found = (name, 0).to_socket_addrs().map_err(|error| {
        Failure::new(Exit::UNAVAILABLE, format!("Error:\n{name} cannot be resolved on {NODE_NAME}: {error}"))
    })?;
    let mut addresses: Vec<String> =
        found.filter(|it| it.is_ipv6() == wants_v6).map(|it| it.ip().to_string()).collect();
    addresses.dedup();
    if addresses.is_empty() {
        let text = format!("Error:\n{name} has no address of that family on {NODE_NAME}");
        return Err(Failure::new(Exit::UNAVAILABLE, text));
    }
    Ok(Answer::facts(addresses.join("\n"), json!(addresses)))
}

pub(crate) const DEPRECATED_COLUMNS: [&str; 6] =
    ["name", "deprecation_phase", "provided_by", "desc", "doc_url", "state"];

/// Nothing that works here is going to be taken away; the columns are RabbitMQ's.
fn deprecated(request: &Request) -> Outcome {
    let known: Vec<Column<()>> =
        DEPRECATED_COLUMNS.map(|name| (name, (|()| Value::Null) as fn(&()) -> Value)).into();
    Ok(rows(&chosen(request, &known, &["name", "deprecation_phase", "state"])?, []))
}

fn set_log_level(node: &Node, request: &Request) -> Outcome {
    let [level] = arguments(request)?;
    (node.set_log_level)(level).map_err(|()| {
        let text = format!(
            "Error:\nlevel {level} is not supported. Try one of debug, info, warning, error, critical, none"
        );
        Failure::new(Exit::UNAVAILABLE, text)
    })?;
    Ok(Answer::done())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(command: &str, args: &[&str]) -> Request {
        let args = args.iter().map(|word| (*word).into()).collect();
        Request { command: command.into(), args, ..Request::default() }
    }

    #[test]
    fn a_name_is_resolved_and_nonsense_is_not() {
        let Ok(Answer::Facts { text, .. }) = resolve(&request("resolve_hostname", &["localhost"])) else {
            panic!()
        };
        assert!(text.contains("127.0.0.1"), "{text}");
        let mut wrong = request("resolve_hostname", &["localhost"]);
        wrong.options.insert("address-family".into(), "ipx".into());
        assert_eq!(resolve(&wrong).unwrap_err().exit, Exit::USAGE);
        assert_eq!(
            resolve(&request("resolve_hostname", &["a.invalid"])).unwrap_err().exit,
            Exit::UNAVAILABLE
        );
    }
}
