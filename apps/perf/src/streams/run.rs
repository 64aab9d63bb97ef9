//! A run: streams are made, publishers and consumers started, figures printed, streams deleted.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use wire::stream::requests::{Create, Delete};

use super::client::{Client, pairs};
use super::counts::Counts;
use super::options::StreamOptions;
use super::{consumer, producer};
use crate::io::WatchedProcess;
use crate::io::{monotonic_ns, process_cpu_ns};

/// Runs it.
///
/// # Errors
/// The broker cannot be reached, or refuses something.
pub(crate) fn run(options: &StreamOptions) -> Result<ExitCode> {
    let mut control = Client::open(&options.uris)?;
    if !options.predeclared {
        let arguments = pairs([("max-length-bytes", options.max_length_bytes.as_str())]);
        for stream in &options.streams {
            // An earlier run may have left a stream.
            let _not_there = control.request(Delete { stream }, |_| ());
            control.request(Create { stream, arguments: arguments.as_list() }, |_| ())?;
        }
    }
    let measured = measure(options);
    if !options.predeclared && !options.keep {
        let mut control = Client::open(&options.uris)?;
        for stream in &options.streams {
            control.request(Delete { stream }, |_| ())?;
        }
    }
    measured.map(|()| ExitCode::SUCCESS)
}

fn measure(options: &StreamOptions) -> Result<()> {
    let counts = Arc::new(Counts::new());
    let broker = options.pid.map(WatchedProcess::new);
    let mut threads = Vec::new();
    for nth in 0..options.consumers {
        threads.push(consumer::start(options, nth, &counts)?);
    }
    let before = broker.map(WatchedProcess::sample).transpose()?;
    let (begin_ns, own_cpu_ns) = (monotonic_ns(), process_cpu_ns());
    for nth in 0..options.producers {
        threads.extend(producer::start(options, nth, &counts)?);
    }
    watch(options, &counts, &threads);
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
    print(options, &counts, &Figures { seconds, own_cpu_us, cpu_us, rss_kib });
    failed
}

/// Prints rates once a second until the time is over.
fn watch(options: &StreamOptions, counts: &Counts, threads: &[thread::JoinHandle<Result<()>>]) {
    let (mut published, mut confirmed, mut consumed) = (0, 0, 0);
    for second in 1..=options.time {
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(100));
            let enough = options.cmessages * options.consumers as u64;
            let has_enough = enough > 0 && counts.consumed.load(Ordering::Relaxed) >= enough;
            if has_enough || threads.iter().any(thread::JoinHandle::is_finished) {
                return;
            }
        }
        let now = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
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

fn print(options: &StreamOptions, counts: &Counts, figures: &Figures) {
    let now = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (published, confirmed, consumed) =
        (now(&counts.published), now(&counts.confirmed), now(&counts.consumed));
    let (refused, chunks) = (now(&counts.refused), now(&counts.chunks));
    let rate = |count: u64| count as f64 / figures.seconds;
    let messages = (confirmed + consumed).max(1) as f64;
    let latency =
        counts.latency.lock().map(|all| [0.5, 0.99].map(|at| all.value_at_quantile(at) as f64 / 1e3));
    let [p50_us, p99_us] = latency.unwrap_or_default();
    let broker_us = figures.cpu_us.map(|cpu_us| cpu_us / messages);
    let text = if options.json {
        let line = json!({
            "seconds": figures.seconds, "published": published, "confirmed": confirmed, "refused": refused,
            "consumed": consumed, "chunks": chunks, "confirmed_per_s": rate(confirmed), "consumed_per_s": rate(consumed),
            "latency_p50_us": p50_us, "latency_p99_us": p99_us, "broker_cpu_us_per_message": broker_us,
            "broker_rss_kib": figures.rss_kib, "own_cpu_us_per_message": figures.own_cpu_us / messages,
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
            "published {published}, confirmed {confirmed}, refused {refused}, consumed {consumed} in {chunks} chunks\n\
             confirmed {:.0} msg/s, consumed {:.0} msg/s\n\
             latency p50 {p50_us:.0} us, p99 {p99_us:.0} us (first message of a chunk)\n\
             {broker}generator: {:.3} us CPU per message",
            rate(confirmed),
            rate(consumed),
            figures.own_cpu_us / messages
        )
    };
    // Nobody is left to tell when the terminal is gone.
    let _ = writeln!(std::io::stdout(), "{text}");
}
