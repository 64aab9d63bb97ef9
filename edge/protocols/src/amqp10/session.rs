//! One AMQP 1.0 connection: phases, the frame loop, closing, time.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::task::Context;

use broker::{CloseReason, Publisher, User};
use platform::profile::{self, NameId};
use wire::amqp10::{
    Close, FRAME_AMQP, Frame, FrameError, Open, PROTOCOL_HEADER, Parsed, Performative, SASL_PROTOCOL_HEADER,
    SaslCode, conditions, parse_frame,
};

use super::control::{Control, Listed};
use super::deliver::{Deliveries, Sink};
use super::errors::{Failure, Outcome, Trouble};
use super::handshake::{self, Limits, Login};
use super::refusals::forced;
use super::running::{Running, Taken};
use super::settings::Settings;
use crate::budget::Share;
use crate::connection::{Configured, Connection, DoorOf, Never, Phase as _, Protocol, Step};
use crate::login::Mechanism;
use crate::outbox::Outbox;
use crate::overdue::Overdue;
use crate::settlements::Settlements;
use crate::{Now, Peer};

mod clock;

/// Bytes of a protocol header.
const HEADER_BYTES: usize = 8;

/// Socket, timer and task of a connection, which live in `edge/net`.
const TASK_BYTES: usize = 3400;

/// Bytes of memory of an open connection without sessions, texts and buffers.
pub(crate) const FIXED_BYTES: usize = TASK_BYTES
    + size_of::<Session>()
    + size_of::<Peer>()
    + size_of::<Running>()
    + size_of::<Outbox<Deliveries>>()
    + size_of::<Control>();

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The SASL header must come.
    Sasl,
    /// The client chooses a mechanism.
    Login,
    /// The header of AMQP itself must come.
    Header,
    /// The open frame must come.
    Opening,
    Running,
    /// The close is sent, the client's awaited.
    Closing,
    Draining,
    Closed,
}

impl crate::connection::Phase for Phase {
    const FIRST: Phase = Phase::Sasl;
    const DRAINING: Phase = Phase::Draining;
    const CLOSED: Phase = Phase::Closed;

    fn name(self) -> &'static str {
        match self {
            Phase::Sasl | Phase::Login | Phase::Header | Phase::Opening => "starting",
            Phase::Running => "running",
            Phase::Closing | Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }
}

/// One AMQP 1.0 connection, server side.
pub type Session = Connection<Amqp10>;

/// Where clients of AMQP 1.0 come in.
pub type Door = DoorOf<Amqp10>;

/// The part of a connection that AMQP 1.0 has alone.
pub struct Amqp10 {
    sink: Arc<Sink>,
    login: Option<(Arc<User>, Mechanism)>,
    limits: Limits,
    started: Now,
    close_deadline_ms: Option<u64>,
}

/// The code of the performative in a frame's body, in the short form of its descriptor or in the long one that some clients write.
#[inline]
fn descriptor(body: &[u8]) -> Option<u8> {
    match body {
        [0x00, 0x53, code, ..] | [0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, code, ..] => Some(*code),
        _ => None,
    }
}

impl Configured for Amqp10 {
    type Settings = Settings;
}

impl Protocol for Amqp10 {
    type Shown = Listed;
    type Phase = Phase;
    type Running = Running;
    type Done = Never;

    const IDLE_BUFFER_BYTES_KEPT: usize = 4096;

    fn label() -> NameId {
        static LABEL: LazyLock<NameId> = LazyLock::new(|| profile::intern("AMQP 1.0"));
        *LABEL
    }

    fn listed_as(_: &Peer) -> &'static str {
        "AMQP 1-0"
    }

    fn side() -> Deliveries {
        Deliveries::default()
    }

    fn begin(_: &Settings, outbox: &Arc<Outbox<Deliveries>>, now: Now) -> Amqp10 {
        Amqp10 {
            sink: Arc::new(Sink { outbox: outbox.clone(), has_news: AtomicBool::new(false) }),
            login: None,
            limits: Limits::default(),
            started: now,
            close_deadline_ms: None,
        }
    }

    fn begin_batch(session: &mut Session) {
        let now_ds = session.now_ds();
        if let Some(running) = &mut session.running {
            running.overdue.set_now(now_ds);
        }
    }

    fn step(session: &mut Session, input: &[u8]) -> Step {
        if matches!(session.phase, Phase::Sasl | Phase::Header) {
            return session.header(input);
        }
        let frame_size_max = match session.phase {
            Phase::Login | Phase::Opening => session.settings.initial_frame_size_max,
            _ => session.settings.frame_size_max,
        };
        match parse_frame(input, frame_size_max as usize) {
            Ok(Parsed::Complete { frame, consumed }) => match session.frame(&frame) {
                Ok(Taken::Frame) => Step::Took(consumed),
                Ok(Taken::Wait) => Step::Waits,
                Err(failure) => {
                    session.fail(frame.channel, failure);
                    Step::Took(consumed)
                }
            },
            Ok(Parsed::Incomplete { needed }) => Step::Needs(needed),
            Err(error) => {
                session.close(&Trouble::new(conditions::FRAMING_ERROR, framing_text(error)));
                // Frames behind a damaged frame cannot be understood.
                session.enter(Phase::Draining);
                Step::Took(input.len())
            }
        }
    }

    fn end_batch(session: &mut Session) {
        if let Some(running) = &mut session.running {
            running.end_batch();
            let is_held = running.publisher_full && running.is_publishing;
            session.control.own.held_back.set(is_held, session.now.unix_ms);
        }
    }

    fn close(session: &mut Session, reason: CloseReason) {
        session.close(&forced(reason));
    }

    /// While an alarm is on the client may send nothing; it is told so.
    fn heed_news(session: &mut Session) {
        let is_on = session.broker.alarms().raised().blocks();
        if let Some(running) = &mut session.running {
            if running.is_alarmed == is_on {
                return;
            }
            running.alarm(is_on);
            session.control.set_state(if is_on { "blocking" } else { Phase::Running.name() });
        }
    }

    fn poll(session: &mut Session, cx: &mut Context<'_>) {
        if let Some(running) = &mut session.running {
            running.poll(cx);
        }
    }

    fn tick(session: &mut Session) {
        session.tick_at(session.now);
    }

    fn next_tick_ms(session: &Session) -> u64 {
        session.due_ms()
    }

    fn output_drained(session: &mut Session) {
        if let Some(running) = &mut session.running {
            running.output_full = false;
            running.resume_paused();
        }
    }
}

impl Session {
    /// Whether a client that begins with these bytes speaks this protocol.
    #[must_use]
    pub fn is_spoken(header: [u8; HEADER_BYTES]) -> bool {
        header == SASL_PROTOCOL_HEADER
    }

    /// Declares a queue as the user of the connection, which is open.
    pub(crate) fn declare(&self, queue: broker::QueueDeclare<'_>) {
        let running = self.running.as_ref().expect("an open connection");
        let declared = self.broker.declare_queue(&running.principal, queue).expect("the queue is declared");
        declared.counts.wait().expect("the queue is there");
    }

    fn header(&mut self, input: &[u8]) -> Step {
        let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Step::Needs(HEADER_BYTES) };
        let mut output = self.outbox.lock();
        let bytes = output.bytes();
        let next = match self.phase {
            Phase::Sasl if *header == SASL_PROTOCOL_HEADER => {
                bytes.extend_from_slice(&SASL_PROTOCOL_HEADER);
                handshake::encode_mechanisms(&self.settings, &self.peer, bytes);
                Phase::Login
            }
            Phase::Header if *header == PROTOCOL_HEADER => {
                bytes.extend_from_slice(&PROTOCOL_HEADER);
                Phase::Opening
            }
            _ => {
                bytes.extend_from_slice(&SASL_PROTOCOL_HEADER);
                Phase::Draining
            }
        };
        drop(output);
        self.enter(next);
        Step::Took(HEADER_BYTES)
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Outcome<Taken> {
        match self.phase {
            Phase::Login => return self.log_in(frame).map(|()| Taken::Frame),
            Phase::Closing => return self.closing_frame(frame),
            _ => {}
        }
        if frame.kind != FRAME_AMQP {
            let text = format!("unexpected frame type {} in amqp mode (expected 0)", frame.kind);
            return Err(Failure::connection(conditions::FRAMING_ERROR, text));
        }
        if frame.body.is_empty() {
            return Ok(Taken::Frame);
        }
        if let Some(running) = &mut self.running {
            if frame.channel > running.channel_max {
                let text = format!(
                    "channel number ({}) exceeds maximum channel number ({})",
                    frame.channel, running.channel_max
                );
                return Err(Failure::connection(conditions::FRAMING_ERROR, text));
            }
            // A frame that reads or changes metadata waits while that takes long; open and close are not of a session.
            match descriptor(frame.body) {
                Some(0x12) if self.broker.long_changes().is_on() => {
                    self.awaits_metadata = true;
                    return Ok(Taken::Wait);
                }
                Some(0x14) if running.manages && self.broker.long_changes().is_on() => {
                    self.awaits_metadata = true;
                    return Ok(Taken::Wait);
                }
                Some(0x10 | 0x18) => {}
                _ => return running.frame(frame),
            }
        }
        let (performative, _) = Performative::decode(frame.body)
            .map_err(|error| Failure::connection(conditions::DECODE_ERROR, error.to_string()))?;
        match (self.phase, &performative) {
            (Phase::Opening, Performative::Open(open)) => self.open(open)?,
            (_, Performative::Close(_)) => {
                self.release();
                Close { error: None }.encode_frame(0, self.outbox.lock().bytes());
                self.enter(Phase::Draining);
            }
            (phase, other) => {
                let text = format!("unexpected frame {} in connection state {}", other.name(), phase.name());
                return Err(Failure::connection(conditions::ILLEGAL_STATE, text));
            }
        }
        Ok(Taken::Frame)
    }

    /// After the server's close only the client's counts.
    fn closing_frame(&mut self, frame: &Frame<'_>) -> Outcome<Taken> {
        if let Ok((Performative::Close(_), _)) = Performative::decode(frame.body) {
            self.enter(Phase::Draining);
        }
        Ok(Taken::Frame)
    }

    fn log_in(&mut self, frame: &Frame<'_>) -> Outcome {
        let info = self.control.info.lock().clone();
        match handshake::login(&self.broker, &self.settings, &self.peer, frame, &info)? {
            Login::In(user, mechanism) => {
                {
                    let mut info = self.control.info.lock();
                    info.user = user.name.to_string();
                    info.auth_mechanism = mechanism.name().into();
                }
                self.own.login = Some((user, mechanism));
                handshake::encode_outcome(SaslCode::Ok, self.outbox.lock().bytes());
                self.enter(Phase::Header);
            }
            Login::Refused => {
                tracing::warn!(connection = %self.peer.connection_name(), "login refused");
                handshake::encode_outcome(SaslCode::Auth, self.outbox.lock().bytes());
                self.enter(Phase::Draining);
            }
        }
        Ok(())
    }

    fn open(&mut self, open: &Open<'_>) -> Outcome {
        self.own.limits = handshake::negotiate(&self.settings, open)?;
        let vhost = handshake::vhost_of(&self.settings, open).to_owned();
        let (user, _) = self.own.login.clone().expect("nobody gets to opening without a login");
        {
            let mut info = self.control.info.lock();
            info.vhost.clone_from(&vhost);
            info.frame_max = self.settings.frame_size_max;
            info.channel_max = self.own.limits.channel_max;
            info.heartbeat_s = self.settings.heartbeat_s;
            info.container_id = Some(open.container_id.to_owned());
            info.client_properties = client_properties(open);
        }
        let name = user.name.clone();
        let id = self.broker.next_connection_id();
        let opened = self.broker.open_connection(user, &vhost, id, self.control.clone());
        let principal =
            opened.map_err(|error| Failure::Connection(handshake::open_trouble(&error, &name, &vhost)))?;
        let mut output = self.outbox.lock();
        output.state().frame_size_max = self.own.limits.frame_size_max;
        handshake::encode_open(&self.settings, &self.own.limits, &self.broker, output.bytes());
        drop(output);
        self.running = Some(Box::new(Running {
            broker: self.broker.clone(),
            settings: self.settings.clone(),
            publisher: Publisher::new(&self.broker, &principal),
            principal,
            sink: self.own.sink.clone(),
            sessions: Vec::new(),
            channel_max: self.own.limits.channel_max,
            settlements: Settlements::new(),
            awaited: None,
            overdue: Overdue::default(),
            taken_back: 0,
            token_latest: 0,
            serial_latest: 0,
            unfinished: Share::new(self.settings.unfinished.clone()),
            awaits_room: false,
            has_freed_window: false,
            publisher_full: false,
            is_publishing: false,
            pressed_bytes: 0,
            output_full: false,
            is_alarmed: false,
            manages: false,
            active: Vec::new(),
            resumable: Vec::new(),
            properties: Vec::new(),
        }));
        self.enter(Phase::Running);
        Amqp10::heed_news(self);
        tracing::debug!(connection = %id, name = %self.peer.connection_name(), user = %name, vhost = %vhost, "open");
        Ok(())
    }

    /// Ends what a failure ends.
    fn fail(&mut self, channel: u16, failure: Failure) {
        let trouble = match &mut self.running {
            Some(running) => match running.fail(channel, failure) {
                Ok(()) => return,
                Err(trouble) => trouble,
            },
            None => match failure {
                Failure::Link(trouble) | Failure::Session(trouble) | Failure::Connection(trouble) => trouble,
            },
        };
        self.close(&trouble);
    }

    /// Ends the connection with a reason; everything it holds is given back first.
    fn close(&mut self, trouble: &Trouble) {
        match self.phase {
            Phase::Closing | Phase::Draining | Phase::Closed => return,
            _ => {}
        }
        tracing::warn!(
            connection = %self.peer.connection_name(),
            phase = self.phase.name(),
            "{}: {}",
            trouble.condition,
            trouble.text
        );
        let is_open = matches!(self.phase, Phase::Opening | Phase::Running);
        self.release();
        let mut output = self.outbox.lock();
        if self.phase == Phase::Opening {
            // A close frame must not come before the open frame.
            handshake::encode_open(&self.settings, &self.own.limits, &self.broker, output.bytes());
        }
        if is_open {
            trouble.encode_close(output.bytes());
        }
        drop(output);
        self.enter(if is_open { Phase::Closing } else { Phase::Draining });
    }
}

/// RabbitMQ's words for a frame that cannot be read.
fn framing_text(error: FrameError) -> String {
    match error {
        FrameError::TooLarge { size, max } => {
            format!("frame size ({size} bytes) > maximum frame size ({max} bytes)")
        }
        FrameError::TooSmall { size } => format!("frame size ({size} bytes) < minimum frame size (8 bytes)"),
        FrameError::BadOffset { doff, .. } if doff < 2 => {
            format!("data offset ({doff}) < minimum data offset (2)")
        }
        FrameError::BadOffset { doff, size } => {
            format!("data offset ({} bytes) > frame size ({size} bytes)", u32::from(doff) * 4)
        }
    }
}

/// Properties of the client as a field table, for listings: texts only.
fn client_properties(open: &Open<'_>) -> Vec<u8> {
    const NAME_BYTES_MAX: usize = 255;
    let mut table = message::TableBuf::new();
    for (name, value) in open.properties.iter() {
        if let (Some(name), Some(text)) = (name.as_text(), value.as_text())
            && name.len() <= NAME_BYTES_MAX
        {
            table.push_str(name, text);
        }
    }
    table.into_raw()
}

#[cfg(test)]
mod tests;
