//! An open connection: its sessions, its requests on the way to the broker, and the awaited answers.
//!
//! Refuses to know the handshake, heartbeats and how the socket is driven; `session.rs` does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use broker::{
    Broker, Call, Commit, ConsumerId, Consuming, Principal, Publisher, Queue, QueueCounts, Refused,
};
use wire::amqp10::{Begin, Frame, Map, Performative, Symbols, conditions, decode_transfer};

use super::allowance::{Allowance, WINDOW_FIRST};
use super::deliver::{OUTGOING_WINDOW, SessionOutput, Sink};
use super::errors::{Failure, Outcome, Trouble};
use super::link::{Links, SessionState};
use super::listed::Listed;
use super::management::Request;
use super::settings::Settings;
use crate::budget::Share;
use crate::overdue::Overdue;
use crate::refusals::channel_text;
use crate::settlements::Settlements;

/// Bytes that a client may send while the broker cannot take what it sends. Beyond that it is not read.
const PRESSED_BYTES_MAX: usize = 8 << 20;

/// The event that the connection waits for.
pub(crate) enum Awaited {
    /// A queue takes a consumer, or refuses it.
    Consumed { call: Consuming, queue: Arc<Queue>, receiver: Attached },
    /// The queue of a node is declared; then the attach goes on.
    Declared { call: Call<Result<QueueCounts, Refused>>, paused: PausedAttach },
    /// The queue of a node is bound; then the attach goes on.
    Bound { call: Commit, paused: PausedAttach },
    /// A request to the management node has no answer yet.
    Managed(Box<Request>),
    /// Consumers have left their queues; then this is written.
    Left { calls: Vec<Call<()>>, answer: Vec<u8> },
}

/// The queue of a link's own node, as far as it is made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) queue: Box<[u8]>,
    /// It is bound to the exchange of the address, if the address names one.
    pub(crate) is_bound: bool,
}

/// An attach that goes on when its node is made.
pub(crate) struct PausedAttach {
    pub(crate) channel: u16,
    pub(crate) made: Made,
    /// The attach: the body of its frame.
    pub(crate) frame: Vec<u8>,
}

/// A link whose attach is not answered.
pub(crate) struct Attached {
    pub(crate) channel: u16,
    pub(crate) handle: u32,
    pub(crate) token: u32,
    pub(crate) outlet: u32,
    pub(crate) dynamic: Option<Box<[u8]>>,
    pub(crate) name: String,
    pub(crate) listed: Arc<Listed>,
    /// The answer, if the queue takes the consumer.
    pub(crate) answer: Vec<u8>,
}

/// Outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Frame,
    /// It has to come again when the session is not stalled any more.
    Wait,
}

/// An open connection.
pub(crate) struct Running {
    pub(crate) broker: Broker,
    pub(crate) settings: Arc<Settings>,
    pub(crate) principal: Principal,
    pub(crate) sink: Arc<Sink>,
    pub(crate) publisher: Publisher,
    pub(crate) sessions: Vec<Option<Box<Links>>>,
    /// Highest channel.
    pub(crate) channel_max: u16,
    pub(crate) settlements: Settlements,
    pub(crate) awaited: Option<Awaited>,
    pub(crate) overdue: Overdue,
    /// Deliveries that were taken back and are not confirmed, at most.
    pub(crate) taken_back: u64,
    pub(crate) token_latest: u32,
    pub(crate) serial_latest: u64,
    /// Memory of messages that are not complete.
    pub(crate) unfinished: Share,
    pub(crate) awaits_room: bool,
    pub(crate) has_freed_window: bool,
    pub(crate) publisher_full: bool,
    pub(crate) is_publishing: bool,
    /// Bytes that came while the broker could not take what was sent.
    pub(crate) pressed_bytes: usize,
    pub(crate) output_full: bool,
    pub(crate) is_alarmed: bool,
    /// The management node was attached: transfers may read or change metadata.
    pub(crate) manages: bool,
    /// Links that have sent since their credit was last looked at.
    pub(crate) active: Vec<(u16, u32)>,
    /// Scratch.
    pub(crate) resumable: Vec<(u32, u32)>,
    pub(crate) properties: Vec<u8>,
}

impl Running {
    /// Whether it waits because of what it publishes.
    pub(crate) fn is_pressed(&self) -> bool {
        self.publisher_full && self.pressed_bytes > PRESSED_BYTES_MAX
    }

    /// An open session; handlers are called for such only.
    pub(crate) fn session(&mut self, channel: u16) -> &mut Links {
        let session = self.sessions.get_mut(usize::from(channel)).and_then(Option::as_deref_mut);
        session.expect("frames are dispatched to sessions that exist")
    }

    /// Channels of all sessions that are open.
    pub(crate) fn channels(&self) -> Vec<u16> {
        let is_open = |links: &&Links| links.state == SessionState::Open;
        (0..)
            .zip(&self.sessions)
            .filter_map(|(channel, links)| links.as_deref().filter(is_open).map(|_| channel))
            .collect()
    }

    /// The first channel from this one on whose session is open: so that sessions are walked and changed without a list of them.
    pub(crate) fn channel_from(&self, first: usize) -> Option<u16> {
        let is_open = |links: &Option<Box<Links>>| {
            links.as_deref().is_some_and(|links| links.state == SessionState::Open)
        };
        let at = self.sessions.get(first..)?.iter().position(is_open)?;
        u16::try_from(first + at).ok()
    }

    pub(crate) fn consumer(&self, token: u32) -> ConsumerId {
        ConsumerId { connection: self.principal.connection, token }
    }

    /// A frame that is not about the connection itself.
    pub(crate) fn frame(&mut self, frame: &Frame<'_>) -> Outcome<Taken> {
        let channel = frame.channel;
        if let Some((transfer, payload)) = decode_transfer(frame.body)
            && self.is_open(channel)
        {
            return self.transfer(channel, &transfer, payload);
        }
        let (performative, payload) = Performative::decode(frame.body)
            .map_err(|error| Failure::connection(conditions::DECODE_ERROR, error.to_string()))?;
        match (&performative, self.sessions.get(usize::from(channel)).and_then(Option::as_deref)) {
            (Performative::Begin(begin), None) => return self.begin(channel, begin).map(|()| Taken::Frame),
            // RabbitMQ passes over frames of sessions that it does not know.
            (_, None) => return Ok(Taken::Frame),
            (Performative::End(_), Some(_)) => {
                self.end(channel);
                return Ok(Taken::Frame);
            }
            (_, Some(links)) if links.state == SessionState::Ending => return Ok(Taken::Frame),
            _ => {}
        }
        match &performative {
            Performative::Attach(attach) => self.attach(channel, attach)?,
            Performative::Flow(flow) => self.flow(channel, flow)?,
            Performative::Disposition(disposition) => self.disposition(channel, disposition)?,
            Performative::Detach(detach) => self.detach(channel, detach),
            // Its descriptor is written the long way, as some clients do.
            Performative::Transfer(transfer) => return self.transfer(channel, transfer, payload),
            other => {
                let text = format!("Unexpected frame {}", other.name());
                return Err(Failure::session(conditions::INTERNAL_ERROR, text));
            }
        }
        Ok(Taken::Frame)
    }

    fn is_open(&self, channel: u16) -> bool {
        let session = self.sessions.get(usize::from(channel)).and_then(Option::as_deref);
        session.is_some_and(|links| links.state == SessionState::Open)
    }

    fn begin(&mut self, channel: u16, begin: &Begin<'_>) -> Outcome {
        if begin.remote_channel.is_some() {
            let text = "remote-channel must not be set by the side that begins a session";
            return Err(Failure::connection(conditions::INVALID_FIELD, text));
        }
        let handle_max = begin.handle_max.min(self.settings.links_max.saturating_sub(1));
        let permit = self.broker.open_channel(&self.principal, channel).map_err(|refused| {
            let node = &self.broker.options().node_name;
            let text = channel_text(refused, &self.principal.user.name, node);
            Failure::connection(conditions::RESOURCE_LIMIT_EXCEEDED, text)
        })?;
        let incoming_window = if self.is_alarmed { 0 } else { WINDOW_FIRST };
        let links = Links {
            state: SessionState::Open,
            next_incoming_id: begin.next_outgoing_id,
            incoming_window: i64::from(incoming_window),
            allowance: Allowance::new(WINDOW_FIRST),
            handle_max,
            by_handle: std::collections::BTreeMap::new(),
            permit,
        };
        let at = usize::from(channel);
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        self.sessions[at] = Some(Box::new(links));
        let mut output = self.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        let mut session = SessionOutput::new(begin.next_outgoing_id, incoming_window, begin.incoming_window);
        (session.handle_max, session.remote_outgoing_window) = (handle_max, begin.outgoing_window);
        side.open_session(channel, session);
        let answer = Begin {
            remote_channel: Some(channel),
            next_outgoing_id: 0,
            incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max,
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            properties: Map::EMPTY,
        };
        answer.encode_frame(channel, bytes);
        Ok(())
    }

    /// Everything that one read brought goes to the queues.
    pub(crate) fn end_batch(&mut self) {
        self.submit();
        self.look_at_publisher(&mut Context::from_waker(Waker::noop()));
        self.is_publishing = self.publisher.take_is_publishing();
        let mut next = 0;
        while let Some(channel) = self.channel_from(next) {
            self.publish_window(channel);
            next = usize::from(channel) + 1;
        }
        self.renew();
        self.resume_freed();
        let unfinished_bytes = self.unfinished.held_bytes();
        let mut output = self.sink.outbox.lock();
        output.state().unfinished_bytes = unfinished_bytes;
        self.output_full = output.is_full();
    }

    fn look_at_publisher(&mut self, cx: &mut Context<'_>) {
        self.publisher_full = self.publisher.poll_ready(cx).is_pending();
        if !self.publisher_full {
            self.pressed_bytes = 0;
        }
    }

    fn resume_freed(&mut self) {
        if std::mem::take(&mut self.has_freed_window) {
            self.resume_paused();
        }
    }

    /// Drives what is awaited. Ready when parsing may go on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.sink.has_news.swap(false, Ordering::AcqRel) {
            self.heed_news();
            self.renew();
        }
        self.poll_awaited(cx);
        if self.awaited.is_some() {
            // The awaited answer may have led to something else, which has to know the task to wake.
            self.poll_awaited(cx);
        }
        // Asked again by the frame that waits for it.
        self.awaits_room = false;
        if self.publisher_full {
            self.look_at_publisher(cx);
            if !self.publisher_full {
                self.renew();
            }
        }
        self.resume_freed();
    }

    fn poll_awaited(&mut self, cx: &mut Context<'_>) {
        match self.awaited.take() {
            None => {}
            Some(Awaited::Consumed { mut call, queue, receiver }) => match Pin::new(&mut call).poll(cx) {
                Poll::Pending => self.awaited = Some(Awaited::Consumed { call, queue, receiver }),
                Poll::Ready(result) => self.consumed(&queue, receiver, result),
            },
            Some(Awaited::Declared { mut call, paused }) => match Pin::new(&mut call).poll(cx) {
                Poll::Pending => self.awaited = Some(Awaited::Declared { call, paused }),
                Poll::Ready(done) => self.resume_attach(paused, done.map(drop)),
            },
            Some(Awaited::Bound { mut call, paused }) => match Pin::new(&mut call).poll(cx) {
                Poll::Pending => self.awaited = Some(Awaited::Bound { call, paused }),
                Poll::Ready(done) => self.resume_attach(paused, done),
            },
            Some(Awaited::Managed(request)) => self.poll_request(request, cx),
            Some(Awaited::Left { mut calls, answer }) => {
                calls.retain_mut(|call| Pin::new(call).poll(cx).is_pending());
                if calls.is_empty() {
                    self.sink.outbox.lock().bytes().extend_from_slice(&answer);
                } else {
                    self.awaited = Some(Awaited::Left { calls, answer });
                }
            }
        }
    }

    /// Ends what a failure ends; gives back what ends the connection.
    pub(crate) fn fail(&mut self, channel: u16, failure: Failure) -> Result<(), Trouble> {
        match failure {
            Failure::Session(trouble) | Failure::Link(trouble) => {
                self.end_with(channel, &trouble);
                Ok(())
            }
            Failure::Connection(trouble) => Err(trouble),
        }
    }
}
