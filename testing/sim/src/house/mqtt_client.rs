//! An MQTT client without a socket, version 3.1.1: bytes go into a real session and come out of it. Knows packets; nothing of what is sent
//! in them, and does not wait.

use protocols::mqtt::{Door, Session};
use protocols::{Door as _, Peer};
use wire::mqtt::{Connect, Packet, Parsed, Properties, Qos, Version, parse_frame};

use super::line::{Line, NOW};

/// A packet from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// CONNACK: whether there was a session, and the code.
    Opened(bool, u8),
    /// A message.
    Message { id: u16, qos: Qos, topic: String, payload: Vec<u8> },
    /// PUBACK.
    Acked(u16),
    /// PUBREC.
    Received(u16),
    /// PUBREL.
    Released(u16),
    /// PUBCOMP.
    Completed(u16),
    /// SUBACK.
    Subscribed,
    /// Anything else.
    Other,
}

impl Got {
    fn of(packet: &Packet<'_>) -> Got {
        match packet {
            Packet::ConnAck(ack) => Got::Opened(ack.session_present, ack.code),
            Packet::Publish(message) => Got::Message {
                id: message.packet_id,
                qos: message.qos,
                topic: message.topic.into(),
                payload: message.payload.into(),
            },
            Packet::PubAck(ack) => Got::Acked(ack.packet_id),
            Packet::PubRec(ack) => Got::Received(ack.packet_id),
            Packet::PubRel(ack) => Got::Released(ack.packet_id),
            Packet::PubComp(ack) => Got::Completed(ack.packet_id),
            Packet::SubAck(_) => Got::Subscribed,
            _ => Got::Other,
        }
    }
}

/// A connection.
pub(super) struct Client(Line<Session>);

impl Client {
    /// Begins to connect.
    pub(super) fn begin(door: &Door, client_id: &str, is_clean: bool) -> Client {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1883));
        let session = door.open(Peer::plain(address, address, 7), NOW);
        let mut client = Client(Line::new(session));
        client.send(&Packet::Connect(Connect {
            version: Version::V311,
            clean_start: is_clean,
            keep_alive_s: 0,
            properties: Properties::EMPTY,
            client_id,
            will: None,
            user_name: Some("guest"),
            password: Some(b"guest"),
        }));
        client
    }

    /// A packet arrives; one that cannot be taken yet is kept.
    pub(super) fn send(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(Version::V311, &mut bytes);
        self.0.send(&bytes);
    }

    /// Whether the broker still listens.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// The work of the connection's task.
    pub(super) fn turn(&mut self) {
        self.0.turn();
    }

    /// The next packet, if there is one.
    pub(super) fn next(&mut self) -> Option<Got> {
        self.0.next(|bytes| match parse_frame(bytes, usize::MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                let packet = Packet::decode(&frame, Version::V311);
                Some((packet.map_or(Got::Other, |packet| Got::of(&packet)), consumed))
            }
            _ => None,
        })
    }
}
