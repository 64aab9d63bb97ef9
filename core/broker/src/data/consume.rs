//! Consumers: how a session attaches one to a queue, how deliveries reach it and are settled.

use queues::{Credit, CreditNews, Delivery, LargeBody};

/// A session's side of its consumers. One object per connection serves all its consumers.
///
/// Called with the queue's cell held: implementations encode into the connection's outbox under a leaf lock and
/// return; they never call the broker.
pub trait ConsumerSink: Send + Sync {
    /// Encodes deliveries for a consumer of this connection, in order; returns how many were taken from the front
    /// (fewer when the outbox is full or the channel's prefetch is used up; then the session calls
    /// [`crate::Queue::resume`] when it can take more). `token` is the consumer's [`queues::ConsumerId::token`].
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize;

    /// As [`ConsumerSink::deliver`], of one message with a body of [`queues::LARGE_BODY_BYTES`] or more, which may be kept until the socket has
    /// taken it instead of being copied.
    fn deliver_large(&self, token: u32, delivery: &Delivery<'_>, _body: LargeBody) -> usize {
        self.deliver(token, std::slice::from_ref(delivery))
    }

    /// Tells the fate of the credit of a consumer that is served by it; follows its deliveries.
    fn credit_news(&self, _token: u32, _news: CreditNews) {}

    /// How many deliveries a consumer that is served by credit has taken, and the credit that it has given, both counted from its first
    /// delivery. `None` for a consumer that is gone, and for those without credit.
    fn credit(&self, _token: u32) -> Option<(u32, Credit)> {
        None
    }

    /// The queue cancels the consumer because it is deleted (B119).
    fn cancelled(&self, token: u32);

    /// Whether the session would take a delivery for a consumer now, for people who ask why it gets none.
    fn hold(&self, _token: u32) -> SessionHold {
        SessionHold::None
    }
}

/// The reason why a session does not take deliveries for a consumer.
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
