//! The calling end of the control socket, blocking. Refuses to know what commands mean.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::ctl::protocol::{
    ANSWER_BYTES_MAX, Announced, Answer, DEFINITIONS_BYTES_MAX, DOCUMENT_BYTES_MIN, DocumentFollows, Request,
};

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
    /// The server at that address is no HTTP server.
    #[error("the server there does not speak HTTP: {0}")]
    NotHttp(&'static str),
    /// The server does not let the user run commands over HTTP; the reason is the server's.
    #[error("{reason}")]
    NotAllowed {
        /// The reason.
        why: NotAllowed,
        /// In the server's words.
        reason: String,
    },
    /// An HTTP server without this door: RabbitMQ, or an older version.
    #[error("it runs no commands over HTTP")]
    NoDoor,
    /// The HTTP server did not take the request.
    #[error("{reason} (status {status})")]
    Refused {
        /// Of HTTP.
        status: u16,
        /// In the server's words.
        reason: String,
    },
}

/// Why a user may not run commands over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAllowed {
    /// No such user, or another password.
    Login,
    /// The user may log in from the server's own machine only.
    FromElsewhere,
    /// The user lacks the tag.
    NoAdministrator,
}

/// Sends one command and waits for its answer, each read at most `timeout`; `None` waits for ever.
///
/// # Errors
/// [`CallError`]; a refusal by the server is an [`Answer`].
pub fn call(socket: &Path, request: &Request, timeout: Option<Duration>) -> Result<Answer, CallError> {
    let stream = UnixStream::connect(socket).map_err(CallError::Unreachable)?;
    let (mut line, document) = to_send(request).map_err(CallError::Garbled)?;
    line.push(b'\n');
    let mut reader = BufReader::new(&stream);
    let exchanged = stream
        .set_read_timeout(timeout)
        .and_then(|()| (&stream).write_all(&line))
        .and_then(|()| (&stream).write_all(document))
        .and_then(|()| read_line(&mut reader));
    let answer = exchanged.map_err(CallError::Interrupted)?;
    let Ok(DocumentFollows { document_bytes }) = serde_json::from_slice(&answer) else {
        return serde_json::from_slice(&answer).map_err(CallError::Garbled);
    };
    let ok = read_document(&mut reader, document_bytes).map_err(CallError::Interrupted)?;
    Ok(Answer::Done { ok })
}

/// The line to send, and what follows it.
fn to_send(request: &Request) -> Result<(Vec<u8>, &[u8]), serde_json::Error> {
    match request.args.split_last() {
        Some((document, args)) if document.len() >= DOCUMENT_BYTES_MIN => {
            let Request { command, options, .. } = request;
            let document_bytes = document.len() as u64;
            let line = serde_json::to_vec(&Announced { command, args, options, document_bytes })?;
            Ok((line, document.as_bytes()))
        }
        _ => Ok((serde_json::to_vec(request)?, &[])),
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(line),
        _ if line.len() as u64 == ANSWER_BYTES_MAX => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_document(reader: &mut impl BufRead, bytes: u64) -> io::Result<String> {
    if bytes > DEFINITIONS_BYTES_MAX as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    let read = reader.take(bytes).read_to_string(&mut text)?;
    if read as u64 == bytes { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
