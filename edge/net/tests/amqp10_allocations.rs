//! A message of AMQP 1.0 causes no allocation, neither when it is published nor when it is delivered: counted by the allocator, over a real socket.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use broker::{Broker, BrokerOptions};
use net::{Endpoint, Listener, ListenerOptions};
use platform::{RealClock, RealRandom};
use protocols::amqp10::{Door, Settings};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use wire::amqp10::{
    Accepted, Attach, AttachTarget, Begin, DeliveryState, Disposition, Flow, Map, Open, PROTOCOL_HEADER,
    Parsed, Performative, ReceiverSettleMode, Role, SASL_PROTOCOL_HEADER, SaslInit, SenderSettleMode, Source,
    Symbol, Symbols, Target, Transfer, decode_transfer, encode_delivery, parse_frame,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Messages between two dispositions, and in a write: a difference between few and many shows what a message costs.
const FEW: u32 = 30;
const MANY: u32 = 150;
/// Batches before the count begins: buffers become as large then as they ever do.
const BATCHES_BEFORE: u32 = 100;
const BATCHES: u32 = 200;
/// Allocations that a message may cause. An allocation of each message counts 1. The sum is not 0: a busy machine cuts a batch
/// into several turns, the vectors of a turn double as they grow, and a queue's block holds many messages.
const ALLOCATIONS_MAX: f64 = 0.5;

fn serve(broker: Broker) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let loopback = [SocketAddr::from(([127, 0, 0, 1], 0))];
            let listener = Listener::bind(&loopback, ListenerOptions::default()).unwrap();
            tell.send(listener.local_address().unwrap()).unwrap();
            let door = Door { broker, settings: Arc::new(Settings::default()) };
            let (clock, random) = (Arc::new(RealClock::default()), Arc::new(RealRandom));
            listener.accept(Endpoint::default(), door, clock, random).await;
        });
    });
    told.recv().unwrap()
}

/// A client that allocates nothing once its buffer is large enough.
struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    out: Vec<u8>,
    /// Messages.
    sent: u32,
}

impl Client {
    fn open(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut client =
            Client { socket, buffer: vec![0; 1 << 20], start: 0, end: 0, out: Vec::new(), sent: 0 };
        client.header(SASL_PROTOCOL_HEADER);
        let response = Some(&b"\0guest\0guest"[..]);
        let init = SaslInit { mechanism: Symbol(b"PLAIN"), initial_response: response, hostname: None };
        init.encode_frame(0, &mut client.out);
        client.flush();
        // The mechanisms, and the outcome.
        client.frame(|_| ());
        client.frame(|_| ());
        client.header(PROTOCOL_HEADER);
        open_frame().encode_frame(0, &mut client.out);
        begin_frame().encode_frame(0, &mut client.out);
        client.flush();
        client.expect("amqp:open:list");
        client.expect("amqp:begin:list");
        client
    }

    fn header(&mut self, header: [u8; 8]) {
        self.socket.write_all(&header).unwrap();
        while self.end - self.start < 8 {
            self.fill();
        }
        self.start += 8;
    }

    fn fill(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = self.socket.read(&mut self.buffer[self.end..]).unwrap();
        assert!(count > 0, "the broker has ended the connection");
        self.end += count;
    }

    fn flush(&mut self) {
        self.socket.write_all(&self.out).unwrap();
        self.out.clear();
    }

    /// The next frame's body.
    fn frame<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> T {
        loop {
            let bytes = &self.buffer[self.start..self.end];
            if let Parsed::Complete { frame, consumed } = parse_frame(bytes, 1 << 20).unwrap() {
                self.start += consumed;
                return look(frame.body);
            }
            self.fill();
        }
    }

    /// Passes over frames up to this one.
    fn expect(&mut self, name: &str) {
        while !self.frame(|body| Performative::decode(body).unwrap().0.name() == name) {}
    }

    fn attach(&mut self, role: Role, handle: u32) {
        let address = Some("/queues/q");
        let attach = Attach {
            name: if role == Role::Sender { "out" } else { "in" },
            handle,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Source { address, ..Source::default() }),
            target: Some(AttachTarget::Target(Target { address, ..Target::default() })),
            unsettled: Map::EMPTY,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::EMPTY,
        };
        attach.encode_frame(0, &mut self.out);
        self.flush();
        self.expect("amqp:attach:list");
    }

    /// Publishes a batch, reads it back, and accepts it in one range.
    fn batch(&mut self, count: u32, durable: bool) {
        let first = self.sent;
        self.sent += count;
        let mut message = [0; 64];
        let mut bytes = 0;
        if durable {
            message[..5].copy_from_slice(b"\x00\x53\x70\xC0\x02");
            message[5..7].copy_from_slice(b"\x01\x41");
            bytes = 7;
        }
        message[bytes..bytes + 5].copy_from_slice(b"\x00\x53\x75\xA0\x0C");
        for id in first..first + count {
            let tag = id.to_be_bytes();
            let transfer = Transfer {
                delivery_id: Some(id),
                delivery_tag: Some(&tag),
                message_format: Some(0),
                settled: Some(false),
                ..Transfer::of(0)
            };
            encode_delivery(0, &transfer, &[&message[..bytes + 17]], 100_000, &mut self.out);
        }
        let flow = flow_frame(first, count);
        flow.encode_frame(0, &mut self.out);
        self.flush();
        let (mut delivered, mut accepted) = (0, 0);
        while delivered < count || accepted < count {
            let (more_delivered, more_accepted) = self.frame(|body| {
                if decode_transfer(body).is_some() {
                    return (1, 0);
                }
                match Performative::decode(body).unwrap().0 {
                    Performative::Disposition(it) => {
                        assert!(matches!(it.state, Some(DeliveryState::Accepted(_))));
                        (0, it.last.unwrap_or(it.first) - it.first + 1)
                    }
                    Performative::Flow(_) => (0, 0),
                    other => panic!("{other:?}"),
                }
            });
            delivered += more_delivered;
            accepted += more_accepted;
        }
        let disposition = Disposition {
            role: Role::Receiver,
            first,
            last: Some(first + count - 1),
            settled: true,
            state: Some(DeliveryState::Accepted(Accepted {})),
            batchable: false,
        };
        disposition.encode_frame(0, &mut self.out);
        self.flush();
    }
}

fn open_frame() -> Open<'static> {
    Open {
        container_id: "test",
        hostname: None,
        max_frame_size: 100_000,
        channel_max: 0,
        idle_time_out: None,
        outgoing_locales: Symbols::EMPTY,
        incoming_locales: Symbols::EMPTY,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    }
}

fn begin_frame() -> Begin<'static> {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1 << 30,
        outgoing_window: 1 << 30,
        handle_max: 7,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    }
}

/// Asks for so many messages behind the first `received` ones.
fn flow_frame(received: u32, credit: u32) -> Flow<'static> {
    Flow {
        next_incoming_id: Some(received),
        incoming_window: 1 << 30,
        next_outgoing_id: received,
        outgoing_window: 1 << 30,
        handle: Some(1),
        delivery_count: Some(received),
        link_credit: Some(credit),
        available: None,
        drain: false,
        echo: false,
        properties: Map::EMPTY,
    }
}

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

#[test]
fn a_message_allocates_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let broker =
        Broker::open(folder.path(), BrokerOptions { fsync: false, ..BrokerOptions::default() }).unwrap();
    let address = serve(broker);
    let mut queue = manager(address);
    let mut client = Client::open(address);
    client.attach(Role::Sender, 0);
    client.attach(Role::Receiver, 1);
    for (name, durable) in [("transient", false), ("durable", true)] {
        let [few, many] = [FEW, MANY].map(|count| {
            (0..BATCHES_BEFORE).for_each(|_| client.batch(count, durable));
            let before = allocations();
            (0..BATCHES).for_each(|_| client.batch(count, durable));
            (allocations() - before) as f64 / f64::from(BATCHES)
        });
        let each = (many - few) / f64::from(MANY - FEW);
        assert!(each < ALLOCATIONS_MAX, "{each} for each {name} message: {few} for {FEW}, {many} for {MANY}");
    }
    // The connection that declared the queue lives as long.
    queue.flush();
}

/// A connection that has declared the queue `q`.
fn manager(address: SocketAddr) -> Client {
    let mut client = Client::open(address);
    let mut paired = Vec::new();
    wire::amqp10::Writer::new(&mut paired).symbol(b"paired");
    paired.push(0x41);
    for (handle, role) in [(0, Role::Sender), (1, Role::Receiver)] {
        let node = Some("/management");
        let attach = Attach {
            name: "management",
            handle,
            role,
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: Some(Source { address: node, ..Source::default() }),
            target: Some(AttachTarget::Target(Target { address: node, ..Target::default() })),
            unsettled: Map::EMPTY,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::from_raw(&paired),
        };
        attach.encode_frame(0, &mut client.out);
    }
    client.flush();
    let mut attached = 0;
    while attached < 2 {
        attached += client.frame(|body| {
            i32::from(matches!(Performative::decode(body).unwrap().0, Performative::Attach(_)))
        });
    }
    let mut message = Vec::new();
    let properties = wire::amqp10::Properties {
        message_id: Some(wire::amqp10::MessageId::Ulong(1)),
        to: Some(wire::amqp10::Str(b"/queues/q")),
        subject: Some(wire::amqp10::Str(b"PUT")),
        reply_to: Some(wire::amqp10::Str(b"$me")),
        ..wire::amqp10::Properties::EMPTY
    };
    properties.encode(&mut message);
    wire::amqp10::Writer::new(&mut message).described(0x77, |writer| writer.map(|_| ()));
    flow_frame(0, 1).encode_frame(0, &mut client.out);
    let transfer = Transfer {
        delivery_id: Some(0),
        delivery_tag: Some(b"r"),
        message_format: Some(0),
        settled: Some(true),
        ..Transfer::of(0)
    };
    encode_delivery(0, &transfer, &[&message], 100_000, &mut client.out);
    client.flush();
    while !client.frame(|body| decode_transfer(body).is_some()) {}
    client
}
