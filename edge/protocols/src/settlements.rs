//! Settlements on their way to queues, gathered by where the deliveries came from.
//!
//! Refuses to know how a client names what it settles. One call per queue and batch; consecutive places of one consumer in its queue are one
//! run.

use std::sync::Arc;

use broker::{ConsumerId, MessageSeq, Queue, SettleHow, SettleRun};

/// A source of deliveries as the session sees it.
struct SourceQueue {
    queue: Arc<Queue>,
    consumer: Option<ConsumerId>,
    runs: Vec<SettleRun>,
    /// The queue has taken back what was delivered: settlements change nothing.
    is_given_up: bool,
}

/// Settlements on their way to queues, by source.
pub(crate) struct Settlements {
    sources: Vec<Option<SourceQueue>>,
    dirty: Vec<u32>,
    /// How what is added will be settled.
    how: SettleHow,
}

impl Settlements {
    pub(crate) fn new() -> Settlements {
        Settlements { sources: Vec::new(), dirty: Vec::new(), how: SettleHow::Ack }
    }

    /// Says which queue a source number stands for; the number must be free or forgotten.
    pub(crate) fn attach(&mut self, source: u32, queue: Arc<Queue>, consumer: Option<ConsumerId>) {
        let index = source as usize;
        if self.sources.len() <= index {
            self.sources.resize_with(index + 1, || None);
        }
        self.sources[index] = Some(SourceQueue { queue, consumer, runs: Vec::new(), is_given_up: false });
    }

    /// The queue behind a source.
    pub(crate) fn queue(&self, source: u32) -> Option<&Arc<Queue>> {
        self.sources.get(source as usize)?.as_ref().map(|source| &source.queue)
    }

    /// Settlements of what a source has delivered change nothing from now on.
    pub(crate) fn give_up(&mut self, source: u32) {
        if let Some(source) = self.sources.get_mut(source as usize).and_then(Option::as_mut) {
            source.is_given_up = true;
        }
    }

    /// The consumer behind a source.
    pub(crate) fn consumer(&self, source: u32) -> Option<ConsumerId> {
        self.sources.get(source as usize)?.as_ref()?.consumer
    }

    pub(crate) fn forget(&mut self, source: u32) {
        if let Some(slot) = self.sources.get_mut(source as usize) {
            *slot = None;
        }
    }

    /// Adds one delivery to what will be settled the way all of this batch are.
    #[inline]
    pub(crate) fn add(&mut self, source: u32, seq: MessageSeq) {
        self.add_run(source, seq, 1);
    }

    /// As [`Self::add`], of neighbours in their queue.
    #[inline]
    pub(crate) fn add_run(&mut self, source: u32, seq: MessageSeq, count: u32) {
        let Some(SourceQueue { consumer, runs, is_given_up, .. }) = &mut self.sources[source as usize] else {
            debug_assert!(false, "a source is forgotten after its deliveries");
            return;
        };
        if *is_given_up {
            return;
        }
        if let Some(last) = runs.last_mut()
            && last.first.0 + u64::from(last.count) == seq.0
        {
            last.count += count;
            return;
        }
        if runs.is_empty() {
            self.dirty.push(source);
        }
        runs.push(SettleRun { consumer: *consumer, first: seq, count });
    }

    /// How what is added now will be settled.
    pub(crate) fn how(&self) -> SettleHow {
        self.how
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Hands everything to the queues. Not under the outbox's lock: a queue may deliver at once.
    pub(crate) fn submit(&mut self) {
        for source in self.dirty.drain(..) {
            if let Some(SourceQueue { queue, runs, .. }) = &mut self.sources[source as usize] {
                queue.settle(self.how, runs);
                runs.clear();
            }
        }
    }

    /// Settles deliveries that are added from now on this way; earlier ones go to their queues if the way differs.
    pub(crate) fn settle_as(&mut self, how: SettleHow) {
        if self.how != how {
            self.submit();
            self.how = how;
        }
    }
}
