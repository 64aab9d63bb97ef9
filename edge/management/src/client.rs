//! The calling end of the control socket, blocking. Refuses to know what commands mean.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::protocol::{Answer, LINE_BYTES_MAX, Request};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No server listens there.
    #[error("cannot reach a server at the socket: {0}")]
    Unreachable(io::Error),
    /// The connection broke or timed out before the answer.
    #[error("no answer from the server: {0}")]
    Interrupted(io::Error),
    /// The answer is not one that this version understands.
    #[error("an answer that makes no sense: {0}")]
    Garbled(serde_json::Error),
}

/// Sends one command and waits for its answer, each read at most `timeout`; `None` waits for ever.
///
/// # Errors
/// [`CallError`]; a refusal by the server is an [`Answer`].
pub fn call(socket: &Path, request: &Request, timeout: Option<Duration>) -> Result<Answer, CallError> {
    let mut stream = UnixStream::connect(socket).map_err(CallError::Unreachable)?;
    let mut line = serde_json::to_vec(request).map_err(CallError::Garbled)?;
    line.push(b'\n');
    let exchanged = stream.set_read_timeout(timeout).and_then(|()| stream.write_all(&line)).and_then(|()| {
        let mut answer = Vec::new();
        BufReader::new((&stream).take(LINE_BYTES_MAX)).read_until(b'\n', &mut answer)?;
        if answer.last() == Some(&b'\n') { Ok(answer) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    });
    let answer = exchanged.map_err(CallError::Interrupted)?;
    serde_json::from_slice(&answer).map_err(CallError::Garbled)
}
