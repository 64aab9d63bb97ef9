//! A client that keeps nothing: the allocator counts the server's memory. It blocks, and panics at unexpected frames.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

use wire::amqp091::methods::{basic, channel, confirm, connection, queue};
use wire::amqp091::{Method, PROTOCOL_HEADER, ShortStr, Table, TableBuf, Value};

/// Requests sent before their answers are read.
const PIPELINED: usize = 500;

/// A kind of message to publish.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message {
    pub(crate) body_bytes: usize,
    pub(crate) persistent: bool,
    /// Priorities from 0 on, taken in turn; 0 is none.
    pub(crate) priorities: u8,
    /// In an hour.
    pub(crate) expires: bool,
}

impl Message {
    pub(crate) fn sized(body_bytes: usize) -> Message {
        Message { body_bytes, ..Message::default() }
    }

    /// Header and body frame.
    fn write(self, nth: usize, out: &mut Vec<u8>) {
        let mut properties: Vec<u8> = Vec::new();
        let mut flags = 0u16;
        if self.persistent {
            flags |= 1 << 12;
            properties.push(2);
        }
        if self.priorities > 0 {
            flags |= 1 << 11;
            properties.push((nth % usize::from(self.priorities)) as u8);
        }
        if self.expires {
            flags |= 1 << 8;
            properties.extend(b"\x073600000");
        }
        let mut header = vec![0, 60, 0, 0];
        header.extend((self.body_bytes as u64).to_be_bytes());
        header.extend(flags.to_be_bytes());
        header.extend(properties);
        frame(2, &header, out);
        frame(3, &vec![b'x'; self.body_bytes], out);
    }
}

fn frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.extend([kind, 0, 1]);
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend(payload);
    out.push(0xce);
}

/// A connection with one channel.
pub(crate) struct Client {
    stream: TcpStream,
    /// Messages published since confirms were switched on; `None` without confirms.
    published: Option<u64>,
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let mut client = Client { stream, published: None };
        client.stream.write_all(&PROTOCOL_HEADER).expect("it reads");
        client.expect(10, 10);
        let properties = client_properties();
        let start_ok = connection::StartOk {
            client_properties: properties.as_table(),
            mechanism: ShortStr::bounded(b"PLAIN"),
            response: b"\0guest\0guest",
            locale: ShortStr::bounded(b"en_US"),
        };
        client.send(0, &[start_ok.into()]);
        client.expect(10, 30);
        let tune_ok = connection::TuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 0 };
        let open = connection::Open { virtual_host: ShortStr::bounded(b"/"), ..connection::Open::default() };
        client.send(0, &[tune_ok.into(), open.into()]);
        client.expect(10, 41);
        client.send(1, &[channel::Open::default().into()]);
        client.expect(20, 11);
        client
    }

    fn send(&mut self, channel: u16, methods: &[Method<'_>]) {
        let mut bytes = Vec::new();
        methods.iter().for_each(|method| method.encode_frame(channel, &mut bytes));
        self.stream.write_all(&bytes).expect("it reads");
    }

    /// The next frame: its kind, and class and method if it is one.
    fn next(&mut self, payload: &mut Vec<u8>) -> (u8, [u16; 2]) {
        let mut header = [0; 7];
        self.stream.read_exact(&mut header).expect("it writes");
        let bytes = u32::from_be_bytes([header[3], header[4], header[5], header[6]]) as usize;
        payload.resize(bytes + 1, 0);
        self.stream.read_exact(payload).expect("a whole frame");
        let word = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        (header[0], if header[0] == 1 { [word(0), word(2)] } else { [0; 2] })
    }

    fn expect(&mut self, class: u16, method: u16) {
        let mut payload = Vec::new();
        let found = self.next(&mut payload);
        assert_eq!(found, (1, [class, method]), "{}", String::from_utf8_lossy(&payload));
    }

    fn expect_many(&mut self, count: usize, class: u16, method: u16) {
        (0..count).for_each(|_| self.expect(class, method));
    }

    pub(crate) fn declare(&mut self, name: &str, arguments: &TableBuf) {
        self.send(1, &[declare(name, arguments).into()]);
        self.expect(50, 11);
    }

    /// Declares durable queues; the names are the prefix and six digits.
    pub(crate) fn declare_many(&mut self, prefix: &str, numbers: Range<usize>, arguments: &TableBuf) {
        self.many(prefix, numbers, 11, |name, out| declare(name, arguments).encode_frame(1, out));
    }

    pub(crate) fn bind_many(&mut self, prefix: &str, exchange: &str, numbers: Range<usize>) {
        self.many(prefix, numbers, 21, |name, out| {
            let bind = queue::Bind {
                queue: ShortStr::clipped(name.as_bytes()),
                exchange: ShortStr::clipped(exchange.as_bytes()),
                routing_key: ShortStr::clipped(name.as_bytes()),
                arguments: Table::EMPTY,
                ..queue::Bind::default()
            };
            bind.encode_frame(1, out);
        });
    }

    fn many(
        &mut self,
        prefix: &str,
        numbers: Range<usize>,
        answer: u16,
        mut encode: impl FnMut(&str, &mut Vec<u8>),
    ) {
        let mut left = numbers;
        while !left.is_empty() {
            let part: Vec<usize> = left.by_ref().take(PIPELINED).collect();
            let mut bytes = Vec::new();
            part.iter().for_each(|number| encode(&format!("{prefix}{number:06}"), &mut bytes));
            self.stream.write_all(&bytes).expect("it reads");
            self.expect_many(part.len(), 50, answer);
        }
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let delete = queue::Delete { queue: ShortStr::clipped(name.as_bytes()), ..queue::Delete::default() };
        self.send(1, &[delete.into()]);
        self.expect(50, 41);
    }

    /// From now on a publish returns when all is confirmed.
    pub(crate) fn use_confirms(&mut self) {
        self.send(1, &[confirm::Select::default().into()]);
        self.expect(85, 11);
        self.published = Some(0);
    }

    /// Publishes to a queue through the default exchange.
    pub(crate) fn publish(&mut self, message: &Message, queue: &str, count: usize) {
        let publish =
            basic::Publish { routing_key: ShortStr::clipped(queue.as_bytes()), ..basic::Publish::default() };
        let mut bytes = Vec::new();
        for nth in 0..count {
            publish.encode_frame(1, &mut bytes);
            message.write(nth, &mut bytes);
            if bytes.len() > 60_000 || nth + 1 == count {
                self.stream.write_all(&bytes).expect("it reads");
                bytes.clear();
            }
        }
        let Some(published) = &mut self.published else { return };
        *published += count as u64;
        let (goal, mut payload) = (*published, Vec::new());
        loop {
            assert_eq!(self.next(&mut payload), (1, [60, 80]), "a confirm");
            let tag = payload[4..12].try_into().expect("eight bytes");
            if u64::from_be_bytes(tag) == goal {
                return;
            }
        }
    }

    pub(crate) fn get_and_ack(&mut self, queue: &str) {
        let get =
            basic::Get { queue: ShortStr::clipped(queue.as_bytes()), no_ack: true, ..basic::Get::default() };
        self.send(1, &[get.into()]);
        self.expect(60, 71);
        let mut payload = Vec::new();
        assert_eq!(self.next(&mut payload).0, 2);
        assert_eq!(self.next(&mut payload).0, 3);
    }

    /// Consumes with acks, which never come.
    pub(crate) fn consume(&mut self, queue: &str, prefetch: usize) {
        let prefetch_count = u16::try_from(prefetch).unwrap_or(0);
        self.send(1, &[basic::Qos { prefetch_count, ..basic::Qos::default() }.into()]);
        self.expect(60, 11);
        let consume =
            basic::Consume { queue: ShortStr::clipped(queue.as_bytes()), ..basic::Consume::default() };
        self.send(1, &[consume.into()]);
        self.expect(60, 21);
    }

    /// Reads so many deliveries.
    pub(crate) fn receive(&mut self, count: usize) {
        let mut payload = Vec::new();
        let mut bodies = 0;
        while bodies < count {
            bodies += usize::from(self.next(&mut payload).0 == 3);
        }
    }
}

fn declare<'a>(name: &'a str, arguments: &'a TableBuf) -> queue::Declare<'a> {
    queue::Declare {
        queue: ShortStr::clipped(name.as_bytes()),
        durable: true,
        arguments: arguments.as_table(),
        ..queue::Declare::default()
    }
}

/// As large as what pika sends.
fn client_properties() -> TableBuf {
    let mut capabilities = TableBuf::new();
    for name in ["authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"]
    {
        capabilities.push(name, Value::Bool(true));
    }
    capabilities.push("publisher_confirms", Value::Bool(true));
    let mut properties = TableBuf::new();
    properties.push_str("product", "Pika Python Client Library").push_str("platform", "Python 3.11.7");
    properties.push("capabilities", Value::Table(capabilities.as_table()));
    properties.push_str("information", "See http://pika.rtfd.org").push_str("version", "1.3.2");
    properties
}
