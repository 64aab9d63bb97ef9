//! One MQTT connection: phases, the packet loop, keep alive, its end.
//!
//! Refuses to know sockets and tasks: [`crate::Session`] says what drives it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Context;

use broker::{Client, CloseReason, OpenError, Principal, User};
use platform::profile::{self, NameId};
use wire::mqtt::{
    ConnAck, Connect, Disconnect, Packet, Parsed, Properties, Property, REMAINING_LENGTH_MAX, SubAck,
    UnsubAck, Version, parse_frame, reason,
};

use super::connect::{Opened, Wishes, check_client_id, login, on_the_wire, open, protocol_name, within};
use super::control::{ClientFacts, Listed};
use super::deliver::{Side, Sink};
use super::errors::{End, connack_code};
use super::retained::Retainer;
use super::running::Running;
use super::settings::Settings;
use super::subscribe::{Changed, Wanted, subscribe, unsubscribe};
use super::will::Will;
use super::work::{ENDS_WITH_CONNECTION, Work, expiry_of};
use crate::connection::{Configured, Connection, DoorOf, Phase as _, Protocol, Step};
use crate::outbox::Outbox;
use crate::refusals::open_text;
use crate::{Now, Peer};

/// How long a client may take to end the stream that was told that its connection ends, milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 3_000;

/// How long another connection may take to let go of the client id, milliseconds.
const CLAIM_TIMEOUT_MS: u64 = 5_000;

/// How long a session waits for confirms of the connection before, milliseconds: a queue without a leader must not keep clients out.
const CONFIRMS_TIMEOUT_MS: u64 = 2_000;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CONNECT is awaited.
    Connect,
    /// The session is being made or found.
    Opening,
    Running,
    Draining,
    Closed,
}

impl crate::connection::Phase for Phase {
    const FIRST: Phase = Phase::Connect;
    const DRAINING: Phase = Phase::Draining;
    const CLOSED: Phase = Phase::Closed;

    fn name(self) -> &'static str {
        match self {
            Phase::Connect | Phase::Opening => "starting",
            Phase::Running => "running",
            Phase::Draining => "closing",
            Phase::Closed => "closed",
        }
    }
}

/// Outcome of a wait.
pub(crate) enum Done {
    Opened(Result<Opened, End>),
    Subscribed(Changed),
    Unsubscribed(Changed),
    Retains(Result<Option<Arc<Retainer>>, End>),
}

/// One MQTT connection, server side.
pub type Session = Connection<Mqtt>;

/// Where clients of MQTT come in.
pub type Door = DoorOf<Mqtt>;

/// The part of a connection that MQTT has alone.
pub struct Mqtt {
    version: Version,
}

impl Configured for Mqtt {
    type Settings = Settings;
}

impl Protocol for Mqtt {
    type Shown = Listed;
    type Phase = Phase;
    type Running = Running;
    type Done = Done;

    const IDLE_BUFFER_BYTES_KEPT: usize = 1024;

    fn label() -> NameId {
        static LABEL: LazyLock<NameId> = LazyLock::new(|| profile::intern("MQTT"));
        *LABEL
    }

    fn listed_as(peer: &Peer) -> &'static str {
        if peer.is_web_socket { "Web MQTT" } else { "MQTT" }
    }

    fn side() -> Side {
        Side::new()
    }

    fn begin(_: &Settings, _: &Arc<Outbox<Side>>, _: Now) -> Mqtt {
        Mqtt { version: Version::V311 }
    }

    fn step(session: &mut Session, input: &[u8]) -> Step {
        session.packet_at(input).unwrap_or_else(|end| {
            session.fail(&end);
            Step::Took(0)
        })
    }

    fn end_batch(session: &mut Session) {
        if let Some(running) = &mut session.running {
            running.end_batch();
            if let Some(counters) = running.publishing.as_mut().and_then(|it| it.take_counters()) {
                session.control.own.published.set(counters);
            }
        }
    }

    fn close(session: &mut Session, reason: CloseReason) {
        session.fail(&End::from(reason));
    }

    fn heed_news(session: &mut Session) {
        let Some(running) = &mut session.running else { return };
        if running.held && !session.broker.alarms().raised().blocks() {
            running.held = false;
            session.control.set_state(session.phase.name());
        }
        if running.take_cancelled().is_some() && session.phase == Phase::Running {
            session.fail(&End::new(reason::ADMINISTRATIVE_ACTION, "a queue of the session was deleted"));
        }
    }

    fn poll(session: &mut Session, cx: &mut Context<'_>) {
        if let Some(done) = session.poll_wait(cx) {
            session.done(done);
        }
        if let Some(running) = &mut session.running {
            running.poll(cx);
        }
    }

    fn tick(session: &mut Session) {
        let in_phase_ms = session.in_phase_ms();
        match session.phase {
            Phase::Connect if in_phase_ms >= session.settings.connect_timeout_ms => {
                session.enter(Phase::Closed);
            }
            Phase::Opening if in_phase_ms >= CLAIM_TIMEOUT_MS => {
                session.fail(&End::new(reason::SERVER_BUSY, "the session could not be opened in time"));
            }
            Phase::Opening if in_phase_ms >= CONFIRMS_TIMEOUT_MS => {
                session.running().work.is_late.store(true, Ordering::Release);
            }
            Phase::Running => {
                let silent_ms = session.silent_ms();
                if session.silence_max_ms().is_some_and(|max_ms| silent_ms >= max_ms) {
                    session.fail(&End::new(
                        reason::KEEP_ALIVE_TIMEOUT,
                        "nothing came for one and a half times the keep alive",
                    ));
                }
            }
            Phase::Draining if in_phase_ms >= CLOSE_TIMEOUT_MS => session.enter(Phase::Closed),
            _ => {}
        }
    }

    fn idle(session: &mut Session) {
        session.outbox.lock().state().release_scratch();
    }

    fn next_tick_ms(session: &Session) -> u64 {
        let after = |ms: u64| session.entered.monotonic_ms.saturating_add(ms);
        match session.phase {
            Phase::Connect => after(session.settings.connect_timeout_ms),
            Phase::Opening if session.is_late() => after(CLAIM_TIMEOUT_MS),
            Phase::Opening => after(CONFIRMS_TIMEOUT_MS),
            Phase::Running => match session.silence_max_ms() {
                // Not sooner than a tenth of the time after the last tick: a stalled connection must not make this spin.
                Some(ms) => (session.received.monotonic_ms + ms).max(session.ticked.monotonic_ms + ms / 10),
                None => u64::MAX,
            },
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
    /// Deletes all queues of the vhost, if the connection is open.
    pub(crate) fn delete_queues(&self) {
        let Some(running) = &self.running else { return };
        for queue in running.work.principal.vhost.queues() {
            drop(running.work.begin_delete(&String::from_utf8_lossy(queue.name()), false));
        }
    }

    /// Takes the packet at the front of the input.
    fn packet_at(&mut self, input: &[u8]) -> Result<Step, End> {
        let bytes_max = match self.phase {
            Phase::Running => self.settings.packet_bytes_max,
            _ => self.settings.packet_bytes_max_unauthenticated,
        };
        let (frame, consumed) = match parse_frame(input, bytes_max)? {
            Parsed::Complete { frame, consumed } => (frame, consumed),
            Parsed::Incomplete { needed } => return Ok(Step::needs(needed, input.len())),
        };
        if self.broker.long_changes().is_on() && matches!(frame.kind, 1 | 8 | 10) {
            self.awaits_metadata = true;
            return Ok(Step::Waits);
        }
        if self.phase == Phase::Connect && frame.kind == 1 {
            // A refusal is said in the words of the version that the client speaks.
            self.own.version = Connect::claimed_version(frame.body).unwrap_or(self.own.version);
        }
        let packet = Packet::decode(&frame, self.own.version)?;
        match (self.phase, &packet) {
            (Phase::Connect, Packet::Connect(connect)) => self.connect(connect)?,
            (Phase::Connect, _) => {
                // Not a word to what is no client of MQTT.
                self.enter(Phase::Closed);
            }
            (Phase::Running, Packet::Publish(_)) if self.stops_at_publish() => return Ok(Step::Waits),
            (Phase::Running, Packet::Publish(publish))
                if publish.retain && self.running().retainer.is_none() =>
            {
                let work = self.running().work.clone();
                let retainer = async move { work.retainer(true).await.map_err(End::from) };
                self.wait_for(async move { Done::Retains(retainer.await) });
                return Ok(Step::Waits);
            }
            (Phase::Running, packet) => self.packet(packet)?,
            _ => return Err(End::protocol("a packet before CONNACK")),
        }
        Ok(Step::Took(consumed))
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("packets come to open connections")
    }

    /// A packet of an open connection.
    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), End> {
        let (version, now_ms) = (self.own.version, self.now.unix_ms);
        let running = self.running();
        match packet {
            Packet::Publish(publish) => running.publish(publish, now_ms)?,
            Packet::PubAck(ack) => running.acknowledged(ack.packet_id),
            Packet::PubRec(ack) => running.received(ack),
            Packet::PubRel(ack) => running.released(ack.packet_id),
            Packet::PubComp(ack) => running.completed(ack.packet_id),
            Packet::PingReq => running.write(&Packet::PingResp),
            Packet::Subscribe(packet) => {
                running.submit();
                let work = running.work.clone();
                let (wanted, has_source) = (Wanted::of(packet, version), running.has_source());
                self.wait_for(async move { Done::Subscribed(subscribe(work, wanted, has_source).await) });
            }
            Packet::Unsubscribe(packet) => {
                let (work, wanted) = (running.work.clone(), Wanted::unwanted(packet, version));
                self.wait_for(async move { Done::Unsubscribed(unsubscribe(work, wanted).await) });
            }
            Packet::Disconnect(disconnect) => self.disconnect(disconnect)?,
            Packet::Connect(_) => return Err(End::protocol("a second CONNECT")),
            _ => return Err(End::protocol("a packet that clients do not send")),
        }
        Ok(())
    }

    /// CONNECT: logs in, claims the client id, and begins to open the session.
    fn connect(&mut self, connect: &Connect<'_>) -> Result<(), End> {
        self.own.version = connect.version;
        let wishes = Wishes::of(connect, &self.settings, self.chosen_id())?;
        {
            let mut facts = self.control.info.lock();
            facts.protocol = protocol_name(connect.version, self.peer.is_web_socket);
            facts.client = Some(ClientFacts {
                id: wishes.client_id.clone(),
                keep_alive_s: connect.keep_alive_s,
                is_clean: connect.clean_start,
            });
        }
        let info = broker::ConnectionControl::info(&*self.control);
        let (user, vhost) = login(&self.broker, &self.settings, &self.peer, connect, &info)?;
        check_client_id(connect, &self.peer)?;
        {
            let mut facts = self.control.info.lock();
            facts.user.clone_from(&user.name);
            facts.vhost = vhost.as_str().into();
        }
        let mut principal = self.principal(user, &vhost)?;
        principal.client = Some(Arc::new(Client::new(&wishes.client_id)));
        let claimed = self.broker.claim_client(&vhost, &wishes.client_id, self.control.clone());
        let Ok((claim, granted)) = claimed else {
            self.broker.close_connection(&principal);
            return Err(End::new(reason::SERVER_BUSY, "other connections claim the client id"));
        };
        let sink = Arc::new(Sink {
            outbox: self.outbox.clone(),
            clock: self.settings.clock.clone(),
            has_news: AtomicBool::new(false),
        });
        let receive_max = wishes.receive_max.min(self.settings.prefetch.max(1));
        self.set_up(&wishes, receive_max, &vhost);
        let internal = Principal { user: self.settings.shared.internal.clone(), ..principal.clone() };
        let work = Arc::new(Work {
            broker: self.broker.clone(),
            principal,
            internal,
            settings: self.settings.clone(),
            sink,
            client_id: wishes.client_id.clone(),
            expiry_s: wishes.expiry_s,
            is_late: AtomicBool::new(false),
            prefetch: receive_max,
        });
        let clean_start = wishes.clean_start;
        let mut running = Running::new(work.clone(), wishes, claim);
        running.will = connect.will.as_ref().map(|will| Box::new(Will::of(will, self.now.unix_ms)));
        let checked = running.check_will();
        self.running = Some(Box::new(running));
        self.enter(Phase::Opening);
        if let Err(end) = checked {
            self.running().will = None;
            return Err(end);
        }
        let has_retained_will = connect.will.is_some_and(|will| will.retain);
        self.wait_for(async move { Done::Opened(open(work, granted, clean_start, has_retained_will).await) });
        Ok(())
    }

    /// Tells the delivery side the wishes of the client.
    fn set_up(&self, wishes: &Wishes, receive_max: u16, vhost: &str) {
        let mut hasher = DefaultHasher::new();
        (vhost, &wishes.client_id).hash(&mut hasher);
        let mut output = self.outbox.lock();
        let side = output.state();
        side.version = wishes.version;
        side.packet_bytes_max = wishes.packet_bytes_max.min(REMAINING_LENGTH_MAX);
        side.receive_max = receive_max;
        side.exchange = self.settings.exchange.as_bytes().into();
        side.me = hasher.finish();
        side.set_alias_max(wishes.alias_max);
    }

    /// Opens the vhost.
    fn principal(&self, user: Arc<User>, vhost: &str) -> Result<Principal, End> {
        let name = user.name.clone();
        let id = self.broker.next_connection_id();
        self.broker.open_connection(user, vhost, id, self.control.clone()).map_err(|error| match &error {
            OpenError::VhostNotFound(vhost) => {
                End::new(reason::BAD_USER_NAME_OR_PASSWORD, format!("vhost '{vhost}' not found"))
            }
            OpenError::AccessRefused => End::new(
                reason::NOT_AUTHORIZED,
                format!("access to vhost '{vhost}' refused for user '{name}'"),
            ),
            OpenError::NodeLimit(_) | OpenError::VhostLimit(_) | OpenError::UserLimit(_) => {
                End::new(reason::QUOTA_EXCEEDED, open_text(&error, &name, vhost))
            }
        })
    }

    /// An id for a client that gives none.
    fn chosen_id(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.peer.seed, self.peer.remote, self.now.unix_ms).hash(&mut hasher);
        format!("warren-{:016x}{:016x}", self.peer.seed, hasher.finish())
    }

    /// The session is there: CONNACK, then its messages.
    fn opened(&mut self, opened: Opened) {
        let Opened { session_present, sources, retainer, will } = opened;
        let settings = self.settings.clone();
        let running = self.running();
        if let (Some((_, queue)), true) = (sources.first(), running.expiry_s != ENDS_WITH_CONNECTION) {
            // That of the CONNECT, or the one of before if it could not be changed: the client is told.
            running.expiry_s = expiry_of(queue);
        }
        let wishes = &running.wishes;
        let packet_bytes_max = u32::try_from(settings.packet_bytes_max).unwrap_or(u32::MAX);
        let mut properties = vec![
            Property::SessionExpiryInterval(on_the_wire(running.expiry_s)),
            Property::MaximumPacketSize(packet_bytes_max),
            Property::TopicAliasMaximum(settings.topic_alias_max),
        ];
        if wishes.is_assigned {
            properties.push(Property::AssignedClientIdentifier(&wishes.client_id));
        }
        let properties = Properties::of(&properties);
        running.write(&Packet::ConnAck(ConnAck { session_present, code: reason::SUCCESS, properties }));
        running.retainer = retainer;
        running.is_open = true;
        running.publish_left(will);
        running.resend_releases();
        running.attach(sources);
        let client_id = running.wishes.client_id.clone();
        self.enter(Phase::Running);
        tracing::debug!(name = %self.peer.connection_name(), %client_id, session_present, "open");
    }

    /// DISCONNECT: the client leaves.
    fn disconnect(&mut self, disconnect: &Disconnect<'_>) -> Result<(), End> {
        let expiry_max_s = self.settings.session_expiry_max_s;
        let running = self.running();
        for property in disconnect.properties.iter() {
            let Property::SessionExpiryInterval(seconds) = property else { continue };
            let wanted_s = within((seconds != u32::MAX).then_some(seconds), expiry_max_s);
            if running.wishes.expiry_s == ENDS_WITH_CONNECTION && wanted_s != ENDS_WITH_CONNECTION {
                return Err(End::protocol("a session that ends with its connection cannot be kept"));
            }
            running.set_expiry(wanted_s);
        }
        if disconnect.reason_code != reason::DISCONNECT_WITH_WILL {
            running.will = None;
        }
        self.release();
        self.enter(Phase::Draining);
        Ok(())
    }

    /// Ends the connection, and says why where the version has words for it.
    fn fail(&mut self, end: &End) {
        if matches!(self.phase, Phase::Draining | Phase::Closed) {
            return;
        }
        tracing::info!(connection = %self.peer.connection_name(), phase = self.phase.name(), "{}", end.text);
        let wants_reasons = self.running.as_ref().is_none_or(|running| running.wishes.wants_reasons);
        let text = [Property::ReasonString(&end.text)];
        let properties = if wants_reasons { Properties::of(&text) } else { Properties::EMPTY };
        let mut output = self.outbox.lock();
        match self.phase {
            Phase::Connect | Phase::Opening => {
                let code = connack_code(self.own.version, end.code);
                let ack = ConnAck { session_present: false, code, properties };
                Packet::ConnAck(ack).encode(self.own.version, output.bytes());
            }
            _ if self.own.version == Version::V5 => {
                let disconnect = Disconnect { reason_code: end.code, properties };
                Packet::Disconnect(disconnect).encode(self.own.version, output.bytes());
            }
            _ => {}
        }
        drop(output);
        self.release();
        self.enter(Phase::Draining);
    }

    /// A connection that publishes while an alarm is on is not read from until all are off.
    fn stops_at_publish(&mut self) -> bool {
        let stops = self.broker.alarms().raised().blocks();
        if stops {
            self.running().held = true;
            self.control.set_state("blocked");
        }
        stops
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Opened(Ok(opened)) => self.opened(opened),
            Done::Opened(Err(end)) => self.fail(&end),
            Done::Retains(Ok(retainer)) => self.running().retainer = retainer,
            Done::Retains(Err(end)) => self.fail(&end),
            Done::Subscribed(changed) => {
                let is_v31 = self.own.version != Version::V5;
                let failed = |code: u8| if is_v31 && code > 2 { reason::UNSPECIFIED_ERROR } else { code };
                let codes: Vec<u8> = changed.codes.iter().map(|code| failed(*code)).collect();
                let ack = SubAck { packet_id: changed.packet_id, codes: &codes, ..SubAck::default() };
                let running = self.running();
                running.write(&Packet::SubAck(ack));
                running.attach(changed.attached);
            }
            Done::Unsubscribed(changed) => {
                let ack =
                    UnsubAck { packet_id: changed.packet_id, codes: &changed.codes, ..UnsubAck::default() };
                let running = self.running();
                running.write(&Packet::UnsubAck(ack));
                changed.detached.iter().for_each(|token| running.detach(*token));
            }
        }
    }

    /// Milliseconds of silence after which the client counts as gone; `None` is never.
    fn silence_max_ms(&self) -> Option<u64> {
        let keep_alive_s = self.running.as_ref()?.wishes.keep_alive_s;
        (keep_alive_s > 0).then_some(u64::from(keep_alive_s) * 1500)
    }

    /// Whether the session is opened without waiting for confirms of the connection before.
    fn is_late(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.work.is_late.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests;
