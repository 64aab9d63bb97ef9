//! Facts about the node that are known without asking the broker: exchange types, listeners, memory of the process.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::resources::node::{NODE_NAME, Node};

/// Exchange types with the sentences that RabbitMQ and its plugins show.
const EXCHANGE_TYPES: &[(&str, &str)] = &[
    ("direct", "AMQP direct exchange, as per the AMQP specification"),
    ("fanout", "AMQP fanout exchange, as per the AMQP specification"),
    ("headers", "AMQP headers exchange, as per the AMQP specification"),
    ("topic", "AMQP topic exchange, as per the AMQP specification"),
    ("x-consistent-hash", "Consistent Hashing Exchange"),
    ("x-delayed-message", "Delayed Message Exchange."),
    ("x-jms-topic", "JMS topic exchange with selectors"),
    ("x-local-random", "Picks one random local binding (queue) to route via (to)."),
    ("x-message-deduplication", "Message Deduplication Exchange."),
    ("x-modulus-hash", "Modulus Hashing Exchange"),
    ("x-random", "Randomly picks a binding (queue) to route via (to)."),
    ("x-recent-history", "Recent History Exchange."),
];

/// As lists of `{"name", "description", "enabled"}`.
pub(crate) fn exchange_types() -> Value {
    let one = |(name, about): &(&str, &str)| json!({"name": name, "description": about, "enabled": true});
    EXCHANGE_TYPES.iter().map(one).collect()
}

pub(crate) fn auth_mechanisms() -> Value {
    let all = [
        ("AMQPLAIN", "QPid AMQPLAIN mechanism"),
        ("ANONYMOUS", "SASL ANONYMOUS authentication mechanism"),
        ("PLAIN", "SASL PLAIN authentication mechanism"),
    ];
    all.iter().map(|(name, about)| json!({"name": name, "description": about, "enabled": true})).collect()
}

/// The stand-in for RabbitMQ's virtual machine.
pub(crate) fn runtime(node: &Node) -> String {
    format!("none: Warren {} is a native program", node.version)
}

/// Listeners as the overview shows them.
pub(crate) fn listeners(node: &Node) -> Value {
    let one = |it: &crate::NodeListener| {
        json!({
            "node": NODE_NAME,
            "protocol": it.protocol,
            "ip_address": it.address.ip().to_string(),
            "port": it.address.port(),
            "socket_opts": {},
            "tls": false,
        })
    };
    node.listeners.iter().map(one).collect()
}

/// HTTP servers of the node.
pub(crate) fn contexts(node: &Node) -> Value {
    let http = node.listeners.iter().filter(|it| it.protocol.starts_with("http"));
    let one = |it: &crate::NodeListener| {
        json!({
            "ssl_opts": [],
            "node": NODE_NAME,
            "description": it.purpose,
            "path": "/",
            "cowboy_opts": "[]",
            "ip": it.address.ip().to_string(),
            "port": it.address.port().to_string(),
        })
    };
    http.map(one).collect()
}

/// Numbers of `/proc/self/limits` and `/proc/self/status`; empty where the system has none.
pub(crate) struct Process {
    /// Most files that may be open.
    pub(crate) files_max: u64,
    /// Files that are open.
    pub(crate) files: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Times the process was taken off a processor.
    pub(crate) context_switches: u64,
    /// Threads that the system lets a process have.
    pub(crate) threads_max: u64,
}

impl Process {
    /// As it is now.
    pub(crate) fn now() -> Self {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
        let limits = read("limits");
        let limit = |name: &str| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let status = read("status");
        let status: BTreeMap<&str, u64> = status
            .lines()
            .filter_map(|line| {
                let (name, value) = line.split_once(':')?;
                Some((name, value.split_whitespace().next()?.parse().ok()?))
            })
            .collect();
        let status = |name: &str| status.get(name).copied().unwrap_or(0);
        Self {
            files_max: limit("Max open files"),
            files: std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64),
            threads: status("Threads"),
            context_switches: status("voluntary_ctxt_switches") + status("nonvoluntary_ctxt_switches"),
            threads_max: limit("Max processes"),
        }
    }
}

/// The resources that the process uses; resources that RabbitMQ counts and Warren does not have are 0.
pub(crate) fn used(memory_bytes: u64, disk_free_bytes: u64) -> Vec<(&'static str, u64)> {
    let process = Process::now();
    let mut used = vec![
        ("mem_used", memory_bytes),
        ("disk_free", disk_free_bytes),
        ("fd_used", process.files),
        ("proc_used", process.threads),
        ("context_switches", process.context_switches),
    ];
    used.extend(NOT_COUNTED.map(|name| (name, 0)));
    used
}

/// Counters of RabbitMQ's virtual machine, its file layer and its Mnesia.
const NOT_COUNTED: [&str; 20] = [
    "sockets_used",
    "gc_num",
    "gc_bytes_reclaimed",
    "io_read_count",
    "io_read_bytes",
    "io_read_avg_time",
    "io_write_count",
    "io_write_bytes",
    "io_write_avg_time",
    "io_sync_count",
    "io_sync_avg_time",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
];
