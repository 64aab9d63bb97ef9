//! Commands that wait for a server to come or to go. Refuses to know what else it answers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use management::{Answer, Request, call};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How long to wait when nothing else is asked for: RabbitMQ's five minutes.
pub(super) const DEFAULT: Duration = Duration::from_secs(300);

/// Whether this command waits for the server to answer.
pub(super) fn waits_for_start(command: &str) -> bool {
    matches!(command, "await_startup" | "wait" | "await_online_nodes")
}

/// Waits until the server answers; `false` when it did not in time.
pub(super) fn for_start(socket: &Path, timeout: Option<Duration>) -> bool {
    let ping = Request { command: "ping".into(), ..Request::default() };
    until(timeout, || call(socket, &ping, Some(Duration::from_secs(1))).is_ok())
}

/// The process of the server, by its own word.
pub(super) fn process(socket: &Path) -> Option<u64> {
    let status = Request { command: "status".into(), ..Request::default() };
    match call(socket, &status, Some(Duration::from_secs(10))) {
        Ok(Answer::Facts { json, .. }) => json.get("pid")?.as_u64(),
        _ => None,
    }
}

/// Waits until a process has gone; `false` when it did not in time.
pub(super) fn for_end(process: u64, timeout: Option<Duration>) -> bool {
    let there = PathBuf::from(format!("/proc/{process}"));
    until(timeout, || !there.exists())
}

fn until(timeout: Option<Duration>, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout.unwrap_or(DEFAULT);
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}
