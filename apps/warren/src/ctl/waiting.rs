//! Commands that wait for a server to come or to go. Refuses to know what else it answers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use management::{Answer, CallError, Request};

use super::server::Server;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// How long to wait when nothing else is asked for: RabbitMQ's five minutes.
pub(super) const DEFAULT: Duration = Duration::from_secs(300);

/// Whether this command waits for the server to answer.
pub(super) fn waits_for_start(command: &str) -> bool {
    matches!(command, "await_startup" | "wait" | "await_online_nodes")
}

/// Waits until the server answers; an error is none in time, or an answer that waiting will not change.
pub(super) fn for_start(server: &Server, timeout: Duration) -> Result<(), Option<CallError>> {
    let ping = Request { command: "ping".into(), ..Request::default() };
    let mut last = None;
    let answered = until(timeout, || match server.call(&ping, ATTEMPT) {
        Ok(_) => true,
        Err(CallError::Unreachable(_) | CallError::Interrupted(_) | CallError::NotHttp(_)) => false,
        Err(error) => {
            last = Some(error);
            true
        }
    });
    match last {
        None if answered => Ok(()),
        error => Err(error),
    }
}

/// How to see that a server has ended.
pub(super) enum Gone {
    /// Its process is not there any more.
    Process(u64),
    /// Nobody answers there any more.
    Silence(Server),
}

impl Gone {
    /// Before a server is asked to end; `None` when it does not say which process it is.
    pub(super) fn of(server: &Server) -> Option<Self> {
        if matches!(server, Server::There(_)) {
            return Some(Self::Silence(server.clone()));
        }
        let status = Request { command: "status".into(), ..Request::default() };
        match server.call(&status, Duration::from_secs(10)) {
            Ok(Answer::Facts { json, .. }) => json.get("pid")?.as_u64().map(Self::Process),
            _ => None,
        }
    }

    /// Waits until it has ended; `false` when it did not in time.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        match self {
            Self::Process(process) => {
                let there = PathBuf::from(format!("/proc/{process}"));
                until(timeout, || !there.exists())
            }
            Self::Silence(server) => {
                let ping = Request { command: "ping".into(), ..Request::default() };
                until(timeout, || matches!(server.call(&ping, ATTEMPT), Err(CallError::Unreachable(_))))
            }
        }
    }
}

fn until(timeout: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
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
