//! Publisher confirms: from durable queues back to the channel (B105-B108).

/// Publishes of one channel whose fate is known, in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmRange {
    /// First publish sequence number of the group.
    pub first: u64,
    /// Last one, inclusive. All in between belong to the group.
    pub last: u64,
    /// Numbers in the group that a queue refused: basic.nack. Sorted, usually empty.
    pub rejected: Vec<u64>,
}

/// Where confirms of a channel go. Called from any thread, possibly with a queue's cell held: implementations write
/// to the connection's outbox under a leaf lock and return; they never call the broker.
pub trait ConfirmSink: Send + Sync {
    /// A group of publishes is settled. Groups may arrive out of order; each number arrives once.
    fn confirmed(&self, range: ConfirmRange);
}
