//! Which streams another log has named: a record of a stream is not written before the record that names its stream is synced there, so
//! that no crash leaves records of streams that nobody knows. Knows nothing of what a name is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::shared::{Mode, Shared};
use crate::{IoFailure, Position};

/// Streams from this one on need no name.
pub const NAMED_STREAMS_END: u64 = 1 << 63;

/// The streams that one log names, for another that holds their records. Streams are named in ascending order.
pub struct Names {
    /// The log that names them.
    log: Arc<Shared>,
    /// All streams below are named by records that are synced. Grows only; an old value makes nobody wait in vain for long.
    synced_end: AtomicU64,
    unsynced: Mutex<Option<Unsynced>>,
}

/// Names on their way to the disk. Names between the two are told with the later one: no name costs memory.
#[derive(Clone, Copy)]
struct Unsynced {
    first: Named,
    last: Named,
}

/// Once the position is synced, all streams below the end are named.
#[derive(Clone, Copy)]
struct Named {
    position: Position,
    streams_end: u64,
}

/// How far the naming of a stream is.
pub(super) enum Naming {
    /// Its records may be written.
    Synced,
    /// Not yet.
    Waits,
    /// Not before there is room on the disk.
    NoRoom(IoFailure),
    /// It never will be.
    Never(IoFailure),
}

impl Names {
    /// All streams below `streams_end` are named by synced records.
    pub(super) fn new(log: Arc<Shared>, streams_end: u64) -> Self {
        Self { log, synced_end: AtomicU64::new(streams_end), unsynced: Mutex::default() }
    }

    /// The record that ends at `position` names streams, so that all below `streams_end` are named. To be called before anybody
    /// learns of them, with growing numbers.
    pub fn add(&self, position: Position, streams_end: u64) {
        let named = Named { position, streams_end };
        let mut unsynced = self.unsynced.lock();
        self.settle(&mut unsynced);
        match &mut *unsynced {
            Some(unsynced) => unsynced.last = named,
            None => *unsynced = Some(Unsynced { first: named, last: named }),
        }
    }

    /// Whether what names a stream is synced; of one that needs no name, always.
    #[must_use]
    pub fn has(&self, stream: u64) -> bool {
        stream >= NAMED_STREAMS_END || self.awaited(stream).is_none()
    }

    /// The position that must be synced in the other log before records of streams up to `newest` are written; `None`: nothing.
    #[inline]
    pub(super) fn awaited(&self, newest: u64) -> Option<Position> {
        // The writer of such a record learned of its stream after it had been added.
        if newest < self.synced_end.load(Ordering::Relaxed) { None } else { self.look_again(newest) }
    }

    fn look_again(&self, newest: u64) -> Option<Position> {
        let mut unsynced = self.unsynced.lock();
        self.settle(&mut unsynced);
        if newest < self.synced_end.load(Ordering::Relaxed) {
            return None;
        }
        let Unsynced { first, last } = (*unsynced)?;
        Some(if newest < first.streams_end { first.position } else { last.position })
    }

    /// Notes what was synced meanwhile.
    fn settle(&self, unsynced: &mut Option<Unsynced>) {
        let Some(Unsynced { first, last }) = *unsynced else { return };
        let synced = self.log.synced();
        if last.position <= synced {
            self.synced_end.store(last.streams_end, Ordering::Relaxed);
            *unsynced = None;
        } else if first.position <= synced {
            self.synced_end.store(first.streams_end, Ordering::Relaxed);
            *unsynced = Some(Unsynced { first: last, last });
        }
    }

    /// How far the other log is on its way to a position.
    pub(super) fn look(&self, position: Position) -> Naming {
        let pending = self.log.pending.lock();
        if self.log.synced() >= position {
            return Naming::Synced;
        }
        match &pending.mode {
            Mode::Failed(failure) => Naming::Never(failure.clone()),
            Mode::Open | Mode::Closing | Mode::Closed => match &pending.no_room {
                Some(failure) => Naming::NoRoom(failure.clone()),
                None => Naming::Waits,
            },
        }
    }

    /// Waits until the other log has synced a position, or finds no room, or fails; false when that takes longer than `wait`.
    pub(super) fn wait(&self, position: Position, wait: Duration) -> bool {
        let mut pending = self.log.pending.lock();
        let goes_on = |pending: &mut super::shared::Pending| {
            self.log.synced() < position
                && !matches!(pending.mode, Mode::Failed(_))
                && pending.no_room.is_none()
        };
        !self.log.settled.wait_while_for(&mut pending, goes_on, wait).timed_out()
    }
}
