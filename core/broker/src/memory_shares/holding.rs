//! Queues as holders of memory.

use std::sync::Arc;

use queues::Machine;

use crate::cell::{CellState, Event, Queue};
use crate::memory_shares::{Holder, MemoryShares, SHORT_SHARE_BYTES};
use crate::services::Services;

impl Services {
    /// While the node is short of memory all queues give up what they can, also those that are too short to be holders: of very many
    /// short ones together, each with a message or two, nobody else would know. Whether any was asked to.
    pub(crate) fn relieve_queues(&self) -> bool {
        let mut is_any_asked = false;
        if self.memory_shares().bytes() > SHORT_SHARE_BYTES {
            return false;
        }
        let held_bytes = |queue: &Queue| Some(queue.state.try_lock()?.used()?.machine.resident_bytes());
        for queue in self.all_queues() {
            if held_bytes(&queue).is_some_and(|bytes| bytes > SHORT_SHARE_BYTES) {
                queue.submit(Event::ShareMemory);
                is_any_asked = true;
            }
        }
        is_any_asked
    }
}

impl Holder for Queue {
    fn memory_bytes_max(&self) -> usize {
        self.config().memory_bytes_max
    }

    fn look_at_share(self: Arc<Self>) {
        self.submit_later(Event::ShareMemory);
    }
}

impl Queue {
    /// Joins the holders, or leaves them, by what the machine holds after a turn.
    pub(crate) fn note_held_bytes(self: &Arc<Self>, state: &mut CellState) {
        let is_holder = MemoryShares::is_holder(state.machine.resident_bytes(), state.is_holder);
        if is_holder == state.is_holder {
            return;
        }
        state.is_holder = is_holder;
        if is_holder {
            let holder: Arc<dyn Holder> = self.clone();
            self.services().memory_shares().join(self.id, &holder);
        } else {
            self.services().memory_shares().leave(self.id);
        }
    }

    /// As [`Self::note_held_bytes`], of a queue that was just read back from log and segments.
    pub(crate) fn note_held_at_start(self: &Arc<Self>) {
        if let Some(state) = self.state.lock().used_mut() {
            self.note_held_bytes(state);
        }
    }
}
