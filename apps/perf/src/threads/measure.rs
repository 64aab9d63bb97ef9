//! A run of threads: figures once a second, and at the end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::counts::Counts;
use crate::io::{WatchedProcess, monotonic_ns, process_cpu_ns};

/// Threads of a run.
pub(crate) type Threads = Vec<JoinHandle<Result<()>>>;

/// How long a run is, and what is shown of it.
pub(crate) struct Plan {
    /// Seconds.
    pub(crate) seconds: u64,
    /// Ends when so many messages are consumed; 0 is never.
    pub(crate) enough: u64,
    /// The broker's process.
    pub(crate) pid: Option<u32>,
    /// One line of JSON on standard output.
    pub(crate) json: bool,
    /// The word by which consumed messages are grouped.
    pub(crate) groups: &'static str,
    /// Which messages the latency is of.
    pub(crate) latency_of: &'static str,
}

/// Starts consumers, then publishers, and prints what they do until the run is over.
///
/// # Errors
/// The broker refuses something, or its process cannot be looked at.
pub(crate) fn measure(
    plan: &Plan,
    counts: &Arc<Counts>,
    consumers: impl FnOnce() -> Result<Threads>,
    publishers: impl FnOnce() -> Result<Threads>,
) -> Result<()> {
    let broker = plan.pid.map(WatchedProcess::new);
    let mut threads = consumers()?;
    let before = broker.map(WatchedProcess::sample).transpose()?;
    let (begin_ns, own_cpu_ns) = (monotonic_ns(), process_cpu_ns());
    threads.extend(publishers()?);
    watch(plan, counts, &threads);
    let seconds = (monotonic_ns() - begin_ns) as f64 / 1e9;
    let own_cpu_us = (process_cpu_ns() - own_cpu_ns) as f64 / 1e3;
    let after = broker.map(WatchedProcess::sample).transpose()?;
    counts.is_over.store(true, Ordering::Relaxed);
    let mut failed = Ok(());
    for thread in threads {
        let ended =
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the generator has panicked")));
        failed = failed.and(ended);
    }
    let cpu_us = before.zip(after).map(|(before, after)| (after.cpu_us - before.cpu_us) as f64);
    let rss_kib = after.map(|after| after.rss_kib);
    print(plan, counts, &Figures { seconds, own_cpu_us, cpu_us, rss_kib });
    failed
}

/// Prints rates once a second until the time is over.
fn watch(plan: &Plan, counts: &Counts, threads: &[JoinHandle<Result<()>>]) {
    let (mut published, mut confirmed, mut consumed) = (0, 0, 0);
    for second in 1..=plan.seconds {
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(100));
            let has_enough = plan.enough > 0 && counts.consumed.load(Ordering::Relaxed) >= plan.enough;
            if has_enough || threads.iter().any(thread::JoinHandle::is_finished) {
                return;
            }
        }
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (p, c, g) = (now(&counts.published), now(&counts.confirmed), now(&counts.consumed));
        let (p_rate, c_rate, g_rate) = (p - published, c - confirmed, g - consumed);
        let line = format!(
            "{second} s: published {p_rate} msg/s, confirmed {c_rate} msg/s, consumed {g_rate} msg/s"
        );
        // Nobody is left to tell when the terminal is gone.
        let _ = writeln!(std::io::stderr(), "{line}");
        (published, confirmed, consumed) = (p, c, g);
    }
}

struct Figures {
    seconds: f64,
    own_cpu_us: f64,
    cpu_us: Option<f64>,
    rss_kib: Option<u64>,
}

fn print(plan: &Plan, counts: &Counts, figures: &Figures) {
    let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (published, confirmed, consumed) =
        (now(&counts.published), now(&counts.confirmed), now(&counts.consumed));
    let (refused, groups) = (now(&counts.refused), now(&counts.groups));
    let rate = |count: u64| count as f64 / figures.seconds;
    let messages = (published + consumed).max(1) as f64;
    let latency =
        counts.latency.lock().map(|all| [0.5, 0.99].map(|at| all.value_at_quantile(at) as f64 / 1e3));
    let [p50_us, p99_us] = latency.unwrap_or_default();
    let broker_us = figures.cpu_us.map(|cpu_us| cpu_us / messages);
    let text = if plan.json {
        let line = json!({
            "seconds": figures.seconds, "published": published, "confirmed": confirmed, "refused": refused,
            "consumed": consumed, plan.groups: groups, "confirmed_per_s": rate(confirmed), "consumed_per_s": rate(consumed),
            "latency_p50_us": p50_us, "latency_p99_us": p99_us, "broker_cpu_us_per_message": broker_us,
            "broker_rss_kib": figures.rss_kib, "broker_cpu_us": figures.cpu_us, "own_cpu_us_per_message": figures.own_cpu_us / messages,
        });
        line.to_string()
    } else {
        let broker = match (broker_us, figures.rss_kib) {
            (Some(us), Some(rss_kib)) => {
                format!(
                    "broker: {us:.3} us CPU per message published or consumed, {} MiB resident\n",
                    rss_kib / 1024
                )
            }
            _ => String::new(),
        };
        format!(
            "published {published}, confirmed {confirmed}, refused {refused}, consumed {consumed} in {groups} {}\n\
             confirmed {:.0} msg/s, consumed {:.0} msg/s\n\
             latency p50 {p50_us:.0} us, p99 {p99_us:.0} us ({})\n\
             {broker}generator: {:.3} us CPU per message",
            plan.groups,
            rate(confirmed),
            rate(consumed),
            plan.latency_of,
            figures.own_cpu_us / messages
        )
    };
    // Nobody is left to tell when the terminal is gone.
    let _ = writeln!(std::io::stdout(), "{text}");
}
