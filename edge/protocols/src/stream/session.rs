//! One connection of the stream protocol: phases, the frame loop, heartbeats, its end.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};

use broker::{CloseReason, Principal, User};
use platform::profile::{self, NameId};
use wire::stream::commands::{Heartbeat, Tune};
use wire::stream::requests::{self, Close, Open, SaslAuthenticate};
use wire::stream::{
    Command, FrameError, ListBuf, Message, Parsed, Request, Response, ResponseCode, Trailing, parse_frame,
    responses,
};

use super::control::Listed;
use super::end::End;
use super::errors::count_answer;
use super::handshake::{self, advertised};
use super::running::{Next, Running};
use super::settings::Settings;
use crate::connection::{Configured, Connection, DoorOf, Phase as _, Protocol, Step};
use crate::login::Mechanism;
use crate::outbox::{Outbox, OutputBytes};
use crate::{Now, Peer};

#[cfg(test)]
mod tests;

/// The name of the protocol in listings.
const PROTOCOL_NAME: &str = "stream";

/// How long a client may take to end a connection that is closing, milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 10_000;
/// How long a refused client waits for its answer, milliseconds; RabbitMQ's time.
const REFUSAL_MS: u64 = 3_000;

/// Heartbeats that may stay away before the client counts as gone.
const SILENT_HEARTBEATS_MAX: u64 = 2;

/// The correlation id of the server's own close.
const CLOSE_ID: u32 = 1;

/// Commands that wait while metadata is changed for long: those that change it.
const METADATA_KEYS: [u16; 5] = [
    requests::Create::KEY,
    requests::Delete::KEY,
    requests::CreateSuperStream::KEY,
    requests::DeleteSuperStream::KEY,
    requests::Open::KEY,
];

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client says what it is.
    PeerProperties,
    /// It asks for mechanisms.
    Mechanisms,
    /// It logs in.
    Login,
    /// It answers the proposed limits.
    Tuning,
    /// It opens a vhost.
    Opening,
    Running,
    /// The client is refused: the answer waits, so that passwords are not tried out fast.
    Refused,
    /// The close is sent, the client's answer awaited.
    Closing,
    Draining,
    Closed,
}

impl crate::connection::Phase for Phase {
    const FIRST: Phase = Phase::PeerProperties;
    const DRAINING: Phase = Phase::Draining;
    const CLOSED: Phase = Phase::Closed;

    fn name(self) -> &'static str {
        match self {
            Phase::PeerProperties | Phase::Mechanisms | Phase::Login | Phase::Tuning | Phase::Opening => {
                "starting"
            }
            Phase::Running => "running",
            Phase::Refused | Phase::Closing | Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }

    fn drops_input(self) -> bool {
        matches!(self, Phase::Refused | Phase::Draining | Phase::Closed)
    }
}

/// The answer that a request waits for, as bytes.
pub(crate) type Wait = crate::connection::Wait<Vec<u8>>;

/// The bytes of an answer.
pub(crate) fn encoded<'a>(correlation_id: u32, response: impl Into<Response<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    response.into().encode(correlation_id, &mut bytes);
    bytes
}

/// One connection of the stream protocol, server side.
pub type Session = Connection<Stream>;

/// Where clients of the stream protocol come in.
pub type Door = DoorOf<Stream>;

/// The part of a connection that the stream protocol has alone.
pub struct Stream {
    login: Option<(Arc<User>, Mechanism)>,
    /// The answer that a refused client gets later.
    refusal: Vec<u8>,
    /// Negotiated, bytes.
    frame_max: u32,
    /// Negotiated, seconds.
    heartbeat_s: u32,
}

impl Configured for Stream {
    type Settings = Settings;
}

impl Protocol for Stream {
    type Shown = Listed;
    type Phase = Phase;
    type Running = Running;
    type Done = Vec<u8>;

    const IDLE_BUFFER_BYTES_KEPT: usize = 1024;

    fn label() -> NameId {
        static LABEL: LazyLock<NameId> = LazyLock::new(|| profile::intern(PROTOCOL_NAME));
        *LABEL
    }

    fn listed_as(_: &Peer) -> &'static str {
        PROTOCOL_NAME
    }

    fn side() {}

    fn begin(_: &Settings, _: &Arc<Outbox<()>>, _: Now) -> Stream {
        Stream { login: None, refusal: Vec::new(), frame_max: 0, heartbeat_s: 0 }
    }

    fn accepted(session: &mut Session) {
        session.broker.log_accepted(PROTOCOL_NAME, &session.peer.connection_name());
    }

    fn step(session: &mut Session, input: &[u8]) -> Step {
        session.frame_at(input).unwrap_or_else(|end| {
            session.fail(&end);
            Step::Took(input.len())
        })
    }

    fn end_batch(session: &mut Session) {
        session.go_on();
    }

    /// An operator, or the end of the node, closes the connection.
    fn close(session: &mut Session, reason: CloseReason) {
        if session.is_ending() {
            return;
        }
        session.broker.log_forced(PROTOCOL_NAME, &session.control.info.lock().clone(), &reason);
        session.release();
        session.enter(Phase::Draining);
    }

    fn poll(session: &mut Session, cx: &mut Context<'_>) {
        if let Some(answer) = session.poll_wait(cx) {
            count_answer(&session.broker, &answer);
            session.outbox.lock().bytes().extend_from_slice(&answer);
        }
        session.go_on();
    }

    fn tick(session: &mut Session) {
        let in_phase_ms = session.in_phase_ms();
        match session.phase {
            Phase::Running => session.tick_running(),
            Phase::Refused if in_phase_ms >= REFUSAL_MS => {
                let refusal = std::mem::take(&mut session.own.refusal);
                count_answer(&session.broker, &refusal);
                session.outbox.lock().bytes().extend_from_slice(&refusal);
                session.enter(Phase::Draining);
            }
            Phase::Closing | Phase::Draining if in_phase_ms >= CLOSE_TIMEOUT_MS => {
                session.enter(Phase::Closed);
            }
            Phase::Refused | Phase::Closing | Phase::Draining | Phase::Closed => {}
            _ if in_phase_ms >= session.settings.step_timeout_ms => {
                let phase = session.phase;
                tracing::warn!(connection = %session.peer.connection_name(), ?phase, "a client did not go on in time");
                session.enter(Phase::Closed);
            }
            _ => {}
        }
    }

    fn next_tick_ms(session: &Session) -> u64 {
        let after = |ms: u64| session.entered.monotonic_ms.saturating_add(ms);
        match session.phase {
            Phase::Running => {
                let answer = session.running.as_ref().map_or(u64::MAX, |running| running.answer_due_ms());
                let beat = session.heartbeat_ms().map_or(u64::MAX, |ms| {
                    let silent = session.received.monotonic_ms + ms * SILENT_HEARTBEATS_MAX;
                    let beat = (session.sent.monotonic_ms + ms / 2).min(silent);
                    // A stalled connection, or a full socket, must not make this spin.
                    beat.max(session.ticked.monotonic_ms + ms / 10)
                });
                answer.min(beat)
            }
            Phase::Refused => after(REFUSAL_MS),
            Phase::Closing | Phase::Draining => after(CLOSE_TIMEOUT_MS),
            Phase::Closed => u64::MAX,
            _ => after(session.settings.step_timeout_ms),
        }
    }

    fn output_drained(session: &mut Session) {
        session.go_on();
    }
}

impl Session {
    /// Takes the frame at the front of the input.
    fn frame_at(&mut self, input: &[u8]) -> Result<Step, End> {
        let bytes_max = match self.phase {
            Phase::Running | Phase::Closing => self.own.frame_max,
            _ => self.settings.initial_frame_max,
        };
        let parsed = parse_frame(input, bytes_max as usize).map_err(|error| match error {
            FrameError::TooLarge { .. } => End::new(ResponseCode::FRAME_TOO_LARGE, error.to_string()),
            FrameError::TooSmall { .. } => End::unknown(error.to_string()),
        })?;
        let (frame, consumed) = match parsed {
            Parsed::Complete { frame, consumed } => (frame, consumed),
            Parsed::Incomplete { needed } => return Ok(Step::needs(needed, input.len())),
        };
        if self.broker.long_changes().is_on() && METADATA_KEYS.contains(&frame.key) {
            self.awaits_metadata = true;
            return Ok(Step::Waits);
        }
        let message = Message::decode(&frame).map_err(|error| End::unknown(error.to_string()))?;
        match self.phase {
            Phase::Running => {
                let running = self.running.as_mut().expect("a running connection is open");
                match running.take(&message)? {
                    Next::Took => {}
                    Next::Waits(wait) => self.wait = Some(wait),
                    Next::Held => {
                        self.control.set_state("blocked");
                        return Ok(Step::Waits);
                    }
                    Next::Login(correlation_id, asked) => self.login_again(correlation_id, &asked)?,
                    Next::Close(correlation_id) => {
                        self.respond(correlation_id, responses::Close { code: ResponseCode::OK });
                        self.release();
                        self.enter(Phase::Draining);
                    }
                }
            }
            Phase::Closing => {
                if matches!(message, Message::Response { response: Response::Close(_), .. }) {
                    self.enter(Phase::Draining);
                }
            }
            _ => self.begin(&message)?,
        }
        Ok(Step::Took(consumed))
    }

    fn respond<'a>(&self, correlation_id: u32, response: impl Into<Response<'a>>) {
        let mut output = self.outbox.lock();
        let out = output.bytes();
        let start = out.len();
        response.into().encode(correlation_id, out);
        count_answer(&self.broker, &out[start..]);
    }

    /// A frame before the vhost is open. One that is not awaited ends the connection.
    fn begin(&mut self, message: &Message<'_>) -> Result<(), End> {
        match (self.phase, message) {
            (_, Message::Command(Command::Heartbeat(_))) => {}
            (
                Phase::PeerProperties,
                Message::Request { correlation_id, request: Request::PeerProperties(asked) },
            ) => {
                handshake::note_client(asked, &mut self.control.info.lock());
                let properties = handshake::server_properties(&self.settings, &self.broker.cluster_name());
                let answer =
                    responses::PeerProperties { code: ResponseCode::OK, properties: properties.as_list() };
                self.respond(*correlation_id, answer);
                self.enter(Phase::Mechanisms);
            }
            (Phase::Mechanisms, Message::Request { correlation_id, request: Request::SaslHandshake(_) }) => {
                let mechanisms = handshake::mechanisms(&self.settings, &self.peer);
                let answer =
                    responses::SaslHandshake { code: ResponseCode::OK, mechanisms: mechanisms.as_list() };
                self.respond(*correlation_id, answer);
                self.enter(Phase::Login);
            }
            (
                Phase::Login,
                Message::Request { correlation_id, request: Request::SaslAuthenticate(asked) },
            ) => {
                self.log_in(*correlation_id, asked);
            }
            (Phase::Tuning, Message::TuneResponse(tune) | Message::Command(Command::Tune(tune))) => {
                self.own.frame_max = handshake::frame_max(self.settings.frame_max, tune.frame_max);
                self.own.heartbeat_s = tune.heartbeat;
                let mut info = self.control.info.lock();
                info.frame_max = self.own.frame_max;
                info.heartbeat_s = u16::try_from(tune.heartbeat).unwrap_or(u16::MAX);
                drop(info);
                self.enter(Phase::Opening);
            }
            (Phase::Opening, Message::Request { correlation_id, request: Request::Open(asked) }) => {
                self.open(*correlation_id, asked);
            }
            _ => return Err(End::unknown("a frame that is not awaited")),
        }
        Ok(())
    }

    fn log_in(&mut self, correlation_id: u32, asked: &SaslAuthenticate<'_>) {
        let info = self.control.info.lock().clone();
        match handshake::login(&self.broker, &self.settings, &self.peer, asked, &info) {
            Ok((user, mechanism)) => {
                let mut info = self.control.info.lock();
                info.user = user.name.to_string();
                info.auth_mechanism = mechanism.name().into();
                drop(info);
                self.own.login = Some((user, mechanism));
                self.respond(correlation_id, handshake::answer(ResponseCode::OK));
                let tune = Tune { frame_max: self.settings.frame_max, heartbeat: self.settings.heartbeat_s };
                Command::from(tune).encode(self.outbox.lock().bytes());
                self.enter(Phase::Tuning);
            }
            // These say nothing about a password: as in RabbitMQ the answer comes at once.
            Err(code @ (ResponseCode::SASL_ERROR | ResponseCode::SASL_MECHANISM_NOT_SUPPORTED)) => {
                self.respond(correlation_id, handshake::answer(code));
                self.enter(Phase::Draining);
            }
            Err(code) => self.refuse(correlation_id, handshake::answer(code)),
        }
    }

    /// Ends the connection with an answer that comes late.
    fn refuse<'a>(&mut self, correlation_id: u32, response: impl Into<Response<'a>>) {
        self.release();
        response.into().encode(correlation_id, &mut self.own.refusal);
        self.enter(Phase::Refused);
    }

    /// A client that is logged in proves once more that it is who it was.
    fn login_again(&mut self, correlation_id: u32, asked: &super::running::LoginAgain) -> Result<(), End> {
        let Some((user, mechanism)) = &self.own.login else {
            return Err(End::unknown("nobody is logged in"));
        };
        let asked = SaslAuthenticate { mechanism: &asked.mechanism, response: Some(&asked.response) };
        let code = if mechanism.name() == asked.mechanism {
            let info = self.control.info.lock().clone();
            match handshake::login(&self.broker, &self.settings, &self.peer, &asked, &info) {
                Err(code) => code,
                Ok((again, _)) if again.name != user.name => ResponseCode::SASL_CANNOT_CHANGE_USERNAME,
                Ok(_) if self.running.as_ref().is_some_and(|it| it.principal.check_vhost().is_err()) => {
                    ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE
                }
                Ok(_) => ResponseCode::OK,
            }
        } else {
            ResponseCode::SASL_CANNOT_CHANGE_MECHANISM
        };
        if code != ResponseCode::OK {
            self.refuse(correlation_id, handshake::answer(code));
            return Ok(());
        }
        self.respond(correlation_id, handshake::answer(code));
        if let Some(running) = &mut self.running {
            running.forget_forbidden();
        }
        Ok(())
    }

    fn open(&mut self, correlation_id: u32, asked: &Open<'_>) {
        let Some((user, _)) = self.own.login.clone() else { return };
        self.control.info.lock().vhost = asked.virtual_host.to_owned();
        let (id, control) = (self.broker.next_connection_id(), self.control.clone());
        let name = user.name.clone();
        match self.broker.open_connection(user, asked.virtual_host, id, control) {
            Ok(principal) => self.opened(correlation_id, principal),
            Err(error) => {
                let why = crate::refusals::open_text(&error, &name, asked.virtual_host);
                tracing::warn!(connection = %self.peer.connection_name(), "opening a connection failed: {why}");
                let code = ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE;
                self.refuse(correlation_id, responses::Open { code, ..responses::Open::default() });
            }
        }
    }

    fn opened(&mut self, correlation_id: u32, principal: Principal) {
        let (host, port) = advertised(&self.settings, &self.peer);
        let port_text = port.to_string();
        let properties = ListBuf::of([("advertised_host", host), ("advertised_port", &*port_text)]);
        let properties = Trailing(properties.as_list());
        self.respond(correlation_id, responses::Open { code: ResponseCode::OK, properties });
        let advertised = (host.into(), port);
        self.running = Some(Box::new(Running::new(
            self.broker.clone(),
            principal,
            self.settings.clone(),
            (self.outbox.clone(), Waker::from(self.outbox.clone())),
            self.control.clone(),
            (advertised, self.peer.tls.is_some(), self.own.frame_max),
        )));
        self.enter(Phase::Running);
        self.broker.log_let_in(&self.control.info.lock().clone());
    }

    /// Ends the connection, and says why to a client that is let in.
    fn fail(&mut self, end: &End) {
        if self.is_ending() {
            return;
        }
        let info = self.control.info.lock().clone();
        self.broker.log_connection_failed(PROTOCOL_NAME, &info, self.phase.name(), &end.text);
        let was_open = self.phase == Phase::Running;
        self.release();
        if !was_open {
            // Not a word to what is not logged in.
            self.enter(Phase::Closed);
            return;
        }
        self.broker.count_stream_error(end.code.0);
        let close = Close { code: end.code, reason: end.code.text() };
        Request::from(close).encode(CLOSE_ID, self.outbox.lock().bytes());
        self.enter(Phase::Closing);
    }

    fn is_ending(&self) -> bool {
        self.phase.drops_input() || self.phase == Phase::Closing
    }

    /// Confirms and deliveries, as far as there is something and room for it.
    fn go_on(&mut self) {
        let Some(running) = &mut self.running else { return };
        let was_held = running.is_held();
        // The answer to a deletion goes before the news of it.
        running.go_on(self.wait.is_none(), self.now);
        if was_held && !running.is_held() {
            self.control.set_state(self.phase.name());
        }
    }

    fn heartbeat_ms(&self) -> Option<u64> {
        (self.phase == Phase::Running && self.own.heartbeat_s > 0)
            .then_some(u64::from(self.own.heartbeat_s) * 1000)
    }

    fn tick_running(&mut self) {
        let silent_ms = self.silent_ms();
        let overdue = self.running.as_ref().is_some_and(|running| running.is_unanswered(self.now));
        if overdue {
            tracing::info!(connection = %self.peer.connection_name(), "a client did not answer a consumer update in time");
            self.release();
            self.enter(Phase::Closed);
            return;
        }
        if let Some(heartbeat_ms) = self.heartbeat_ms() {
            if silent_ms >= heartbeat_ms * SILENT_HEARTBEATS_MAX {
                tracing::info!(connection = %self.peer.connection_name(), "a client is silent and counts as gone");
                self.release();
                self.enter(Phase::Closed);
                return;
            }
            if self.now.since_ms(self.sent) >= heartbeat_ms / 2 && self.outbox.pending_bytes() == 0 {
                Command::from(Heartbeat {}).encode(self.outbox.lock().bytes());
            }
        }
        self.go_on();
    }
}
