//! The open files, at most so many, least recently used ones closed first. Knows nothing of blocks.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use platform::DiskFile;

use crate::IoFailure;

/// One segment's file while it is used: how far it was written and synced, in number of writes. It outlives the open file, so
/// that a file closed to make room is still known to need a sync or not.
pub(super) struct Segment {
    pub(super) number: u64,
    written: AtomicU64,
    synced: AtomicU64,
    /// The stream's first failed sync, shared by its segments.
    failure: Arc<OnceLock<IoFailure>>,
}

impl Segment {
    pub(super) fn new(number: u64, failure: Arc<OnceLock<IoFailure>>) -> Self {
        Self { number, written: AtomicU64::new(0), synced: AtomicU64::new(0), failure }
    }

    /// Notes that a write has been made.
    pub(super) fn note_write(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether there are writes of which it is not known that they are on the disk: after a failed sync that is so for good.
    pub(super) fn is_dirty(&self) -> bool {
        self.synced.load(Ordering::Acquire) < self.written.load(Ordering::Acquire)
            || self.failure.get().is_some()
    }

    /// Syncs all writes noted before the call. A failure is the stream's from now on. Safe to call from several threads: each
    /// only counts what was written before it began.
    pub(super) fn sync(&self, file: &dyn DiskFile, path: &Path) -> Result<(), IoFailure> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        let written = self.written.load(Ordering::Acquire);
        match file.sync_data().map_err(IoFailure::of("sync", path)) {
            Ok(()) => {
                self.synced.fetch_max(written, Ordering::AcqRel);
                Ok(())
            }
            Err(failure) => Err(self.failure.get_or_init(|| failure).clone()),
        }
    }
}

/// An open file and whose it is.
#[derive(Clone)]
pub(super) struct OpenFile {
    pub(super) stream: u64,
    pub(super) segment: Arc<Segment>,
    pub(super) file: Arc<dyn DiskFile>,
}

struct Slot {
    open: OpenFile,
    used: u64,
}

/// The cache. Its mutex is a leaf: no file is touched under it.
pub(super) struct FileCache {
    slots: Mutex<Slots>,
    capacity: usize,
}

#[derive(Default)]
struct Slots {
    by_segment: HashMap<u64, Slot>,
    /// Counts uses.
    clock: u64,
}

impl FileCache {
    /// A cache for at most `capacity` files (at least one).
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: Mutex::default(), capacity: capacity.max(1) }
    }

    /// The open file of a segment.
    pub(super) fn get(&self, segment: u64) -> Option<Arc<dyn DiskFile>> {
        let mut slots = self.slots.lock();
        slots.clock += 1;
        let used = slots.clock;
        let slot = slots.by_segment.get_mut(&segment)?;
        slot.used = used;
        Some(slot.open.file.clone())
    }

    /// Keeps a file open and returns those that had to make room, for the caller to sync if they are dirty, and drop.
    pub(super) fn insert(&self, open: OpenFile) -> Vec<OpenFile> {
        let mut slots = self.slots.lock();
        slots.clock += 1;
        let used = slots.clock;
        let mut evicted = Vec::new();
        if slots.by_segment.len() >= self.capacity {
            evicted = slots.evict(self.capacity);
        }
        slots.by_segment.insert(open.segment.number, Slot { open, used });
        evicted
    }

    /// Closes a file that is to be removed.
    pub(super) fn forget(&self, segment: u64) {
        let slot = self.slots.lock().by_segment.remove(&segment);
        drop(slot);
    }
}

impl Slots {
    /// Takes out the least recently used eighth, so that the search for it is paid once for many.
    fn evict(&mut self, capacity: usize) -> Vec<OpenFile> {
        let mut ages: Vec<(u64, u64)> =
            self.by_segment.iter().map(|(segment, slot)| (slot.used, *segment)).collect();
        ages.sort_unstable();
        ages.truncate((capacity / 8).max(1));
        let slots = ages.into_iter().filter_map(|(_, segment)| self.by_segment.remove(&segment));
        slots.map(|slot| slot.open).collect()
    }
}
