//! A run: clients wait until all of them are there, publishers begin, figures are printed, sessions deleted.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::client::Place;
use super::drive;
use super::member::{Member, Role, Shared};
use super::options::MqttOptions;
use super::publisher::Publisher;
use crate::io::{WatchedProcess, monotonic_ns};
use crate::threads::{Counts, Plan, Threads, measure};

/// Runs it.
///
/// # Errors
/// The broker cannot be reached, or refuses something.
pub(crate) fn run(options: &MqttOptions) -> Result<ExitCode> {
    let places = options.uris.iter().map(|uri| Place::of(uri)).collect::<Result<Vec<_>>>()?;
    let plan = Plan {
        seconds: options.time,
        enough: options.cmessages * options.consumers() as u64,
        pid: options.pid,
        json: options.json,
        groups: "reads",
        latency_of: "first message of a read",
    };
    let counts = Arc::new(Counts::new());
    let shared = Arc::new(Shared {
        options: options.clone(),
        places,
        counts: counts.clone(),
        ready: AtomicUsize::new(0),
    });
    let measured = measure(
        &plan,
        &counts,
        || opened(start(&shared, listeners(options)), &shared),
        || Ok(start(&shared, publishers(options))),
    );
    measured.map(|()| ExitCode::SUCCESS)
}

fn publishers(options: &MqttOptions) -> Vec<Member> {
    let of = |nth| Member::new(nth, Role::Publisher(Box::new(Publisher::new(options, nth))));
    (0..options.producers()).map(of).collect()
}

/// All that do not publish.
fn listeners(options: &MqttOptions) -> Vec<Member> {
    let mut all: Vec<_> = (0..options.consumers()).map(|nth| Member::new(nth, Role::Subscriber)).collect();
    all.extend((0..options.connections).map(|nth| Member::new(nth, Role::Idle)));
    all.extend((0..options.churn).map(|nth| Member::new(nth, Role::Churner)));
    all.extend((0..options.reconnects).map(|nth| Member::new(nth, Role::Reconnector)));
    all
}

/// Threads for these.
fn start(shared: &Arc<Shared>, members: Vec<Member>) -> Threads {
    let mut shares: Vec<Vec<Member>> = (0..shared.options.threads).map(|_| Vec::new()).collect();
    for (nth, member) in members.into_iter().enumerate() {
        let share = nth % shares.len();
        shares[share].push(member);
    }
    shares.into_iter().filter(|share| !share.is_empty()).map(|share| drive::start(share, shared)).collect()
}

/// The threads, once all their clients work. Says on standard error how long that took and by how much the broker has grown.
fn opened(threads: Threads, shared: &Shared) -> Result<Threads> {
    let options = &shared.options;
    let wanted = options.consumers() + options.connections + options.churn + options.reconnects;
    let broker = options.pid.map(WatchedProcess::new);
    let (before, began_ns) = (broker.map(WatchedProcess::sample).transpose()?, monotonic_ns());
    while shared.ready.load(Ordering::Relaxed) < wanted {
        if threads.iter().any(thread::JoinHandle::is_finished) {
            return Err(first_error(threads, shared));
        }
        thread::sleep(Duration::from_millis(10));
    }
    let seconds = (monotonic_ns() - began_ns) as f64 / 1e9;
    let after = broker.map(WatchedProcess::sample).transpose()?;
    let grown = before.zip(after).map_or_else(String::new, |(before, after)| {
        let bytes = after.rss_kib.saturating_sub(before.rss_kib) * 1024;
        format!(", the broker grew by {} bytes for each", bytes / wanted.max(1) as u64)
    });
    // Nobody is left to tell when the terminal is gone.
    let _ = writeln!(std::io::stderr(), "{wanted} clients have connected in {seconds:.2} s{grown}");
    Ok(threads)
}

/// Ends the others, and says why one has ended.
fn first_error(threads: Threads, shared: &Shared) -> anyhow::Error {
    shared.counts.is_over.store(true, Ordering::Relaxed);
    let ended = threads.into_iter().map(|thread| {
        thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the generator has panicked")))
    });
    let errors: Vec<_> = ended.filter_map(Result::err).collect();
    errors.into_iter().next().unwrap_or_else(|| anyhow!("a thread of the generator has ended"))
}
