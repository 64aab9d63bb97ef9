//! The running shovel: deliveries of one link become publishes of another, confirms become acks. One task, both links.
//!
//! Bounds: nothing is read from the source while a MiB waits to be written to the destination, while the destination is blocked or
//! while [`IN_FLIGHT_MAX`] messages are unconfirmed. Refuses to know why it is stopped.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use platform::{Clock, RealClock};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use wire::amqp091::{ContentHeader, Method};

use crate::client::{LinkError, closed};
use crate::definition::{AckMode, Definition, To};
use crate::headers::Stamps;
use crate::link::Wanted;
use crate::port::{Port, Reach, Said, Way};
use crate::status::{Blocked, Count, Progress};
use crate::unconfirmed::Unconfirmed;

/// Messages on their way without an answer, also when the prefetch is unlimited.
const IN_FLIGHT_MAX: u64 = 65_535;

/// Largest body, bytes: RabbitMQ's bound.
pub(crate) const BODY_BYTES_MAX: u64 = 512 << 20;

/// Room for a body that is kept for the next one, bytes.
const BODY_BYTES_KEPT: usize = 1 << 20;

/// How long the source waits after the destination has refused a message, which it would otherwise get again at once.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);

/// How often heartbeats are looked after.
const TICK: Duration = Duration::from_millis(500);

/// How long a shovel that is stopped waits for outstanding confirms, and for the answer to its close.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Which side has failed, and how.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) side: Side,
    pub(crate) error: LinkError,
}

/// A side of a shovel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

impl Side {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Side::Source => "source",
            Side::Destination => "destination",
        }
    }

    pub(crate) fn failed(self, error: impl Into<LinkError>) -> Failed {
        Failed { side: self, error: error.into() }
    }
}

/// How a run ends that does not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All that was asked for is moved.
    Done,
    /// It was stopped.
    Stopped,
}

/// A message on its way in.
#[derive(Default)]
pub(crate) struct Arriving {
    pub(crate) delivery_tag: u64,
    pub(crate) exchange: Vec<u8>,
    pub(crate) routing_key: Vec<u8>,
    /// In the format in which it came.
    pub(crate) properties: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// Bytes of the body; `None` until the header is there.
    body_bytes: Option<u64>,
    is_open: bool,
}

/// How many messages a shovel with an end still has to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Not published.
    pub(crate) unpublished: u64,
    /// Not settled.
    pub(crate) unsettled: u64,
}

pub(crate) struct Forwarder {
    source: Port,
    destination: Port,
    definition: Arc<Definition>,
    stamps: Stamps,
    unconfirmed: Unconfirmed,
    arriving: Arriving,
    /// Last delivery that is written to the destination's buffer and not acked, without confirms.
    unacked: Option<u64>,
    unacked_count: u64,
    pub(crate) left: Option<Left>,
    forwarded: u64,
    blocked: Blocked,
    paused_until: Option<Instant>,
    is_stopping: bool,
    clock: RealClock,
}

impl Forwarder {
    /// With two links on which everything is set up; `left` is `None` for a shovel without an end.
    pub(crate) fn new(
        (source, destination): (Port, Port),
        definition: Arc<Definition>,
        stamps: Stamps,
        left: Option<u64>,
    ) -> Self {
        Self {
            source,
            destination,
            definition,
            stamps,
            unconfirmed: Unconfirmed::new(),
            arriving: Arriving::default(),
            unacked: None,
            unacked_count: 0,
            left: left.map(|count| Left { unpublished: count, unsettled: count }),
            forwarded: 0,
            blocked: Blocked::Running,
            paused_until: None,
            is_stopping: false,
            clock: RealClock::new(),
        }
    }

    /// Moves messages until all are moved or `stop` says so; `show` is told how far it is.
    ///
    /// # Errors
    /// A side has failed. Unsettled messages come again.
    pub(crate) async fn run(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        show: impl Fn(&Self),
    ) -> Result<Ended, Failed> {
        let mut drained_at = None;
        let mut tick_at = Instant::now() + TICK;
        loop {
            self.take_source()?;
            self.take_destination()?;
            self.settle();
            show(self);
            if self.left.is_some_and(|left| left.unsettled == 0) {
                self.close().await?;
                return Ok(Ended::Done);
            }
            let is_drained =
                self.unconfirmed.len() == 0 && self.unacked.is_none() && self.source.is_flushed();
            if self.is_stopping && (is_drained || drained_at.is_some_and(|at| at <= Instant::now())) {
                self.close().await?;
                return Ok(Ended::Stopped);
            }
            let wanted = self.wanted();
            let wake_at = self.paused_until.map_or(tick_at, |until| until.min(tick_at));
            tokio::select! {
                progress = progress(self.source.link(), self.destination.link(), wanted) => progress?,
                () = sleep_until(wake_at) => {
                    self.paused_until = self.paused_until.filter(|until| *until > Instant::now());
                    if tick_at <= Instant::now() {
                        tick_at = Instant::now() + TICK;
                        self.source.link().tick(wanted).map_err(|error| Side::Source.failed(error))?;
                        self.destination.link().tick(Wanted::Input).map_err(|error| Side::Destination.failed(error))?;
                    }
                }
                _ = stop.wait_for(|stop| *stop), if !self.is_stopping => {
                    self.is_stopping = true;
                    drained_at = Some(Instant::now() + DRAIN_TIMEOUT);
                }
            }
        }
    }

    /// Whether another message may be taken from the source.
    fn may_take(&self) -> bool {
        !self.is_stopping
            && self.paused_until.is_none()
            && self.blocked == Blocked::Running
            && !self.destination.is_crowded()
            && self.unconfirmed.len() < IN_FLIGHT_MAX
            && self.left.is_none_or(|left| left.unpublished > 0)
    }

    fn wanted(&self) -> Wanted {
        if self.may_take() { Wanted::Input } else { Wanted::Nothing }
    }

    fn take_source(&mut self) -> Result<(), Failed> {
        while self.may_take() {
            let taken = self.source.take(&mut self.arriving);
            if !taken.map_err(|error| Side::Source.failed(error))? {
                break;
            }
            self.publish();
        }
        Ok(())
    }

    fn publish(&mut self) {
        let message = &mut self.arriving;
        message.is_open = false;
        let (exchange, key, mandatory) = match &self.definition.destination.to {
            To::SameExchange => (&message.exchange[..], &message.routing_key[..], false),
            To::Queue(name) => (&b""[..], name.as_bytes(), true),
            To::Address(_) => (&b""[..], &b""[..], false),
            To::Exchange { name, key } => {
                (name.as_bytes(), key.as_ref().map_or(&message.routing_key[..], |key| key.as_bytes()), false)
            }
        };
        let settled = self.definition.ack_mode != AckMode::OnConfirm;
        let way = Way { exchange, routing_key: key, mandatory, settled };
        self.destination.publish(&way, message, &self.stamps, self.clock.wall_ms());
        if message.body.capacity() > BODY_BYTES_KEPT {
            message.body = Vec::new();
        }
        self.forwarded += 1;
        if let Some(left) = &mut self.left {
            left.unpublished -= 1;
        }
        match self.definition.ack_mode {
            AckMode::OnConfirm => self.unconfirmed.published(message.delivery_tag),
            AckMode::OnPublish | AckMode::NoAck => {
                self.unacked = Some(message.delivery_tag);
                self.unacked_count += 1;
            }
        }
    }

    fn take_destination(&mut self) -> Result<(), Failed> {
        let Self { source, destination, unconfirmed, left, paused_until, blocked, .. } = self;
        let said = |said: Said| match said {
            Said::Confirmed(number, reach) => unconfirmed.confirmed(number, reach == Reach::UpTo),
            Said::Refused(number, reach) => {
                let mut refused = 0;
                unconfirmed.refused(number, reach == Reach::UpTo, |tag| {
                    source.give_back(tag);
                    refused += 1;
                });
                *paused_until = Some(Instant::now() + REFUSED_PAUSE);
                if let Some(left) = left {
                    left.unpublished += refused;
                }
            }
            Said::Blocked => *blocked = Blocked::Blocked,
            Said::Unblocked => *blocked = Blocked::Running,
        };
        destination.answers(said).map_err(|error| Side::Destination.failed(error))
    }

    /// Acks confirmed messages, or written ones where nothing is confirmed.
    fn settle(&mut self) {
        let (ack_up_to, count) = match self.definition.ack_mode {
            AckMode::OnConfirm => {
                let settled = self.unconfirmed.take_settled();
                (settled.ack_up_to, settled.count)
            }
            AckMode::OnPublish | AckMode::NoAck if self.destination.is_flushed() => {
                (self.unacked.take(), std::mem::take(&mut self.unacked_count))
            }
            AckMode::OnPublish | AckMode::NoAck => (None, 0),
        };
        if let Some(tag) = ack_up_to.filter(|_| self.definition.ack_mode != AckMode::NoAck) {
            self.source.ack_up_to(tag);
        }
        if let Some(left) = &mut self.left {
            left.unsettled = left.unsettled.saturating_sub(count);
        }
    }

    /// First the destination, so that acked messages have arrived; then the source, whose close says that it has the acks.
    async fn close(&mut self) -> Result<(), Failed> {
        let closed = timeout(DRAIN_TIMEOUT, async {
            self.destination.close().await.map_err(|error| Side::Destination.failed(error))?;
            self.source.close().await.map_err(|error| Side::Source.failed(error))
        });
        closed.await.unwrap_or_else(|_| Err(Side::Destination.failed(LinkError::Timeout)))
    }

    /// How far it is.
    pub(crate) fn progress(&self, source_uri: &str, destination_uri: &str) -> Progress {
        let count =
            |of: fn(Left) -> u64| self.left.map_or(Count::Unlimited, |left| Count::Messages(of(left)));
        Progress {
            source_uri: source_uri.to_owned(),
            destination_uri: destination_uri.to_owned(),
            pending: u64::from(self.arriving.is_open),
            forwarded: self.forwarded,
            remaining: count(|left| left.unpublished),
            remaining_unacked: count(|left| left.unsettled),
            blocked: self.blocked,
        }
    }
}

impl Arriving {
    /// A message of AMQP 1.0 begins.
    pub(crate) fn begin(&mut self, delivery_tag: u64) {
        self.delivery_tag = delivery_tag;
        self.is_open = true;
    }

    /// It is not to be.
    pub(crate) fn drop_it(&mut self) {
        self.is_open = false;
    }

    /// It is whole: exchange and key that it came by, and what is stored of it.
    pub(crate) fn fill(
        &mut self,
        (exchange, routing_key): (&[u8], &[u8]),
        properties: impl FnOnce(&mut Vec<u8>),
        body: &[u8],
    ) {
        self.exchange.clear();
        self.exchange.extend_from_slice(exchange);
        self.routing_key.clear();
        self.routing_key.extend_from_slice(routing_key);
        self.properties.clear();
        properties(&mut self.properties);
        self.body.clear();
        self.body.extend_from_slice(body);
    }

    pub(crate) fn method(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        let method = Method::decode(payload)?;
        closed(&method)?;
        match method {
            Method::BasicDeliver(deliver) => {
                self.delivery_tag = deliver.delivery_tag;
                self.exchange.clear();
                self.exchange.extend_from_slice(deliver.exchange.as_bytes());
                self.routing_key.clear();
                self.routing_key.extend_from_slice(deliver.routing_key.as_bytes());
                self.body.clear();
                self.body_bytes = None;
                self.is_open = true;
            }
            Method::BasicCancel(_) => return Err(LinkError::Cancelled),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn header(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        let header =
            ContentHeader::decode(payload).map_err(|error| LinkError::Protocol(error.to_string()))?;
        if header.body_size > BODY_BYTES_MAX {
            return Err(LinkError::Protocol(format!(
                "a message of {} bytes, at most {BODY_BYTES_MAX}",
                header.body_size
            )));
        }
        self.properties.clear();
        self.properties.extend_from_slice(header.properties);
        self.body_bytes = Some(header.body_size);
        Ok(())
    }

    pub(crate) fn body(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        let expected = self.body_bytes.unwrap_or(0);
        if self.body.len() as u64 + payload.len() as u64 > expected {
            return Err(LinkError::Protocol("a body longer than its header says".to_owned()));
        }
        self.body.extend_from_slice(payload);
        Ok(())
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_open && self.body_bytes == Some(self.body.len() as u64)
    }
}

/// Waits until one of the links has read or written something.
async fn progress(
    source: &mut crate::link::Link,
    destination: &mut crate::link::Link,
    wanted: Wanted,
) -> Result<(), Failed> {
    poll_fn(|cx| {
        let read = source.poll_progress(cx, wanted);
        let wrote = destination.poll_progress(cx, Wanted::Input);
        match (read, wrote) {
            (Poll::Ready(Err(error)), _) => Poll::Ready(Err(Side::Source.failed(error))),
            (_, Poll::Ready(Err(error))) => Poll::Ready(Err(Side::Destination.failed(error))),
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    })
    .await
}
