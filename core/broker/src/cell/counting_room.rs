//! A queue's bytes in segments, counted for the node.

use std::sync::Arc;

use queues::{Machine, Store};

use crate::cell::{CellState, Queue};
use crate::segment_room::CountedRoom;

impl Queue {
    /// Counts what the machine has in segments after a turn.
    #[inline]
    pub(crate) fn count_segment_room(&self, state: &mut CellState) {
        let now = state.machine.store().map_or((0, 0), Store::segment_bytes);
        if state.room.as_ref().map_or((0, 0), |room| room.counted) != now {
            self.recount_segment_room(state, now);
        }
    }

    fn recount_segment_room(&self, state: &mut CellState, now: (u64, u64)) {
        let new = || CountedRoom { totals: self.services().segment_totals.clone(), counted: (0, 0) };
        state.room.get_or_insert_with(new).count(now);
    }

    /// The same of a queue that was just read back from log and segments; it is to be looked at if some of that is dead.
    pub(crate) fn count_segment_room_at_start(self: &Arc<Self>) {
        let mut kept = self.state.lock();
        let Some(state) = kept.used_mut() else { return };
        self.count_segment_room(state);
        if state.machine.store().is_some_and(|store| store.segment_bytes().1 > 0) {
            self.services().checkpointer.may_be_sparse(self.id);
        }
    }
}
