//! Which server is meant, a folder on this machine or a URL, and what to tell a user whom it does not answer. Refuses to know
//! commands.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use management::{
    Answer, CallError, Exit, Failure, NODE_NAME, NodeNames, NotAllowed, OTHER_NODE, Request, SOCKET_NAME,
    ServerUrl, call, call_url, no_such_node,
};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::arguments::Arguments;
use crate::names::{NODE_VARIABLE, names_of_server, node_of_environment, shown_name};

/// The environment variable that names the server when the command line does not: a URL as for `--url`.
pub const URL_VARIABLE: &str = "WARREN_URL";
/// The option that names a node.
const NODE_OPTION: &str = "--node";
/// How long another node may take to say that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the terminal may be asked for a password that is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// It may.
    Allowed,
    /// Somebody is still typing.
    Never,
}

/// The server that a command is for.
#[derive(Clone, Debug)]
pub(super) enum Server {
    /// By the socket in its data directory.
    Here(PathBuf),
    /// By the socket of the server that is here, which has a node of this name in its cluster.
    Member(PathBuf, String),
    /// By its HTTP API.
    There(ServerUrl),
}

impl Server {
    /// The one that `--url` or `--data-dir` names, or else `WARREN_URL` or `WARREN_DATA_DIR`, or else the one that runs here.
    ///
    /// # Errors
    /// A text that is no URL, or no password.
    pub(super) fn meant(arguments: &Arguments, asking: Asking) -> Result<Self, Failure> {
        if arguments.url.is_some() && arguments.data_dir.is_some() {
            return Err(invalid("--url and --data-dir name two servers: give one of them"));
        }
        let from_environment = || {
            let text = std::env::var(URL_VARIABLE).ok()?;
            (arguments.data_dir.is_none() && !text.is_empty()).then_some((text, URL_VARIABLE))
        };
        let Some((text, from)) = arguments.url.clone().map(|text| (text, "--url")).or_else(from_environment)
        else {
            let (node, from) = node_meant(arguments);
            let folder = folder_meant(arguments.data_dir.clone());
            return match node.filter(|node| is_elsewhere(node, &names_of_server(&folder))) {
                // Perhaps the server of this machine is a member of its cluster.
                Some(node) => Self::member(folder.join(SOCKET_NAME), node, from, &arguments.request.command),
                None => Ok(Self::Here(folder.join(SOCKET_NAME))),
            };
        };
        let mut url = ServerUrl::parse(&text)
            .map_err(|error| invalid(&format!("{from} is no URL of a server: {error}")))?;
        url.set_tls(arguments.tls.clone());
        if let Some(file) = &arguments.password_file {
            url.set_password(first_line(file)?);
        } else if url.lacks_password() {
            url.set_password(ask(&url, asking)?);
        }
        Ok(Self::There(url))
    }

    /// A node of another machine that the server of this one has in its cluster.
    fn member(socket: PathBuf, node: String, from: &str, command: &str) -> Result<Self, Failure> {
        let missing = no_such_node(&node, from, command);
        if from != NODE_OPTION {
            return Err(missing);
        }
        let member = Self::Member(socket, node);
        let ping = Request { command: "ping".into(), ..Request::default() };
        match member.call(&ping, PING_TIMEOUT) {
            // It is a member that does not run, or none.
            Ok(Answer::Failed(failure)) if failure.exit == Exit::NOT_NOW => Err(failure),
            Ok(Answer::Failed(_)) | Err(_) => Err(missing),
            Ok(_) => Ok(member),
        }
    }

    /// Asks it, each read at most `timeout`.
    ///
    /// # Errors
    /// As [`call`] and [`call_url`].
    pub(super) fn call(&self, request: &Request, timeout: Duration) -> Result<Answer, CallError> {
        match self {
            Self::Here(socket) => call(socket, request, Some(timeout)),
            Self::Member(socket, node) => {
                let mut request = request.clone();
                request.options.insert(OTHER_NODE.to_owned(), node.clone());
                call(socket, &request, Some(timeout))
            }
            Self::There(url) => call_url(url, request, Some(timeout)),
        }
    }

    /// The text to print when it did not answer.
    pub(super) fn unanswered(&self, command: &str, error: &CallError, timeout: Duration) -> Failure {
        match (self, error) {
            (_, CallError::Interrupted(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                timed_out(command, timeout)
            }
            (Self::There(url), _) => elsewhere(url, error),
            (Self::Member(..), _) => Failure::new(Exit::SOFTWARE, format!("Error:\n{error}")),
            (Self::Here(_), _) if command == "ping" => {
                let milliseconds = timeout.as_millis();
                let text =
                    format!("Error:\nFailed to connect and authenticate to {NODE_NAME} in {milliseconds} ms");
                Failure::new(Exit::UNAVAILABLE, text)
            }
            (Self::Here(socket), CallError::Unreachable(_) | CallError::Interrupted(_)) => {
                here(socket, error)
            }
            (Self::Here(_), _) => Failure::new(Exit::SOFTWARE, format!("Error:\n{error}")),
        }
    }
}

/// From now on texts have the name of the node that is meant, if it is one of this machine.
pub(super) fn learn_name(arguments: &Arguments) {
    if arguments.url.is_none() && (arguments.data_dir.is_some() || std::env::var_os(URL_VARIABLE).is_none()) {
        management::set_node_name(&shown_name(&folder_meant(arguments.data_dir.clone())));
    }
}

/// No answer in time, in RabbitMQ's words.
pub(super) fn timed_out(command: &str, timeout: Duration) -> Failure {
    let milliseconds = timeout.as_millis();
    let text = format!(
        "Error: operation {command} on node {NODE_NAME} timed out. Timeout value used: {milliseconds}"
    );
    Failure::new(Exit::NOT_NOW, text)
}

fn invalid(problem: &str) -> Failure {
    Failure::new(Exit::USAGE, format!("Error: {problem}"))
}

fn folder_meant(folder: Option<PathBuf>) -> PathBuf {
    let folder = folder.or_else(|| std::env::var_os("WARREN_DATA_DIR").map(PathBuf::from));
    folder.unwrap_or_else(|| unnamed_folder(Path::is_dir))
}

/// The server's folder when nobody says which: that of a server started by hand here, or else that of the packages' service.
fn unnamed_folder(is_there: impl Fn(&Path) -> bool) -> PathBuf {
    let [here, service] = ["warren-data", "/var/lib/warren"].map(Path::new);
    if !is_there(here) && is_there(service) { service.into() } else { here.into() }
}

fn first_line(file: &Path) -> Result<String, Failure> {
    let read = fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::DATA, format!("Error:\nFailed to read {}: {error}", file.display()))
    })?;
    Ok(read.lines().next().unwrap_or_default().to_owned())
}

/// Asks the user at the terminal, even when standard input is something else, and shows nothing of what is typed.
fn ask(url: &ServerUrl, asking: Asking) -> Result<String, Failure> {
    let asked = match asking {
        Asking::Allowed => hidden_line(&format!("Password of {} at {url}: ", url.user())),
        Asking::Never => Err(ErrorKind::Unsupported.into()),
    };
    asked.map_err(|_| {
        let text = format!(
            "no password for {} at {url} and no terminal to ask for one: use --password-file FILE, or \
             {URL_VARIABLE}=http://USER:PASSWORD@HOST:PORT in the environment",
            url.user()
        );
        invalid(&text)
    })
}

fn hidden_line(question: &str) -> std::io::Result<String> {
    let mut terminal = fs::File::options().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(question.as_bytes())?;
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    tcsetattr(&terminal, OptionalActions::Now, &shown)?;
    terminal.write_all(b"\n")?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).into())
}

fn here(socket: &Path, error: &CallError) -> Failure {
    let text = format!(
        "Error: unable to perform an operation on node '{NODE_NAME}'. Please see diagnostics information and \
         suggestions below.\n\n\
         * tried the socket {}: {error}\n\
         * is the server running? `warren server` makes this socket in its data directory when it is ready\n\
         * is this its data directory? --data-dir or WARREN_DATA_DIR says which one is meant\n\
         * is this user the one who runs the server? nobody else may open the socket\n\
         * is it on another machine? --url http://USER@HOST:15672 reaches it over HTTP",
        socket.display()
    );
    Failure::new(Exit::UNAVAILABLE, text)
}

/// The name of the node that is asked for, if one is, and where it comes from: as with RabbitMQ's tools `-n`, or else the environment,
/// which says less than a folder on the command line.
fn node_meant(arguments: &Arguments) -> (Option<String>, &'static str) {
    if let Some(node) = arguments.request.options.get("node") {
        return (Some(node.clone()), NODE_OPTION);
    }
    (node_of_environment().filter(|_| arguments.data_dir.is_none()), NODE_VARIABLE)
}

/// Whether the name of a node, such as `rabbit@mq1`, has another host than this one in it, and is not what the server was told.
fn is_elsewhere(node: &str, here: &NodeNames) -> bool {
    here.given.as_deref() != Some(node) && node.split_once('@').is_some_and(|(_, host)| !here.is_here(host))
}

/// One line that says what to do.
fn elsewhere(url: &ServerUrl, error: &CallError) -> Failure {
    let user = url.user();
    let (exit, text) = match error {
        CallError::NotAllowed { why: NotAllowed::Login, .. } => (
            Exit::NO_PERMISSION,
            format!(
                "{url} knows no user '{user}' with this password: check both, or set one there with change_password"
            ),
        ),
        CallError::NotAllowed { why: NotAllowed::FromElsewhere, .. } => (
            Exit::NO_PERMISSION,
            format!(
                "user '{user}' may log in from the server's own machine only: make another there with add_user and \
                 set_user_tags NAME administrator"
            ),
        ),
        CallError::NotAllowed { why: NotAllowed::NoAdministrator, .. } => (
            Exit::NO_PERMISSION,
            format!(
                "user '{user}' is no administrator of {url}: log in as one, or there run set_user_tags {user} administrator"
            ),
        ),
        CallError::NoDoor => (
            Exit::UNAVAILABLE,
            format!(
                "{url} runs no commands over HTTP: it is RabbitMQ, an older Warren or another path; use rabbitmqadmin, or \
                 ctl on its own machine"
            ),
        ),
        CallError::Unreachable(error) => (
            Exit::UNAVAILABLE,
            format!(
                "cannot reach {url}: {error}; is this the host, does the server run there, and does its HTTP API listen \
                 on more than 127.0.0.1 (management.tcp.ip)?"
            ),
        ),
        CallError::NotHttp(_) | CallError::Garbled(_) => (
            Exit::SOFTWARE,
            format!("{url} does not answer as Warren's HTTP API, which is on port 15672 by default: {error}"),
        ),
        CallError::Refused { .. } | CallError::Interrupted(_) => {
            (Exit::UNAVAILABLE, format!("{url} did not do it: {error}"))
        }
    };
    Failure::new(exit, format!("Error: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_elsewhere_is_told_from_names_of_this_one() {
        let here = NodeNames { host: "mq1.internal".into(), given: None };
        for name in ["rabbit", "warren@localhost", "rabbit@mq1", "x@MQ1.example.org", "rabbit@127.0.0.1"] {
            assert!(!is_elsewhere(name, &here), "{name}");
        }
        for name in ["rabbit@mq2", "rabbit@mq1x.internal", "rabbit@"] {
            assert!(is_elsewhere(name, &here), "{name}");
        }
        let told = NodeNames { given: Some("rabbit@mq2".into()), ..here };
        assert!(!is_elsewhere("rabbit@mq2", &told) && is_elsewhere("rabbit@mq3", &told));
    }

    #[test]
    fn a_folder_here_is_meant_before_that_of_the_service() {
        let among =
            |there: &'static [&str]| unnamed_folder(|path| there.iter().any(|is| path == Path::new(is)));
        assert_eq!(among(&["warren-data", "/var/lib/warren"]), Path::new("warren-data"));
        assert_eq!(among(&["/var/lib/warren"]), Path::new("/var/lib/warren"));
        assert_eq!(among(&[]), Path::new("warren-data"));
    }

    #[test]
    fn refusals_over_http_are_one_line_and_name_no_password() {
        let url = ServerUrl::parse("http://ops:secret@host").unwrap();
        let not_allowed = |why| CallError::NotAllowed { why, reason: "r".into() };
        for error in [
            not_allowed(NotAllowed::Login),
            not_allowed(NotAllowed::FromElsewhere),
            not_allowed(NotAllowed::NoAdministrator),
            CallError::NoDoor,
            CallError::Unreachable(ErrorKind::ConnectionRefused.into()),
            CallError::NotHttp("no status line"),
            CallError::Refused { status: 400, reason: "too large".into() },
        ] {
            let failure = Server::There(url.clone()).unanswered("ping", &error, Duration::ZERO);
            assert!(!failure.error.contains("secret") && !failure.error.contains('\n'), "{}", failure.error);
            assert_ne!(failure.exit, 0);
        }
    }

    #[test]
    fn a_password_file_holds_it_in_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        fs::write(&file, "a b:c \nmore\n").unwrap();
        assert_eq!(first_line(&file).unwrap(), "a b:c ");
        assert_eq!(first_line(&folder.path().join("none")).unwrap_err().exit, Exit::DATA);
    }
}
