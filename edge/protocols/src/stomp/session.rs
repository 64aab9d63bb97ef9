//! One STOMP connection: phases, the frame loop, heart-beats, its end.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::task::Context;

use broker::{CloseReason, ConnectionControl as _, Principal};
use platform::profile::{self, NameId};
use wire::amqp091::TableBuf;
use wire::stomp::{Frame, FrameWriter, Headers, Limits, Parsed, Version, parse_frame};

use super::connect::{HeartBeats, login, negotiate, not_opened};
use super::control::{CHANNEL, Listed};
use super::deliver::{Side, Sink};
use super::errors::Trouble;
use super::running::{Done, Handled, Running};
use super::settings::Settings;
use super::transactions::Replayed;
use super::work::Work;
use crate::connection::{Configured, Connection, DoorOf, Phase as _, Protocol, Step};
use crate::outbox::Outbox;
use crate::refusals::channel_text;
use crate::{Now, Peer};

/// How long a client may take to end the stream that was told that its connection ends, milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 3_000;

/// How long DISCONNECT waits for confirms of messages with receipts, milliseconds.
const LEAVE_TIMEOUT_MS: u64 = 30_000;

/// Command and headers of a frame, at most, bytes.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// The same before CONNECT: a head that grows byte by byte is looked at again and again.
const CONNECT_HEAD_BYTES_MAX: usize = 8 << 10;

/// So many times the client's interval may pass in silence.
const SILENT_INTERVALS: u64 = 2;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CONNECT is awaited.
    Connect,
    Running,
    /// DISCONNECT has come; confirms are awaited.
    Leaving,
    Draining,
    Closed,
}

impl crate::connection::Phase for Phase {
    const FIRST: Phase = Phase::Connect;
    const DRAINING: Phase = Phase::Draining;
    const CLOSED: Phase = Phase::Closed;

    fn is_stalled(self) -> bool {
        self == Phase::Leaving
    }

    fn name(self) -> &'static str {
        match self {
            Phase::Connect => "starting",
            Phase::Running => "running",
            Phase::Leaving | Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }
}

/// One STOMP connection, server side.
pub type Session = Connection<Stomp>;

/// Where clients of STOMP come in.
pub type Door = DoorOf<Stomp>;

/// The part of a connection that STOMP has alone.
pub struct Stomp {
    version: Version,
    beats: HeartBeats,
    /// The receipt of DISCONNECT.
    last_receipt: Option<Box<[u8]>>,
    /// So many bytes of the frame that comes have no NUL; 0 if that is not known.
    without_nul: usize,
}

impl Configured for Stomp {
    type Settings = Settings;
}

impl Protocol for Stomp {
    type Shown = Listed;
    type Phase = Phase;
    type Running = Running;
    type Done = Done;

    const IDLE_BUFFER_BYTES_KEPT: usize = 1024;

    fn label() -> NameId {
        static LABEL: LazyLock<NameId> = LazyLock::new(|| profile::intern("STOMP"));
        *LABEL
    }

    fn listed_as(peer: &Peer) -> &'static str {
        if peer.is_web_socket { "Web STOMP" } else { "STOMP" }
    }

    fn side() -> Side {
        Side::new()
    }

    fn begin(_: &Settings, _: &Arc<Outbox<Side>>, _: Now) -> Stomp {
        Stomp { version: Version::V12, beats: HeartBeats::default(), last_receipt: None, without_nul: 0 }
    }

    fn step(session: &mut Session, input: &[u8]) -> Step {
        session.replay();
        if session.is_stalled() || session.phase.drops_input() {
            return Step::Took(0);
        }
        match session.frame_at(input) {
            Ok(step) => {
                if let Step::Took(_) = step {
                    session.own.without_nul = 0;
                }
                step
            }
            Err(trouble) => {
                session.fail(&trouble);
                Step::Took(0)
            }
        }
    }

    fn end_batch(session: &mut Session) {
        if let Some(running) = &mut session.running {
            running.end_batch();
        }
    }

    fn close(session: &mut Session, reason: CloseReason) {
        session.fail(&Trouble::from(reason));
    }

    fn heed_news(session: &mut Session) {
        let Some(running) = &mut session.running else { return };
        if running.held && !session.broker.alarms().raised().blocks() {
            running.held = false;
            session.control.set_state(session.phase.name());
        }
    }

    fn poll(session: &mut Session, cx: &mut Context<'_>) {
        while let Some(done) = session.poll_wait(cx) {
            session.done(done);
            // A frame that COMMIT has let go may begin the next wait.
            session.replay();
        }
        session.replay();
        if let Some(running) = &mut session.running {
            running.poll(cx);
            running.submit();
        }
        session.leave_if_done();
    }

    fn tick(session: &mut Session) {
        let in_phase_ms = session.in_phase_ms();
        match session.phase {
            Phase::Connect if in_phase_ms >= session.settings.connect_timeout_ms => {
                session.enter(Phase::Closed);
            }
            Phase::Running => session.beat(),
            Phase::Leaving if in_phase_ms >= LEAVE_TIMEOUT_MS => {
                session.fail(&Trouble::ending(
                    "Not confirmed",
                    "messages with receipts were not confirmed in time\n",
                ));
            }
            Phase::Draining if in_phase_ms >= CLOSE_TIMEOUT_MS => session.enter(Phase::Closed),
            _ => {}
        }
    }

    fn next_tick_ms(session: &Session) -> u64 {
        let after = |ms: u64| session.entered.monotonic_ms.saturating_add(ms);
        match session.phase {
            Phase::Connect => after(session.settings.connect_timeout_ms),
            Phase::Running => {
                let HeartBeats { send_ms, receive_ms } = session.own.beats;
                let of = |since: Now, ms: u64| {
                    // Not sooner than a tenth of the time after the last tick: a stalled connection must not make this spin.
                    let due_ms = (since.monotonic_ms + ms).max(session.ticked.monotonic_ms + ms / 10);
                    if ms == 0 { u64::MAX } else { due_ms }
                };
                of(session.sent, send_ms).min(of(session.received, receive_ms * SILENT_INTERVALS))
            }
            Phase::Leaving => after(LEAVE_TIMEOUT_MS),
            Phase::Draining => after(CLOSE_TIMEOUT_MS),
            Phase::Closed => u64::MAX,
        }
    }

    fn heeds_end(session: &Session) -> bool {
        session.phase == Phase::Running && session.wait.is_some()
    }

    fn output_drained(session: &mut Session) {
        if let Some(running) = &mut session.running {
            running.output_drained();
        }
    }
}

impl Session {
    /// Takes the frame at the front of the input.
    fn frame_at(&mut self, input: &[u8]) -> Result<Step, Trouble> {
        let frame_bytes_max = match self.phase {
            Phase::Connect => self.settings.frame_bytes_max_unauthenticated,
            _ => self.settings.frame_bytes_max,
        };
        if self.lacks_nul(input) && input.len() < frame_bytes_max {
            return Ok(Step::Needs(input.len() + 1));
        }
        let head_bytes_max = match self.phase {
            Phase::Connect => CONNECT_HEAD_BYTES_MAX,
            _ => HEAD_BYTES_MAX,
        };
        let limits = Limits { frame_bytes_max, head_bytes_max };
        let (frame, consumed) = match parse_frame(input, self.own.version, limits)? {
            Parsed::Complete { frame, consumed } => (frame, consumed),
            Parsed::LineEnds { consumed } => return Ok(Step::Took(consumed)),
            Parsed::Incomplete { needed } => {
                // Only a frame without a length is looked at again with each byte.
                self.own.without_nul = if needed == input.len() + 1 { input.len() } else { 0 };
                return Ok(Step::needs(needed, input.len()));
            }
        };
        if self.phase == Phase::Connect {
            return self.first(&frame, consumed);
        }
        if matches!(frame.command, b"CONNECT" | b"STOMP") {
            // RabbitMQ has no words for it either.
            self.release();
            self.enter(Phase::Closed);
            return Ok(Step::Took(consumed));
        }
        Ok(if self.handle(&frame, &input[..consumed], false)? { Step::Took(consumed) } else { Step::Waits })
    }

    /// Whether the frame at the front still has no NUL, as far as a look at the new bytes tells.
    fn lacks_nul(&mut self, input: &[u8]) -> bool {
        // Its head is whole: a longer one is refused.
        if self.own.without_nul < HEAD_BYTES_MAX || input.len() < self.own.without_nul {
            return false;
        }
        let lacks = !input[self.own.without_nul..].contains(&0);
        if lacks {
            self.own.without_nul = input.len();
        }
        lacks
    }

    /// The first frame: CONNECT, unless the default user is logged in without.
    fn first(&mut self, frame: &Frame<'_>, consumed: usize) -> Result<Step, Trouble> {
        match frame.command {
            b"CONNECT" | b"STOMP" => {
                self.connect(frame.headers)?;
                Ok(Step::Took(consumed))
            }
            // As in RabbitMQ: not over WebSocket.
            _ if self.settings.implicit_connect && !self.peer.is_web_socket => {
                self.open((None, None), &self.settings.vhost.clone(), Version::V10)?;
                // The frame comes again, to an open connection.
                Ok(Step::Took(0))
            }
            _ => Err(Trouble::ending("Illegal command", "You must log in using CONNECT first")),
        }
    }

    /// A frame of an open connection; whether it is done with.
    fn handle(&mut self, frame: &Frame<'_>, raw: &[u8], is_replayed: bool) -> Result<bool, Trouble> {
        let running = self.running.as_mut().expect("frames come to open connections");
        match running.handle(frame, raw, is_replayed) {
            Ok(Handled::Taken) => {}
            Ok(Handled::Later) => {
                self.control.set_state("blocked");
                return Ok(false);
            }
            Ok(Handled::Waits(wait)) => self.wait = Some(wait),
            Ok(Handled::Prepares(wait)) => {
                self.wait = Some(wait);
                if is_replayed {
                    return Ok(false);
                }
                // One wait may follow another, so the frame leaves the input.
                running.replayed.push_front(Replayed::Frame(raw.into()));
            }
            Ok(Handled::Leaves(receipt)) => {
                running.submit();
                self.own.last_receipt = receipt;
                self.enter(Phase::Leaving);
                self.leave_if_done();
            }
            Err(trouble) if trouble.ends => return Err(trouble),
            Err(trouble) => running.write_error(&trouble),
        }
        Ok(true)
    }

    /// Does what COMMIT has let go, as far as nothing has to be waited for.
    fn replay(&mut self) {
        while self.phase == Phase::Running && !self.is_stalled() {
            let Some(next) = self.running.as_mut().and_then(|running| running.replayed.pop_front()) else {
                return;
            };
            if let Err(trouble) = self.replay_one(next) {
                self.fail(&trouble);
            }
        }
    }

    fn replay_one(&mut self, next: Replayed) -> Result<(), Trouble> {
        let bytes = match next {
            Replayed::Frame(bytes) => bytes,
            Replayed::Receipt(receipt) => {
                self.running.iter().for_each(|running| running.write_receipt(&receipt));
                return Ok(());
            }
        };
        let limits = Limits { frame_bytes_max: usize::MAX, head_bytes_max: usize::MAX };
        let Parsed::Complete { frame, .. } = parse_frame(&bytes, self.own.version, limits)? else {
            return Ok(());
        };
        if !self.handle(&frame, &bytes, true)?
            && let Some(running) = &mut self.running
        {
            running.replayed.push_front(Replayed::Frame(bytes));
        }
        Ok(())
    }

    /// CONNECT: logs in and opens the vhost.
    fn connect(&mut self, headers: Headers<'_>) -> Result<(), Trouble> {
        let version = negotiate(headers)?;
        let beats = HeartBeats::of(headers)?;
        let text = |name: &[u8]| headers.get(name);
        let (name, password) = (text(b"login"), text(b"passcode"));
        let vhost = text(b"host").filter(|host| !host.is_empty());
        let vhost =
            vhost.map_or(self.settings.vhost.clone(), |host| String::from_utf8_lossy(&host).into_owned());
        self.open((name.as_deref(), password.as_deref()), &vhost, version)?;
        self.own.beats = beats;
        let mut output = self.outbox.lock();
        let session = output.state().session.clone();
        let mut writer = FrameWriter::new("CONNECTED", version, output.bytes());
        if !self.settings.hides_server {
            writer = writer.header("server", concat!("Warren/", env!("CARGO_PKG_VERSION")));
        }
        writer
            .header("session", &*session)
            .header("heart-beat", beats.text())
            .header("version", version.name())
            .end();
        Ok(())
    }

    fn open(
        &mut self,
        credentials: (Option<&[u8]>, Option<&[u8]>),
        vhost: &str,
        version: Version,
    ) -> Result<(), Trouble> {
        self.control.info.lock().protocol = protocol_name(version, self.peer.is_web_socket);
        let info = self.control.info();
        let user = login(&self.broker, &self.settings, &self.peer, credentials, &info)?;
        let name = user.name.clone();
        {
            let mut info = self.control.info.lock();
            (info.user, info.vhost) = (name.to_string(), vhost.into());
            info.auth_mechanism = "PLAIN".into();
            (info.channels, info.channel_max) = (1, 1);
        }
        let id = self.broker.next_connection_id();
        let opened = self.broker.open_connection(user, vhost, id, self.control.clone());
        let principal = opened.map_err(|error| not_opened(&error, &name, vhost))?;
        let permit = match self.broker.open_channel(&principal, CHANNEL) {
            Ok(permit) => permit,
            Err(refused) => {
                self.broker.close_connection(&principal);
                let text = channel_text(refused, &name, &self.broker.options().node_name);
                return Err(Trouble::ending("Bad CONNECT", text));
            }
        };
        self.own.version = version;
        let session = self.session_name(&principal);
        self.control.info.lock().client_properties = session_properties(&session);
        {
            let mut output = self.outbox.lock();
            let side = output.state();
            side.version = version;
            side.session = session.into();
            side.topic_exchange = self.settings.topic_exchange.as_bytes().into();
        }
        let sink = Arc::new(Sink { outbox: self.outbox.clone(), has_cancelled: AtomicBool::new(false) });
        let (broker, settings) = (self.broker.clone(), self.settings.clone());
        let running = Running::new(Arc::new(Work { broker, principal, settings, sink }), version, permit);
        self.control.own.published.set(vec![running.plain.counters(), running.confirming.counters()]);
        self.running = Some(Box::new(running));
        self.enter(Phase::Running);
        Ok(())
    }

    /// A name that no other connection has.
    fn session_name(&self, principal: &Principal) -> String {
        let mut hasher = DefaultHasher::new();
        (self.peer.seed, self.peer.remote, self.now.unix_ms).hash(&mut hasher);
        format!("session-{:016x}{:x}", hasher.finish(), principal.connection.count)
    }

    /// Ends the connection, and says why.
    fn fail(&mut self, trouble: &Trouble) {
        if matches!(self.phase, Phase::Draining | Phase::Closed) {
            return;
        }
        tracing::info!(connection = %self.peer.connection_name(), phase = self.phase.name(), "{}: {}", trouble.message, trouble.detail.trim_end());
        trouble.write(self.own.version, self.outbox.lock().bytes());
        self.release();
        self.enter(Phase::Draining);
    }

    /// After DISCONNECT: the end, when nothing is to be confirmed any more.
    fn leave_if_done(&mut self) {
        let waits = self.running.as_ref().is_some_and(|running| running.receipts_waiting() > 0);
        if self.phase != Phase::Leaving || waits {
            return;
        }
        self.release();
        if let Some(receipt) = self.own.last_receipt.take() {
            super::deliver::write_receipt(&receipt, self.own.version, self.outbox.lock().bytes());
        }
        self.enter(Phase::Draining);
    }

    fn done(&mut self, done: Done) {
        let Some(running) = &mut self.running else { return };
        let trouble = match done {
            Done::Subscribed(Ok(subscribed)) => return running.subscribed(subscribed),
            Done::Declared(Ok(name)) => return running.declared(name),
            Done::Unsubscribed(Ok(receipt)) => {
                return receipt.iter().for_each(|receipt| running.write_receipt(receipt));
            }
            Done::Subscribed(Err(trouble))
            | Done::Declared(Err(trouble))
            | Done::Unsubscribed(Err(trouble)) => trouble,
        };
        self.fail(&trouble);
    }

    /// Sends a heart-beat, or misses one of the client.
    fn beat(&mut self) {
        let silent_ms = self.silent_ms();
        let HeartBeats { send_ms, receive_ms } = self.own.beats;
        if receive_ms > 0 && silent_ms >= receive_ms * SILENT_INTERVALS {
            tracing::info!(connection = %self.peer.connection_name(), "no heart-beat of the client came in time");
            self.release();
            self.enter(Phase::Closed);
        } else if send_ms > 0 && self.now.since_ms(self.sent) >= send_ms {
            self.sent = self.now;
            self.outbox.write(|output| output.bytes().push(b'\n'));
        }
    }
}

/// The facts of a client that listings show.
fn session_properties(session: &str) -> Vec<u8> {
    let mut properties = TableBuf::new();
    properties.push_str("session", session.as_bytes());
    properties.into_raw()
}

/// The protocol's name in listings.
const fn protocol_name(version: Version, is_web_socket: bool) -> &'static str {
    match (version, is_web_socket) {
        (Version::V10, false) => "STOMP 1.0",
        (Version::V11, false) => "STOMP 1.1",
        (Version::V12, false) => "STOMP 1.2",
        (Version::V10, true) => "Web STOMP 1.0",
        (Version::V11, true) => "Web STOMP 1.1",
        (Version::V12, true) => "Web STOMP 1.2",
    }
}
