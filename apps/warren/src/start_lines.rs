//! Lines of the log about the start, as RabbitMQ writes them: version, files, folders, limits, listeners. Refuses to know how any of it is made.

use std::time::Instant;

use broker::Broker;
use management::Node;

use crate::config::Options;
use crate::node::log_locations;

/// The lines that are written before anything is opened.
pub(crate) fn starting(options: &Options) {
    tracing::info!(pid = std::process::id(), "Starting Warren {}", env!("CARGO_PKG_VERSION"));
    let files: Vec<String> = options.files.iter().map(|file| file.display().to_string()).collect();
    tracing::info!("config file(s): {}", one_or_more(&files));
    tracing::info!("log(s): {}", one_or_more(&log_locations(options)));
    let dir = &options.node.data_dir;
    tracing::info!("data dir: {}", std::path::absolute(dir).unwrap_or_else(|_| dir.clone()).display());
}

/// When the data folder is open.
pub(crate) fn limits(broker: &Broker) {
    let levels = broker.alarms().levels();
    let (limit, total) = (levels.memory_limit_bytes(), levels.memory_total_bytes);
    tracing::info!(
        "Memory high watermark set to {} MiB ({limit} bytes) of {} MiB ({total} bytes) total",
        limit >> 20,
        total >> 20
    );
    let free = levels.disk_free_bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{bytes} bytes"));
    tracing::info!("Disk free limit set to {} bytes (disk free space: {free})", levels.disk_limit_bytes());
}

/// When everybody may come.
pub(crate) fn complete(node: &Node, began: Instant) {
    for listener in &node.listeners {
        let (address, purpose) = (listener.address, listener.purpose);
        let kind = kind_of(listener.protocol);
        tracing::info!("started {kind} listener on {address} ({purpose})");
    }
    tracing::info!("Server startup complete; it took {} ms", began.elapsed().as_millis());
}

/// The transport that a listener speaks below its protocol, in RabbitMQ's words.
fn kind_of(protocol: &str) -> &'static str {
    match protocol.split_once('/') {
        _ if protocol.starts_with("https") => "HTTPS",
        _ if protocol.starts_with("http") => "HTTP",
        Some((_, "ssl")) => "TLS (SSL)",
        _ => "TCP",
    }
}

fn one_or_more(texts: &[String]) -> String {
    if texts.is_empty() { "(none)".to_owned() } else { texts.join(", ") }
}
