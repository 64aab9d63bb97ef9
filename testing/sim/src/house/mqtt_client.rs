//! An MQTT client without a socket, version 3.1.1: bytes go into a real session and come out of it. Knows packets; nothing of what is sent
//! in them, and does not wait.

use std::sync::Arc;
use std::task::{Context, Waker};

use protocols::mqtt::{Door, Session};
use protocols::{Door as _, Now, OutputBytes, Peer, Session as _, State};
use wire::mqtt::{Connect, Packet, Parsed, Properties, Qos, Version, parse_frame};

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
pub(super) struct Client {
    session: Session,
    outbox: Arc<dyn OutputBytes>,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Time does not pass for the connection.
const NOW: Now = Now { monotonic_ms: 1000, unix_ms: 0 };

impl Client {
    /// Begins to connect.
    pub(super) fn begin(door: &Door, client_id: &str, is_clean: bool) -> Client {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1883));
        let session = door.open(Peer::plain(address, address, 7), NOW);
        let outbox = session.outbox();
        let mut client = Client { session, outbox, input: Vec::new(), output: Vec::new() };
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
        packet.encode(Version::V311, &mut self.input);
        self.turn();
    }

    /// Whether the broker still listens.
    pub(super) fn is_open(&self) -> bool {
        self.session.state() == State::Running
    }

    /// The work of the connection's task.
    pub(super) fn turn(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while self.session.poll_stalled(&mut context).is_ready() && !self.input.is_empty() {
            let progress = self.session.receive(&self.input, NOW);
            self.input.drain(..progress.consumed);
            if progress.consumed == 0 {
                break;
            }
        }
        // A pending request is polled once more: its answer may be there.
        let _is_stalled = self.session.poll_stalled(&mut context).is_pending();
        let before = self.output.len();
        let mut taken = Vec::new();
        while {
            self.outbox.take(&mut taken);
            !taken.is_empty()
        } {
            self.output.append(&mut taken);
        }
        self.session.bytes_sent(self.output.len() - before, NOW);
        self.session.output_drained();
    }

    /// The next packet, if there is one.
    pub(super) fn next(&mut self) -> Option<Got> {
        self.turn();
        let (got, consumed) = match parse_frame(&self.output, usize::MAX) {
            Ok(Parsed::Complete { frame, consumed }) => (
                Packet::decode(&frame, Version::V311).map_or(Got::Other, |packet| Got::of(&packet)),
                consumed,
            ),
            _ => return None,
        };
        self.output.drain(..consumed);
        Some(got)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.session.released();
    }
}
