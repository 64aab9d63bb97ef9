//! One AMQP 0-9-1 connection: phases, the frame loop, closing, time.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::task::Context;

use broker::{CloseReason, Ending, Raised, User};
use platform::profile::{self, NameId};
use wire::amqp091::methods::connection;
use wire::amqp091::{FRAME_METHOD, FRAME_OVERHEAD, Frame, FrameError, Method, Parsed, parse_frame};

use super::control::{Control, Listed, forced};
use super::deliver::{Deliveries, DeliverySink};
use super::errors::{Failure, Outcome};
use super::frames::{Taken, check_kind};
use super::handshake::{Client, Greeting, Limits, encode_start, greet};
use super::running::Running;
use super::settings::Settings;
use crate::connection::{Configured, Connection, DoorOf, Never, Phase as _, Protocol, Step};
use crate::large::LargeRoom;
use crate::login::Mechanism;
use crate::outbox::{OUTPUT_BYTES_LOW, Outbox};
use crate::{Now, Peer};

mod clock;
mod logged;
mod opening;
mod secret;

use logged::not_amqp;

/// Bytes of a protocol header.
const HEADER_BYTES: usize = 8;

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces: what a thousand
/// connections occupied beyond what is counted.
const TASK_BYTES: usize = 3400;

/// Bytes of memory of an open connection without channels, texts and buffers.
pub(crate) const FIXED_BYTES: usize = TASK_BYTES
    + size_of::<Session>()
    + size_of::<Peer>()
    + size_of::<Running>()
    + size_of::<Outbox<Deliveries>>()
    + size_of::<DeliverySink>()
    + size_of::<Control>();

/// How long a client may take to end the stream that was not let in or sent what is no frame, milliseconds: as in RabbitMQ.
const REFUSED_TIMEOUT_MS: u64 = 3_000;

/// Payload bytes a frame may have beyond the negotiated limit (B22).
const PAYLOAD_TOLERANCE_BYTES: usize = 8;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Header,
    Starting,
    Tuning,
    Opening,
    Running,
    /// connection.close is sent, close-ok awaited (B35).
    Closing,
    /// Everything is said, and it is up to the client to end the stream (B35). Its bytes are dropped.
    Lingering,
    Draining,
    Closed,
}

impl crate::connection::Phase for Phase {
    const FIRST: Phase = Phase::Header;
    const DRAINING: Phase = Phase::Draining;
    const CLOSED: Phase = Phase::Closed;

    fn name(self) -> &'static str {
        match self {
            Phase::Header | Phase::Starting => "starting",
            Phase::Tuning => "tuning",
            Phase::Opening => "opening",
            Phase::Running => "running",
            Phase::Closing | Phase::Lingering | Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }

    fn drops_input(self) -> bool {
        matches!(self, Phase::Lingering | Phase::Draining | Phase::Closed)
    }
}

/// One AMQP 0-9-1 connection, server side.
pub type Session = Connection<Amqp091>;

/// Where clients of AMQP 0-9-1 come in.
pub type Door = DoorOf<Amqp091>;

/// The part of a connection that AMQP 0-9-1 has alone.
pub struct Amqp091 {
    /// As whom a part of this program acts: whatever it says when it logs in.
    internal: Option<Arc<User>>,
    sink: Arc<DeliverySink>,
    client: Client,
    login: Option<(Arc<User>, Mechanism)>,
    limits: Limits,
    payload_bytes_max: usize,
    alarm: Raised,
    /// An alarm held the connection when the latest read began.
    was_held: bool,
    started: Now,
    /// How long the client may take for the rest once the connection is closing, milliseconds.
    close_timeout_ms: u64,
    /// When that is over; set by the first tick after the close.
    close_deadline_ms: Option<u64>,
    /// The log has told of the connection, and not yet of its end.
    is_logged: bool,
    /// A close has gone either way, or an error of the connection was logged.
    said_goodbye: bool,
}

/// Whether it is a method of a class that reads or changes metadata: of connections, exchanges and queues.
#[inline]
fn needs_metadata(frame: &Frame<'_>) -> bool {
    const CLASSES: [u8; 3] = [10, 40, 50];
    frame.kind == FRAME_METHOD
        && frame.payload.first_chunk().is_some_and(|[high, low]| *high == 0 && CLASSES.contains(low))
}

impl Configured for Amqp091 {
    type Settings = Settings;
}

impl Protocol for Amqp091 {
    type Shown = Listed;
    type Phase = Phase;
    type Running = Running;
    type Done = Never;

    const IDLE_BUFFER_BYTES_KEPT: usize = 4096;

    fn label() -> NameId {
        static LABEL: LazyLock<NameId> = LazyLock::new(|| profile::intern("AMQP 0-9-1"));
        *LABEL
    }

    fn listed_as(_: &Peer) -> &'static str {
        "AMQP 0-9-1"
    }

    fn side() -> Deliveries {
        Deliveries::new()
    }

    fn begin(settings: &Settings, outbox: &Arc<Outbox<Deliveries>>, now: Now) -> Amqp091 {
        let large = LargeRoom::new(settings.large_deliveries.clone());
        let (outbox, has_cancelled) = (outbox.clone(), AtomicBool::new(false));
        Amqp091 {
            internal: None,
            sink: Arc::new(DeliverySink { outbox, has_cancelled, large }),
            client: Client::default(),
            login: None,
            limits: Limits { channel_max: 0, frame_size_max: 0, heartbeat_s: 0 },
            payload_bytes_max: settings.initial_frame_size_max as usize,
            alarm: Raised::default(),
            was_held: false,
            started: now,
            close_timeout_ms: REFUSED_TIMEOUT_MS,
            close_deadline_ms: None,
            is_logged: false,
            said_goodbye: false,
        }
    }

    fn accepted(session: &mut Session) {
        session.log_accepted();
    }

    fn begin_batch(session: &mut Session) {
        session.own.was_held = session.is_held();
        let now_ds = session.now_ds();
        if let Some(running) = &mut session.running {
            running.overdue.set_now(now_ds);
            running.channels.read_at(session.now.monotonic_ms);
        }
    }

    fn step(session: &mut Session, input: &[u8]) -> Step {
        if session.phase == Phase::Header {
            return session.header(input);
        }
        match parse_frame(input, session.own.payload_bytes_max) {
            Ok(Parsed::Complete { frame, consumed }) => match session.frame(&frame, input, consumed) {
                Ok(Taken::Frame) => Step::Took(consumed),
                Ok(Taken::FrameAnd(more)) => Step::Took(consumed + more),
                Ok(Taken::Wait) => Step::Waits,
                Err(failure) => {
                    session.fail(&failure);
                    Step::Took(consumed)
                }
            },
            Ok(Parsed::Incomplete { needed }) => Step::Needs(needed),
            Err(error) => {
                let limit = session.own.payload_bytes_max.saturating_sub(session.tolerance_bytes());
                // Frames behind a damaged frame cannot be understood: no close-ok is awaited.
                let payload = match error {
                    FrameError::BadEnd { size, .. } => &input[7..7 + size],
                    FrameError::TooLarge { .. } => &[],
                };
                let failure = Failure::bad_frame(error, input[0], payload, limit);
                session.fail(&failure);
                session.linger(REFUSED_TIMEOUT_MS);
                Step::Took(input.len())
            }
        }
    }

    fn end_batch(session: &mut Session) {
        if let Some(running) = &mut session.running {
            running.end_batch(session.now.unix_ms);
            session.control.own.held_back.set(running.is_pressed(), session.now.unix_ms);
        }
        if session.is_held() != session.own.was_held {
            session.show_alarm();
        }
    }

    fn close(session: &mut Session, reason: CloseReason) {
        session.log_forced(&reason);
        session.fail(&forced(reason));
    }

    /// Looks at the broker's alarms (B27): a connection that publishes while one is on is told once and not read from until
    /// all are off. The broker wakes the task when they change.
    fn heed_news(session: &mut Session) {
        let raised = session.broker.alarms().raised();
        let Some(running) = &mut session.running else { return };
        if raised == session.own.alarm {
            return;
        }
        session.own.alarm = raised;
        running.alarm(raised);
        session.show_alarm();
    }

    fn poll(session: &mut Session, cx: &mut Context<'_>) {
        let Some(running) = &mut session.running else { return };
        let polled = running.poll(cx);
        session.control.own.held_back.set(running.is_pressed(), session.now.unix_ms);
        if let Err(failure) = polled {
            session.fail(&failure);
        }
    }

    fn tick(session: &mut Session) {
        session.tick_at(session.now);
    }

    fn next_tick_ms(session: &Session) -> u64 {
        session.due_ms()
    }

    /// Consumers that were refused go on, and so does parsing.
    fn output_drained(session: &mut Session) {
        if session.own.sink.large.is_held() {
            let mut output = session.outbox.lock();
            // Another one may have come since the look.
            if output.pending_bytes() < OUTPUT_BYTES_LOW {
                session.own.sink.large.give_back(&mut output.state().large);
            }
        }
        if let Some(running) = &mut session.running {
            running.output_full = false;
            running.resume_paused();
        }
    }

    fn written(session: &Session, count: usize, now: Now) {
        session.outbox.written_then(count, |deliveries| deliveries.written(now.unix_ms));
    }

    fn ended(session: &mut Session) {
        session.log_end(if session.own.said_goodbye { Ending::InOrder } else { Ending::Unexpected });
    }
}

impl Session {
    /// A connection of a part of this program, which has no socket: it acts as this user, and what it says when it logs in does
    /// not matter. RabbitMQ's word for such connections is direct.
    #[must_use]
    pub fn acting_as(mut self, user: Arc<User>) -> Session {
        self.control.info.lock().protocol = "Direct 0-9-1";
        self.own.internal = Some(user);
        self
    }

    /// From now on whatever the client sends is dropped, until it ends the stream or this time is over.
    fn linger(&mut self, timeout_ms: u64) {
        self.own.close_timeout_ms = timeout_ms;
        self.enter(Phase::Lingering);
    }

    /// How long a client may take to end an open connection: its own heartbeat interval, if that is shorter than ours (B35).
    fn patience_ms(&self) -> u64 {
        match u64::from(self.own.limits.heartbeat_s) * 1000 {
            0 => self.settings.close_timeout_ms,
            heartbeat_ms => heartbeat_ms.min(self.settings.close_timeout_ms),
        }
    }

    fn tolerance_bytes(&self) -> usize {
        if self.own.login.is_some() { PAYLOAD_TOLERANCE_BYTES } else { 0 }
    }

    fn header(&mut self, input: &[u8]) -> Step {
        let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Step::Needs(HEADER_BYTES) };
        let mut output = self.outbox.lock();
        match greet(*header) {
            Greeting::Accepted => {
                encode_start(&self.settings, &self.peer, &self.broker.cluster_name(), output.bytes());
                drop(output);
                self.enter(Phase::Starting);
            }
            Greeting::Refused(answer) => {
                output.bytes().extend_from_slice(&answer);
                drop(output);
                self.log_end(Ending::Failed(&not_amqp(*header)));
                self.enter(Phase::Draining);
            }
        }
        Step::Took(HEADER_BYTES)
    }

    /// A frame, which has the first `frame_bytes` of the input.
    fn frame(&mut self, frame: &Frame<'_>, input: &[u8], frame_bytes: usize) -> Outcome<Taken> {
        if needs_metadata(frame) && self.broker.long_changes().is_on() {
            self.awaits_metadata = true;
            return Ok(Taken::Wait);
        }
        match (&mut self.running, self.phase) {
            (Some(running), Phase::Running) if frame.channel != 0 => {
                return running.channel_frame(frame, input, frame_bytes);
            }
            (_, Phase::Closing) => return Ok(self.closing_frame(frame)),
            _ => check_kind(frame)?,
        }
        if frame.kind == wire::amqp091::FRAME_HEARTBEAT {
            return Ok(Taken::Frame);
        }
        if frame.kind != FRAME_METHOD || frame.channel != 0 {
            return Err(Failure::unexpected_frame(frame));
        }
        let method = Method::decode(frame.payload).map_err(|error| Failure::bad_method(error, frame))?;
        if let Some(running) = &mut self.running {
            if !running.pending.is_empty() {
                running.barrier = true;
                return Ok(Taken::Wait);
            }
            running.sync();
            if matches!(method, Method::ConnectionClose(_)) && running.leave() {
                return Ok(Taken::Wait);
            }
        }
        self.connection_method(&method).map(|()| Taken::Frame)
    }

    /// After the server's close only its answer counts, or a close that crossed it (B35).
    fn closing_frame(&mut self, frame: &Frame<'_>) -> Taken {
        if frame.channel == 0 && frame.kind == FRAME_METHOD {
            match Method::decode(frame.payload) {
                Ok(Method::ConnectionCloseOk(_)) => self.enter(Phase::Draining),
                Ok(Method::ConnectionClose(_)) => {
                    connection::CloseOk {}.encode_frame(0, self.outbox.lock().bytes());
                }
                _ => {}
            }
        }
        Taken::Frame
    }

    /// A method on channel 0.
    fn connection_method(&mut self, method: &Method<'_>) -> Outcome {
        match (self.phase, method) {
            (Phase::Starting, Method::ConnectionStartOk(start_ok)) => self.start_ok(start_ok),
            (Phase::Tuning, Method::ConnectionTuneOk(tune_ok)) => self.tune_ok(tune_ok),
            (Phase::Opening, Method::ConnectionOpen(open)) => self.open(open),
            (Phase::Running, Method::ConnectionUpdateSecret(_)) => self.update_secret(),
            (Phase::Running | Phase::Opening | Phase::Tuning, Method::ConnectionClose(_)) => {
                self.release();
                self.own.said_goodbye = true;
                self.write(connection::CloseOk {});
                self.linger(self.patience_ms());
                Ok(())
            }
            _ => Err(Failure::unexpected_method(method, self.phase.name())),
        }
    }

    fn write<'a>(&mut self, method: impl Into<Method<'a>>) {
        method.into().encode_frame(0, self.outbox.lock().bytes());
    }

    /// Ends the connection with a reason; everything it holds is given back first.
    fn fail(&mut self, failure: &Failure) {
        match self.phase {
            Phase::Closing | Phase::Lingering | Phase::Draining | Phase::Closed => return,
            Phase::Opening | Phase::Running => self.own.close_timeout_ms = self.patience_ms(),
            Phase::Header | Phase::Starting | Phase::Tuning => self.own.close_timeout_ms = REFUSED_TIMEOUT_MS,
        }
        self.log_failure(failure);
        self.release();
        failure.encode_connection_close(self.outbox.lock().bytes());
        self.enter(Phase::Closing);
    }

    /// Whether an alarm holds the connection.
    fn is_held(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.alarm.holds)
    }

    /// RabbitMQ's states of a connection during an alarm: `blocking` until it publishes, then `blocked`.
    fn show_alarm(&self) {
        let Some(running) = self.running.as_ref().filter(|_| self.phase == Phase::Running) else { return };
        self.control.set_state(match running.alarm.raised.blocks() {
            true if running.alarm.holds => "blocked",
            true => "blocking",
            false => self.phase.name(),
        });
    }
}

/// Largest frame payload accepted when `frame_size_max` was negotiated; 0 is no limit, and then RabbitMQ's largest
/// message bounds it.
fn payload_bytes_max(frame_size_max: u32) -> usize {
    match frame_size_max as usize {
        0 => 512 << 20,
        size => size.saturating_sub(FRAME_OVERHEAD) + PAYLOAD_TOLERANCE_BYTES,
    }
}

#[cfg(test)]
mod tests;
