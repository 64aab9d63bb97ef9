//! A connection of AMQP 1.0 with one session: handshake, links, frames as they come.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use wire::amqp10::{
    Attach, AttachTarget, Begin, Error, Flow, HEARTBEAT, Map, Open, PROTOCOL_HEADER, Parsed, Performative,
    ReceiverSettleMode, Role, SASL_PROTOCOL_HEADER, SaslCode, SaslInit, SaslPerformative, SenderSettleMode,
    Source, Symbol, Symbols, Target, Transfer, decode_transfer, parse_frame,
};

use crate::io::monotonic_ns;
use crate::load::Uri;

/// Largest frame that is read and written, in bytes.
pub(super) const FRAME_BYTES_MAX: u32 = 128 << 10;
/// Transfers that the broker may send without a word of the session.
pub(super) const WINDOW: u32 = 1 << 30;
/// The one session.
pub(super) const CHANNEL: u16 = 0;
const READ_BYTES: usize = 512 << 10;
/// How long a read waits before it looks whether the run is over.
const READ_TIMEOUT: Duration = Duration::from_millis(100);
/// A connection that has been silent for so long says that it lives.
const SILENCE_NS: u64 = 5_000_000_000;

/// A frame as it comes.
pub(super) enum Incoming<'a> {
    Transfer(&'a Transfer<'a>, &'a [u8]),
    Other(&'a Performative<'a>),
}

/// A connection.
pub(super) struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    written_ns: u64,
    /// Transfer frames that were read.
    transfers: u32,
    /// The largest frame that the broker takes, in bytes.
    pub(super) frame_bytes_max: usize,
    /// The window that the broker's begin names.
    pub(super) window: u32,
    /// Its first transfer id.
    first_incoming_id: u32,
}

impl Client {
    /// Connects, logs in and begins a session.
    ///
    /// # Errors
    /// Nobody listens there, or the broker refuses.
    pub(super) fn open(uri: &str) -> Result<Self> {
        let uri: Uri = uri.parse().map_err(|error| anyhow!("{uri}: {error}"))?;
        if uri.is_encrypted() {
            bail!("warren perf --amqp10 speaks clear text only: give an amqp:// address");
        }
        let place = (uri.host.as_str(), uri.port);
        let socket = TcpStream::connect(place).with_context(|| format!("cannot connect to {place:?}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut client = Self {
            socket,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            written_ns: monotonic_ns(),
            transfers: 0,
            frame_bytes_max: FRAME_BYTES_MAX as usize,
            window: 0,
            first_incoming_id: 0,
        };
        client.log_in(&uri)?;
        client.begin(&uri)?;
        Ok(client)
    }

    fn log_in(&mut self, uri: &Uri) -> Result<()> {
        self.write(&SASL_PROTOCOL_HEADER)?;
        self.header(SASL_PROTOCOL_HEADER)?;
        let plain = format!("\0{}\0{}", uri.user, uri.password);
        let init = SaslInit {
            mechanism: Symbol(b"PLAIN"),
            initial_response: Some(plain.as_bytes()),
            hostname: Some(&uri.host),
        };
        self.send(|out| init.encode_frame(0, out))?;
        // Frames of AMQP may follow the outcome in the same read: no more than one frame is taken at a time.
        loop {
            if let Some((start, end)) = self.frame()? {
                let (said, _) = SaslPerformative::decode(&self.buffer[start..end])?;
                if let SaslPerformative::SaslOutcome(outcome) = said {
                    if outcome.code != SaslCode::Ok {
                        bail!("the broker refuses the login of {}: {:?}", uri.user, outcome.code);
                    }
                    break;
                }
            } else {
                self.fill()?;
            }
        }
        self.write(&PROTOCOL_HEADER)?;
        self.header(PROTOCOL_HEADER)
    }

    fn begin(&mut self, uri: &Uri) -> Result<()> {
        // Other brokers have no vhosts, and get the name of the host.
        let hostname = if uri.vhost == "/" { uri.host.clone() } else { format!("vhost:{}", uri.vhost) };
        let open = Open {
            container_id: "warren-perf",
            hostname: Some(&hostname),
            max_frame_size: FRAME_BYTES_MAX,
            channel_max: 0,
            idle_time_out: None,
            outgoing_locales: Symbols::EMPTY,
            incoming_locales: Symbols::EMPTY,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::EMPTY,
        };
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: WINDOW,
            outgoing_window: WINDOW,
            handle_max: 7,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::EMPTY,
        };
        self.send(|out| {
            open.encode_frame(0, out);
            begin.encode_frame(CHANNEL, out);
        })?;
        let mut frame_bytes_max = FRAME_BYTES_MAX;
        let (window, first) = self.until(|incoming| match incoming {
            Incoming::Other(Performative::Open(open)) => {
                frame_bytes_max = frame_bytes_max.min(open.max_frame_size);
                None
            }
            Incoming::Other(Performative::Begin(begin)) => {
                Some((begin.incoming_window, begin.next_outgoing_id))
            }
            _ => None,
        })?;
        self.frame_bytes_max = frame_bytes_max.max(512) as usize;
        (self.window, self.first_incoming_id) = (window, first);
        Ok(())
    }

    /// Attaches a link and waits for the answer; the handle that the broker gives it.
    ///
    /// # Errors
    /// The broker refuses it.
    pub(super) fn attach(&mut self, wish: &Wish<'_>) -> Result<u32> {
        let node = Some(wish.address);
        let is_receiver = wish.role == Role::Receiver;
        let both = wish.is_management;
        let attach = Attach {
            name: wish.name,
            handle: wish.handle,
            role: wish.role,
            snd_settle_mode: if wish.settled {
                SenderSettleMode::Settled
            } else {
                SenderSettleMode::Unsettled
            },
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Source { address: node.filter(|_| is_receiver || both), ..Source::default() }),
            target: Some(AttachTarget::Target(Target {
                address: node.filter(|_| !is_receiver || both),
                ..Target::default()
            })),
            unsettled: Map::EMPTY,
            incomplete_unsettled: false,
            initial_delivery_count: (!is_receiver).then_some(0),
            max_message_size: None,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::from_raw(if both { PAIRED } else { &[] }),
        };
        self.send(|out| attach.encode_frame(CHANNEL, out))?;
        self.until(|incoming| match incoming {
            Incoming::Other(Performative::Attach(attach)) => Some(attach.handle),
            _ => None,
        })
        .with_context(|| format!("cannot attach to {}", wish.address))
    }

    /// The flow that this side sends for a link, or for the session.
    pub(super) fn flow(&self, sent_transfers: u32) -> Flow<'static> {
        Flow {
            next_incoming_id: Some(self.first_incoming_id.wrapping_add(self.transfers)),
            incoming_window: WINDOW,
            next_outgoing_id: sent_transfers,
            outgoing_window: WINDOW,
            handle: None,
            delivery_count: None,
            link_credit: None,
            available: None,
            drain: false,
            echo: false,
            properties: Map::EMPTY,
        }
    }

    /// Writes frames.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes)?;
        self.written_ns = monotonic_ns();
        Ok(())
    }

    /// Makes frames and writes them.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut out = Vec::new();
        make(&mut out);
        self.write(&out)
    }

    /// Reads until `find` has what it looks for. Later frames are left for the next read.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub(super) fn until<T>(&mut self, mut find: impl FnMut(&Incoming<'_>) -> Option<T>) -> Result<T> {
        let mut found = None;
        loop {
            if !self.take(&mut |incoming| found = find(incoming))? {
                self.fill()?;
            }
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Hands over the frames that are whole, after a read if there are none. Returns without any after a while.
    ///
    /// # Errors
    /// The broker ends link, session or connection, or says something that is no frame.
    pub(super) fn read(&mut self, mut each: impl FnMut(&Incoming<'_>)) -> Result<()> {
        if !self.take(&mut each)? {
            self.fill()?;
        }
        while self.take(&mut each)? {}
        Ok(())
    }

    /// Hands over the next frame, if it is whole.
    fn take(&mut self, each: &mut impl FnMut(&Incoming<'_>)) -> Result<bool> {
        let Some((start, end)) = self.frame()? else { return Ok(false) };
        let body = &self.buffer[start..end];
        if let Some((transfer, payload)) = decode_transfer(body) {
            self.transfers = self.transfers.wrapping_add(1);
            each(&Incoming::Transfer(&transfer, payload));
            return Ok(true);
        }
        let (performative, _) = Performative::decode(body)?;
        match &performative {
            Performative::Detach(detach) => bail!("the broker detaches a link: {}", shown(detach.error)),
            Performative::End(end) => bail!("the broker ends the session: {}", shown(end.error)),
            Performative::Close(close) => bail!("the broker closes the connection: {}", shown(close.error)),
            other => each(&Incoming::Other(other)),
        }
        Ok(true)
    }

    /// Where the body of the next whole frame lies, which is taken then. Heartbeats are passed over.
    fn frame(&mut self) -> Result<Option<(usize, usize)>> {
        loop {
            let bytes = &self.buffer[self.start..self.end];
            let Parsed::Complete { frame, consumed } = parse_frame(bytes, FRAME_BYTES_MAX as usize)? else {
                return Ok(None);
            };
            let body_bytes = frame.body.len();
            self.start += consumed;
            if body_bytes > 0 {
                return Ok(Some((self.start - body_bytes, self.start)));
            }
        }
    }

    fn header(&mut self, expected: [u8; 8]) -> Result<()> {
        while self.end - self.start < expected.len() {
            self.fill()?;
        }
        let said = &self.buffer[self.start..self.start + expected.len()];
        if said != expected {
            bail!("the broker does not speak AMQP 1.0: it says {said:?}");
        }
        self.start += expected.len();
        Ok(())
    }

    /// Reads once, or nothing after a while.
    fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.socket.read(&mut self.buffer[self.end..]) {
            Ok(0) => bail!("the broker has ended the connection"),
            Ok(count) => self.end += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        if monotonic_ns() - self.written_ns > SILENCE_NS {
            self.write(&HEARTBEAT)?;
        }
        Ok(())
    }
}

/// `paired: true`, which a pair of links to the management node has.
const PAIRED: &[u8] = b"\xA3\x06paired\x41";

/// A link that is wanted.
pub(super) struct Wish<'a> {
    pub(super) name: &'a str,
    pub(super) handle: u32,
    pub(super) role: Role,
    pub(super) address: &'a str,
    /// Messages are sent settled.
    pub(super) settled: bool,
    /// One of the pair of links to the management node.
    pub(super) is_management: bool,
}

fn shown(error: Option<Error<'_>>) -> String {
    error.map_or_else(
        || "it says not why".to_owned(),
        |error| {
            let condition = String::from_utf8_lossy(error.condition.0).into_owned();
            format!("{condition} {}", error.description.unwrap_or_default())
        },
    )
}
