//! How a session attaches a consumer, gets one message, and listens for replies.

use std::sync::Arc;

use queues::{GotMessage, Kind};

use crate::call::Call;
use crate::cell::{Event, Queue};
use crate::data::consume::{ConsumeRequest, ConsumerSink};
use crate::data::consuming::Consuming;
use crate::data::reply::{OPAQUE_BYTES, ReplyConsumer};
use crate::data::routes::requester_elsewhere;
use crate::permission::Permission;
use crate::refused::Refused;
use crate::streams::{ConsumerRefusal, check_consumer};
use crate::{Broker, Principal};

impl Broker {
    /// Attaches a consumer. Checks existence, read permission, exclusive owner (B65), then asks the queue, which may
    /// refuse with [`Refused::ExclusiveUse`]. The consumer starts **paused**: after writing consume-ok the session
    /// calls [`Queue::resume`], so that consume-ok precedes the first delivery (B117). A consumer whose answer nobody takes is cancelled.
    pub fn consume(
        &self,
        principal: &Principal,
        request: ConsumeRequest<'_>,
        sink: Arc<dyn ConsumerSink>,
    ) -> Result<(Arc<Queue>, Consuming), Refused> {
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
        let consuming = Consuming::new(queue.clone(), spec.id, call);
        queue.submit(Event::Consume(Box::new(spec), sink, reply));
        Ok((queue, consuming))
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

impl Broker {
    /// Registers a reply consumer; returns its address `amq.rabbitmq.reply-to.<opaque>`. Replies arrive through
    /// `sink.deliver(token, ..)`, need no settling, and are dropped when the sink takes none.
    pub fn register_reply(
        &self,
        principal: &Principal,
        token: u32,
        sink: Arc<dyn ConsumerSink>,
    ) -> Box<[u8]> {
        let opaque = self.services().random_bytes::<OPAQUE_BYTES>();
        let node = self.cluster().and_then(|cluster| cluster.own()).map(|(node, _)| node);
        principal.vhost.replies.add(opaque, node, ReplyConsumer::new(token, sink))
    }

    /// Forgets a reply address (cancel, channel or connection closed).
    pub fn unregister_reply(&self, principal: &Principal, address: &[u8]) {
        principal.vhost.replies.remove(address);
    }

    /// Whether the requester behind an address still lives (passive declare of it, B155). One of another node counts as alive
    /// while that node is linked.
    pub fn reply_exists(&self, principal: &Principal, address: &[u8]) -> bool {
        let vhost = &principal.vhost;
        vhost.replies.get(address).is_some() || requester_elsewhere(vhost, address).is_some()
    }
}
