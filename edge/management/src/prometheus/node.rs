//! Metrics of the node as a whole. Refuses to know pages.

use std::io;

use broker::{Broker, ChurnTotals, LoginProtocol, LoginSource, LoginTotals, QueueGlance};

use super::families::Asked;
use super::metric::{Metric, counter, write_sum};
use super::page::{Kind, Page, labels};
use super::process;
use crate::resources::node::{memory, resident_bytes};

/// Connections, channels and queues that came and went.
pub(crate) const CHURN: &[Metric<ChurnTotals>] = &[
    counter("connections_opened_total", "Connections opened", |it| it.connections_created as f64),
    counter("connections_closed_total", "Connections closed", |it| it.connections_closed as f64),
    counter("channels_opened_total", "Channels opened", |it| it.channels_created as f64),
    counter("channels_closed_total", "Channels closed", |it| it.channels_closed as f64),
    counter("queues_declared_total", "Successful queue.declare", |it| it.queues_declared as f64),
    counter("queues_created_total", "Queues created", |it| it.queues_created as f64),
    counter("queues_deleted_total", "Queues deleted", |it| it.queues_deleted as f64),
];

/// Resources that the process uses now.
pub(crate) fn coarse(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let levels = asked.broker.alarms().levels();
    let files = process::open_files();
    let disk = levels.disk_free_bytes;
    optional(page, "process_open_fds", "Open files and sockets", files)?;
    // RabbitMQ 4 dropped this one and its maximum; dashboards made for RabbitMQ 3 show how far they are apart.
    let sockets = asked.broker.connections().count() as u64;
    optional(page, "process_open_tcp_sockets", "Connections of clients", Some(sockets))?;
    optional(page, "process_resident_memory_bytes", "Memory of the process", Some(resident_bytes()))?;
    optional(page, "disk_space_available_bytes", "Space free for the data directory", disk)
}

/// The limits of the process, and for how long it has run.
pub(crate) fn limits(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let levels = asked.broker.alarms().levels();
    let files = process::open_files_max();
    optional(page, "process_max_fds", "Files and sockets that may be open", files)?;
    optional(page, "process_max_tcp_sockets", "Connections that files and sockets suffice for", files)?;
    let (memory, disk) = (levels.memory_limit_bytes() as f64, levels.disk_limit_bytes() as f64);
    page.single("resident_memory_limit_bytes", Kind::Gauge, "Memory above which publishers wait", memory)?;
    let help = "Free space below which publishers wait";
    page.single("disk_space_available_limit_bytes", Kind::Gauge, help, disk)?;
    let uptime_s = asked.node.started.elapsed().as_secs_f64();
    page.single("erlang_uptime_seconds", Kind::Gauge, "How long the node has run", uptime_s)
}

fn optional(page: &mut Page<'_>, name: &str, help: &str, value: Option<u64>) -> io::Result<()> {
    page.head(name, Kind::Gauge, help)?;
    value.map_or(Ok(()), |value| page.sample(name, "", value as f64))
}

/// Bytes that went to disk and came back.
pub(crate) fn persister(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let (read, written) = process::disk_bytes().unwrap_or_default();
    for (name, help, bytes) in [
        ("io_read_bytes_total", "Bytes read from disks", read),
        ("io_write_bytes_total", "Bytes written to disks", written),
    ] {
        page.single(name, Kind::Counter, help, bytes as f64)?;
    }
    write_sum(page, STORE, asked.queue_sum())
}

const STORE: &[Metric<QueueGlance>] = &[
    counter("msg_store_read_total", "Messages read back from segments", |it| it.totals.disk_reads as f64),
    counter("msg_store_write_total", "Messages written to the log and to segments", |it| {
        it.totals.disk_writes as f64
    }),
];

/// A name, a sentence, and what is counted of logins.
type LoginMetric = (&'static str, &'static str, fn(LoginTotals) -> u64);

/// Logins by where they come from, while that is recorded.
pub(crate) fn login_sources(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let sources = asked.broker.login_sources();
    let labels_of = |source: &LoginSource| {
        labels(&[
            ("remote_address", source.address.as_bytes()),
            ("username", source.user.as_bytes()),
            ("protocol", source.protocol.name().as_bytes()),
        ])
    };
    let metrics: [LoginMetric; 3] = [
        ("auth_attempts_detailed_total", "Logins tried, by source", LoginTotals::tried),
        ("auth_attempts_detailed_succeeded_total", "Logins that succeeded, by source", |it| it.succeeded),
        ("auth_attempts_detailed_failed_total", "Logins that were refused, by source", |it| it.refused),
    ];
    for (name, help, count) in metrics {
        page.head(name, Kind::Counter, help)?;
        for (source, totals) in &sources {
            page.sample(name, &labels_of(source), count(*totals) as f64)?;
        }
    }
    Ok(())
}

/// Logins.
pub(crate) fn logins(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let metrics: [LoginMetric; 3] = [
        ("auth_attempts_total", "Logins tried", LoginTotals::tried),
        ("auth_attempts_succeeded_total", "Logins that succeeded", |it| it.succeeded),
        ("auth_attempts_failed_total", "Logins that were refused", |it| it.refused),
    ];
    for (name, help, count) in metrics {
        page.head(name, Kind::Counter, help)?;
        for protocol in LoginProtocol::ALL {
            let logins = asked.broker.logins(protocol);
            // A zero of a protocol that nobody uses would look like one that is idle.
            let is_always_shown = matches!(protocol, LoginProtocol::Amqp091 | LoginProtocol::Http);
            if is_always_shown || logins.tried() > 0 {
                let of = labels(&[("protocol", protocol.name().as_bytes())]);
                page.sample(name, &of, count(logins) as f64)?;
            }
        }
    }
    Ok(())
}

/// Vhosts that are up: all.
pub(crate) fn vhosts(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.head("vhost_status", Kind::Gauge, "Whether a vhost is running")?;
    for vhost in asked.broker.vhosts().into_iter().filter(|vhost| asked.wants_vhost(vhost.name())) {
        page.sample("vhost_status", &labels(&[("vhost", vhost.name().as_bytes())]), 1.0)?;
    }
    Ok(())
}

/// Parts of memory by the names that listings give them, and by RabbitMQ's names in metrics.
const MEMORY: &[(&str, &str, &str)] = &[
    ("queue_procs", "classic_queue_erlang_process", "Queues and what they note of messages"),
    ("binary", "binary_heap", "Messages"),
    ("metadata_store", "modern_metadata_store", "Users, vhosts, queues, exchanges, bindings as declared"),
    ("other_ets", "other_ets_table", "Routing tables"),
    ("connection_other", "client_connection_other", "Connections"),
    ("connection_channels", "client_connection_channel", "Channels"),
    ("connection_writers", "client_connection_writer", "Output that waits for clients"),
    ("msg_index", "message_index", "Buffers of the message log"),
    ("other_proc", "other_erlang_process", "Everything else"),
    ("allocated_unused", "runtime_allocated_unused", "Freed and not given back"),
    ("other_system", "other_system", "Stacks of threads"),
    ("code", "code_module", "The program"),
];

/// Where memory is.
pub(crate) fn memory_breakdown(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    for (part, bytes) in memory(broker) {
        let known = MEMORY.iter().find(|(name, ..)| *name == part);
        let (name, help) = known.map_or((part, "A part of the node"), |(_, name, help)| (name, help));
        page.single(&format!("memory_{name}_bytes"), Kind::Gauge, help, bytes as f64)?;
    }
    Ok(())
}

/// Metrics that RabbitMQ does not have: the process as other exporters show it.
pub(crate) fn process(page: &mut Page<'_>) -> io::Result<()> {
    let before = page.set_prefix("");
    if let Some(seconds) = process::cpu_s() {
        page.single("process_cpu_seconds_total", Kind::Counter, "Processor time of the process", seconds)?;
    }
    optional(page, "process_threads", "Threads of the process", process::threads())?;
    page.set_prefix(before);
    Ok(())
}
