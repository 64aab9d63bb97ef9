//! The null broker's one thread: sockets, readiness, and holding publishers back while consumers are behind.
//!
//! Refuses to know the protocol.

use super::options::NullOptions;
use super::relay::Relay;
use super::session::{Session, Then};
use crate::io::{BUFFER_BYTES, Poller, Ready, Received, Socket, Stream, Want};
use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

/// Bytes per read, as many as a broker with many connections can afford.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes that may wait for room in one socket before publishers are held back.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// The listener's token; connections are numbered from 0.
const LISTENER: usize = usize::MAX / 2;
/// Nothing happens by time; this only bounds one wait.
const WAIT: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Connection {
    socket: Socket,
    session: Session,
    want: Want,
    /// Not read from until everybody has caught up.
    is_held: bool,
}

/// The null broker, listening.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    poller: Poller,
    connections: Vec<Option<Connection>>,
    relay: Relay,
    /// Connections that are behind.
    behind: usize,
    held: Vec<usize>,
    buffer: Vec<u8>,
    ready: Vec<Ready>,
}

/// Serves until the process is killed.
///
/// # Errors
/// The address cannot be listened on, or the system is out of file descriptors for readiness.
pub(crate) fn serve(options: &NullOptions) -> Result<ExitCode> {
    let mut server = Server::listen(options)?;
    let mut out = std::io::stdout();
    writeln!(out, "ready amqp={} data=none pid={}", server.address()?, std::process::id())?;
    out.flush()?;
    loop {
        server.turn()?;
    }
}

impl Server {
    /// Listens; nobody is served before the first [`Server::turn`].
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(crate) fn listen(options: &NullOptions) -> Result<Self> {
        let listener = TcpListener::bind(options.listen)
            .with_context(|| format!("cannot listen on {}", options.listen))?;
        listener.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Want::Read)?;
        let (relay, buffer) = (Relay::new(options.deliver), vec![0; BUFFER_BYTES]);
        let (connections, held, ready) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { listener, poller, connections, relay, behind: 0, held, buffer, ready })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Reads from everybody who is ready, then writes to everybody who got something.
    ///
    /// # Errors
    /// Readiness itself fails; a fault of a connection only ends that connection.
    pub(crate) fn turn(&mut self) -> Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.wait(WAIT, &mut ready)?;
        for event in &ready {
            if event.token == LISTENER {
                self.accept();
                continue;
            }
            if event.writable && !self.write(event.token, &[]) {
                self.drop(event.token);
            }
            if event.readable {
                self.read(event.token);
            }
            if self.relay.is_overfull() {
                self.write_all();
            }
        }
        self.ready = ready;
        self.write_all();
        if self.behind == 0 {
            for token in std::mem::take(&mut self.held) {
                if let Some(Some(connection)) = self.connections.get_mut(token) {
                    connection.is_held = false;
                    self.watch(token);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return complain(&error.into()),
            };
            let free = self.connections.iter().position(Option::is_none);
            let token = free.unwrap_or(self.connections.len());
            let joined = Socket::new(Stream::Plain(stream), Vec::new()).and_then(|socket| {
                self.poller.add(socket.stream(), token, Want::Read)?;
                Ok(socket)
            });
            match joined {
                Err(error) => complain(&error.into()),
                Ok(socket) => {
                    self.relay.join(token);
                    let session = Session::new(token);
                    let connection = Some(Connection { socket, session, want: Want::Read, is_held: false });
                    match free {
                        Some(_) => self.connections[token] = connection,
                        None => self.connections.push(connection),
                    }
                }
            }
        }
    }

    fn read(&mut self, token: usize) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        // A client that is held and still reported has hung up; reading finds that out.
        if self.behind > 0 && connection.session.publishes() && !connection.is_held {
            connection.is_held = true;
            self.held.push(token);
            return self.watch(token);
        }
        let (session, relay) = (&mut connection.session, &mut self.relay);
        let parse = |bytes: &[u8]| session.receive(bytes, relay);
        match connection.socket.receive(&mut self.buffer, READ_BYTES_MAX, parse) {
            Ok(Received::Bytes(_) | Received::Nothing) => {}
            Ok(Received::End) => self.drop(token),
            Err(error) => {
                complain(&error);
                self.drop(token);
            }
        }
    }

    fn write_all(&mut self) {
        // The outboxes are lent out one by one while sockets and counters change.
        let mut relay = std::mem::replace(&mut self.relay, Relay::new(super::options::Deliver::All));
        let mut broken = Vec::new();
        relay.drain(|token, bytes| {
            if !self.write(token, bytes) {
                broken.push(token);
            }
        });
        self.relay = relay;
        broken.into_iter().for_each(|token| self.drop(token));
    }

    /// Writes what waits for room and these bytes; says whether the connection goes on.
    fn write(&mut self, token: usize, bytes: &[u8]) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return true };
        let was_behind = connection.socket.unsent_bytes() > UNSENT_BYTES_MAX;
        let Ok(all_out) = connection.socket.send(bytes) else { return false };
        let is_behind = connection.socket.unsent_bytes() > UNSENT_BYTES_MAX;
        self.behind = self.behind + usize::from(is_behind) - usize::from(was_behind);
        let goes_on = !all_out || connection.session.then() == Then::GoOn;
        self.watch(token);
        goes_on
    }

    fn watch(&mut self, token: usize) {
        let Some(Some(connection)) = self.connections.get_mut(token) else { return };
        let want = match (connection.is_held, connection.socket.unsent_bytes() > 0) {
            (false, false) => Want::Read,
            (false, true) => Want::ReadWrite,
            (true, true) => Want::Write,
            (true, false) => Want::Nothing,
        };
        if want != connection.want {
            connection.want = want;
            if let Err(error) = self.poller.change(connection.socket.stream(), token, want) {
                complain(&error.into());
            }
        }
    }

    fn drop(&mut self, token: usize) {
        let Some(connection) = self.connections.get_mut(token).and_then(Option::take) else { return };
        if connection.socket.unsent_bytes() > UNSENT_BYTES_MAX {
            self.behind -= 1;
        }
        self.relay.leave(token);
    }
}

/// A connection that goes wrong is dropped and told about; the others go on.
fn complain(error: &anyhow::Error) {
    // Nobody is left to tell when the terminal is gone.
    let _ = writeln!(std::io::stderr(), "null-broker: {error:#}");
}
