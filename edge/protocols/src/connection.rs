//! A connection of any protocol: what its driver does with it, and the parts that all protocols have.
//!
//! Principal types: [`Connection`], which is the session of every protocol, and [`Protocol`], what a protocol adds to it.
//!
//! Refuses to know frames, handshakes, messages and texts.
#![expect(private_bounds, reason = "protocols are written in this crate only")]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use broker::{Broker, CloseReason, ConnectionControl, Principal, Stage};
use platform::profile::{self, NameId, SessionScope};

use crate::control::{Control, Facts, Shown};
use crate::outbox::{OUTPUT_BYTES_LOW, Outbox, OutputBytes};
use crate::{Now, Peer, Progress, State};

/// How far a connection is.
pub(crate) trait Phase: Copy + PartialEq + Send + 'static {
    /// It was just accepted.
    const FIRST: Self;
    /// The output is written, then the connection ends.
    const DRAINING: Self;
    /// The connection ends at once.
    const CLOSED: Self;

    /// RabbitMQ's name.
    fn name(self) -> &'static str;

    /// Whether nothing is read.
    fn is_stalled(self) -> bool {
        false
    }

    /// Whether bytes of the client are dropped.
    fn drops_input(self) -> bool {
        self == Self::DRAINING || self == Self::CLOSED
    }
}

/// The part of a connection that is there while a vhost is open.
pub(crate) trait Opened: Send + 'static {
    /// As whom it acts.
    fn principal(&self) -> &Principal;

    /// Whether parsing must stop.
    fn is_stalled(&self) -> bool;

    /// The connection ends: everything is given back.
    fn release(&mut self);
}

/// One step of the frame loop.
pub(crate) enum Step {
    /// So many bytes are done with.
    Took(usize),
    /// Nothing can be done before so many bytes are there.
    Needs(usize),
    /// Nothing can be done before a wait is over.
    Waits,
}

impl Step {
    /// Of an incomplete frame so many more bytes are asked for at once, at most: memory follows what arrives, not what a length says.
    pub(crate) const MORE_BYTES_MAX: usize = 256 << 10;

    /// A frame of `needed` bytes has begun with so many.
    pub(crate) fn needs(needed: usize, have: usize) -> Step {
        Step::Needs(needed.min(have + Step::MORE_BYTES_MAX))
    }
}

/// Something that a connection waits for; nothing is read meanwhile.
pub(crate) type Wait<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The outcome of waits in protocols that have none.
pub(crate) type Never = Infallible;

/// A protocol whose connections have settings.
pub trait Configured: 'static {
    /// Settings of all connections that come in by a door.
    type Settings: Send + Sync + 'static;
}

/// A protocol: the state that its connections have beside what all have, and what it does with them.
pub(crate) trait Protocol: Configured + Send + Sized {
    /// The part that management sees.
    type Shown: Shown;
    /// How far a connection is.
    type Phase: Phase;
    /// The part of an open connection.
    type Running: Opened;
    /// The outcome of a wait.
    type Done: 'static;

    /// Output buffers above this are given back when nothing was written for a whole interval between ticks.
    const IDLE_BUFFER_BYTES_KEPT: usize;

    /// The name of the protocol in profiles.
    fn label() -> NameId;

    /// The name in listings of a connection that has not said anything.
    fn listed_as(peer: &Peer) -> &'static str;

    /// The state beside the output bytes when a connection begins.
    fn side() -> Side<Self>;

    /// The state of a connection that was just accepted.
    fn begin(settings: &Self::Settings, outbox: &Arc<Outbox<Side<Self>>>, now: Now) -> Self;

    /// A socket has brought the connection.
    fn accepted(_session: &mut Connection<Self>) {}

    /// Something has been read, and is parsed next.
    fn begin_batch(_session: &mut Connection<Self>) {}

    /// Takes what is at the front of the input.
    fn step(session: &mut Connection<Self>, input: &[u8]) -> Step;

    /// The bytes of a read are parsed as far as possible.
    fn end_batch(session: &mut Connection<Self>);

    /// The broker closes the connection.
    fn close(session: &mut Connection<Self>, reason: CloseReason);

    /// Looks at alarms and at other news that concern parsing.
    fn heed_news(_session: &mut Connection<Self>) {}

    /// Drives what the connection waits for.
    fn poll(session: &mut Connection<Self>, cx: &mut Context<'_>);

    /// Does what time demands.
    fn tick(session: &mut Connection<Self>);

    /// Nothing was sent for a whole interval between ticks.
    fn idle(_session: &mut Connection<Self>) {}

    /// When the next tick is due, as [`crate::Session::next_tick_ms`].
    fn next_tick_ms(session: &Connection<Self>) -> u64;

    /// Whether the client's end ends what is waited for.
    fn heeds_end(_session: &Connection<Self>) -> bool {
        false
    }

    /// Less than [`OUTPUT_BYTES_LOW`] waits for the socket.
    fn output_drained(session: &mut Connection<Self>);

    /// The socket took so many bytes of the output.
    fn written(session: &Connection<Self>, count: usize, _now: Now) {
        session.outbox.written(count);
    }

    /// The socket is gone.
    fn ended(_session: &mut Connection<Self>) {}
}

/// The state beside the output bytes.
pub(crate) type Side<P> = <<P as Protocol>::Shown as Shown>::Side;

/// Where connections of a protocol come in.
pub struct DoorOf<P: Configured> {
    /// The broker that they work on.
    pub broker: Broker,
    /// The settings of all of them.
    pub settings: Arc<P::Settings>,
}

impl<P: Configured> Clone for DoorOf<P> {
    fn clone(&self) -> Self {
        DoorOf { broker: self.broker.clone(), settings: self.settings.clone() }
    }
}

impl<P: Protocol> crate::Door for DoorOf<P> {
    type Session = Connection<P>;

    fn open(&self, peer: Peer, now: Now) -> Connection<P> {
        let mut session = Connection::new(self.broker.clone(), self.settings.clone(), peer, now);
        P::accepted(&mut session);
        session
    }
}

/// One connection of a protocol, server side: its session.
pub struct Connection<P: Protocol> {
    pub(crate) broker: Broker,
    pub(crate) settings: Arc<P::Settings>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) outbox: Arc<Outbox<Side<P>>>,
    pub(crate) control: Arc<Control<P::Shown>>,
    pub(crate) phase: P::Phase,
    pub(crate) running: Option<Box<P::Running>>,
    /// Nothing is read before this is over.
    pub(crate) wait: Option<Wait<P::Done>>,
    /// A frame waits for the end of a long change of metadata, see [`broker::LongChanges`].
    pub(crate) awaits_metadata: bool,
    /// The part that the protocol has alone.
    pub(crate) own: P,
    pub(crate) now: Now,
    /// When the phase began.
    pub(crate) entered: Now,
    pub(crate) received: Now,
    pub(crate) sent: Now,
    pub(crate) ticked: Now,
}

impl<P: Protocol> Connection<P> {
    /// A connection that was just accepted at `now`, with its first bytes still to come.
    #[must_use]
    pub fn new(broker: Broker, settings: Arc<P::Settings>, peer: Peer, now: Now) -> Connection<P> {
        let (phase, peer, outbox) = (P::Phase::FIRST, Arc::new(peer), Arc::new(Outbox::new(P::side())));
        let facts = Facts::accepted(&peer, P::listed_as(&peer), phase.name(), now.unix_ms);
        Connection {
            own: P::begin(&settings, &outbox, now),
            broker,
            settings,
            peer,
            control: Arc::new(Control::new(outbox.clone(), facts)),
            outbox,
            phase,
            running: None,
            wait: None,
            awaits_metadata: false,
            now,
            entered: now,
            received: now,
            sent: now,
            ticked: now,
        }
    }

    pub(crate) fn enter(&mut self, phase: P::Phase) {
        self.phase = phase;
        self.entered = self.now;
        self.control.set_state(phase.name());
    }

    /// Gives back all that the connection holds.
    pub(crate) fn release(&mut self) {
        self.wait = None;
        if let Some(mut running) = self.running.take() {
            running.release();
        }
    }

    pub(crate) fn wait_for(&mut self, wait: impl Future<Output = P::Done> + Send + 'static) {
        self.wait = Some(Box::pin(wait));
    }

    /// The outcome of what was waited for, once.
    pub(crate) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Option<P::Done> {
        let Poll::Ready(done) = self.wait.as_mut()?.as_mut().poll(cx) else { return None };
        self.wait = None;
        Some(done)
    }

    /// Milliseconds since something came. Nothing is read from a stalled connection, so its silence says nothing.
    pub(crate) fn silent_ms(&mut self) -> u64 {
        if self.is_stalled() {
            self.received = self.now;
        }
        self.now.since_ms(self.received)
    }

    /// Milliseconds since the phase began.
    pub(crate) fn in_phase_ms(&self) -> u64 {
        self.now.since_ms(self.entered)
    }

    /// Whether parsing must stop.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.awaits_metadata
            || self.phase.is_stalled()
            || self.wait.is_some()
            || self.running.as_ref().is_some_and(|running| running.is_stalled())
    }

    /// Bytes of memory of the connection.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.control.memory().total()
    }

    fn heed_close(&mut self) {
        if let Some(reason) = self.control.closing.take() {
            P::close(self, reason);
        }
    }
}

impl<P: Protocol> crate::Session for Connection<P> {
    fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        (self.now, self.received) = (now, now);
        self.heed_close();
        P::heed_news(self);
        P::begin_batch(self);
        let began = self.broker.stages().begin();
        let (mut consumed, mut needed) = (0, 0);
        while !self.is_stalled() {
            if self.phase.drops_input() {
                consumed = input.len();
                break;
            }
            match P::step(self, &input[consumed..]) {
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
        P::end_batch(self);
        Progress { consumed, needed }
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox.register(cx.waker());
        self.heed_close();
        P::heed_news(self);
        self.awaits_metadata = self.awaits_metadata && self.broker.long_changes().poll_over(cx).is_pending();
        P::poll(self, cx);
        if self.is_stalled() { Poll::Pending } else { Poll::Ready(()) }
    }

    #[inline]
    fn is_stalled(&self) -> bool {
        Connection::is_stalled(self)
    }

    fn heeds_end(&self) -> bool {
        P::heeds_end(self)
    }

    fn state(&self) -> State {
        match self.phase {
            phase if phase == P::Phase::DRAINING => State::Draining,
            phase if phase == P::Phase::CLOSED => State::Closed,
            _ => State::Running,
        }
    }

    fn next_tick_ms(&self) -> u64 {
        P::next_tick_ms(self)
    }

    fn tick(&mut self, now: Now) {
        let is_idle = now.since_ms(self.sent) > now.since_ms(self.ticked);
        (self.now, self.ticked) = (now, now);
        self.heed_close();
        P::tick(self);
        if is_idle {
            self.outbox.release_buffer(P::IDLE_BUFFER_BYTES_KEPT);
            P::idle(self);
        }
    }

    fn outbox(&self) -> Arc<dyn OutputBytes> {
        self.outbox.clone()
    }

    fn output_drained(&mut self) {
        if self.outbox.pending_bytes() < OUTPUT_BYTES_LOW {
            P::output_drained(self);
        }
    }

    fn bytes_sent(&mut self, count: usize, now: Now) {
        if count > 0 {
            self.sent = now;
            P::written(self, count, now);
            self.control.sent.add(count);
        }
    }

    fn write_took(&self, ns: u64) {
        self.broker.stages().record(Stage::Write, ns);
    }

    fn enter_profile(&self) -> SessionScope {
        let open = self.running.as_ref().map(|running| running.principal());
        let (vhost, connection) = open.map_or((NameId::default(), 0), |principal| {
            (principal.vhost.label(), principal.connection.count)
        });
        profile::enter_session(P::label(), vhost, connection)
    }

    fn released(&mut self) {
        P::ended(self);
        self.release();
        self.enter(P::Phase::CLOSED);
    }
}

impl<P: Protocol> Drop for Connection<P> {
    fn drop(&mut self) {
        self.release();
    }
}
