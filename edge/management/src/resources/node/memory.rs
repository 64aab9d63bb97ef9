//! Where the memory of the process is, by RabbitMQ's names. Refuses to know who counts it.

use broker::Broker;
use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Request};

/// Where memory is, bytes by RabbitMQ's names, largest first: together what the process occupies.
pub(crate) fn memory(broker: &Broker) -> Vec<(&'static str, u64)> {
    let used = broker.memory_use();
    let counted = [
        ("queue_procs", used.queues),
        ("binary", used.messages),
        ("metadata_store", used.metadata),
        ("other_ets", used.routing),
        ("connection_other", used.connections),
        ("connection_channels", used.channels),
        ("connection_writers", used.outgoing),
        ("msg_index", used.logs),
    ];
    let mut parts = counted.to_vec();
    let sum: u64 = counted.iter().map(|(_, bytes)| bytes).sum();
    let mut left = used.resident.saturating_sub(sum);
    let mut take = |name, bytes: u64| {
        let bytes = bytes.min(left);
        left -= bytes;
        parts.push((name, bytes));
    };
    if let Some((pages, heap)) = used.pages {
        take("code", pages.files);
        take("other_system", pages.stacks);
        // What is free of the heaps' pages that are there; what went back to the system is not.
        take("allocated_unused", pages.heaps.saturating_sub(heap.used - heap.mapped));
    } else {
        take("code", file_bytes());
    }
    take("other_proc", u64::MAX);
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}

/// Resident memory of the process, bytes; 0 where the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib_of(&status, "VmRSS:") * 1024
}

/// Resident bytes of the program and its libraries.
fn file_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib_of(&status, "RssFile:") * 1024
}

fn kib_of(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0)
}

pub(super) fn memory_breakdown(broker: &Broker, request: &Request) -> Outcome {
    let unit = request.options.get("unit").map_or("gb", String::as_str).to_ascii_lowercase();
    let bytes_of_unit = match unit.as_str() {
        "bytes" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(usage("Bad argument: --unit is one of bytes, KB, MB, GB")),
    };
    let parts = memory(broker);
    let total: u64 = parts.iter().map(|(_, bytes)| *bytes).sum();
    let percentage = |bytes: u64| rounded(bytes as f64 * 100.0 / total.max(1) as f64, 2);
    let lines = parts.iter().map(|(name, bytes)| {
        let amount = rounded(*bytes as f64 / bytes_of_unit, 4);
        format!("{name}: {amount:?} {unit} ({:?}%)", percentage(*bytes))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let json = parts
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), json!({"bytes": bytes, "percentage": percentage(*bytes)})));
    Ok(Answer::facts(text, Value::Object(json.collect())))
}

/// To so many digits behind the point.
fn rounded(number: f64, digits: i32) -> f64 {
    let factor = 10f64.powi(digits);
    (number * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_as_rabbitmq_rounds_them() {
        assert_eq!(format!("{:?} {:?}", rounded(0.07105, 4), rounded(0.0, 2)), "0.0711 0.0");
    }
}
