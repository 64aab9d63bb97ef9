//! Sessions driven with bytes, against a real broker in a temporary folder.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use broker::{Broker, BrokerOptions, CloseReason};
use platform::SimDisk;
use tempfile::TempDir;
use wire::amqp091::methods::{basic, channel, connection, exchange, queue};
use wire::amqp091::sasl::{Credentials, encode_plain};
use wire::amqp091::{
    ContentHeader, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Method, PROTOCOL_HEADER, Parsed, ShortStr, Table,
    TableBuf, encode_ack, encode_publish, parse_frame, write_frame,
};

use super::super::{Session, Settings};
use crate::{Now, OutputBytes, Peer, Session as _, State};

mod alarms;
mod alike;
mod chaos;
mod consuming;
mod counting;
mod ending;
mod large;
mod opening;
mod publishing;

/// Longest wait for anything; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// A frame is waited for so long, so many times.
const WAIT: Duration = Duration::from_secs(1);
const WAITS_MAX: u32 = 20;

/// A broker in a folder that goes away with it.
struct World {
    broker: Broker,
    settings: Settings,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        World { broker, settings: Settings::default(), _folder: folder }
    }

    /// On a simulated disk, which can be told to fail.
    fn on(disk: &SimDisk) -> World {
        let folder = TempDir::new().unwrap();
        let broker = Broker::open_on(Arc::new(disk.clone()), Path::new("/data"), BrokerOptions::default());
        World { broker: broker.unwrap(), settings: Settings::default(), _folder: folder }
    }

    /// A connection before its protocol header.
    fn connect(&self) -> Client {
        let peer = Peer::plain("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:5672".parse().unwrap(), 7);
        let now = Now { monotonic_ms: 1000, unix_ms: 0 };
        let session = Session::new(self.broker.clone(), Arc::new(self.settings.clone()), peer, now);
        let outbox = session.outbox();
        Client {
            session,
            outbox,
            now,
            input: Vec::new(),
            output: Vec::new(),
            waiting: Arc::new(Signal::here()),
        }
    }

    /// A connection that is asked to log in.
    fn starting(&self) -> Client {
        let mut client = self.connect();
        client.send(&PROTOCOL_HEADER);
        client.wait("connection.start");
        client
    }

    /// A connection of a client without capabilities that has logged in.
    fn tuning(&self) -> Client {
        let mut client = self.starting();
        client.login(&[], "guest");
        client.wait("connection.tune");
        client
    }

    /// An open connection.
    fn open(&self) -> Client {
        let mut client = self.starting();
        client.login(
            &["consumer_cancel_notify", "connection.blocked", "authentication_failure_close"],
            "guest",
        );
        client.wait("connection.tune");
        client.tune_and_open(131_072);
        client.wait("connection.open-ok");
        client
    }

    /// An open connection with channel 1 open.
    fn channel(&self) -> Client {
        let mut client = self.open();
        client.open_channel(1);
        client
    }
}

/// Wakes the test's thread.
struct Signal {
    thread: Thread,
    rung: AtomicBool,
}

impl Signal {
    fn here() -> Signal {
        Signal { thread: std::thread::current(), rung: AtomicBool::new(false) }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A frame from the broker.
#[derive(Clone, Debug)]
struct Got {
    kind: u8,
    channel: u16,
    payload: Vec<u8>,
}

impl Got {
    fn method(&self) -> Option<Method<'_>> {
        (self.kind == FRAME_METHOD).then(|| Method::decode(&self.payload).unwrap())
    }

    fn name(&self) -> &'static str {
        match self.kind {
            FRAME_HEADER => "header",
            FRAME_BODY => "body",
            FRAME_METHOD => self.method().unwrap().name(),
            _ => "heartbeat",
        }
    }

    /// Code and text of a close.
    fn close(&self) -> (u16, String, (u16, u16)) {
        match self.method() {
            Some(Method::ConnectionClose(close)) => {
                (close.reply_code, close.reply_text.str_lossy().into(), (close.class_id, close.method_id))
            }
            Some(Method::ChannelClose(close)) => {
                (close.reply_code, close.reply_text.str_lossy().into(), (close.class_id, close.method_id))
            }
            other => panic!("no close: {other:?}"),
        }
    }
}

/// A client without a socket: it plays the connection's task too.
struct Client {
    session: Session,
    outbox: Arc<dyn OutputBytes>,
    now: Now,
    input: Vec<u8>,
    output: Vec<u8>,
    waiting: Arc<Signal>,
}

impl Client {
    /// Bytes arrive; those that cannot be taken yet are kept.
    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.turn();
    }

    fn method<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        let mut bytes = Vec::new();
        method.into().encode_frame(channel, &mut bytes);
        self.send(&bytes);
    }

    /// One turn of the connection's task.
    fn turn(&mut self) {
        let waker = Waker::from(self.waiting.clone());
        let mut cx = Context::from_waker(&waker);
        while self.session.poll_stalled(&mut cx).is_ready() && !self.input.is_empty() {
            let progress = self.session.receive(&self.input, self.now);
            self.input.drain(..progress.consumed);
            if progress.consumed == 0 {
                break;
            }
        }
        let _ = self.session.poll_stalled(&mut cx);
    }

    /// Output to the client, without telling the session that it was written.
    fn read_output(&mut self) {
        let mut taken = Vec::new();
        loop {
            self.outbox.take(&mut taken);
            let count = taken.len();
            self.output.append(&mut taken);
            self.session.bytes_sent(count, self.now);
            self.session.output_drained();
            if count == 0 {
                return;
            }
        }
    }

    /// The next frame, when it is there.
    fn next(&mut self) -> Option<Got> {
        match parse_frame(&self.output, usize::MAX).unwrap() {
            Parsed::Complete { frame, consumed } => {
                let got = Got { kind: frame.kind, channel: frame.channel, payload: frame.payload.to_vec() };
                self.output.drain(..consumed);
                Some(got)
            }
            Parsed::Incomplete { .. } => None,
        }
    }

    /// The next frame, waiting for other threads if need be.
    fn frame(&mut self) -> Got {
        // Waits are counted, not time: a machine that stands still for a while is no reason to fail.
        let mut waits = 0;
        loop {
            self.turn();
            self.read_output();
            if let Some(got) = self.next() {
                return got;
            }
            if !self.waiting.rung.swap(false, Ordering::AcqRel) {
                assert!(waits < WAITS_MAX, "nothing came, state {:?}", self.session.state());
                let since = Instant::now();
                std::thread::park_timeout(WAIT);
                waits += u32::from(since.elapsed() >= WAIT);
            }
        }
    }

    /// The next frame, which must be this one.
    fn wait(&mut self, name: &str) -> Got {
        let got = self.frame();
        assert_eq!(got.name(), name, "{:?}", got.method());
        got
    }

    /// Everything that is there now, by name.
    fn names(&mut self) -> Vec<&'static str> {
        self.turn();
        self.read_output();
        std::iter::from_fn(|| self.next()).map(|got| got.name()).collect()
    }

    /// A round trip: the frames of the broker before its answer, by name.
    fn names_until_answer(&mut self, channel: u16) -> Vec<&'static str> {
        self.method(channel, basic::Qos::default());
        let mut names = Vec::new();
        loop {
            match self.frame().name() {
                "basic.qos-ok" => return names,
                name => names.push(name),
            }
        }
    }

    fn after_ms(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.session.tick(self.now);
    }

    fn login(&mut self, capabilities: &[&str], password: &str) {
        let mut table = TableBuf::new();
        for name in capabilities {
            table.push_bool(name, true);
        }
        let mut properties = TableBuf::new();
        properties.push_table("capabilities", table.as_table());
        let response = encode_plain(Credentials { user: b"guest", password: password.as_bytes() });
        let start_ok = connection::StartOk {
            client_properties: properties.as_table(),
            mechanism: ShortStr::bounded(b"PLAIN"),
            response: &response,
            locale: ShortStr::bounded(b"en_US"),
        };
        self.method(0, start_ok);
    }

    fn tune_and_open(&mut self, frame_max: u32) {
        self.tune_and_open_beating(frame_max, 10);
    }

    fn tune_and_open_beating(&mut self, frame_max: u32, heartbeat: u16) {
        self.method(0, connection::TuneOk { channel_max: 2047, frame_max, heartbeat });
        self.method(
            0,
            connection::Open { virtual_host: ShortStr::bounded(b"/"), ..connection::Open::default() },
        );
    }

    fn open_channel(&mut self, number: u16) {
        self.method(number, channel::Open::default());
        self.wait("channel.open-ok");
    }

    fn declare(&mut self, name: &str) {
        self.method(1, durable(name));
        self.wait("queue.declare-ok");
    }

    fn publish(&mut self, channel: u16, key: &str, body: &[u8]) {
        self.send(&message(channel, "", key, body));
    }

    fn consume(&mut self, queue: &str, no_ack: bool) {
        self.method(1, consumer(queue, no_ack));
        self.wait("basic.consume-ok");
    }

    /// The next delivery: tag, redelivered, body.
    fn delivery(&mut self) -> (u64, bool, Vec<u8>) {
        let got = self.wait("basic.deliver");
        let Some(Method::BasicDeliver(deliver)) = got.method() else { unreachable!() };
        (deliver.delivery_tag, deliver.redelivered, self.content())
    }

    /// Header and body behind a method.
    fn content(&mut self) -> Vec<u8> {
        let header = self.wait("header");
        let size = usize::try_from(ContentHeader::decode(&header.payload).unwrap().body_size).unwrap();
        let mut body = Vec::new();
        while body.len() < size {
            body.extend(self.wait("body").payload);
        }
        body
    }

    fn ack(&mut self, tag: u64, multiple: bool) {
        let mut bytes = Vec::new();
        encode_ack(&mut bytes, 1, tag, multiple);
        self.send(&bytes);
    }

    /// Ready messages, by passive declare.
    fn ready(&mut self, name: &str) -> u32 {
        self.method(1, queue::Declare { passive: true, ..durable(name) });
        let got = self.wait("queue.declare-ok");
        let Some(Method::QueueDeclareOk(ok)) = got.method() else { unreachable!() };
        ok.message_count
    }
}

fn durable(name: &str) -> queue::Declare<'_> {
    queue::Declare { queue: ShortStr::bounded(name.as_bytes()), durable: true, ..queue::Declare::default() }
}

fn consumer(queue: &str, no_ack: bool) -> basic::Consume<'_> {
    let consumer_tag = ShortStr::bounded(b"tag");
    basic::Consume {
        queue: ShortStr::bounded(queue.as_bytes()),
        consumer_tag,
        no_ack,
        ..basic::Consume::default()
    }
}

fn message(channel: u16, exchange: &str, key: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_publish(&mut bytes, channel, exchange.as_bytes(), key.as_bytes(), false, &[0, 0], body, 131_072);
    bytes
}

fn get(queue: &str, no_ack: bool) -> basic::Get<'_> {
    basic::Get { queue: ShortStr::bounded(queue.as_bytes()), no_ack, ..basic::Get::default() }
}
