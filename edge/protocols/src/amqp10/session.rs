//! One AMQP 1.0 connection: phases, the frame loop, closing, time.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use broker::{Broker, ConnectionInfo, Publisher, Stage, User};
use platform::profile::{self, NameId, SessionScope};
use wire::amqp10::{
    Close, FRAME_AMQP, Frame, FrameError, Open, PROTOCOL_HEADER, Parsed, Performative, SASL_PROTOCOL_HEADER,
    SaslCode, conditions, parse_frame,
};

use super::control::Control;
use super::deliver::{Deliveries, Sink};
use super::errors::{Failure, Outcome, Trouble};
use super::handshake::{self, Limits, Login};
use super::refusals::forced;
use super::running::{Running, Taken};
use super::settings::Settings;
use crate::budget::Share;
use crate::login::Mechanism;
use crate::outbox::{Outbox, OutputBytes};
use crate::overdue::Overdue;
use crate::settlements::Settlements;
use crate::{Now, OUTPUT_BYTES_LOW, Peer, Progress};

mod clock;
mod driven;

pub use driven::Door;

/// The name of the protocol in profiles.
static PROTOCOL: LazyLock<NameId> = LazyLock::new(|| profile::intern("AMQP 1.0"));

/// Bytes of a protocol header.
const HEADER_BYTES: usize = 8;

/// Socket, timer and task of a connection, which live in `edge/net`.
const TASK_BYTES: usize = 3400;

/// Bytes of memory of an open connection without sessions, texts and buffers.
pub(crate) const FIXED_BYTES: usize = TASK_BYTES
    + size_of::<Session>()
    + size_of::<Running>()
    + size_of::<Outbox<Deliveries>>()
    + size_of::<Control>();

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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

impl Phase {
    /// RabbitMQ's name.
    const fn name(self) -> &'static str {
        match self {
            Phase::Sasl | Phase::Login | Phase::Header | Phase::Opening => "starting",
            Phase::Running => "running",
            Phase::Closing | Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }
}

/// One AMQP 1.0 connection, server side.
pub struct Session {
    broker: Broker,
    settings: Arc<Settings>,
    peer: Peer,
    outbox: Arc<Outbox<Deliveries>>,
    sink: Arc<Sink>,
    control: Arc<Control>,
    phase: Phase,
    running: Option<Box<Running>>,
    login: Option<(Arc<User>, Mechanism)>,
    limits: Limits,
    now: Now,
    started: Now,
    received: Now,
    sent: Now,
    ticked: Now,
    /// A change of metadata that takes long is under way, and the frame that comes next needs it.
    awaits_metadata: bool,
    close_deadline_ms: Option<u64>,
}

/// One step of the frame loop.
enum Step {
    Took(usize),
    Needs(usize),
    Waits,
}

/// The code of the performative in a frame's body, in the short form of its descriptor or in the long one that some clients write.
#[inline]
fn descriptor(body: &[u8]) -> Option<u8> {
    match body {
        [0x00, 0x53, code, ..] | [0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, code, ..] => Some(*code),
        _ => None,
    }
}

impl Session {
    /// A connection whose first bytes have not come; `now` is when it was accepted.
    #[must_use]
    pub fn new(broker: Broker, settings: Arc<Settings>, peer: Peer, now: Now) -> Session {
        let outbox = Arc::new(Outbox::new(Deliveries::default()));
        let sink = Arc::new(Sink { outbox: outbox.clone(), has_news: AtomicBool::new(false) });
        let info = ConnectionInfo {
            name: peer.connection_name(),
            peer_host: peer.remote.ip().to_string(),
            peer_port: peer.remote.port(),
            host: peer.local.ip().to_string(),
            port: peer.local.port(),
            protocol: "AMQP 1-0",
            state: Phase::Sasl.name(),
            connected_at_ms: now.unix_ms,
            tls: peer.tls.clone(),
            ..ConnectionInfo::default()
        };
        let control = Arc::new(Control::new(outbox.clone(), info));
        Session {
            broker,
            settings,
            peer,
            outbox,
            sink,
            control,
            phase: Phase::Sasl,
            running: None,
            login: None,
            limits: Limits::default(),
            now,
            started: now,
            received: now,
            sent: now,
            ticked: now,
            awaits_metadata: false,
            close_deadline_ms: None,
        }
    }

    /// Whether a client that begins with these bytes speaks this protocol.
    #[must_use]
    pub fn is_spoken(header: [u8; HEADER_BYTES]) -> bool {
        header == SASL_PROTOCOL_HEADER
    }

    /// Bytes of memory of the connection.
    pub(crate) fn memory_bytes(&self) -> u64 {
        broker::ConnectionControl::memory(&*self.control).total()
    }

    /// Declares a queue as the user of the connection, which is open.
    pub(crate) fn declare(&self, queue: broker::QueueDeclare<'_>) {
        let running = self.running.as_ref().expect("an open connection");
        let declared = self.broker.declare_queue(&running.principal, queue).expect("the queue is declared");
        declared.counts.wait().expect("the queue is there");
    }

    fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        self.now = now;
        self.received = now;
        self.heed_close();
        self.heed_alarms();
        let now_ds = self.now_ds();
        if let Some(running) = &mut self.running {
            running.overdue.set_now(now_ds);
        }
        let began = self.broker.stages().begin();
        let (mut consumed, mut needed) = (0, 0);
        while !self.is_stalled() {
            match self.step(&input[consumed..]) {
                Step::Took(count) => consumed += count,
                Step::Needs(count) => {
                    needed = count;
                    break;
                }
                Step::Waits => break,
            }
        }
        if consumed > 0 {
            self.broker.stages().end(Stage::Parse, began);
            self.control.received.add(consumed);
        }
        if let Some(running) = &mut self.running {
            running.end_batch();
            self.control.held_back(running.publisher_full && running.is_publishing, now.unix_ms);
        }
        Progress { consumed, needed }
    }

    fn step(&mut self, input: &[u8]) -> Step {
        match self.phase {
            Phase::Sasl | Phase::Header => return self.header(input),
            Phase::Draining | Phase::Closed if input.is_empty() => return Step::Needs(1),
            Phase::Draining | Phase::Closed => return Step::Took(input.len()),
            _ => {}
        }
        let frame_size_max = match self.phase {
            Phase::Login | Phase::Opening => self.settings.initial_frame_size_max,
            _ => self.settings.frame_size_max,
        };
        match parse_frame(input, frame_size_max as usize) {
            Ok(Parsed::Complete { frame, consumed }) => match self.frame(&frame) {
                Ok(Taken::Frame) => Step::Took(consumed),
                Ok(Taken::Wait) => Step::Waits,
                Err(failure) => {
                    self.fail(frame.channel, failure);
                    Step::Took(consumed)
                }
            },
            Ok(Parsed::Incomplete { needed }) => Step::Needs(needed),
            Err(error) => {
                self.close(&Trouble::new(conditions::FRAMING_ERROR, framing_text(error)));
                // Frames behind a damaged frame cannot be understood.
                self.enter(Phase::Draining);
                Step::Took(input.len())
            }
        }
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
                self.login = Some((user, mechanism));
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
        self.limits = handshake::negotiate(&self.settings, open)?;
        let vhost = handshake::vhost_of(&self.settings, open).to_owned();
        let (user, _) = self.login.clone().expect("nobody gets to opening without a login");
        {
            let mut info = self.control.info.lock();
            info.vhost.clone_from(&vhost);
            info.frame_max = self.settings.frame_size_max;
            info.channel_max = self.limits.channel_max;
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
        output.state().frame_size_max = self.limits.frame_size_max;
        handshake::encode_open(&self.settings, &self.limits, &self.broker, output.bytes());
        drop(output);
        self.running = Some(Box::new(Running {
            broker: self.broker.clone(),
            settings: self.settings.clone(),
            publisher: Publisher::new(&self.broker, &principal),
            principal,
            sink: self.sink.clone(),
            sessions: Vec::new(),
            channel_max: self.limits.channel_max,
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
        self.heed_alarms();
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
            handshake::encode_open(&self.settings, &self.limits, &self.broker, output.bytes());
        }
        if is_open {
            trouble.encode_close(output.bytes());
        }
        drop(output);
        self.enter(if is_open { Phase::Closing } else { Phase::Draining });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.control.set_state(phase.name());
    }

    fn heed_close(&mut self) {
        if let Some(reason) = self.control.take_close() {
            self.close(&forced(reason));
        }
    }

    /// While an alarm is on the client may send nothing; it is told so.
    fn heed_alarms(&mut self) {
        let is_on = self.broker.alarms().raised().blocks();
        if let Some(running) = &mut self.running {
            if running.is_alarmed == is_on {
                return;
            }
            running.alarm(is_on);
            self.control.set_state(if is_on { "blocking" } else { Phase::Running.name() });
        }
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox.register(cx.waker());
        self.heed_close();
        self.heed_alarms();
        self.awaits_metadata = self.awaits_metadata && self.broker.long_changes().poll_over(cx).is_pending();
        let goes_on = if self.awaits_metadata { Poll::Pending } else { Poll::Ready(()) };
        let Some(running) = &mut self.running else { return goes_on };
        let polled = running.poll(cx);
        if goes_on.is_pending() { goes_on } else { polled }
    }

    fn is_stalled(&self) -> bool {
        self.awaits_metadata || self.running.as_ref().is_some_and(|running| running.is_stalled())
    }

    fn output_drained(&mut self) {
        if self.outbox.pending_bytes() >= OUTPUT_BYTES_LOW {
            return;
        }
        if let Some(running) = &mut self.running {
            running.output_full = false;
            running.resume_paused();
        }
    }

    fn enter_profile(&self) -> SessionScope {
        match &self.running {
            Some(running) => {
                let principal = &running.principal;
                profile::enter_session(*PROTOCOL, principal.vhost.label(), principal.connection.count)
            }
            None => profile::enter_session(*PROTOCOL, NameId::default(), 0),
        }
    }

    fn release(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.release_all();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release();
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
