//! The test that restarts the broker: many queues, a backlog, a clean stop, and a kill.

use super::contender::Contender;
use super::process::output_of;
use anyhow::Result;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Messages in the backlog.
const BACKLOG: &str = "200000";
/// How long declaring and filling may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Declares as `declaration` says, fills a queue, restarts the broker twice; gives how long each step took, in seconds.
///
/// # Errors
/// Something of that fails.
pub(crate) fn measure(
    perf: &Path,
    contender: &mut Contender,
    declaration: &[String],
) -> Result<Vec<(String, f64)>> {
    let began = std::time::Instant::now();
    load(perf, contender, declaration)?;
    let declared = began.elapsed();
    let fill = [
        "-e",
        "warren-bench",
        "-u",
        "warren-bench-restart-backlog",
        "-ad",
        "false",
        "-y",
        "0",
        "-f",
        "persistent",
    ];
    let fill: Vec<String> =
        fill.into_iter().chain(["-c", "3000", "-C", BACKLOG]).map(str::to_owned).collect();
    load(perf, contender, &fill)?;
    let (stopped, started) = contender.restart(Signal::TERM)?;
    let (_, recovered) = contender.restart(Signal::KILL)?;
    let seconds = [
        ("declare and bind the queues, s", declared),
        ("clean stop, s", stopped),
        ("start after it, until clients are accepted, s", started),
        ("start after kill -9, s", recovered),
    ];
    Ok(seconds.into_iter().map(|(name, time)| (name.to_owned(), time.as_secs_f64())).collect())
}

fn load(perf: &Path, contender: &Contender, arguments: &[String]) -> Result<()> {
    let mut command = Command::new(perf);
    command.args(["perf", "-h", &contender.uri, "-dcr", "--quiet"]).args(arguments);
    output_of(&mut command, LIMIT).map(drop)
}
