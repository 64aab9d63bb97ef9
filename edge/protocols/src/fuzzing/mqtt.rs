//! Sessions of MQTT: three connections of two client ids on one broker.

use std::sync::Arc;

use broker::Broker;
use wire::mqtt::{Connect, Packet, Parsed, Properties, Property, Version, parse_frame};

use super::{FRAMES_MAX, MEMORY_BYTES_MAX, drive, taken};
use crate::mqtt::{Door, Session, Settings};
use crate::{Door as _, Now, Peer, Session as _, State};

/// The client ids of the three connections: the third takes the first one's session over.
const CLIENTS: [&str; 3] = ["a", "b", "a"];

/// Bit of a packet's first byte: the connection ends and another one of the same id begins before the packet.
const RECONNECTS: u8 = 0x80;

/// Bit beside it: that one begins with a clean session.
const CLEAN: u8 = 0x40;

/// Gives connections of MQTT packets: for each one byte for the connection, one for type and flags, two for the length of the body, and the
/// body. The first byte of all chooses the version. The connections are logged in unless the body of a first packet is a CONNECT.
///
/// # Panics
/// If what a session says is no packet of its version, or its memory has no bound.
pub fn mqtt_session(broker: &Broker, input: &[u8]) {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let version = [Version::V31, Version::V311, Version::V5][usize::from(first % 3)];
    let mut world = World::new(broker, version);
    for _ in 0..FRAMES_MAX {
        let Some((&[who, head, high, low], behind)) = rest.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (body, behind) = behind.split_at(length);
        rest = behind;
        world.give(who, &framed(head, body));
    }
    world.end();
}

struct World {
    door: Door,
    version: Version,
    sessions: [Option<Session>; 3],
}

impl World {
    fn new(broker: &Broker, version: Version) -> World {
        let settings =
            Settings { retained_count_max: 20, retained_bytes_max: 1 << 20, ..Settings::default() };
        let door = Door { broker: broker.clone(), settings: Arc::new(settings) };
        World { door, version, sessions: [None, None, None] }
    }

    /// A packet for a connection; it is opened before, if it is not open or the byte asks for another one.
    fn give(&mut self, who: u8, packet: &[u8]) {
        let index = usize::from(who) % CLIENTS.len();
        if who & RECONNECTS != 0 {
            self.leave(index);
        }
        if self.sessions[index].is_none() {
            let mut session = self.fresh();
            let is_connect = packet.first().is_some_and(|head| head >> 4 == 1);
            if !is_connect {
                drive(&mut session, &self.connect(CLIENTS[index], who & CLEAN != 0));
            }
            self.sessions[index] = Some(session);
        }
        if let Some(session) = &mut self.sessions[index] {
            drive(session, packet);
        }
        // Other clients hear of an action of one, such as a takeover.
        (0..CLIENTS.len()).for_each(|index| self.look(index));
    }

    /// Reads what a session says.
    fn look(&mut self, index: usize) {
        let Some(session) = &mut self.sessions[index] else { return };
        drive(session, &[]);
        let said = taken(session);
        let mut rest = &said[..];
        while !rest.is_empty() {
            match parse_frame(rest, usize::MAX) {
                Ok(Parsed::Complete { frame, consumed }) => {
                    // A client that is refused at its first packet may have asked for another version.
                    let versions = [self.version, Version::V5, Version::V311];
                    let is_read = versions.iter().any(|version| Packet::decode(&frame, *version).is_ok());
                    assert!(is_read, "a packet of type {} is read", frame.kind);
                    rest = &rest[consumed..];
                }
                other => panic!("no packet: {other:?}"),
            }
        }
        let bytes = session.memory_bytes();
        assert!(bytes < MEMORY_BYTES_MAX, "{bytes} bytes of memory");
        if session.state() != State::Running {
            self.leave(index);
        }
    }

    fn leave(&mut self, index: usize) {
        if let Some(mut session) = self.sessions[index].take() {
            session.released();
        }
    }

    fn fresh(&self) -> Session {
        let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let peer = Peer::plain(address(40_000), address(1883), 7);
        self.door.open(peer, Now { monotonic_ms: 1000, unix_ms: 0 })
    }

    fn connect(&self, client_id: &str, clean_start: bool) -> Vec<u8> {
        let lasts = [Property::SessionExpiryInterval(100), Property::TopicAliasMaximum(3)];
        let properties = if self.version == Version::V5 { Properties::of(&lasts) } else { Properties::EMPTY };
        let connect = Connect {
            version: self.version,
            clean_start,
            keep_alive_s: 10,
            properties,
            client_id,
            will: None,
            user_name: Some("guest"),
            password: Some(b"guest"),
        };
        let mut bytes = Vec::new();
        Packet::Connect(connect).encode(self.version, &mut bytes);
        bytes
    }

    /// Nothing of this story is there for the next one: every queue goes, and with the queue of retained messages these.
    fn end(mut self) {
        (0..CLIENTS.len()).for_each(|index| self.leave(index));
        let mut session = self.fresh();
        drive(&mut session, &self.connect("last", true));
        session.delete_queues();
        session.released();
    }
}

fn framed(head: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![head];
    let mut left = body.len();
    loop {
        let more = if left > 0x7F { 0x80 } else { 0 };
        packet.push((left & 0x7F) as u8 | more);
        left >>= 7;
        if left == 0 {
            break;
        }
    }
    packet.extend_from_slice(body);
    packet
}
