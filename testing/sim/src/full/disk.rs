//! A disk that is no larger than it is, of which somebody else may take some. Knows nothing of who writes.

use std::path::{Path, PathBuf};

use platform::{Disk, SimDisk};

/// How much there is of it, and for whom.
pub(super) struct Room {
    disk: SimDisk,
    bytes: u64,
    is_enlarged: bool,
    foreign_bytes: u64,
    /// By so much the files are larger than the disk since a crash has brought some back: their room had been given to others, which no real
    /// disk does before they are gone for good.
    excess_bytes: u64,
}

impl Room {
    pub(super) fn new(disk: SimDisk, bytes: u64) -> Room {
        let room = Room { disk, bytes, is_enlarged: false, foreign_bytes: 0, excess_bytes: 0 };
        room.set();
        room
    }

    fn set(&self) {
        self.disk.set_space_bytes(Some(self.bytes - self.foreign_bytes + self.excess_bytes));
    }

    /// Somebody has given it a larger disk.
    pub(super) fn is_enlarged(&self) -> bool {
        self.is_enlarged
    }

    /// The disk has room for all that is on it several times from now on.
    pub(super) fn enlarge(&mut self) {
        (self.bytes, self.is_enlarged) = (16 * self.bytes + (2 << 30), true);
        self.set();
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.disk.set_space_bytes(Some(u64::MAX));
        let free_bytes = self.disk.free_bytes(Path::new("/data")).unwrap_or(u64::MAX);
        self.set();
        u64::MAX - free_bytes
    }

    /// All files with their bytes.
    pub(super) fn files(&self) -> Vec<(String, usize)> {
        let bytes = |path: &PathBuf| self.disk.contents(path).map_or(0, |bytes| bytes.len());
        self.disk.paths().iter().map(|path| (path.display().to_string(), bytes(path))).collect()
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.disk.free_bytes(Path::new("/data")).unwrap_or(0)
    }

    pub(super) fn foreign_bytes(&self) -> u64 {
        self.foreign_bytes
    }

    /// Somebody else has so much of it now, or as much as is free.
    pub(super) fn let_others_have(&mut self, bytes: u64) {
        self.foreign_bytes = 0;
        self.set();
        self.foreign_bytes = bytes.min(self.free_bytes());
        self.set();
    }

    /// After a crash.
    pub(super) fn find_excess(&mut self) {
        self.excess_bytes = self.used_bytes().saturating_sub(self.bytes - self.foreign_bytes);
        self.set();
    }

    /// Files that came back are gone again, as far as they are.
    pub(super) fn forget_excess(&mut self) {
        if self.excess_bytes > 0 {
            let excess_bytes = self.used_bytes().saturating_sub(self.bytes - self.foreign_bytes);
            self.excess_bytes = self.excess_bytes.min(excess_bytes);
            self.set();
        }
    }
}
