//! A client without a socket: it drives a session on its own thread and plays the connection's task, too. It panics at what it does
//! not expect.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use broker::Broker;
use protocols::Session as _;
use protocols::amqp091::{Session, Settings};
use protocols::{Now, OutputBytes, Peer};
use wire::amqp091::methods::{basic, channel, confirm, connection, queue};
use wire::amqp091::{Method, PROTOCOL_HEADER, ShortStr, encode_ack, encode_publish};

/// Bytes of one read, as the connection's task reads them.
const READ_BYTES: usize = 64 * 1024;

/// The first property flag octet of a message with a delivery mode, and the mode of persistent messages.
const PERSISTENT: [u8; 3] = [0x10, 0, 2];

/// The published message, and how it is published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    pub(crate) body_bytes: usize,
    pub(crate) is_persistent: bool,
}

/// How a consumer acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acks {
    /// Not at all: no-ack.
    Never,
    /// After so many deliveries, all of them.
    Every(u64),
    /// Each delivery with a frame of its own.
    Each,
}

/// Hands over the bytes that were read. Instructions are counted of this function: `testing/bench/hot_path.sh` looks for its name.
#[inline(never)]
fn counted_receive(session: &mut Session, input: &[u8], now: Now) -> usize {
    session.receive(input, now).consumed
}

/// The work of the connection's task on bytes to be written, but for writing them.
#[inline(never)]
fn counted_take(session: &mut Session, outbox: &dyn OutputBytes, output: &mut Vec<u8>, now: Now) {
    outbox.take(output);
    session.bytes_sent(output.len(), now);
    session.output_drained();
}

/// A connection with one channel.
pub(crate) struct Client {
    session: Session,
    outbox: Arc<dyn OutputBytes>,
    now: Now,
    /// The bytes that the session left of its input.
    input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    delivered: u64,
    acked: u64,
}

impl Client {
    pub(crate) fn open(broker: &Broker) -> Client {
        let loopback = ([127, 0, 0, 1], 5672).into();
        let peer = Peer::plain(loopback, loopback, 1);
        let now = Now { monotonic_ms: 1000, unix_ms: 1_700_000_000_000 };
        let session = Session::new(broker.clone(), Arc::new(Settings::default()), peer, now);
        let outbox = session.outbox();
        let (input, output) = (Vec::new(), Vec::new());
        let mut client = Client { session, outbox, now, input, output, delivered: 0, acked: 0 };
        client.give(&PROTOCOL_HEADER);
        let start_ok = connection::StartOk {
            mechanism: ShortStr::bounded(b"PLAIN"),
            response: b"\0guest\0guest",
            locale: ShortStr::bounded(b"en_US"),
            ..connection::StartOk::default()
        };
        client.say(0, start_ok);
        client.say(0, connection::TuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 0 });
        client.say(
            0,
            connection::Open { virtual_host: ShortStr::bounded(b"/"), ..connection::Open::default() },
        );
        client.ask(channel::Open::default());
        client
    }

    /// Drives the session until it has taken everything.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let goes_on = self.session.poll_stalled(&mut cx).is_ready();
            if goes_on && !self.input.is_empty() {
                let consumed = counted_receive(&mut self.session, &self.input, self.now);
                self.input.drain(..consumed);
                if consumed > 0 {
                    continue;
                }
            }
            if goes_on {
                return;
            }
            self.take();
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Takes the bytes that have come for the client, in `output`.
    pub(crate) fn take(&mut self) {
        self.output.clear();
        counted_take(&mut self.session, &*self.outbox, &mut self.output, self.now);
    }

    fn say<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        let mut bytes = Vec::new();
        method.into().encode_frame(channel, &mut bytes);
        self.give(&bytes);
    }

    /// A request on the channel; returns when something was answered.
    fn ask<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.take();
        self.say(1, method);
        loop {
            self.take();
            if !self.output.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
            self.give(&[]);
        }
    }

    pub(crate) fn declare(&mut self, name: &str, exchange: &str) {
        let name = ShortStr::clipped(name.as_bytes());
        self.ask(queue::Declare { queue: name, durable: true, ..queue::Declare::default() });
        if !exchange.is_empty() {
            let exchange = ShortStr::clipped(exchange.as_bytes());
            self.ask(queue::Bind { queue: name, exchange, routing_key: name, ..queue::Bind::default() });
        }
    }

    pub(crate) fn confirm(&mut self) {
        self.ask(confirm::Select::default());
    }

    pub(crate) fn consume(&mut self, name: &str, acks: Acks, prefetch_count: u16) {
        self.ask(basic::Qos { prefetch_count, ..basic::Qos::default() });
        let queue = ShortStr::clipped(name.as_bytes());
        self.ask(basic::Consume { queue, no_ack: acks == Acks::Never, ..basic::Consume::default() });
    }

    /// Takes deliveries and acknowledges them; returns how many there were.
    pub(crate) fn take_and_ack(&mut self, acks: Acks) -> u64 {
        self.take();
        let count = deliveries(&self.output);
        self.delivered += count;
        let mut bytes = Vec::new();
        match acks {
            Acks::Never => {}
            Acks::Each => {
                for tag in self.acked + 1..=self.delivered {
                    encode_ack(&mut bytes, 1, tag, false);
                }
                self.acked = self.delivered;
            }
            Acks::Every(every) => {
                while self.delivered - self.acked >= every {
                    self.acked += every;
                    encode_ack(&mut bytes, 1, self.acked, true);
                }
            }
        }
        if !bytes.is_empty() {
            self.give(&bytes);
        }
        count
    }
}

/// Deliveries in what a client was sent: body frames.
fn deliveries(bytes: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(&[kind, _, _, a, b, c, d]) = bytes[at..].first_chunk() {
        count += u64::from(kind == 3);
        at += u32::from_be_bytes([a, b, c, d]) as usize + 8;
    }
    count
}

/// Publishes of one read, and how many.
pub(crate) fn publishes(message: &Message<'_>, count_max: u64) -> (Vec<u8>, u64) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let properties: &[u8] = if message.is_persistent { &PERSISTENT } else { &[0, 0] };
    let body = vec![b'x'; message.body_bytes];
    loop {
        let before = bytes.len();
        let (exchange, key) = (message.exchange.as_bytes(), message.routing_key.as_bytes());
        encode_publish(&mut bytes, 1, exchange, key, false, properties, &body, 131_072);
        if bytes.len() > READ_BYTES || count == count_max {
            bytes.truncate(before);
            return (bytes, count);
        }
        count += 1;
    }
}
