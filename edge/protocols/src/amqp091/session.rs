//! One AMQP 0-9-1 connection: phases, the frame loop, closing, time.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use broker::{Broker, ConnectionInfo, Ending, Raised, Stage, User};
use platform::profile::{self, NameId, SessionScope};
use wire::amqp091::methods::connection;
use wire::amqp091::{FRAME_METHOD, FRAME_OVERHEAD, Frame, FrameError, Method, Parsed, parse_frame};

use super::control::{Control, forced};
use super::deliver::{Deliveries, DeliverySink};
use super::errors::{Failure, Outcome};
use super::frames::{Taken, check_kind};
use super::handshake::{Client, Greeting, Limits, encode_start, greet};
use super::running::Running;
use super::settings::Settings;
use crate::large::LargeRoom;
use crate::login::Mechanism;
use crate::outbox::{Outbox, OutputBytes};
use crate::{Now, OUTPUT_BYTES_LOW, Peer, Progress, State};

mod clock;
mod driven;
mod logged;
mod opening;
mod secret;

use logged::not_amqp;

/// The name of the protocol in profiles.
static PROTOCOL: LazyLock<NameId> = LazyLock::new(|| profile::intern("AMQP 0-9-1"));

/// Bytes of a protocol header.
const HEADER_BYTES: usize = 8;

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces: what a thousand
/// connections occupied beyond what is counted.
const TASK_BYTES: usize = 3400;

/// Bytes of memory of an open connection without channels, texts and buffers.
pub(crate) const FIXED_BYTES: usize = TASK_BYTES
    + size_of::<Session>()
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
enum Phase {
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

impl Phase {
    /// RabbitMQ's name, as in its texts.
    const fn name(self) -> &'static str {
        match self {
            Phase::Header | Phase::Starting => "starting",
            Phase::Tuning => "tuning",
            Phase::Opening => "opening",
            Phase::Running => "running",
            Phase::Closing | Phase::Lingering | Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }
}

pub use driven::Door;

/// One AMQP 0-9-1 connection, server side.
pub struct Session {
    broker: Broker,
    settings: Arc<Settings>,
    peer: Peer,
    /// As whom a part of this program acts: whatever it says when it logs in.
    internal: Option<Arc<User>>,
    outbox: Arc<Outbox<Deliveries>>,
    sink: Arc<DeliverySink>,
    control: Arc<Control>,
    phase: Phase,
    running: Option<Box<Running>>,
    client: Client,
    login: Option<(Arc<User>, Mechanism)>,
    limits: Limits,
    payload_bytes_max: usize,
    alarm: Raised,
    now: Now,
    started: Now,
    received: Now,
    sent: Now,
    ticked: Now,
    /// A request waits for the end of a long change of metadata, see [`broker::LongChanges`].
    awaits_metadata: bool,
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

impl Session {
    /// A connection that was just accepted at `now`. Nothing is written before the client's protocol header.
    #[must_use]
    pub fn new(broker: Broker, settings: Arc<Settings>, peer: Peer, now: Now) -> Session {
        let outbox = Arc::new(Outbox::new(Deliveries::new()));
        let large = LargeRoom::new(settings.large_deliveries.clone());
        let sink =
            Arc::new(DeliverySink { outbox: outbox.clone(), has_cancelled: AtomicBool::new(false), large });
        let info = ConnectionInfo {
            name: peer.connection_name(),
            peer_host: peer.remote.ip().to_string(),
            peer_port: peer.remote.port(),
            host: peer.local.ip().to_string(),
            port: peer.local.port(),
            protocol: "AMQP 0-9-1",
            state: Phase::Header.name(),
            connected_at_ms: now.unix_ms,
            tls: peer.tls.clone(),
            ..ConnectionInfo::default()
        };
        let control = Arc::new(Control::new(outbox.clone(), info));
        let limits = Limits { channel_max: 0, frame_size_max: 0, heartbeat_s: 0 };
        let payload_bytes_max = settings.initial_frame_size_max as usize;
        let (phase, client) = (Phase::Header, Client::default());
        Session {
            broker,
            settings,
            peer,
            internal: None,
            outbox,
            sink,
            control,
            phase,
            running: None,
            client,
            login: None,
            limits,
            payload_bytes_max,
            alarm: Raised::default(),
            now,
            started: now,
            received: now,
            sent: now,
            ticked: now,
            awaits_metadata: false,
            close_timeout_ms: REFUSED_TIMEOUT_MS,
            close_deadline_ms: None,
            is_logged: false,
            said_goodbye: false,
        }
    }

    /// A connection of a part of this program, which has no socket: it acts as this user, and what it says when it logs in does
    /// not matter. RabbitMQ's word for such connections is direct.
    #[must_use]
    pub fn acting_as(mut self, user: Arc<User>) -> Session {
        self.control.info.lock().protocol = "Direct 0-9-1";
        self.internal = Some(user);
        self
    }

    /// Takes what has arrived, as far as it is whole. Consumes nothing while stalled; call [`Session::poll_stalled`]
    /// after every call, and look at the outbox.
    pub fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        self.now = now;
        self.received = now;
        self.heed_close();
        self.heed_alarms();
        let held = self.is_held();
        let now_ds = self.now_ds();
        if let Some(running) = &mut self.running {
            running.overdue.set_now(now_ds);
            running.channels.read_at(now.monotonic_ms);
        }
        let began = self.broker.stages().begin();
        let mut consumed = 0;
        let mut needed = 0;
        while !self.is_stalled() {
            let rest = &input[consumed..];
            match self.step(rest) {
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
        }
        if let Some(running) = &mut self.running {
            running.end_batch(now.unix_ms);
            self.control.held_back(running.is_pressed(), now.unix_ms);
        }
        if self.is_held() != held {
            self.show_alarm();
        }
        if consumed > 0 {
            self.control.received.add(consumed);
        }
        Progress { consumed, needed }
    }

    fn step(&mut self, input: &[u8]) -> Step {
        match self.phase {
            Phase::Header => return self.header(input),
            Phase::Lingering | Phase::Draining | Phase::Closed if input.is_empty() => return Step::Needs(1),
            Phase::Lingering | Phase::Draining | Phase::Closed => return Step::Took(input.len()),
            _ => {}
        }
        match parse_frame(input, self.payload_bytes_max) {
            Ok(Parsed::Complete { frame, consumed }) => match self.frame(&frame, input, consumed) {
                Ok(Taken::Frame) => Step::Took(consumed),
                Ok(Taken::FrameAnd(more)) => Step::Took(consumed + more),
                Ok(Taken::Wait) => Step::Waits,
                Err(failure) => {
                    self.fail(&failure);
                    Step::Took(consumed)
                }
            },
            Ok(Parsed::Incomplete { needed }) => Step::Needs(needed),
            Err(error) => {
                let limit = self.payload_bytes_max.saturating_sub(self.tolerance_bytes());
                // Frames behind a damaged frame cannot be understood: no close-ok is awaited.
                let payload = match error {
                    FrameError::BadEnd { size, .. } => &input[7..7 + size],
                    FrameError::TooLarge { .. } => &[],
                };
                let failure = Failure::bad_frame(error, input[0], payload, limit);
                self.fail(&failure);
                self.linger(REFUSED_TIMEOUT_MS);
                Step::Took(input.len())
            }
        }
    }

    /// From now on whatever the client sends is dropped, until it ends the stream or this time is over.
    fn linger(&mut self, timeout_ms: u64) {
        self.close_timeout_ms = timeout_ms;
        self.enter(Phase::Lingering);
    }

    /// How long a client may take to end an open connection: its own heartbeat interval, if that is shorter than ours (B35).
    fn patience_ms(&self) -> u64 {
        match u64::from(self.limits.heartbeat_s) * 1000 {
            0 => self.settings.close_timeout_ms,
            heartbeat_ms => heartbeat_ms.min(self.settings.close_timeout_ms),
        }
    }

    fn tolerance_bytes(&self) -> usize {
        if self.login.is_some() { PAYLOAD_TOLERANCE_BYTES } else { 0 }
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
                self.said_goodbye = true;
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
            Phase::Opening | Phase::Running => self.close_timeout_ms = self.patience_ms(),
            Phase::Header | Phase::Starting | Phase::Tuning => self.close_timeout_ms = REFUSED_TIMEOUT_MS,
        }
        self.log_failure(failure);
        self.release();
        failure.encode_connection_close(self.outbox.lock().bytes());
        self.enter(Phase::Closing);
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.control.set_state(phase.name());
    }

    fn heed_close(&mut self) {
        if let Some(reason) = self.control.take_close() {
            self.log_forced(&reason);
            self.fail(&forced(reason));
        }
    }

    /// Drives what the session waits for, and hears what other threads want of it. Ready when [`Session::receive`] may
    /// be called. Registers the task with the outbox, so it is woken by output, answers and close requests alike.
    pub fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox.register(cx.waker());
        self.heed_close();
        self.heed_alarms();
        self.awaits_metadata = self.awaits_metadata && self.broker.long_changes().poll_over(cx).is_pending();
        let goes_on = if self.awaits_metadata { Poll::Pending } else { Poll::Ready(()) };
        let Some(running) = &mut self.running else { return goes_on };
        let polled = running.poll(cx);
        self.control.held_back(running.is_pressed(), self.now.unix_ms);
        match polled {
            Ok(poll) if goes_on.is_ready() => poll,
            Ok(_) => Poll::Pending,
            Err(failure) => {
                self.fail(&failure);
                Poll::Ready(())
            }
        }
    }

    /// Whether [`Session::receive`] would consume nothing.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.awaits_metadata || self.running.as_ref().is_some_and(|running| running.is_stalled())
    }

    /// Whether an alarm holds the connection.
    fn is_held(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.alarm.holds)
    }

    /// The outbox has been written out, or nearly: consumers that were refused go on, and so does parsing. Cheap when
    /// nothing was refused; does nothing above [`OUTPUT_BYTES_LOW`].
    pub fn output_drained(&mut self) {
        if self.outbox.pending_bytes() >= OUTPUT_BYTES_LOW {
            return;
        }
        if self.sink.large.is_held() {
            let mut output = self.outbox.lock();
            // Another one may have come since the look.
            if output.pending_bytes() < OUTPUT_BYTES_LOW {
                self.sink.large.give_back(&mut output.state().large);
            }
        }
        if let Some(running) = &mut self.running {
            running.output_full = false;
            running.resume_paused();
        }
    }

    /// The socket took `count` bytes of the output.
    pub fn bytes_sent(&mut self, count: usize, now: Now) {
        if count == 0 {
            return;
        }
        self.sent = now;
        self.outbox.written_then(count, |deliveries| deliveries.written(now.unix_ms));
        self.control.sent.add(count);
    }

    /// The thread that drives the session works for it, in profiles, as long as the scope lives.
    pub fn enter_profile(&self) -> SessionScope {
        match &self.running {
            Some(running) => {
                let principal = &running.principal;
                profile::enter_session(*PROTOCOL, principal.vhost.label(), principal.connection.count)
            }
            None => profile::enter_session(*PROTOCOL, NameId::default(), 0),
        }
    }

    /// A write to the socket took this long, nanoseconds.
    pub fn write_took(&self, ns: u64) {
        self.broker.stages().record(Stage::Write, ns);
    }

    /// The output side, for the socket's writer.
    #[must_use]
    pub fn outbox(&self) -> Arc<dyn OutputBytes> {
        self.outbox.clone()
    }

    /// The state of the socket that the session wants.
    #[must_use]
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Draining => State::Draining,
            Phase::Closed => State::Closed,
            _ => State::Running,
        }
    }

    /// Looks at the broker's alarms (B27): a connection that publishes while one is on is told once and not read from until
    /// all are off. The broker wakes the task when they change.
    fn heed_alarms(&mut self) {
        let raised = self.broker.alarms().raised();
        let Some(running) = &mut self.running else { return };
        if raised == self.alarm {
            return;
        }
        self.alarm = raised;
        running.alarm(raised);
        self.show_alarm();
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

    /// The socket is gone: consumers are cancelled, unacked deliveries requeued, exclusive queues deleted. May be called
    /// again; dropping does it too.
    pub fn released(&mut self) {
        self.log_end(if self.said_goodbye { Ending::InOrder } else { Ending::Unexpected });
        self.release();
        self.enter(Phase::Closed);
    }

    fn release(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.release_all();
            self.sink.large.give_back(&mut self.outbox.lock().state().large);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release();
    }
}

/// One step of the frame loop.
enum Step {
    Took(usize),
    Needs(usize),
    Waits,
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
