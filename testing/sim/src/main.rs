//! `cargo xtask sim`: histories from consecutive seeds, so many or until the time is over; the first that fails ends it and says its seed.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Kind = fn(u64, Option<fn(&str)>) -> Result<sim::Summary, String>;

/// One kind of history each: random work, tenants, queues that are used at once, short memory, a full disk, sessions of MQTT, and a stream.
/// Each seed stands for all.
const KINDS: [Kind; 7] = [
    sim::run,
    sim::run_house,
    sim::run_newborn,
    sim::run_short,
    sim::run_full,
    sim::run_fleet,
    sim::run_brook,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let (minutes, only, seeds) = (number("--minutes"), number("--kind"), number("--seeds").unwrap_or(1));
    let first = number("--seed").unwrap_or(1);
    let tell: Option<fn(&str)> =
        if arguments.iter().any(|argument| argument == "--tell") { Some(say) } else { None };
    if tell.is_some() {
        tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_env_filter("debug,broker::alarms=trace")
            .init();
    }
    let (started, budget) = (Instant::now(), Duration::from_secs(60 * minutes.unwrap_or(0)));
    let (mut seed, mut messages, mut lives, mut kept_files, mut damages) = (first, 0, 0, 0, 0);
    loop {
        for (kind, run) in KINDS.iter().enumerate() {
            if only.is_some_and(|only| only != kind as u64) {
                continue;
            }
            match std::panic::catch_unwind(|| run(seed, tell)) {
                Ok(Ok(summary)) => {
                    messages += summary.messages;
                    lives += summary.lives;
                    kept_files += summary.kept_files;
                    damages += summary.damages;
                }
                Ok(Err(why)) => return failed(seed, kind, &why),
                Err(_) => return failed(seed, kind, "it panics"),
            }
        }
        seed += 1;
        if started.elapsed() >= budget && seed - first >= seeds {
            break;
        }
    }
    say(&format!(
        "{} seeds from {first}: {lives} lives, {messages} messages, {kept_files} kept log files, {damages} damaged disks, nothing wrong",
        seed - first
    ));
    ExitCode::SUCCESS
}

fn failed(seed: u64, kind: usize, why: &str) -> ExitCode {
    say(&format!("seed {seed} fails: {why}\nagain: cargo xtask sim --seed {seed} --kind {kind} --tell"));
    ExitCode::FAILURE
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
