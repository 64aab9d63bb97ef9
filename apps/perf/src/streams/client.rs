//! A connection of the stream protocol: handshake, requests, frames as they come.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use wire::stream::commands::Tune;
use wire::stream::requests::{Open, PeerProperties, SaslAuthenticate, SaslHandshake};
use wire::stream::{Command, List, ListBuf, Message, Parsed, Request, Response, ResponseCode, parse_frame};

/// Largest frame that is read.
const FRAME_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 512 << 10;
/// How long a read waits before it looks whether the run is over.
const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// A connection.
pub(super) struct Client {
    pub(super) socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    correlation_id: u32,
    /// The limits that the broker has proposed: they may come with the answer to the login.
    proposed: Option<Tune>,
}

impl Client {
    /// Connects and opens the vhost `/`.
    ///
    /// # Errors
    /// Nobody listens there, or the broker refuses.
    pub(super) fn open(uri: &str) -> Result<Self> {
        let rest = uri
            .strip_prefix("rabbitmq-stream://")
            .with_context(|| format!("{uri} is no rabbitmq-stream:// address"))?;
        let rest = rest.split('/').next().unwrap_or_default();
        let (login, place) = rest.rsplit_once('@').unwrap_or(("guest:guest", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let place = if place.contains(':') { place.to_owned() } else { format!("{place}:5552") };
        let socket = TcpStream::connect(&place).with_context(|| format!("cannot connect to {place}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut client =
            Self { socket, buffer: vec![0; READ_BYTES], start: 0, end: 0, correlation_id: 0, proposed: None };
        client.request(PeerProperties { properties: List::EMPTY }, |_| ())?;
        client.request(SaslHandshake {}, |_| ())?;
        let plain = format!("\0{user}\0{password}");
        client.request(SaslAuthenticate { mechanism: "PLAIN", response: Some(plain.as_bytes()) }, |_| ())?;
        let proposed = match client.proposed {
            Some(tune) => tune,
            None => client.until(|message| match message {
                Message::Command(Command::Tune(tune)) => Some(*tune),
                _ => None,
            })?,
        };
        let mut out = Vec::new();
        Command::from(Tune { heartbeat: 0, ..proposed }).encode(&mut out);
        client.socket.write_all(&out)?;
        client.request(Open { virtual_host: "/" }, |_| ())?;
        Ok(client)
    }

    /// Asks, and reads the answer; other frames are dropped meanwhile.
    ///
    /// # Errors
    /// The answer is not OK.
    pub(super) fn request<'r, T>(
        &mut self,
        request: impl Into<Request<'r>>,
        read: impl Fn(&Response<'_>) -> T,
    ) -> Result<T> {
        self.correlation_id += 1;
        let (id, mut out) = (self.correlation_id, Vec::new());
        let request = request.into();
        request.encode(id, &mut out);
        self.socket.write_all(&out)?;
        let (code, value) = self.until(|message| match message {
            Message::Response { correlation_id, response } if *correlation_id == id => {
                Some((code_of(response), read(response)))
            }
            _ => None,
        })?;
        if code == ResponseCode::OK {
            Ok(value)
        } else {
            bail!("command {:#06x}: {}", request.key(), code.text())
        }
    }

    fn until<T>(&mut self, find: impl Fn(&Message<'_>) -> Option<T>) -> Result<T> {
        loop {
            let (mut found, mut proposed) = (None, None);
            self.read(|message| {
                if let Message::Command(Command::Tune(tune)) = message {
                    proposed = Some(*tune);
                }
                found = found.take().or_else(|| find(message));
            })?;
            self.proposed = proposed.or(self.proposed);
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Reads once, and hands over the frames that are whole then. Returns without any after a while.
    ///
    /// # Errors
    /// The broker ends the connection, or says something that is no frame.
    pub(super) fn read(&mut self, mut each: impl FnMut(&Message<'_>)) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match self.socket.read(&mut self.buffer[self.end..]) {
            Ok(0) => bail!("the broker has ended the connection"),
            Ok(count) => self.end += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        while let Parsed::Complete { frame, consumed } =
            parse_frame(&self.buffer[self.start..self.end], FRAME_BYTES_MAX)?
        {
            let message = Message::decode(&frame).map_err(|error| anyhow!("{error}"))?;
            if let Message::Request { request: Request::Close(close), .. } = message {
                bail!("the broker closes the connection: {}", close.reason);
            }
            each(&message);
            self.start += consumed;
        }
        Ok(())
    }
}

fn code_of(response: &Response<'_>) -> ResponseCode {
    match response {
        Response::DeclarePublisher(it) => it.code,
        Response::Subscribe(it) => it.code,
        Response::Create(it) => it.code,
        Response::Delete(it) => it.code,
        Response::PeerProperties(it) => it.code,
        Response::SaslHandshake(it) => it.code,
        Response::SaslAuthenticate(it) => it.code,
        Response::Open(it) => it.code,
        _ => ResponseCode::OK,
    }
}

/// Pairs of names and values, to be written.
pub(super) fn pairs<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> ListBuf {
    ListBuf::of(all)
}
