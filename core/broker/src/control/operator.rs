//! Operations of an operator on a queue: no permissions, no exclusive owners. Refuses to know the operator.

use std::sync::Arc;

use queues::{MessageSeq, Scheduled};

use crate::actor::actor;
use crate::call::Call;
use crate::cell::{Event, Queue};
use crate::control::deleted::DeletedQueue;
use crate::refused::Refused;

/// On which condition an operator deletes a queue (B78).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteConditions {
    /// Only without consumers.
    pub if_unused: bool,
    /// Only without ready messages.
    pub if_empty: bool,
}

impl Queue {
    /// Deletes the queue, whichever connection owns it. Answered when it is gone and that is durable.
    pub fn delete_by_operator(
        self: &Arc<Self>,
        when: DeleteConditions,
    ) -> Call<Result<DeletedQueue, Refused>> {
        let (reply, call) = Call::pair();
        self.submit(Event::Delete {
            if_unused: when.if_unused,
            if_empty: when.if_empty,
            reply,
            by: (&*actor()).into(),
        });
        call
    }

    /// Messages that wait in the store of a delayed exchange, soonest first, at most `count_max`.
    pub fn scheduled(self: &Arc<Self>, count_max: usize) -> Call<Vec<Scheduled>> {
        let (reply, call) = Call::pair();
        self.submit(Event::Scheduled(count_max, reply));
        call
    }

    /// Drops a message that waits in the store of a delayed exchange; answers whether there was one of that name.
    pub fn drop_scheduled(self: &Arc<Self>, seq: MessageSeq) -> Call<bool> {
        let (reply, call) = Call::pair();
        self.submit(Event::DropScheduled(seq, reply));
        call
    }

    /// Removes all ready messages, or all that wait; answers how many (B80).
    pub fn purge_by_operator(self: &Arc<Self>) -> Call<u64> {
        let (reply, call) = Call::pair();
        self.submit(Event::Purge(0, reply));
        call
    }
}
