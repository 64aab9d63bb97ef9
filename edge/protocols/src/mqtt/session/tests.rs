//! Sessions driven with bytes, against a real broker in a temporary folder: clients that send anything in any order, in pieces of any
//! size, with damage. Nothing panics, and their messages come back.

use std::time::{Duration, Instant};

use broker::{Broker, BrokerOptions};
use tempfile::TempDir;
use wire::mqtt::{
    Ack, Publish, Qos, RetainHandling, Subscribe, Subscription, SubscriptionOptions, Subscriptions,
    VarNumber, Will as WireWill,
};

use super::*;
use crate::dice::Dice;
use crate::{Door as _, Progress, Session as _, State};

const PATIENCE: Duration = Duration::from_secs(20);

/// Client ids, topics and filters that all clients share.
const CLIENTS: [&str; 3] = ["chaos-a", "chaos-b", ""];
const TOPICS: [&str; 4] = ["a", "a/b", "a.b/c", "$x/y"];
const FILTERS: [&str; 6] = ["#", "a/+", "a/#", "a.b/c", "$share/g/a/#", "+/b"];

impl Dice {
    fn qos(&mut self) -> Qos {
        self.one_of(&[Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce])
    }
}

struct World {
    broker: Broker,
    door: Door,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
        let door = Door { broker: broker.clone(), settings: Arc::default() };
        World { broker, door, _folder: folder }
    }

    fn client(&self) -> Client {
        let peer = Peer::plain("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:1883".parse().unwrap(), 7);
        let now = Now { monotonic_ms: 1000, unix_ms: 1 };
        let session = self.door.open(peer, now);
        Client { session, now, input: Vec::new(), output: Vec::new() }
    }
}

struct Client {
    session: Session,
    now: Now,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    fn turn(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let is_ready = self.session.poll_stalled(&mut cx).is_ready();
        if is_ready && !self.input.is_empty() {
            let Progress { consumed, needed } = self.session.receive(&self.input, self.now);
            assert!(consumed <= self.input.len() && needed <= self.input.len() + Step::MORE_BYTES_MAX);
            self.input.drain(..consumed);
        }
        let outbox = crate::Session::outbox(&self.session);
        let mut taken = Vec::new();
        loop {
            outbox.take(&mut taken);
            if taken.is_empty() {
                break;
            }
            crate::Session::bytes_sent(&mut self.session, taken.len(), self.now);
            self.output.append(&mut taken);
        }
        crate::Session::output_drained(&mut self.session);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.turn();
    }

    /// Packets of the server that are whole: type and first byte of the body.
    fn packets(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(&self.output, usize::MAX) {
            found.push((frame.kind, frame.body.to_vec()));
            self.output.drain(..consumed);
        }
        found
    }

    /// Waits for a packet of this type; those before it are dropped.
    fn wait_for(&mut self, kind: u8) -> Vec<u8> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.turn();
            if let Some((_, body)) = self.packets().into_iter().find(|(found, _)| *found == kind) {
                return body;
            }
            assert!(Instant::now() < until, "no packet of type {kind} within {PATIENCE:?}");
            std::thread::yield_now();
        }
    }

    /// Everything up to the first packet of this type, and what came with it.
    fn heard(&mut self, kind: u8) -> Vec<(u8, Vec<u8>)> {
        let until = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        while !all.iter().any(|(found, _)| *found == kind) {
            self.turn();
            all.append(&mut self.packets());
            assert!(Instant::now() < until, "no packet of type {kind} within {PATIENCE:?}: {all:?}");
            std::thread::yield_now();
        }
        all
    }

    /// Acknowledges a packet id.
    fn tell(&mut self, packet: fn(Ack<'static>) -> Packet<'static>, packet_id: u16) {
        self.send(&encoded(&packet(Ack { packet_id, ..Ack::default() }), Version::V311));
    }

    fn state(&self) -> State {
        crate::Session::state(&self.session)
    }
}

fn encoded(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes);
    bytes
}

fn connect_of(version: Version, client_id: &str, clean_start: bool, properties: Properties<'_>) -> Vec<u8> {
    let connect = Connect {
        version,
        clean_start,
        keep_alive_s: 10,
        properties,
        client_id,
        will: None,
        user_name: Some("guest"),
        password: Some(b"guest"),
    };
    encoded(&Packet::Connect(connect), version)
}

/// A CONNECT, mostly a sensible one.
fn connect(dice: &mut Dice, version: Version) -> Vec<u8> {
    let properties = [Property::SessionExpiryInterval(dice.roll(3) as u32), Property::ReceiveMaximum(3)];
    let will_properties = [Property::WillDelayInterval(dice.roll(2) as u32)];
    let is_v5 = version == Version::V5;
    let will = WireWill {
        qos: dice.qos(),
        retain: dice.flip(),
        properties: if is_v5 { Properties::of(&will_properties) } else { Properties::EMPTY },
        topic: dice.one_of(&TOPICS),
        payload: b"will",
    };
    let connect = Connect {
        version,
        clean_start: dice.flip(),
        keep_alive_s: 10,
        properties: if is_v5 { Properties::of(&properties) } else { Properties::EMPTY },
        client_id: dice.one_of(&CLIENTS),
        will: dice.flip().then_some(will),
        user_name: Some("guest"),
        password: Some(b"guest"),
    };
    encoded(&Packet::Connect(connect), version)
}

/// A packet of an open connection, in any order.
fn packet(dice: &mut Dice, version: Version) -> Vec<u8> {
    let packet_id = 1 + dice.roll(5) as u16;
    let ack = Ack { packet_id, ..Ack::default() };
    let is_v5 = version == Version::V5;
    let options = SubscriptionOptions {
        qos: dice.qos(),
        no_local: is_v5 && dice.flip(),
        retain_as_published: is_v5 && dice.flip(),
        retain_handling: if is_v5 && dice.flip() { RetainHandling::SendIfNew } else { RetainHandling::Send },
    };
    let filters = [dice.one_of(&FILTERS), dice.one_of(&FILTERS)];
    let subscriptions = filters.map(|filter| {
        let no_local = options.no_local && !filter.starts_with("$share");
        Subscription { filter, options: SubscriptionOptions { no_local, ..options } }
    });
    let body = vec![7; dice.roll(20) as usize * dice.roll(200) as usize];
    let of_subscribe = [Property::SubscriptionIdentifier(VarNumber(1 + dice.roll(3) as u32))];
    let of_publish = [Property::TopicAlias(1 + dice.roll(17) as u16)];
    let of = |properties| if is_v5 { Properties::of(properties) } else { Properties::EMPTY };
    let packet = match dice.roll(24) {
        0..=3 => Packet::Subscribe(Subscribe {
            packet_id,
            properties: of(&of_subscribe),
            subscriptions: Subscriptions::of(&subscriptions),
        }),
        4 => return unsubscribe(packet_id, &filters, version),
        5 => Packet::PubAck(ack),
        6 | 7 => Packet::PubRec(ack),
        8 | 9 => Packet::PubRel(ack),
        10 | 11 => Packet::PubComp(ack),
        12 => Packet::PingReq,
        13 if dice.roll(4) == 0 => Packet::Disconnect(Disconnect::default()),
        14 if dice.roll(8) == 0 => return connect(dice, version),
        _ => Packet::Publish(Publish {
            dup: false,
            qos: dice.qos(),
            retain: dice.roll(4) == 0,
            topic: dice.one_of(&TOPICS),
            packet_id,
            properties: if dice.roll(4) == 0 { of(&of_publish) } else { Properties::EMPTY },
            payload: &body,
        }),
    };
    encoded(&packet, version)
}

fn unsubscribe(packet_id: u16, filters: &[&str], version: Version) -> Vec<u8> {
    let mut body = packet_id.to_be_bytes().to_vec();
    if version == Version::V5 {
        body.push(0);
    }
    for filter in filters {
        body.extend_from_slice(&(filter.len() as u16).to_be_bytes());
        body.extend_from_slice(filter.as_bytes());
    }
    let mut bytes = vec![0xA2, body.len() as u8];
    bytes.append(&mut body);
    bytes
}

/// A connection's life; the number of packets that came back.
fn live(world: &World, dice: &mut Dice) -> usize {
    let version = dice.one_of(&[Version::V31, Version::V311, Version::V5]);
    let mut client = world.client();
    let mut bytes = connect(dice, version);
    let mut packets = 0;
    for _ in 0..dice.roll(30) {
        for _ in 0..dice.roll(6) {
            bytes.extend_from_slice(&packet(dice, version));
        }
        if !bytes.is_empty() && dice.roll(30) == 0 {
            let at = dice.roll(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice.roll(8);
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + dice.roll(rest.len().min(500) as u64) as usize);
            client.send(piece);
            rest = behind;
        }
        bytes.clear();
        // The confirms of the connection before are awaited.
        let until = Instant::now() + PATIENCE;
        while client.session.phase == Phase::Opening && Instant::now() < until {
            std::thread::yield_now();
            client.turn();
        }
        packets += client.packets().len();
        if dice.roll(10) == 0 {
            client.now.monotonic_ms += 2_000;
            client.session.tick(client.now);
        }
    }
    if dice.flip() {
        crate::Session::released(&mut client.session);
    }
    packets
}

#[test]
fn clients_that_send_anything_leave_nothing_behind() {
    let world = World::new();
    let mut dice = Dice(0xC0FFEE);
    let packets: usize = (0..300).map(|_| live(&world, &mut dice)).sum();
    assert!(packets > 1_000, "{packets} packets: clients that are closed at once prove nothing");
    assert_eq!((world.broker.connections().count(), world.broker.client_count()), (0, 0));
    // The ids are free, and the sessions work.
    for id in &CLIENTS[..2] {
        let mut client = world.client();
        client.send(&connect_of(Version::V5, id, true, Properties::EMPTY));
        assert_eq!(client.wait_for(2)[1], reason::SUCCESS);
        let options = SubscriptionOptions { qos: Qos::AtLeastOnce, ..SubscriptionOptions::default() };
        let subscriptions = [Subscription { filter: "after/all", options }];
        let subscriptions = Subscriptions::of(&subscriptions);
        let subscribe = Subscribe { packet_id: 9, properties: Properties::EMPTY, subscriptions };
        client.send(&encoded(&Packet::Subscribe(subscribe), Version::V5));
        client.wait_for(9);
        let publish = Publish {
            dup: false,
            qos: Qos::AtLeastOnce,
            retain: false,
            topic: "after/all",
            packet_id: 1,
            properties: Properties::EMPTY,
            payload: b"whole",
        };
        client.send(&encoded(&Packet::Publish(publish), Version::V5));
        assert!(client.wait_for(3).ends_with(b"whole"));
    }
}

/// A fleet that comes back in fury with the same ids: at most one connection of each id holds it and one waits; the others are told to
/// come again, and nothing piles up.
#[test]
fn a_storm_of_reconnects_is_bounded() {
    let world = World::new();
    let mut clients: Vec<Client> = Vec::new();
    let mut busy = 0;
    for round in 0..2_000_u64 {
        let mut client = world.client();
        let id = format!("fleet-{}", round % 20);
        let lasts = [Property::SessionExpiryInterval(100)];
        client.send(&connect_of(Version::V5, &id, false, Properties::of(&lasts)));
        let refused =
            client.packets().iter().any(|(kind, body)| *kind == 2 && body[1] == reason::SERVER_BUSY);
        busy += usize::from(refused);
        clients.push(client);
        if round % 47 == 0 {
            clients.iter_mut().for_each(Client::turn);
            clients.retain(|client| client.state() == State::Running);
        }
        assert!(world.broker.connections().count() <= 40, "one holds an id and one waits for it");
    }
    assert!(busy > 0, "nobody had to wait: the storm was none");
    // The last ones of each id are in.
    let until = Instant::now() + PATIENCE;
    while clients.iter().any(|client| client.session.phase == Phase::Opening) {
        clients.iter_mut().for_each(Client::turn);
        assert!(Instant::now() < until, "somebody waits for an id for ever");
    }
    clients.iter_mut().for_each(Client::turn);
    clients.retain(|client| client.session.phase == Phase::Running);
    assert_eq!((clients.len(), world.broker.client_count()), (20, 20));
}

/// A client of version 3.1.1 whose session stays.
fn lasting(world: &World, id: &str) -> Client {
    let mut client = world.client();
    client.send(&connect_of(Version::V311, id, false, Properties::EMPTY));
    client
}

/// Publishes once with QoS 2.
fn publish_once(world: &World, payload: &[u8]) {
    let mut sender = lasting(world, "sender");
    sender.wait_for(2);
    let publish = Publish {
        dup: false,
        qos: Qos::ExactlyOnce,
        retain: false,
        topic: "once/x",
        packet_id: 1,
        properties: Properties::EMPTY,
        payload,
    };
    sender.send(&encoded(&Packet::Publish(publish), Version::V311));
    sender.wait_for(5);
    sender.tell(Packet::PubRel, 1);
    sender.wait_for(7);
    crate::Session::released(&mut sender.session);
}

/// The packet id and the payload of a message to `once/x`.
fn once(packets: &[(u8, Vec<u8>)]) -> Vec<(u16, &[u8])> {
    let messages = packets.iter().filter(|(kind, _)| *kind == 3);
    messages.map(|(_, body)| (u16::from_be_bytes([body[8], body[9]]), &body[10..])).collect()
}

/// A reader that has said PUBREC of the message "first", and heard PUBREL; the packet id.
fn reader_with_half(world: &World) -> u16 {
    let mut reader = lasting(world, "reader");
    reader.wait_for(2);
    let options = SubscriptionOptions { qos: Qos::ExactlyOnce, ..SubscriptionOptions::default() };
    let subscriptions = [Subscription { filter: "once/x", options }];
    let subscriptions = Subscriptions::of(&subscriptions);
    let subscribe = Subscribe { packet_id: 9, properties: Properties::EMPTY, subscriptions };
    reader.send(&encoded(&Packet::Subscribe(subscribe), Version::V311));
    reader.wait_for(9);
    publish_once(world, b"first");
    let heard = reader.heard(3);
    let [(id, payload)] = once(&heard)[..] else { panic!("{heard:?}") };
    assert_eq!(payload, b"first");
    reader.tell(Packet::PubRec, id);
    reader.wait_for(6);
    crate::Session::released(&mut reader.session);
    id
}

#[test]
fn a_message_that_was_received_is_released_after_a_reconnect_and_does_not_come_again() {
    let world = World::new();
    let id = reader_with_half(&world);
    let mut reader = lasting(&world, "reader");
    let heard = reader.heard(6);
    assert!(once(&heard).is_empty(), "{heard:?}");
    reader.tell(Packet::PubComp, id);
    publish_once(&world, b"second");
    let heard = reader.heard(3);
    let [(_, payload)] = once(&heard)[..] else { panic!("{heard:?}") };
    assert_eq!(payload, b"second");
}

/// The session's memory is gone, and its queue is there.
#[test]
fn a_message_that_was_received_before_a_crash_comes_again_with_its_id_and_is_released() {
    let mut world = World::new();
    let id = reader_with_half(&world);
    world.door.settings = Arc::default();
    let mut reader = lasting(&world, "reader");
    let heard = reader.heard(3);
    assert_eq!(once(&heard), [(id, &b"first"[..])]);
    reader.tell(Packet::PubRec, id);
    reader.wait_for(6);
    reader.tell(Packet::PubComp, id);
    publish_once(&world, b"second");
    let heard = reader.heard(3);
    let [(_, payload)] = once(&heard)[..] else { panic!("{heard:?}") };
    assert_eq!(payload, b"second");
}

/// The stored corpus of the fuzz target: once found, never lost.
#[test]
fn the_corpus_of_sessions_passes() {
    let world = World::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mqtt_session");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is part of the repository") {
        let path = file.expect("a readable folder").path();
        println!("{}", path.display());
        crate::fuzzing::mqtt_session(&world.broker, &std::fs::read(&path).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "there is no corpus");
    assert_eq!((world.broker.connections().count(), world.broker.client_count()), (0, 0));
}
