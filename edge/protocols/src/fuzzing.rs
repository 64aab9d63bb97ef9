//! The functions of the fuzz targets of sessions: any frames in any order, no panic, output that can be read, and bounded memory. Not part of
//! the public interface.

use std::sync::Arc;

use broker::{Broker, QueueDeclare};
use wire::amqp10::{
    Begin, Map, Open, PROTOCOL_HEADER, Parsed, Performative, SASL_PROTOCOL_HEADER, SaslInit, Symbol, Symbols,
    parse_frame,
};

use crate::amqp10::{Session, Settings};
use crate::{Now, Peer, Session as _, State};

mod mqtt;

pub use mqtt::mqtt_session;

/// Memory that no such connection may take, bytes.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Frames that are looked at: a corpus file is a short story.
const FRAMES_MAX: usize = 200;

/// Gives a connection of AMQP 1.0 frames: for each one byte for the channel, two for the length of the body, and the body. It is logged in,
/// and has session 0.
///
/// # Panics
/// If what the session says is no frame of AMQP 1.0, or its memory has no bound.
pub fn amqp10_session(broker: &Broker, input: &[u8]) {
    let mut session = begun(broker);
    let mut rest = input;
    for _ in 0..FRAMES_MAX {
        let Some((&[channel, high, low], behind)) = rest.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (body, behind) = behind.split_at(length);
        rest = behind;
        give(&mut session, &framed(channel % 4, body));
        if session.state() != State::Running {
            break;
        }
        let bytes = session.memory_bytes();
        assert!(bytes < MEMORY_BYTES_MAX, "{bytes} bytes of memory");
    }
    session.released();
}

/// Declares a durable queue in the default vhost.
///
/// # Panics
/// If the broker refuses it.
pub fn declare_queue(broker: &Broker, name: &[u8]) {
    let mut session = begun(broker);
    session.declare(QueueDeclare {
        name,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: message::Table::EMPTY,
    });
    session.released();
}

fn framed(channel: u8, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap_or(u32::MAX);
    let mut frame = size.to_be_bytes().to_vec();
    frame.extend_from_slice(&[2, 0, 0, channel]);
    frame.extend_from_slice(body);
    frame
}

/// A connection with a session.
fn begun(broker: &Broker) -> Session {
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let peer = Peer::plain(address(40_000), address(5672), 7);
    let now = Now { monotonic_ms: 1000, unix_ms: 0 };
    let mut session = Session::new(broker.clone(), Arc::new(Settings::default()), peer, now);
    let response = Some(&b"\0guest\0guest"[..]);
    let init = SaslInit { mechanism: Symbol(b"PLAIN"), initial_response: response, hostname: None };
    let open = Open {
        container_id: "fuzz",
        hostname: None,
        max_frame_size: 4096,
        channel_max: 9,
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
        incoming_window: 20,
        outgoing_window: 20,
        handle_max: 9,
        offered_capabilities: Symbols::EMPTY,
        desired_capabilities: Symbols::EMPTY,
        properties: Map::EMPTY,
    };
    let mut prelude = SASL_PROTOCOL_HEADER.to_vec();
    init.encode_frame(0, &mut prelude);
    prelude.extend_from_slice(&PROTOCOL_HEADER);
    open.encode_frame(0, &mut prelude);
    begin.encode_frame(0, &mut prelude);
    drive(&mut session, &prelude);
    let _ = taken(&mut session);
    session
}

fn give(session: &mut Session, bytes: &[u8]) {
    drive(session, bytes);
    let said = taken(session);
    let mut rest = &said[..];
    while !rest.is_empty() {
        match parse_frame(rest, usize::MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                assert!(frame.body.is_empty() || Performative::decode(frame.body).is_ok(), "a frame is read");
                rest = &rest[consumed..];
            }
            other => panic!("no frame: {other:?}"),
        }
    }
}

/// Gives bytes; answers of the broker are waited for, but not for ever: a frame may wait for an event that never comes.
fn drive(session: &mut impl crate::Session, bytes: &[u8]) {
    const TURNS_MAX: usize = 100_000;
    let mut left = bytes;
    let now = Now { monotonic_ms: 1000, unix_ms: 0 };
    for _ in 0..TURNS_MAX {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        if session.poll_stalled(&mut cx).is_ready() {
            left = &left[session.receive(left, now).consumed..];
            if !session.is_stalled() || left.is_empty() {
                return;
            }
        }
        std::thread::yield_now();
    }
}

/// The answers of the session.
fn taken(session: &mut impl crate::Session) -> Vec<u8> {
    let (mut all, mut some) = (Vec::new(), Vec::new());
    loop {
        session.outbox().take(&mut some);
        if some.is_empty() {
            break;
        }
        session.bytes_sent(some.len(), Now { monotonic_ms: 1000, unix_ms: 0 });
        all.append(&mut some);
    }
    session.output_drained();
    all
}
