//! Consumers: how a session attaches one to a queue, how deliveries reach it and are settled.

use std::sync::Arc;

use queues::{
    ConsumerId, Credit, CreditNews, Delivery, GotMessage, Kind, LargeBody, QueueCounts, QueueStats,
    SettleHow, SettleRun,
};

use crate::access::Permission;
use crate::call::Call;
use crate::cell::examine::Examined;
use crate::cell::{Event, Queue, portions};
use crate::refused::Refused;
use crate::streams::{ConsumerRefusal, check_consumer};
use crate::{Broker, Principal};

/// A session's side of its consumers. One object per connection serves all its consumers.
///
/// Called with the queue's cell held: implementations encode into the connection's outbox under a leaf lock and
/// return; they never call the broker.
pub trait ConsumerSink: Send + Sync {
    /// Encodes deliveries for a consumer of this connection, in order; returns how many were taken from the front
    /// (fewer when the outbox is full or the channel's prefetch is used up; then the session calls
    /// [`Queue::resume`] when it can take more). `token` is the consumer's [`ConsumerId::token`].
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize;

    /// As [`ConsumerSink::deliver`], of one message with a body of [`queues::LARGE_BODY_BYTES`] or more, which may be kept until the socket has
    /// taken it instead of being copied.
    fn deliver_large(&self, token: u32, delivery: &Delivery<'_>, _body: LargeBody) -> usize {
        self.deliver(token, std::slice::from_ref(delivery))
    }

    /// What becomes of the credit of a consumer that is served by it; follows its deliveries.
    fn credit_news(&self, _token: u32, _news: CreditNews) {}

    /// The queue cancels the consumer because it is deleted (B119).
    fn cancelled(&self, token: u32);

    /// Whether the session would take a delivery for a consumer now, for people who ask why it gets none.
    fn hold(&self, _token: u32) -> SessionHold {
        SessionHold::None
    }
}

/// What keeps a session from taking deliveries for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionHold {
    /// Nothing.
    None,
    /// The client reads slower than it is sent to: so many bytes wait for its socket.
    Output {
        /// Bytes waiting or being written.
        pending_bytes: u64,
    },
    /// The message is larger than 1 MiB, and such messages to other clients use up the memory for them: it comes when some of
    /// these have been read.
    LargeMessages {
        /// Bytes of such messages that are not written.
        held_bytes: u64,
    },
    /// The prefetch of its whole channel is used up (basic.qos with global, B121).
    ChannelPrefetch {
        /// Unsettled deliveries to all consumers of the channel.
        unacked: u32,
        /// The limit.
        prefetch: u32,
    },
    /// The consumer has not been told yet that it is one (B117).
    Unannounced,
    /// The session knows no such consumer any more.
    Gone,
}

/// basic.consume, as the broker sees it.
#[derive(Clone, Debug)]
pub struct ConsumeRequest<'a> {
    /// Queue name; never empty.
    pub queue: &'a [u8],
    /// Identity, tag, prefetch, priority and the like.
    pub spec: queues::ConsumerSpec,
}

impl Broker {
    /// Attaches a consumer. Checks existence, read permission, exclusive owner (B65), then asks the queue, which may
    /// refuse with [`Refused::ExclusiveUse`]. The consumer starts **paused**: after writing consume-ok the session
    /// calls [`Queue::resume`], so that consume-ok precedes the first delivery (B117).
    pub fn consume(
        &self,
        principal: &Principal,
        request: ConsumeRequest<'_>,
        sink: Arc<dyn ConsumerSink>,
    ) -> Result<(Arc<Queue>, Call<Result<(), Refused>>), Refused> {
        principal.check_queue(Permission::Read, request.queue)?;
        let queue = principal.serving_queue(request.queue)?;
        // Quorum queues and streams have no exclusive consumers: the wish is passed over (B158).
        let exclusive = request.spec.exclusive && queue.queue_kind() == Kind::Classic;
        let spec = queues::ConsumerSpec { exclusive, ..request.spec };
        if queue.queue_kind() == Kind::Stream {
            check_consumer(&spec, self.services().now_ms()).map_err(|refusal| match refusal {
                ConsumerRefusal::NoAck => Refused::StreamNoAck(queue.resource()),
                ConsumerRefusal::NoPrefetch => Refused::StreamPrefetch(queue.resource()),
                ConsumerRefusal::Argument(error) => Refused::Argument { resource: queue.resource(), error },
            })?;
        }
        let (reply, call) = Call::pair();
        queue.submit(Event::Consume(Box::new(spec), sink, reply));
        Ok((queue, call))
    }

    /// basic.get: takes the first ready message. With `ack_required` it stays unacked until settled with
    /// `SettleRun { consumer: None, .. }`.
    pub fn get(
        &self,
        principal: &Principal,
        queue: &[u8],
        ack_required: bool,
    ) -> Result<(Arc<Queue>, Call<Result<Option<GotMessage>, Refused>>), Refused> {
        principal.check_queue(Permission::Read, queue)?;
        let queue = principal.serving_queue(queue)?;
        if queue.queue_kind() == Kind::Quorum && queue.config().single_active {
            return Err(Refused::GetOnSingleActive(queue.resource()));
        }
        if queue.queue_kind() == Kind::Stream {
            let resource = queue.resource();
            return Err(Refused::StreamOperation { resource, operation: "basic.get" });
        }
        let (reply, call) = Call::pair();
        queue.submit(Event::Get(ack_required, reply));
        Ok((queue, call))
    }
}

impl Queue {
    /// The consumer can take deliveries (again).
    pub fn resume(self: &Arc<Self>, consumer: ConsumerId) {
        self.submit(Event::Resume(consumer));
    }

    /// A consumer that is served by credit asks for deliveries, or gives its credit back.
    pub fn credit(self: &Arc<Self>, consumer: ConsumerId, credit: Credit) {
        self.submit(Event::Credit(consumer, credit));
    }

    /// Detaches a consumer; deliveries already made stay unacked (B118). Answered after the last delivery to it; the last
    /// consumer of an auto-delete queue when the queue is gone (B68).
    pub fn cancel(self: &Arc<Self>, consumer: ConsumerId) -> Call<()> {
        let (reply, call) = Call::pair();
        self.submit(Event::Cancel(consumer, reply));
        call
    }

    /// A consumer annotates deliveries that it settles next with entries of a map of AMQP 1.0. Quorum queues keep them; others pass them over.
    pub fn annotate(self: &Arc<Self>, run: SettleRun, entries: Arc<[u8]>) {
        self.submit(Event::Annotate(run, entries));
    }

    /// Settles deliveries: one call per queue and batch.
    pub fn settle(self: &Arc<Self>, how: SettleHow, runs: &[SettleRun]) {
        if runs.is_empty() {
            return;
        }
        if !portions::is_full(how, runs) {
            return self.submit(Event::Settle(how, runs.into(), self.services().stages.begin()));
        }
        let portions = portions::of(how, runs).into_iter();
        self.submit_all(portions.map(|runs| Event::Settle(how, runs, self.services().stages.begin())));
    }

    /// Ready messages and consumers now.
    pub fn counts(self: &Arc<Self>) -> Call<Result<QueueCounts, Refused>> {
        let (reply, call) = Call::pair();
        self.submit(Event::Counts(reply));
        call
    }

    /// Everything that decides whether its consumers get messages.
    pub fn examine(self: &Arc<Self>) -> Call<Examined> {
        let (reply, call) = Call::pair();
        self.submit(Event::Examine(reply));
        call
    }

    /// Everything listings show of the contents.
    pub fn stats(self: &Arc<Self>) -> Call<QueueStats> {
        let (reply, call) = Call::pair();
        self.submit(Event::Stats(reply));
        call
    }
}
