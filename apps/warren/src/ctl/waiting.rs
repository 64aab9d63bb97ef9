//! Commands that wait for a server to come or to go. Refuses to know what else it answers.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use management::{Answer, CallError, Exit, Failure, NODE_NAME, Request};

use super::server::Server;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// How long to wait when nothing else is asked for: RabbitMQ's five minutes.
pub(super) const DEFAULT: Duration = Duration::from_secs(300);

/// As [`DEFAULT`], of [`FOR_QUORUM`].
pub(super) const DEFAULT_FOR_QUORUM: Duration = Duration::from_secs(120);

/// The command that waits until the node may stop.
pub(super) const FOR_QUORUM: &str = "await_online_quorum_plus_one";

/// Whether this command waits for the server to answer.
pub(super) fn waits_for_start(command: &str) -> bool {
    matches!(command, "await_startup" | "await_online_nodes")
}

/// The process whose server is waited for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// By the file that the server writes its number to.
    File(PathBuf),
    /// By its number.
    Process(u64),
}

impl Waited {
    /// The process that a command line names.
    ///
    /// # Errors
    /// Neither of both, or both, in RabbitMQ's words.
    pub(super) fn of(request: &Request) -> Result<Self, Failure> {
        let problem = match (request.args.first(), request.options.get("pid")) {
            (Some(file), None) => return Ok(Self::File(file.into())),
            (None, Some(number)) => return Ok(Self::Process(number.parse().unwrap_or(0))),
            (None, None) => "No pid or pidfile specified",
            (Some(_), Some(_)) => "Cannot specify both pid and pidfile",
        };
        Err(Failure::new(Exit::USAGE, format!("Error (argument validation): \"{problem}\"")))
    }

    /// Waits until the process runs and its server answers, telling each step in RabbitMQ's words; `None` is a timeout.
    ///
    /// # Errors
    /// No number in the file; the process has ended; an answer that waiting will not change.
    pub(super) fn wait(
        &self,
        server: &Server,
        timeout: Duration,
        mut tell: impl FnMut(String),
    ) -> Result<Option<()>, Failure> {
        let end = Instant::now() + timeout;
        let number = match self {
            Self::Process(number) => *number,
            Self::File(file) => {
                tell(format!("Waiting for pid file '{}' to appear", file.display()));
                let Some(number) = number_in(file, timeout)? else { return Ok(None) };
                tell(format!("pid is {number}"));
                number
            }
        };
        tell(format!(
            "Waiting for erlang distribution on node '{NODE_NAME}' while OS process '{number}' is running"
        ));
        loop {
            if !runs(number) {
                return Err(Failure::new(Exit::UNAVAILABLE, "Error:\nprocess_not_running"));
            }
            match for_start(server, ATTEMPT.min(end.saturating_duration_since(Instant::now()))) {
                Ok(()) => break,
                Err(None) if Instant::now() >= end => return Ok(None),
                Err(None) => {}
                Err(Some(error)) => return Err(server.unanswered("wait", &error, timeout)),
            }
        }
        tell(format!("Waiting for applications 'rabbit_and_plugins' to start on node '{NODE_NAME}'"));
        if !until(end.saturating_duration_since(Instant::now()), || says(server, "is_running")) {
            return Ok(None);
        }
        tell(format!("Applications 'rabbit_and_plugins' are running on node '{NODE_NAME}'"));
        Ok(Some(()))
    }
}

/// The number of a running process that a file holds or will hold; `None` when it does not in time.
fn number_in(file: &Path, timeout: Duration) -> Result<Option<u64>, Failure> {
    let mut found = Ok(None);
    until(timeout, || {
        // A file that is not there, or is about to be written.
        let Some(text) = beginning(file).filter(|text| !text.trim().is_empty()) else {
            return false;
        };
        found = match text.trim().parse() {
            Ok(number) => Ok(Some(number).filter(|number| runs(*number))),
            Err(_) => {
                let text = format!("Error:\n{{:garbage_in_pid_file, {:?}}}", file.display().to_string());
                Err(Failure::new(Exit::UNAVAILABLE, text))
            }
        };
        !matches!(found, Ok(None))
    });
    found
}

/// The first bytes of a file, more than any number has; `None` while they cannot be read. A special file may never end.
fn beginning(file: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(64).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Whether a process of this machine runs; one that has ended and that nobody has asked about yet does not.
fn runs(process: u64) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
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

/// Whether the node answers a question with yes.
fn says(server: &Server, question: &str) -> bool {
    let request = Request { command: question.into(), ..Request::default() };
    matches!(server.call(&request, ATTEMPT), Ok(Answer::Facts { json, .. }) if json["result"] == true)
}

/// Waits until the broker of a server that answers has started; false when it does not in time.
///
/// # Errors
/// It is stopped: nobody starts it.
pub(super) fn for_application(server: &Server, timeout: Duration) -> Result<bool, Failure> {
    let mut is_stopped = false;
    let is_over = until(timeout, || {
        // It may have started between the first two questions.
        is_stopped =
            !says(server, "is_running") && !says(server, "is_booting") && !says(server, "is_running");
        is_stopped || says(server, "is_running")
    });
    match is_stopped {
        true => Err(Failure::new(Exit::UNAVAILABLE, "Error:\nrabbit_is_not_running")),
        false => Ok(is_over),
    }
}

/// Waits until the server answers and counts so many nodes that run, itself included; errors as those of [`for_start`].
pub(super) fn for_nodes(server: &Server, count: u64, timeout: Duration) -> Result<(), Option<CallError>> {
    let end = Instant::now() + timeout;
    for_start(server, timeout)?;
    let status = Request { command: "cluster_status".into(), ..Request::default() };
    let are_there =
        until(end.saturating_duration_since(Instant::now()), || match server.call(&status, ATTEMPT) {
            Ok(Answer::Facts { json, .. }) => {
                json["running_nodes"].as_array().is_some_and(|nodes| nodes.len() as u64 >= count)
            }
            _ => false,
        });
    if are_there { Ok(()) } else { Err(None) }
}

/// Waits until the node may stop: all quorum queues, and the metadata, can do without it.
pub(super) fn for_quorum(server: &Server, request: &Request, timeout: Duration) {
    until(timeout, || !matches!(server.call(request, ATTEMPT), Ok(Answer::Failed(_))));
}

/// How to see that a server has ended.
pub(super) enum Gone {
    /// Its process is not there any more.
    Process(u64),
    /// Nobody answers there any more.
    Silence(Server),
}

impl Gone {
    /// The process that a file names, before it is asked to end; `None` when it names none.
    pub(super) fn named_by(file: &Path) -> Option<Self> {
        beginning(file)?.trim().parse().ok().map(Self::Process)
    }

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
            Self::Process(process) => until(timeout, || !runs(*process)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(args: &[&str], pid: Option<&str>) -> Request {
        let args = args.iter().map(|word| (*word).into()).collect();
        let options = pid.map(|pid| ("pid".into(), pid.into())).into_iter().collect();
        Request { command: "wait".into(), args, options }
    }

    #[test]
    fn a_file_or_a_process_is_waited_for_and_not_both() {
        assert_eq!(Waited::of(&request(&["/run/pid"], None)), Ok(Waited::File("/run/pid".into())));
        assert_eq!(Waited::of(&request(&[], Some("7"))), Ok(Waited::Process(7)));
        assert!(Waited::of(&request(&[], None)).is_err());
        assert!(Waited::of(&request(&["/run/pid"], Some("7"))).is_err());
    }

    #[test]
    fn the_number_in_a_file_is_that_of_a_process_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let own = u64::from(std::process::id());
        assert_eq!(number_in(&file, Duration::ZERO), Ok(None));
        for (text, found) in [("", Ok(None)), ("0\n", Ok(None)), (&format!("{own}\n"), Ok(Some(own)))] {
            fs::write(&file, text).unwrap();
            assert_eq!(number_in(&file, Duration::ZERO), found, "{text:?}");
        }
        fs::write(&file, "garbage").unwrap();
        assert!(number_in(&file, Duration::ZERO).unwrap_err().error.contains("garbage_in_pid_file"));
    }

    #[test]
    fn a_process_that_has_ended_is_not_waited_for() {
        let server = Server::Here("/nowhere/ctl.sock".into());
        let mut told = Vec::new();
        let waited = Waited::Process(0).wait(&server, DEFAULT, |line| told.push(line));
        assert_eq!(waited.unwrap_err().error, "Error:\nprocess_not_running");
        assert_eq!(told.len(), 1);
    }
}
