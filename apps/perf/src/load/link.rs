//! A connection while it is set up or closed: blocking, one step after the other. Refuses to carry load.

use super::options::Connecting;
use super::recovery::Ended;
use super::uri::{Scheme, Uri};
use crate::io::{Socket, Stream};
use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tls::{ClientOptions, Verify};
use wire::amqp091::methods::{channel, connection};
use wire::amqp091::sasl::{Credentials, encode_plain};
use wire::amqp091::{FRAME_METHOD, Method, PROTOCOL_HEADER, Parsed, ShortStr, TableBuf, parse_frame};

/// How long a broker may take for one answer. Generous: RabbitMQ takes seconds for a thousand declarations.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest frame we ask for: RabbitMQ's default, in bytes.
const FRAME_SIZE_MAX: u32 = 131_072;
/// The smallest `frame_max` of AMQP 0-9-1 (section 4.2.3), in bytes.
const FRAME_SIZE_MIN: u32 = 4096;
const READ_BYTES: usize = 16 * 1024;

/// The broker ended a connection or channel, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker closed {}: {code} {text}", if *.channel == 0 { "the connection" } else { "the channel" })]
pub(crate) struct Closed {
    /// Channel; 0 for the connection.
    pub(crate) channel: u16,
    /// Reply code.
    pub(crate) code: u16,
    /// Reply text.
    pub(crate) text: String,
}

impl Closed {
    /// The reason, if this method is a close.
    pub(crate) fn of(channel: u16, method: &Method<'_>) -> Option<Self> {
        let (code, text) = match method {
            Method::ConnectionClose(close) => (close.reply_code, close.reply_text),
            Method::ChannelClose(close) => (close.reply_code, close.reply_text),
            _ => return None,
        };
        Some(Self { channel, code, text: text.str_lossy().into_owned() })
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    input: Vec<u8>,
    /// Bytes at the front of `input` that were handed out by the last read of a frame.
    used: usize,
    /// Negotiated `frame_max` in bytes.
    pub(crate) frame_size_max: usize,
    /// Negotiated time between heartbeats in seconds; 0 is none.
    pub(crate) heartbeat_s: u16,
}

impl Link {
    /// Connects to the n-th of the brokers, round and round, logs in and opens the vhost.
    ///
    /// # Errors
    /// The broker cannot be reached or refuses; the text is the broker's.
    pub(crate) fn open(options: &Connecting, n: usize, name: &str) -> Result<Self> {
        let brokers = options.brokers();
        let uri = &brokers[n % brokers.len()];
        let stream = TcpStream::connect((uri.host.as_str(), uri.port))
            .with_context(|| format!("cannot reach a broker at {}:{}", uri.host, uri.port))?;
        stream.set_nodelay(options.tcp_no_delay)?;
        if let Some(bytes) = options.tcp_receive_buffer_size.filter(|bytes| *bytes > 0) {
            sockopt::set_socket_recv_buffer_size(&stream, bytes as usize)?;
        }
        if let Some(bytes) = options.tcp_send_buffer_size.filter(|bytes| *bytes > 0) {
            sockopt::set_socket_send_buffer_size(&stream, bytes as usize)?;
        }
        let stream = encrypted_if_asked(stream, uri, options.verify())
            .with_context(|| format!("no TLS with {}:{}", uri.host, uri.port))?;
        let mut link = Self::over(stream, Vec::new(), ANSWER_TIMEOUT)?;
        let asked = (options.frame_size_max, options.heartbeat);
        link.handshake(uri, name, asked)
            .with_context(|| format!("cannot log in at {}:{}", uri.host, uri.port))?;
        Ok(link)
    }

    fn over(stream: Stream, input: Vec<u8>, timeout: Duration) -> Result<Self> {
        let socket = stream.socket();
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        Ok(Self { stream, input, used: 0, frame_size_max: FRAME_SIZE_MAX as usize, heartbeat_s: 0 })
    }

    /// Takes a connection back that carried load, to close it. Its broker may be far behind, so patience is short.
    ///
    /// # Errors
    /// The connection is broken, or does not take what still has to be sent.
    pub(crate) fn take_back(socket: Socket, patience: Duration) -> Result<Self> {
        let (stream, rest, unsent) = socket.into_parts();
        let mut link = Self::over(stream, rest, patience.max(Duration::from_millis(100)))?;
        link.stream.write_all(&unsent)?;
        Ok(link)
    }

    fn handshake(&mut self, uri: &Uri, name: &str, asked: (u32, u16)) -> Result<()> {
        self.stream.write_all(&PROTOCOL_HEADER)?;
        self.expect(0, "connection.start")?;
        let (user, password) = (uri.user.as_bytes(), uri.password.as_bytes());
        let response = encode_plain(Credentials { user, password });
        let client = client_properties(name);
        let mechanism = ShortStr::bounded(b"PLAIN");
        let locale = ShortStr::bounded(b"en_US");
        let start_ok = connection::StartOk {
            client_properties: client.as_table(),
            mechanism,
            response: &response,
            locale,
        };
        self.send(0, &[start_ok.into()])?;
        let (_, tune) = self.answer()?;
        let Method::ConnectionTune(tune) = tune else { bail!("{} instead of connection.tune", tune.name()) };
        // Zero is no limit, of both sides.
        let frame_maxes = [tune.frame_max, asked.0, FRAME_SIZE_MAX];
        let frame_max = frame_maxes.into_iter().filter(|bytes| *bytes > 0).min().unwrap_or(FRAME_SIZE_MAX);
        let heartbeat = if tune.heartbeat == 0 { asked.1 } else { tune.heartbeat.min(asked.1) };
        let channel_max = tune.channel_max;
        ensure!(
            frame_max >= FRAME_SIZE_MIN,
            "a frame holds at least {FRAME_SIZE_MIN} bytes: raise --framemax"
        );
        self.frame_size_max = frame_max as usize;
        self.heartbeat_s = heartbeat;
        let virtual_host = ShortStr::new(uri.vhost.as_bytes()).context("the vhost's name is too long")?;
        let open = connection::Open { virtual_host, ..connection::Open::default() };
        self.send(0, &[connection::TuneOk { channel_max, frame_max, heartbeat }.into(), open.into()])?;
        self.expect(0, "connection.open-ok")
    }

    /// Opens channels 1 to `count`.
    ///
    /// # Errors
    /// The broker refuses one.
    pub(crate) fn open_channels(&mut self, count: u16) -> Result<()> {
        let mut bytes = Vec::new();
        for number in 1..=count {
            channel::Open::default().encode_frame(number, &mut bytes);
        }
        self.stream.write_all(&bytes)?;
        // RabbitMQ's channels answer in any order.
        for _ in 1..=count {
            let (_, method) = self.answer().context("waiting for channel.open-ok")?;
            ensure!(method.name() == "channel.open-ok", "{} instead of channel.open-ok", method.name());
        }
        Ok(())
    }

    /// Sends methods on one channel, without waiting for answers.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(&mut self, channel: u16, methods: &[Method<'_>]) -> Result<()> {
        let mut bytes = Vec::new();
        for method in methods {
            method.encode_frame(channel, &mut bytes);
        }
        Ok(self.stream.write_all(&bytes)?)
    }

    /// Waits for this method on this channel.
    ///
    /// # Errors
    /// [`Closed`] if the broker closes channel or connection; anything else arrives or nothing does.
    pub(crate) fn expect(&mut self, channel: u16, name: &str) -> Result<()> {
        let (on, method) = self.answer().with_context(|| format!("waiting for {name}"))?;
        ensure!(
            (on, method.name()) == (channel, name),
            "{} on channel {on} instead of {name}",
            method.name()
        );
        Ok(())
    }

    /// The next method, and its channel.
    ///
    /// # Errors
    /// [`Closed`] if it is a close; the connection is broken.
    pub(crate) fn answer(&mut self) -> Result<(u16, Method<'_>)> {
        self.fill()?;
        let Parsed::Complete { frame, consumed } = parse_frame(&self.input, self.frame_size_max)? else {
            bail!("a frame was there and is gone");
        };
        self.used = consumed;
        let method = Method::decode(frame.payload)?;
        match Closed::of(frame.channel, &method) {
            Some(closed) => Err(closed.into()),
            None => Ok((frame.channel, method)),
        }
    }

    /// Reads until a whole method frame is at the front of `input`; other frames are dropped.
    fn fill(&mut self) -> Result<()> {
        loop {
            self.input.drain(..std::mem::take(&mut self.used));
            match parse_frame(&self.input, self.frame_size_max)? {
                Parsed::Complete { frame, .. } if frame.kind == FRAME_METHOD => return Ok(()),
                Parsed::Complete { consumed, .. } => self.used = consumed,
                Parsed::Incomplete { .. } => self.read()?,
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        let filled = self.input.len();
        self.input.resize(filled + READ_BYTES, 0);
        let outcome = self.stream.read(&mut self.input[filled..]);
        self.input.truncate(filled + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) => Err(Ended.into()),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("no answer in time")
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The connection made ready to carry load.
    ///
    /// # Errors
    /// The socket refuses to be made non-blocking.
    pub(crate) fn into_socket(mut self) -> Result<Socket> {
        self.input.drain(..self.used);
        Ok(Socket::new(self.stream, self.input)?)
    }

    /// Says goodbye and waits for the answer.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn close(mut self) -> Result<()> {
        let reply_text = ShortStr::bounded(b"bye");
        self.send(0, &[connection::Close { reply_code: 200, reply_text, ..Default::default() }.into()])?;
        while self.answer()?.1.name() != "connection.close-ok" {}
        Ok(())
    }
}

/// The stream as the URI wants it.
///
/// # Errors
/// The server does not speak TLS, or its certificate is refused.
pub(crate) fn encrypted_if_asked(stream: TcpStream, uri: &Uri, verify: Verify) -> Result<Stream> {
    if uri.scheme == Scheme::Amqp {
        return Ok(Stream::Plain(stream));
    }
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let config = tls::client_config(&ClientOptions { verify, ..ClientOptions::default() })?;
    Ok(Stream::encrypt(stream, &uri.host, config)?)
}

/// The client properties: the name, and that failures to log in are better told than punished by silence.
fn client_properties(name: &str) -> TableBuf {
    let mut capabilities = TableBuf::new();
    for capability in
        ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "authentication_failure_close"]
    {
        capabilities.push_bool(capability, true);
    }
    capabilities.push_bool("connection.blocked", true);
    let mut properties = TableBuf::new();
    properties.push_str("product", "warren perf").push_str("version", env!("CARGO_PKG_VERSION"));
    properties.push_str("connection_name", name).push_table("capabilities", capabilities.as_table());
    properties
}
