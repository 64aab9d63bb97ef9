//! News for the checkpointer: files that were sealed, queues that may be sparse, a disk that is short of room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stdx::QueueId;

use crate::checkpointer::pace::ns;
use crate::checkpointer::sparse::SparseQueues;

/// Sealed files left alone: most messages in them are consumed before their turn comes. None while the disk is short of room.
/// Beyond them, files are emptied only when that makes room, when enough of them is dead.
pub(super) const FILES_KEPT: usize = 3;

/// None are left alone either when none has been sealed for so long: their messages are not about to be consumed.
pub(super) const QUIET_INTERVAL: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct State {
    pub(super) sealed: VecDeque<u64>,
    /// The newest of those when somebody looked, and since when it is.
    pub(super) newest: (Option<u64>, u64),
    /// No file has been sealed for a while.
    pub(super) is_quiet: bool,
    pub(super) sparse: SparseQueues,
    pub(super) disk_is_short: bool,
    pub(super) stopping: bool,
}

/// Told of sealed files; works on its own thread.
#[derive(Clone, Default)]
pub(crate) struct Checkpointer(pub(super) Arc<(Mutex<State>, Condvar)>);

impl State {
    /// Whether there is anything to look at again.
    pub(super) fn has_more(&self) -> bool {
        self.newest_of_too_many().is_some() || self.sparse.has_new()
    }

    pub(super) fn files_kept(&self) -> usize {
        if self.disk_is_short || self.is_quiet { 0 } else { FILES_KEPT }
    }

    /// Looks whether a file has been sealed since the last look.
    pub(super) fn note_quiet(&mut self, now_ns: u64) {
        let newest = self.sealed.back().copied();
        if newest != self.newest.0 {
            self.newest = (newest, now_ns);
        }
        self.is_quiet = newest.is_some() && now_ns.saturating_sub(self.newest.1) >= ns(QUIET_INTERVAL);
    }

    /// Where the newest sealed file ends, when there are more than are kept.
    pub(super) fn newest_of_too_many(&self) -> Option<u64> {
        if self.sealed.len() > self.files_kept() { self.sealed.back().copied() } else { None }
    }
}

impl Checkpointer {
    /// A log file ended at this position.
    pub(crate) fn sealed(&self, position: u64) {
        self.0.0.lock().sealed.push_back(position);
        self.0.1.notify_one();
    }

    /// A queue has given up a block in a segment.
    pub(crate) fn may_be_sparse(&self, queue: QueueId) {
        if self.0.0.lock().sparse.note(queue) {
            self.0.1.notify_one();
        }
    }

    /// Whether room on the disk is worth more than the work of moving messages.
    pub(crate) fn spare_disk(&self, disk_is_short: bool) {
        let mut state = self.0.0.lock();
        let was_short = std::mem::replace(&mut state.disk_is_short, disk_is_short);
        if disk_is_short && !was_short {
            state.sparse.look_again();
        }
        drop(state);
        self.0.1.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.0.0.lock().stopping = true;
        self.0.1.notify_one();
    }
}
