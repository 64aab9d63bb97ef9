//! Events of queues that do not deliver what they should (Warren's own; RabbitMQ has none). Refuses to know how that is noticed.
//!
//! The keys have three words, so that a client that has bound `queue.*` for RabbitMQ's events does not meet them.

use crate::cell::Queue;

/// A queue that does not deliver though it could.
#[derive(Debug)]
pub(crate) struct Stall {
    /// Messages that could be delivered.
    pub(crate) ready: u64,
    /// Consumers that could take them.
    pub(crate) consumers: usize,
    /// For how long, milliseconds.
    pub(crate) stalled_ms: u64,
}

impl Queue {
    /// Messages wait, consumers could take them, and nothing has moved for long.
    pub(crate) fn tell_delivery_stalled(&self, stall: &Stall) {
        self.services().announcer.tell("queue.delivery.stalled", |headers| {
            headers
                .number("consumers", stall.consumers as u64)
                .text("name", self.name())
                .number("ready", stall.ready)
                .number("stalled_ms", stall.stalled_ms)
                .text("vhost", self.vhost_name());
        });
    }

    /// It delivers again, or nobody wants what it has any more.
    pub(crate) fn tell_delivery_resumed(&self, stalled_ms: u64) {
        self.services().announcer.tell("queue.delivery.resumed", |headers| {
            headers
                .text("name", self.name())
                .number("stalled_ms", stalled_ms)
                .text("vhost", self.vhost_name());
        });
    }
}
