//! Where the memory of the process is, by RabbitMQ's names. Refuses to know who counts it.

use broker::Broker;

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
        // Free bytes of the heaps' pages that are there; pages that went back to the system do not count.
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
