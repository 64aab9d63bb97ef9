//! A broker that is measured: a Warren of our own, or one that runs already.

use super::process::{listener_on, wait};
use crate::load::{Uri, encrypted_if_asked};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tls::Verify;
use wire::amqp091::{Method, PROTOCOL_HEADER, Parsed, Value, parse_frame};

/// How long a broker may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a peer may take to greet.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// A broker that runs.
#[derive(Debug)]
pub(crate) struct Contender {
    /// Address for clients, as `warren perf` takes it.
    pub(crate) uri: String,
    /// Its process, if it is on this machine and may be looked at.
    pub(crate) pid: Option<u32>,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    child: Child,
    program: PathBuf,
    data: PathBuf,
}

impl Contender {
    /// Starts a Warren on a free port with an empty folder.
    ///
    /// # Errors
    /// It does not start; the text is the first line that it said.
    pub(crate) fn start(program: &Path, data: &Path) -> Result<Self> {
        if data.exists() {
            std::fs::remove_dir_all(data).with_context(|| format!("cannot empty {}", data.display()))?;
        }
        // One that does not start leaves nothing either.
        Self::start_on(program, data).inspect_err(|_| drop(std::fs::remove_dir_all(data)))
    }

    /// Starts a Warren on a free port with this folder.
    fn start_on(program: &Path, data: &Path) -> Result<Self> {
        let log = data.with_extension("log");
        let errors = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::new(program)
            .args(["server", "--listen", "127.0.0.1:0", "--log", "error", "--data-dir"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0) // Ctrl-C is for the suite, which stops it when it is done with it
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let out = child.stdout.take().context("a pipe was asked for")?;
        let address = BufReader::new(out).lines().map_while(Result::ok).find_map(|line| {
            let rest = line.strip_prefix("ready ")?;
            rest.split_whitespace().find_map(|word| word.strip_prefix("amqp=").map(str::to_owned))
        });
        let Some(address) = address else {
            child.kill()?;
            child.wait()?;
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let first = said.lines().next().unwrap_or("it said nothing");
            // Its line is told; nothing is left behind.
            let _ = std::fs::remove_file(&log);
            bail!("{} server does not start: {first}", program.display());
        };
        let (pid, uri) = (Some(child.id()), format!("amqp://{address}"));
        let own = Some(Own { child, program: program.to_owned(), data: data.to_owned() });
        Ok(Self { uri, pid, own })
    }

    /// A broker that runs already.
    pub(crate) fn peer(uri: &Uri) -> Self {
        let local = is_loopback(uri).unwrap_or(false);
        let pid = if local { listener_on(uri.port) } else { None };
        Self { uri: uri.text(), pid, own: None }
    }

    /// Its folder, if it is our own.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.data.as_path())
    }

    /// The program, if it is our own.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.program.as_path())
    }

    /// Stops our own broker with this signal and starts it again on the same folder; says how long both took.
    ///
    /// # Errors
    /// It is not ours, does not end, or does not start.
    pub(crate) fn restart(&mut self, signal: Signal) -> Result<(Duration, Duration)> {
        let mut own = self.own.take().context("a broker that is not ours is not restarted")?;
        let began = Instant::now();
        end(&mut own.child, signal)?;
        let stopped = began.elapsed();
        let began = Instant::now();
        let again = Self::start_on(&own.program, &own.data);
        *self = again.inspect_err(|_| drop(std::fs::remove_dir_all(&own.data)))?;
        Ok((stopped, began.elapsed()))
    }
}

/// Ends our own broker and deletes its folder; a peer is left alone.
impl Drop for Contender {
    fn drop(&mut self) {
        if let Some(mut own) = self.own.take() {
            if end(&mut own.child, Signal::TERM).is_err() {
                // It is past listening; nothing better is left.
                let _ = own.child.kill();
                let _ = own.child.wait();
            }
            let _ = std::fs::remove_dir_all(&own.data);
            let _ = std::fs::remove_file(own.data.with_extension("log"));
        }
    }
}

fn end(child: &mut Child, signal: Signal) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id is positive")?;
    kill_process(pid, signal)?;
    ensure!(wait(child, PATIENCE)?.is_some(), "it did not stop in {} seconds", PATIENCE.as_secs());
    Ok(())
}

/// Whether all addresses of a broker are of this machine.
///
/// # Errors
/// The name cannot be resolved.
pub(crate) fn is_loopback(uri: &Uri) -> Result<bool> {
    let mut addresses = (uri.host.as_str(), uri.port)
        .to_socket_addrs()
        .with_context(|| format!("cannot find {}", uri.host))?;
    Ok(addresses.all(|address| address.ip().is_loopback()))
}

/// The name that a broker gives itself, such as `RabbitMQ 4.3.6` or `Warren 0.1.0`.
///
/// # Errors
/// It cannot be reached, or does not greet as AMQP 0-9-1 brokers do.
pub(crate) fn name_of(uri: &Uri) -> Result<String> {
    let place = format!("{}:{}", uri.host, uri.port);
    let reach = || -> Result<Vec<u8>> {
        let stream = TcpStream::connect((uri.host.as_str(), uri.port))?;
        let mut stream = encrypted_if_asked(stream, uri, Verify::None)?;
        stream.socket().set_read_timeout(Some(GREETING_TIMEOUT))?;
        stream.write_all(&PROTOCOL_HEADER)?;
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        while let Parsed::Incomplete { .. } = parse_frame(&bytes, 1 << 20)? {
            let count = stream.read(&mut buffer)?;
            ensure!(count > 0, "it ended the connection");
            bytes.extend_from_slice(&buffer[..count]);
        }
        Ok(bytes)
    };
    let bytes = reach().with_context(|| format!("no AMQP 0-9-1 broker at {place}"))?;
    let Parsed::Complete { frame, .. } = parse_frame(&bytes, 1 << 20)? else {
        bail!("a frame was there and is gone")
    };
    let Method::ConnectionStart(start) = Method::decode(frame.payload)? else {
        bail!("{place} does not greet")
    };
    let text = |name| match start.server_properties.get(name) {
        Some(Value::LongStr(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    };
    let name = own_name(&text("information"), &text("product"), &text("version"));
    Ok(if name.is_empty() { place } else { name })
}

/// Warren has RabbitMQ's product and version, because clients look at them, and tells who it is in `information`.
fn own_name(information: &str, product: &str, version: &str) -> String {
    match information.split_once(". ") {
        Some((warren, _)) if warren.starts_with("Warren ") => warren.to_owned(),
        _ => format!("{product} {version}").trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_a_warren_is_not_called_rabbitmq() {
        let licensed = "Warren 0.1.0. Licensed under the Apache License 2.0";
        assert_eq!(own_name(licensed, "RabbitMQ", "4.3.6"), "Warren 0.1.0");
        assert_eq!(own_name("Licensed under the MPL 2.0. See", "RabbitMQ", "4.3.6"), "RabbitMQ 4.3.6");
        assert_eq!(own_name("", "", ""), "");
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        let is = |text: &str| is_loopback(&text.parse().unwrap()).unwrap();
        assert!(is("amqp://127.0.0.1:1") && is("amqp://[::1]:1") && is("amqp://127.9.9.9"));
        assert!(!is("amqp://192.0.2.1") && !is("amqp://0.0.0.0"));
    }

    #[test]
    fn a_program_that_does_not_start_is_named() {
        let data = std::env::temp_dir().join(format!("warren-bench-none-{}", std::process::id()));
        let error = Contender::start(Path::new("/bin/false"), &data).unwrap_err().to_string();
        assert!(error.contains("/bin/false"), "{error}");
        assert!(!data.exists() && !data.with_extension("log").exists());
    }
}
