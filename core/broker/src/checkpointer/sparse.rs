//! Queues that may have segments of which little is needed, and which of them to look at next.

use std::collections::{BTreeMap, BTreeSet};

use stdx::QueueId;

/// Queues that may have segments of which little is needed.
#[derive(Default)]
pub(super) struct SparseQueues {
    /// To be looked at.
    new: BTreeSet<QueueId>,
    /// Queues of which compacting would free too little for the work when they were looked at. Each with its part in the other table;
    /// `None` if it is not there.
    passed_over: BTreeMap<QueueId, Option<FreePart>>,
    /// Queues among them that have not been found to free nothing, by the part of their bytes that is free.
    by_part: BTreeSet<(FreePart, QueueId)>,
}

/// Thousandths.
pub(super) type FreePart = u16;

impl SparseQueues {
    /// One more is to be looked at; whether it is the first.
    pub(super) fn note(&mut self, queue: QueueId) -> bool {
        let is_first = self.new.is_empty();
        self.forget(queue);
        self.new.insert(queue);
        is_first
    }

    /// Queues that were not worth the work are to be looked at again.
    pub(super) fn look_again(&mut self) {
        self.by_part.clear();
        self.new.extend(std::mem::take(&mut self.passed_over).into_keys());
    }

    /// Whether there are some to be looked at.
    pub(super) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// The next one to be looked at.
    pub(super) fn next(&mut self) -> Option<QueueId> {
        self.new.pop_first()
    }

    /// It is not worth the work. With a free part it may be, for the node's sake.
    pub(super) fn pass_over(&mut self, queue: QueueId, part: Option<FreePart>) {
        self.forget(queue);
        self.by_part.extend(part.map(|part| (part, queue)));
        self.passed_over.insert(queue, part);
    }

    /// The one of which the largest part is free.
    pub(super) fn sparsest(&mut self) -> Option<QueueId> {
        let (_, queue) = self.by_part.last().copied()?;
        self.forget(queue);
        Some(queue)
    }

    /// Forgets those that are gone.
    pub(super) fn forget_gone(&mut self, is_there: impl Fn(QueueId) -> bool) {
        let by_part = &mut self.by_part;
        self.passed_over.retain(|queue, part| {
            let is_there = is_there(*queue);
            if let Some(part) = part.filter(|_| !is_there) {
                by_part.remove(&(part, *queue));
            }
            is_there
        });
    }

    fn forget(&mut self, queue: QueueId) {
        if let Some(Some(part)) = self.passed_over.remove(&queue) {
            self.by_part.remove(&(part, queue));
        }
    }
}
