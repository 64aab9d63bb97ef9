//! Questions of sessions and management to a queue.

use std::sync::Arc;

use queues::{ConsumerId, Credit, Peeked, QueueCounts, QueueStats, SettleHow, SettleRun};

use crate::call::Call;
use crate::cell::examine::Examined;
use crate::cell::{Event, Queue, portions};
use crate::refused::Refused;

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

    /// As [`Queue::settle`], of deliveries to clients of another node.
    pub(crate) fn settle_here(self: &Arc<Self>, how: SettleHow, runs: &[SettleRun]) {
        if runs.is_empty() {
            return;
        }
        let portions = portions::of(how, runs).into_iter();
        self.submit_here(portions.map(|runs| Event::Settle(how, runs, self.services().stages.begin())));
    }

    /// Looks at the ready message at a position, from 0, in the order in which they go out. It stays as it is. Only where the queue is led.
    pub fn peek(self: &Arc<Self>, position: u64) -> Call<Peeked> {
        let (reply, call) = Call::pair();
        self.submit_here_one(Event::Peek(position, reply));
        call
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
