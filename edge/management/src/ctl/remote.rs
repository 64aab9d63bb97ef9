//! The calling end of `POST /api/ctl`, blocking: one request over HTTP/1.1. Refuses to know what commands mean.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tls::{ClientOptions, ClientStream, Verify};

use crate::ctl::client::{CallError, NotAllowed};
use crate::ctl::protocol::{Answer, DEFINITIONS_BYTES_MAX, Request};

/// Port of the HTTP API when a URL names none.
const PORT: u16 = 15672;

/// The same of `https`.
const TLS_PORT: u16 = 15671;

/// Longest attempt to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest head of an answer, bytes.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Largest answer, bytes: the largest document, each byte of it escaped.
const BODY_BYTES_MAX: u64 = 2 * DEFINITIONS_BYTES_MAX as u64;

/// From this length on, bytes, the server says that it wants the body before it is sent.
const BODY_BYTES_ASKED: usize = 64 << 10;

/// Why a text is no URL of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme than `http` and `https`, or none.
    #[error("it begins with http:// or https://, as in http://USER@HOST:15672")]
    Scheme,
    /// No host, or letters that no host has.
    #[error("there is no host in it, as in http://USER@HOST:15672")]
    Host,
    /// No number, or one above 65535.
    #[error("the port is no number from 1 to 65535")]
    Port,
    /// A query, a fragment or letters that must be written as %XX.
    #[error("a letter in it must be written as %XX, or does not belong there")]
    Letter,
}

/// The address of a server's HTTP API, and the user. Its text leaves the password out.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    host: String,
    port: u16,
    /// The prefix before `/api`, without a slash at its end.
    path: String,
    user: String,
    password: Option<String>,
    /// How the connection is encrypted; `None` if it is not.
    tls: Option<Box<ClientOptions>>,
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme(), self.place(), self.path)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl ServerUrl {
    /// `http://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]`. Without a user it is `guest` with the password `guest`, without a port
    /// 15672. `https` is encrypted, has port 15671, and the server's certificate is checked with the system's authorities.
    ///
    /// # Errors
    /// [`UrlError`]
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (rest, None),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => {
                (rest, Some(Box::new(ClientOptions { verify: Verify::Peer, ..ClientOptions::default() })))
            }
            _ => return Err(UrlError::Scheme),
        };
        let (rest, tls) = rest;
        if rest
            .contains(|letter: char| letter.is_whitespace() || letter.is_control() || "?#".contains(letter))
        {
            return Err(UrlError::Letter);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (decoded(user)?, Some(decoded(password)?)),
            None if login.is_empty() => ("guest".into(), Some("guest".into())),
            None => (decoded(login)?, None),
        };
        let (host, port) = host_and_port(place, if tls.is_some() { TLS_PORT } else { PORT })?;
        Ok(Self { host, port, path: path.trim_end_matches('/').into(), user, password, tls })
    }

    /// The user who asks.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether the URL names a user and no password.
    #[must_use]
    pub fn lacks_password(&self) -> bool {
        self.password.is_none()
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Says how an encrypted connection is made; of no effect where it is not encrypted.
    pub fn set_tls(&mut self, options: ClientOptions) {
        if self.tls.is_some() {
            self.tls = Some(Box::new(options));
        }
    }

    /// Asks with this password.
    pub fn set_password(&mut self, password: String) {
        self.password = Some(password);
    }

    /// Host and port, as they stand in URLs.
    fn place(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn host_and_port(place: &str, default_port: u16) -> Result<(String, u16), UrlError> {
    let (host, rest) = match place.strip_prefix('[') {
        Some(inner) => inner.split_once(']').ok_or(UrlError::Host)?,
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => digits.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)?,
        None if rest.is_empty() => default_port,
        None => return Err(UrlError::Host),
    };
    if host.is_empty() { Err(UrlError::Host) } else { Ok((host.into(), port)) }
}

/// `%XX` as the byte it stands for.
fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(UrlError::Letter)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| UrlError::Letter)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| UrlError::Letter)
}

/// Sends one command over HTTP and waits for its answer, each read at most `timeout`; `None` waits for ever.
///
/// # Errors
/// [`CallError`]; a command that fails is an [`Answer`].
pub fn call_url(url: &ServerUrl, request: &Request, timeout: Option<Duration>) -> Result<Answer, CallError> {
    let body = serde_json::to_vec(request).map_err(CallError::Garbled)?;
    let stream = connect(url, timeout).map_err(CallError::Unreachable)?;
    let mut reader = BufReader::new(stream);
    let (status, answer) = exchange(url, &mut reader, &body)?;
    if status == 200 {
        return serde_json::from_slice(&answer).map_err(CallError::Garbled);
    }
    match serde_json::from_slice(&answer) {
        Ok(failed @ Answer::Failed(_)) => Ok(failed),
        _ => Err(refused(status, &answer)),
    }
}

fn connect(url: &ServerUrl, timeout: Option<Duration>) -> io::Result<Stream> {
    let wait = timeout.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, wait) {
            Ok(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_nodelay(true)?;
                let Some(options) = &url.tls else { return Ok(Stream::Plain(stream)) };
                let config = tls::client_config(options).map_err(io::Error::other)?;
                return Ok(Stream::Encrypted(Box::new(tls::connect(config, &url.host, stream)?)));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection to a server, encrypted or not.
enum Stream {
    Plain(TcpStream),
    Encrypted(Box<ClientStream<TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}

/// Status and body of the answer. A large body is sent when the server has asked for it: it may refuse the user first.
fn exchange(
    url: &ServerUrl,
    reader: &mut BufReader<Stream>,
    body: &[u8],
) -> Result<(u16, Vec<u8>), CallError> {
    let login = STANDARD.encode(format!("{}:{}", url.user, url.password.as_deref().unwrap_or_default()));
    let asked = body.len() >= BODY_BYTES_ASKED;
    let head = format!(
        "POST {}/api/ctl HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {login}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n{}\r\n",
        url.path,
        url.place(),
        body.len(),
        if asked { "Expect: 100-continue\r\n" } else { "" },
    );
    reader.get_mut().write_all(head.as_bytes()).map_err(CallError::Interrupted)?;
    let mut answered = None;
    if asked {
        answered = Some(Head::read(reader)?).filter(|head| head.status != 100);
    }
    let head = match answered {
        Some(head) => head,
        None => {
            reader.get_mut().write_all(body).map_err(CallError::Interrupted)?;
            reader.get_mut().flush().map_err(CallError::Interrupted)?;
            Head::read(reader)?
        }
    };
    let body = head.body(reader).map_err(CallError::Interrupted)?;
    Ok((head.status, body))
}

/// The meaning of the server's refusal for somebody at a terminal.
fn refused(status: u16, body: &[u8]) -> CallError {
    let said = serde_json::from_slice::<Value>(body).ok();
    let reason = match said.as_ref().and_then(|said| said.get("reason")) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "no reason given".into(),
    };
    let not_allowed = |why| CallError::NotAllowed { why, reason: reason.clone() };
    match status {
        401 if reason.contains("via localhost") => not_allowed(NotAllowed::FromElsewhere),
        401 | 403 if reason.ends_with(" user") => not_allowed(NotAllowed::NoAdministrator),
        401 | 403 => not_allowed(NotAllowed::Login),
        404 | 405 => CallError::NoDoor,
        _ => CallError::Refused { status, reason },
    }
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunks,
    UntilTheEnd,
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Length,
}

impl Head {
    fn read(reader: &mut impl BufRead) -> Result<Self, CallError> {
        let mut reading = reader.take(HEAD_BYTES_MAX);
        let first = line(&mut reading).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CallError::NotHttp("the connection ended without an answer"),
            _ => CallError::Interrupted(error),
        })?;
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        let Some(status) = status else { return Err(CallError::NotHttp("no status line")) };
        let mut length = Length::UntilTheEnd;
        loop {
            let header = line(&mut reading).map_err(CallError::Interrupted)?;
            if header.is_empty() {
                return Ok(Self { status, length });
            }
            let Some((name, value)) = header.split_once(':') else {
                return Err(CallError::NotHttp("a header without a colon"));
            };
            match name.to_ascii_lowercase().as_str() {
                "transfer-encoding" => length = Length::Chunks,
                "content-length" => {
                    let bytes =
                        value.trim().parse().map_err(|_| CallError::NotHttp("a length that is no number"))?;
                    length = Length::Bytes(bytes);
                }
                _ => {}
            }
        }
    }

    fn body(&self, reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        match self.length {
            Length::Chunks => chunks(reader, &mut body)?,
            Length::Bytes(bytes) => piece(reader, bytes, &mut body)?,
            Length::UntilTheEnd => {
                reader.take(BODY_BYTES_MAX).read_to_end(&mut body)?;
            }
        }
        Ok(body)
    }
}

/// A line without its end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Exactly that many bytes, within the bound of a body.
fn piece(reader: &mut impl BufRead, bytes: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if bytes > BODY_BYTES_MAX - body.len() as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let read = reader.take(bytes).read_to_end(body)?;
    if read as u64 == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = line(&mut reader.take(HEAD_BYTES_MAX))?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let bytes =
            u64::from_str_radix(digits, 16).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if bytes == 0 {
            return Ok(());
        }
        piece(reader, bytes, body)?;
        line(&mut reader.take(HEAD_BYTES_MAX))?;
    }
}

#[cfg(test)]
mod tests;
