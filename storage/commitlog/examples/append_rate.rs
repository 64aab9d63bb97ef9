//! Measures the log on a real disk: cost of an append, of a durable small write with and without filled space, throughput.
//!
//! `cargo run --release -p commitlog --example append_rate -- [DIR]` (default: the system's temporary directory). The directory
//! must be on the disk that is to be measured. Figures of a run are in `docs/formats/log.md`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use commitlog::{Log, LogError, LogOptions, SyncPolicy};
use platform::{Disk, OpenMode, RealDisk};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("warren-append-rate-{}", std::process::id()));
    RealDisk.create_dir_all(&dir)?;
    let result = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    writeln!(out, "fdatasync of one appended write, microseconds (median, 99 %):")?;
    for bytes in [512, 4096, 65536] {
        let (extending, filled) = (sync_cost(dir, bytes, 0)?, sync_cost(dir, bytes, 64 << 20)?);
        writeln!(out, "  {bytes:>6} B: extending the file {extending:?}, into filled space {filled:?}")?;
    }
    writeln!(
        out,
        "one appender that waits for each record (200 B), microseconds per record (median, 99 %):"
    )?;
    for prefill_bytes in [0, 1 << 20] {
        let figures = round_trips(dir, LogOptions { prefill_bytes, ..LogOptions::default() })?;
        writeln!(out, "  prefill {prefill_bytes:>7}: {figures:?}")?;
    }
    writeln!(out, "appending without waiting (writer running, 1 MiB/s to 64 MiB pending):")?;
    for (threads, payload) in [(1, 16), (1, 200), (2, 200), (4, 200), (2, 16384)] {
        writeln!(
            out,
            "  {threads} thread(s), {payload:>5} B: {}",
            rush(dir, threads, payload, SyncPolicy::Fsync)?
        )?;
    }
    writeln!(out, "  2 thread(s),   200 B, policy os: {}", rush(dir, 2, 200, SyncPolicy::Os)?)?;
    Ok(())
}

/// Median and 99th percentile.
fn percentiles(mut times: Vec<Duration>) -> (u128, u128) {
    times.sort_unstable();
    (times[times.len() / 2].as_micros(), times[times.len() * 99 / 100].as_micros())
}

/// The bare disk: writes at the end of a file whose first `filled` bytes were written before.
fn sync_cost(dir: &Path, bytes: usize, filled: usize) -> std::io::Result<(u128, u128)> {
    let path = dir.join("bare");
    let file = RealDisk.open(&path, OpenMode::CreateEmpty)?;
    file.write_all_at(0, &[&vec![0; filled]])?;
    file.sync_data()?;
    let data = vec![0x5a; bytes];
    let mut times = Vec::new();
    for index in 0..400 {
        file.write_all_at((index * bytes) as u64, &[&data])?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed());
    }
    RealDisk.remove(&path)?;
    Ok(percentiles(times))
}

fn open(dir: &Path, options: LogOptions) -> Result<Log, LogError> {
    Ok(Log::open(Arc::new(RealDisk), &dir.join("log"), options)?.0)
}

fn finish(dir: &Path, log: &Log) -> Result<(), Box<dyn std::error::Error>> {
    log.close()?;
    Ok(std::fs::remove_dir_all(dir.join("log"))?)
}

fn round_trips(dir: &Path, options: LogOptions) -> Result<(u128, u128), Box<dyn std::error::Error>> {
    let log = open(dir, options)?;
    let mut times = Vec::new();
    for _ in 0..2000 {
        let start = Instant::now();
        log.append(1, 1, |out| out.extend_from_slice(&[7; 200]));
        log.sync_barrier()?;
        times.push(start.elapsed());
    }
    finish(dir, &log)?;
    Ok(percentiles(times))
}

/// Appends as fast as the bound allows; the appenders' own time and the time until all is durable.
fn rush(
    dir: &Path,
    threads: u64,
    payload: usize,
    sync: SyncPolicy,
) -> Result<String, Box<dyn std::error::Error>> {
    let log = open(dir, LogOptions { sync, ..LogOptions::default() })?;
    let per_thread = ((512_u64 << 20) / (payload as u64 + 32) / threads).min(2_000_000);
    let data = vec![7; payload];
    let (log, data) = (&log, &data[..]);
    let start = Instant::now();
    let busy: Duration = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|stream| scope.spawn(move || append_many(log, stream, per_thread, data)))
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("appenders do not panic")).sum()
    });
    log.sync_barrier()?;
    let total = start.elapsed();
    let records = per_thread * threads;
    let megabytes = log.durable().0 as f64 / 1e6;
    finish(dir, log)?;
    Ok(format!(
        "{:.0} ns per append, {:.2} M records/s and {:.0} MB/s durable",
        busy.as_nanos() as f64 / records as f64,
        records as f64 / 1e6 / total.as_secs_f64(),
        megabytes / total.as_secs_f64(),
    ))
}

/// Returns the time spent appending, without that spent waiting at the bound.
fn append_many(log: &Log, stream: u64, count: u64, data: &[u8]) -> Duration {
    let mut busy = Duration::ZERO;
    let mut done = 0;
    while done < count {
        while log.over_bound() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let run = (count - done).min(1000);
        let start = Instant::now();
        for _ in 0..run {
            log.append(stream, 1, |out| out.extend_from_slice(data));
        }
        busy += start.elapsed();
        done += run;
    }
    busy
}
