//! Sessions driven with bytes, against a real broker in a temporary folder.

use std::time::{Duration, Instant};

use broker::{Broker, BrokerOptions};
use tempfile::TempDir;
use wire::amqp10::{
    Accepted, Attach, AttachTarget, Begin, DeliveryState, Disposition, Flow, Map, ReceiverSettleMode, Role,
    SaslInit, SaslPerformative, SenderSettleMode, Source, Symbol, Symbols, Target, Transfer, encode_delivery,
    write_data_head,
};

use super::*;
use crate::dice::Dice;
use crate::{Session as _, State};

mod hostile;
mod stories;

const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    broker: Broker,
    _folder: TempDir,
}

struct Client {
    session: Session,
    now: Now,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        World { broker: Broker::open(folder.path(), BrokerOptions::default()).unwrap(), _folder: folder }
    }

    fn connect(&self) -> Client {
        let peer = Peer::plain("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:5672".parse().unwrap(), 7);
        let now = Now { monotonic_ms: 1000, unix_ms: 0 };
        let settings = Arc::new(Settings::default());
        let session = Session::new(self.broker.clone(), settings, peer, now);
        Client { session, now, input: Vec::new(), output: Vec::new() }
    }

    /// A connection with session 0.
    fn begun(&self) -> Client {
        let mut client = self.connect();
        client.send(&SASL_PROTOCOL_HEADER);
        client.skip_header();
        assert!(matches!(client.sasl(), Said::Mechanisms));
        let response = Some(&b"\0guest\0guest"[..]);
        let init = SaslInit { mechanism: Symbol(b"PLAIN"), initial_response: response, hostname: None };
        client.write(|out| init.encode_frame(0, out));
        assert!(matches!(client.sasl(), Said::In));
        client.send(&PROTOCOL_HEADER);
        client.skip_header();
        client.write(|out| open_frame().encode_frame(0, out));
        assert_eq!(client.next(), "amqp:open:list");
        client.write(|out| begin_frame().encode_frame(0, out));
        assert_eq!(client.next(), "amqp:begin:list");
        client
    }

    fn queue(&self, name: &[u8]) {
        self.queue_of(name, "classic");
    }

    fn queue_of(&self, name: &[u8], kind: &str) {
        let mut arguments = message::TableBuf::new();
        arguments.push_str("x-queue-type", kind);
        let connected = self.connect();
        let user = self.broker.authenticate("guest", b"guest", true).unwrap();
        let id = self.broker.next_connection_id();
        let control = connected.session.control.clone();
        let principal = self.broker.open_connection(user, "/", id, control).ok().unwrap();
        let declare = broker::QueueDeclare {
            name,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.as_table(),
        };
        self.broker.declare_queue(&principal, declare).ok().unwrap().counts.wait().unwrap();
        self.broker.close_connection(&principal);
    }
}

enum Said {
    Mechanisms,
    In,
}

fn open_frame() -> Open<'static> {
    Open {
        container_id: "test",
        hostname: None,
        max_frame_size: 512,
        channel_max: 9,
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
        next_outgoing_id: 5,
        incoming_window: 2,
        outgoing_window: 100,
        handle_max: 7,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    }
}

fn attach_frame(role: Role, handle: u32) -> Attach<'static> {
    let address = Some("/queues/q");
    Attach {
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
    }
}

fn flow_frame(handle: Option<u32>, seen: u32, window: u32, credit: u32) -> Flow<'static> {
    Flow {
        next_incoming_id: Some(seen),
        incoming_window: window,
        next_outgoing_id: 5,
        outgoing_window: 100,
        handle,
        delivery_count: handle.map(|_| 0),
        link_credit: handle.map(|_| credit),
        available: None,
        drain: false,
        echo: false,
        properties: Map::EMPTY,
    }
}

/// A message of one data section.
fn message_of(bytes: usize) -> Vec<u8> {
    let mut message = Vec::new();
    write_data_head(bytes, &mut message);
    message.resize(message.len() + bytes, 7);
    message
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.turn();
    }

    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.send(&bytes);
    }

    fn turn(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let is_ready = Session::poll_stalled(&mut self.session, &mut cx).is_ready();
        if is_ready && !self.input.is_empty() {
            let progress = Session::receive(&mut self.session, &self.input, self.now);
            self.input.drain(..progress.consumed);
        }
        let mut taken = Vec::new();
        loop {
            crate::Session::outbox(&self.session).take(&mut taken);
            if taken.is_empty() {
                break;
            }
            crate::Session::bytes_sent(&mut self.session, taken.len(), self.now);
            self.output.append(&mut taken);
        }
        Session::output_drained(&mut self.session);
    }

    fn skip_header(&mut self) {
        assert!(self.output.len() >= 8);
        self.output.drain(..8);
    }

    /// The next whole frame.
    fn frame(&mut self) -> Vec<u8> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(Parsed::Complete { consumed, .. }) = parse_frame(&self.output, usize::MAX) {
                return self.output.drain(..consumed).collect();
            }
            assert!(Instant::now() < until, "no frame comes");
            std::thread::yield_now();
            self.turn();
        }
    }

    fn sasl(&mut self) -> Said {
        let frame = self.frame();
        match SaslPerformative::decode(&frame[8..]).unwrap().0 {
            SaslPerformative::SaslMechanisms(_) => Said::Mechanisms,
            SaslPerformative::SaslOutcome(outcome) if outcome.code == SaslCode::Ok => Said::In,
            other => panic!("{other:?}"),
        }
    }

    /// The name of the next performative.
    fn next(&mut self) -> &'static str {
        let frame = self.frame();
        Performative::decode(&frame[8..]).unwrap().0.name()
    }

    fn attach(&mut self, role: Role, handle: u32) {
        self.write(|out| attach_frame(role, handle).encode_frame(0, out));
        assert_eq!(self.next(), "amqp:attach:list");
        if role == Role::Sender {
            assert_eq!(self.next(), "amqp:flow:list");
        }
    }

    /// Sends one frame whose descriptor, in the short form, is made long.
    fn write_long(&mut self, code: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let mut frame = Vec::new();
        write(&mut frame);
        assert_eq!(frame[8..11], [0x00, 0x53, code]);
        frame.splice(9..11, [0x80, 0, 0, 0, 0, 0, 0, 0, code]);
        let bytes = (frame.len() as u32).to_be_bytes();
        frame[..4].copy_from_slice(&bytes);
        self.write(|out| out.extend_from_slice(&frame));
    }

    /// Sends a message in as many frames as it takes.
    fn publish(&mut self, handle: u32, id: u32, bytes: usize) {
        let message = message_of(bytes);
        let transfer = Transfer {
            delivery_id: Some(id),
            delivery_tag: Some(b"t"),
            message_format: Some(0),
            ..Transfer::of(handle)
        };
        self.write(|out| {
            encode_delivery(0, &transfer, &[&message], 512, out);
        });
    }
}

#[test]
fn a_message_goes_through_a_queue_and_is_settled() {
    let world = World::new();
    world.queue(b"q");
    let mut client = world.begun();
    client.attach(Role::Sender, 0);
    client.attach(Role::Receiver, 1);
    client.publish(0, 0, 10);
    assert_eq!(client.next(), "amqp:disposition:list");
    client.write(|out| flow_frame(Some(1), 0, 100, 10).encode_frame(0, out));
    let frame = client.frame();
    let (Performative::Transfer(transfer), payload) = Performative::decode(&frame[8..]).unwrap() else {
        panic!()
    };
    assert_eq!((transfer.handle, transfer.delivery_id, transfer.settled), (1, Some(0), Some(false)));
    assert!(payload.ends_with(&[7; 10]));
    let accepted = Disposition {
        role: Role::Receiver,
        first: 0,
        last: None,
        settled: true,
        state: Some(DeliveryState::Accepted(Accepted {})),
        batchable: false,
    };
    client.write(|out| accepted.encode_frame(0, out));
    client.write(|out| Close { error: None }.encode_frame(0, out));
    assert_eq!(client.next(), "amqp:close:list");
    let queue = world.broker.vhost("/").unwrap().queue(b"q").unwrap();
    let stats = queue.stats().wait();
    assert_eq!((stats.ready, stats.unacked), (0, 0));
}

#[test]
fn frames_whose_descriptors_are_written_the_long_way_are_taken() {
    let world = World::new();
    world.queue(b"q");
    let mut client = world.begun();
    client.attach(Role::Sender, 0);
    let transfer = Transfer { delivery_id: Some(0), delivery_tag: Some(b"t"), ..Transfer::of(0) };
    client.write_long(0x14, |out| {
        encode_delivery(0, &transfer, &[&message_of(10)], 512, out);
    });
    assert_eq!(client.next(), "amqp:disposition:list");
    let queue = world.broker.vhost("/").unwrap().queue(b"q").unwrap();
    assert_eq!(queue.stats().wait().ready, 1);
    client.write_long(0x18, |out| Close { error: None }.encode_frame(0, out));
    assert_eq!(client.next(), "amqp:close:list");
}

#[test]
fn a_large_message_waits_for_a_narrow_window_frame_by_frame() {
    let world = World::new();
    world.queue(b"q");
    let mut client = world.begun();
    client.attach(Role::Sender, 0);
    client.attach(Role::Receiver, 1);
    client.publish(0, 0, 5000);
    assert_eq!(client.next(), "amqp:disposition:list");
    client.write(|out| flow_frame(Some(1), 0, 2, 1).encode_frame(0, out));
    let (mut frames, mut got) = (0, 0);
    loop {
        let frame = client.frame();
        assert!(frame.len() <= 512);
        let (Performative::Transfer(transfer), payload) = Performative::decode(&frame[8..]).unwrap() else {
            panic!("a transfer")
        };
        got += payload.iter().filter(|byte| **byte == 7).count();
        frames += 1;
        if !transfer.more {
            break;
        }
        if frames % 2 == 0 {
            client.turn();
            assert!(client.output.is_empty(), "no more than the window");
            client.write(|out| flow_frame(None, frames, 2, 0).encode_frame(0, out));
        }
    }
    assert!(frames > 9 && got >= 5000, "{frames} frames, {got} bytes");
}

#[test]
fn sending_without_credit_ends_the_link_and_an_unknown_handle_the_session() {
    let world = World::new();
    world.queue(b"q");
    let mut client = world.begun();
    client.attach(Role::Sender, 0);
    let session = client.session.running.as_mut().unwrap();
    session.session(0).inlet(0).unwrap().credit = 0;
    client.publish(0, 0, 10);
    assert_eq!(client.next(), "amqp:detach:list");
    client.publish(3, 1, 10);
    assert_eq!(client.next(), "amqp:end:list");
    assert_eq!(crate::Session::state(&client.session), State::Running);
}

impl Dice {
    fn small(&mut self, sides: u64) -> u32 {
        u32::try_from(self.roll(sides)).unwrap()
    }
}

/// One frame, mostly a sensible one.
fn random_frame(dice: &mut Dice, next_id: &mut u32, out: &mut Vec<u8>) {
    let (handle, channel) = (dice.small(4), u16::try_from(dice.roll(3)).unwrap());
    match dice.roll(12) {
        0 => begin_frame().encode_frame(channel, out),
        1 => attach_frame(Role::Sender, handle).encode_frame(channel, out),
        2 => attach_frame(Role::Receiver, handle).encode_frame(channel, out),
        3..=5 => {
            let message = message_of(usize::try_from(dice.roll(1500)).unwrap());
            let settled = [None, Some(true), Some(false)][usize::try_from(dice.roll(3)).unwrap()];
            let transfer = Transfer {
                delivery_id: Some(*next_id),
                delivery_tag: Some(b"t"),
                settled,
                more: dice.roll(8) == 0,
                aborted: dice.roll(20) == 0,
                ..Transfer::of(handle)
            };
            *next_id = next_id.wrapping_add(1);
            encode_delivery(channel, &transfer, &[&message], 512, out);
        }
        6 | 7 => {
            let flow = flow_frame((dice.roll(4) > 0).then_some(handle), 0, dice.small(2000), dice.small(50));
            Flow { drain: dice.roll(3) == 0, echo: dice.roll(3) == 0, ..flow }.encode_frame(channel, out);
        }
        8 | 9 => {
            let state = match dice.roll(4) {
                0 => DeliveryState::Accepted(Accepted {}),
                1 => DeliveryState::Released(wire::amqp10::Released {}),
                2 => DeliveryState::Rejected(wire::amqp10::Rejected { error: None }),
                _ => return,
            };
            let first = dice.small(20);
            let disposition = Disposition {
                role: Role::Receiver,
                first,
                last: Some(first + dice.small(5)),
                settled: dice.roll(2) == 0,
                state: Some(state),
                batchable: false,
            };
            disposition.encode_frame(channel, out);
        }
        10 => {
            wire::amqp10::Detach { handle, closed: true, error: None }.encode_frame(channel, out);
        }
        _ => wire::amqp10::End { error: None }.encode_frame(channel, out),
    }
}

#[test]
fn whatever_clients_send_nothing_panics_and_what_they_held_comes_back() {
    let world = World::new();
    world.queue(b"q");
    for seed in 0..60 {
        let (mut dice, mut next_id) = (Dice(seed), 0);
        let mut client = world.begun();
        for _ in 0..60 {
            let mut bytes = Vec::new();
            for _ in 0..=dice.roll(6) {
                random_frame(&mut dice, &mut next_id, &mut bytes);
            }
            if dice.roll(6) == 0 {
                let at = usize::try_from(dice.roll(bytes.len().max(1) as u64)).unwrap();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u8::try_from(dice.roll(256)).unwrap();
                }
            }
            client.send(&bytes);
            client.output.clear();
            if crate::Session::state(&client.session) != State::Running {
                break;
            }
        }
        crate::Session::released(&mut client.session);
    }
    let queue = world.broker.vhost("/").unwrap().queue(b"q").unwrap();
    assert_eq!(queue.stats().wait().unacked, 0);
    assert_eq!(queue.counts().wait().ok().unwrap().consumers, 0);
}

#[test]
fn sessions_and_links_are_listed_with_their_credit_as_long_as_they_are_there() {
    let world = World::new();
    world.queue(b"q");
    let mut client = world.begun();
    client.attach(Role::Sender, 0);
    client.attach(Role::Receiver, 3);
    client.publish(0, 0, 10);
    assert_eq!(client.next(), "amqp:disposition:list");
    client.write(|out| flow_frame(Some(3), 0, 100, 10).encode_frame(0, out));
    assert_eq!(client.next(), "amqp:transfer:list");
    let sessions = broker::ConnectionControl::sessions(&*client.session.control).unwrap();
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((session.channel_number, session.handle_max), (0, 7));
    assert_eq!((session.outgoing_unsettled_deliveries, session.next_outgoing_id), (1, 1));
    let [incoming] = &session.incoming_links[..] else { panic!("{session:?}") };
    assert_eq!((incoming.handle, &*incoming.name, incoming.settle_mode), (0, "out", "mixed"));
    assert_eq!((incoming.address.as_deref(), incoming.unconfirmed_messages), (Some("/queues/q"), 0));
    assert_eq!((incoming.delivery_count, incoming.credit), (1, 169));
    let [outgoing] = &session.outgoing_links[..] else { panic!("{session:?}") };
    assert_eq!((outgoing.handle, &*outgoing.queue, outgoing.settle_mode), (3, "q", "unsettled"));
    assert_eq!((outgoing.delivery_count, outgoing.credit), (1, 9));
    client.write(|out| {
        wire::amqp10::Detach { handle: 3, closed: true, error: None }.encode_frame(0, out);
    });
    assert_eq!(client.next(), "amqp:detach:list");
    let sessions = broker::ConnectionControl::sessions(&*client.session.control).unwrap();
    assert!(sessions[0].outgoing_links.is_empty() && sessions[0].incoming_links.len() == 1);
}
