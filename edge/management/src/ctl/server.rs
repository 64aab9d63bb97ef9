//! The listening end of the control socket. Refuses to know what commands do.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::ctl::application::{self, Application};
use crate::ctl::everywhere;
use crate::ctl::protocol::{
    Answer, DEFINITIONS_BYTES_MAX, DOCUMENT_BYTES_MIN, DocumentFollows, Exit, Failure, LINE_BYTES_MAX,
    Received, Request,
};
use crate::ctl::table;

/// Name of the socket in the data directory.
pub const SOCKET_NAME: &str = "ctl.sock";

/// Commands that run at once; more wait in the listen queue.
const COMMANDS_MAX: usize = 16;

/// How long a client may take to send its line, and its document.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a failed accept, such as out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A control socket on which clients may connect already; they are answered by [`ControlSocket::serve`].
#[derive(Debug)]
pub struct ControlSocket(UnixListener);

impl ControlSocket {
    /// Makes a Unix socket, mode 0600. One that is there already is replaced; the lock of the data directory keeps two
    /// servers apart. Inside a runtime only.
    ///
    /// # Errors
    /// The socket cannot be made: no write permission, or a path longer than a socket address takes (107 bytes).
    pub fn bind(socket: &Path) -> io::Result<Self> {
        bind(socket).map(Self)
    }

    /// Answers commands until it is dropped, whether the broker runs or not. One that ends the process is told to
    /// [`Application::stop`] after its answer.
    ///
    /// # Errors
    /// None today; a failed accept is tried again.
    pub async fn serve(self, application: Arc<Application>) -> io::Result<()> {
        serve(self.0, application).await
    }
}

async fn serve(listener: UnixListener, application: Arc<Application>) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(COMMANDS_MAX));
    loop {
        let slot = slots.clone().acquire_owned().await.map_err(io::Error::other)?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the control socket could not accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let application = application.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream, &application).await {
                tracing::debug!(%error, "a control client went away");
            }
            drop(slot);
        });
    }
}

/// Binds inside a folder that only the owner may enter, so that nobody can connect before the mode is set.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let cradle = socket.with_extension("new");
    let inner = cradle.join("s");
    let _ = std::fs::remove_file(&inner);
    let _ = std::fs::remove_dir(&cradle);
    std::fs::DirBuilder::new().mode(0o700).create(&cradle)?;
    let listener = UnixListener::bind(&inner)?;
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&inner, socket)?;
    std::fs::remove_dir(&cradle)?;
    Ok(listener)
}

async fn serve_one(mut stream: UnixStream, application: &Application) -> io::Result<()> {
    let request = match read_request(&mut stream).await? {
        Ok(request) => request,
        Err(problem) => {
            let failure = Failure::new(Exit::USAGE, format!("Error: not a request: {problem}"));
            return answer(&mut stream, &Answer::Failed(failure)).await;
        }
    };
    let stopping = table::ends_the_server(&request);
    let reply = reply_to(request, application).await;
    let stopping = stopping && matches!(reply, Answer::Done { .. });
    answer(&mut stream, &reply).await?;
    if stopping {
        tracing::info!("stopping: asked by the control socket");
        application.stop().notify_one();
    }
    Ok(())
}

/// Orders go to the server, all other commands to the broker that runs.
async fn reply_to(request: Request, application: &Application) -> Answer {
    if let Some((_, node)) = application.running()
        && application::order_of(&request).is_some()
        && let Some(refused) = everywhere::run_there(&node, &request)
    {
        return refused;
    }
    if let Some(order) = application::order_of(&request) {
        let done = match order {
            Ok(order) => application.order(order).await,
            Err(failure) => Err(failure),
        };
        return done.unwrap_or_else(Answer::Failed);
    }
    let Some((broker, node)) = application.running() else { return application.run_stopped(&request) };
    let run = tokio::task::spawn_blocking(move || table::run(&broker, &node, &request));
    run.await.unwrap_or_else(|error| {
        if error.is_cancelled() {
            return Answer::Failed(Failure::new(Exit::UNAVAILABLE, "Error:\nThe node is stopping"));
        }
        tracing::error!(%error, "a control command has failed");
        Answer::Failed(Failure::new(Exit::SOFTWARE, "Error: the command has failed; see the server's log"))
    })
}

/// Reads a line and the document that may follow it; the inner error says what is wrong with the line.
async fn read_request(stream: &mut UnixStream) -> io::Result<Result<Request, String>> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream);
    let mut reading = (&mut reader).take(LINE_BYTES_MAX);
    tokio::time::timeout(READ_TIMEOUT, reading.read_until(b'\n', &mut line)).await??;
    let Received { mut request, document_bytes } = match serde_json::from_slice(&line) {
        Ok(received) => received,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if document_bytes > DEFINITIONS_BYTES_MAX as u64 {
        return Ok(Err(format!("a document of {document_bytes} bytes, at most {DEFINITIONS_BYTES_MAX}")));
    }
    if document_bytes > 0 {
        let mut document = String::new();
        let mut reading = (&mut reader).take(document_bytes);
        let read = tokio::time::timeout(READ_TIMEOUT, reading.read_to_string(&mut document)).await??;
        if read as u64 != document_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.args.push(document);
    }
    Ok(Ok(request))
}

async fn answer(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let document = match answer {
        Answer::Done { ok } if ok.len() >= DOCUMENT_BYTES_MIN => ok.as_bytes(),
        _ => &[],
    };
    let mut line = match document.len() as u64 {
        0 => serde_json::to_vec(answer)?,
        document_bytes => serde_json::to_vec(&DocumentFollows { document_bytes })?,
    };
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.write_all(document).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::client::{CallError, call};
    use broker::{Broker, BrokerOptions};

    fn request(line: &[&str]) -> Request {
        let mut words = line.iter().map(|word| (*word).to_owned());
        Request { command: words.next().unwrap(), args: words.collect(), ..Request::default() }
    }

    /// Serves until the commands are through; gives their answers. The last must be `stop`.
    fn answers(folder: &Path, commands: &[&[&str]]) -> Vec<Answer> {
        let broker = Broker::open(&folder.join("data"), BrokerOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let socket = folder.join(SOCKET_NAME);
        let requests: Vec<Request> = commands.iter().map(|line| request(line)).collect();
        let (application, _orders) = Application::new();
        application.opened(broker.clone(), crate::resources::node::tests::sample());
        let answers = runtime.block_on(async {
            let control = ControlSocket::bind(&socket).unwrap();
            let serving = tokio::spawn(control.serve(application.clone()));
            let calling = tokio::task::spawn_blocking(move || {
                requests.iter().map(|request| call(&socket, request, None).unwrap()).collect()
            });
            let answers = calling.await.unwrap();
            application.stop().notified().await;
            serving.abort();
            answers
        });
        broker.shutdown();
        answers
    }

    #[test]
    fn documents_larger_than_a_line_would_hold_well_go_both_ways() {
        let names: Vec<String> = (0..2000).map(|nth| format!("{nth}-{}", "x".repeat(100))).collect();
        let entry = |name| format!(r#"{{"name":"{name}","vhost":"/","durable":true,"auto_delete":false}}"#);
        let queues: Vec<String> = names.iter().map(entry).collect();
        let document = format!(r#"{{"queues":[{}]}}"#, queues.join(","));
        assert!(document.len() > 2 * crate::ctl::protocol::DOCUMENT_BYTES_MIN);
        let folder = tempfile::tempdir().unwrap();
        let commands: &[&[&str]] = &[&["import_definitions", &document], &["export_definitions"], &["stop"]];
        let answers = answers(folder.path(), commands);
        assert_eq!(exit(&answers[0]), 0, "{:?}", answers[0]);
        let Answer::Done { ok } = &answers[1] else { panic!("{:?}", answers[1]) };
        let exported: serde_json::Value = serde_json::from_str(ok).unwrap();
        let exported = exported["queues"].as_array().unwrap();
        assert_eq!(exported.len(), names.len());
        assert!(names.iter().all(|name| exported.iter().any(|queue| queue["name"] == **name)));
    }

    fn exit(answer: &Answer) -> u8 {
        if let Answer::Failed(failure) = answer { failure.exit } else { 0 }
    }

    #[test]
    fn commands_are_answered_with_rabbitmqs_codes_until_one_stops_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let commands: &[&[&str]] = &[
            &["add_user", "u", "pw"],
            &["add_user", "u", "pw"],
            &["set_permissions", "u", ".*", "", "("],
            &["set_permissions", "u", ".*", "", ".*"],
            &["set_permissions", "nobody", ".*", "", ".*"],
            &["authenticate_user", "u", "pw"],
            &["authenticate_user", "u", "wrong"],
            &["no_such_command"],
            &["add_user"],
            &["list_queues", "no_such_column"],
            &["delete_queue", "none"],
            &["stop"],
        ];
        let codes: Vec<u8> = answers(folder.path(), commands).iter().map(exit).collect();
        assert_eq!(codes, [0, 70, 69, 0, 67, 0, 65, 64, 64, 64, 64, 0]);
        let gone = call(&folder.path().join(SOCKET_NAME), &request(&["ping"]), None);
        assert!(matches!(gone, Err(CallError::Unreachable(_))));
    }

    #[test]
    fn only_the_owner_may_connect_and_an_old_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(SOCKET_NAME);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        drop(bind(&socket).unwrap());
        let _again = bind(&socket).unwrap();
        assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!folder.path().join("ctl.new").exists());
    }
}
