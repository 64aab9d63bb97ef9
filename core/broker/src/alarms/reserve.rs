//! Room on the disk that only a full disk brings into use: a file beside the logs, given up when a log cannot write.
//!
//! Without it a full disk could not become empty: what consumers settle makes files unneeded, and nothing may go before that is written
//! down. It is there only while the disk is short of room, and with it less may wait to be written than it is sure to hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use platform::{Disk, OpenMode};

/// The file's name in the data directory. What it holds means nothing.
const FILE_NAME: &str = "warren.reserve";

/// As large as it becomes: what publishers have sent before they are stopped, and what consumers settle then.
const BYTES_MAX: u64 = 64 << 20;

/// On a small disk it is this part of what is free above the threshold of the alarm: 1 / this.
const PART: u64 = 4;

/// It is made when less than this is free above the threshold, and given back when twice as much is.
const NEAR_BYTES: u64 = 1 << 30;

/// A start that finds less room than this goes without it.
const START_BYTES: u64 = 16 << 20;

/// So much may wait to be written however small it is.
const WAITING_BYTES_MIN: u64 = 1 << 20;

/// The reserve of a data directory.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Bytes it has. Under the lock it is made and removed: it must not grow while a log waits for it to go.
    held_bytes: Mutex<u64>,
    /// See [`Self::waiting_bytes_max`].
    waiting_bytes_max: AtomicU64,
}

impl Reserve {
    /// The one that an earlier life has left, if any.
    pub(super) fn new(disk: Arc<dyn Disk>, data_dir: &Path) -> Reserve {
        let path = data_dir.join(FILE_NAME);
        let left = disk.open(&path, OpenMode::Read).and_then(|file| file.len());
        Reserve {
            disk,
            path,
            held_bytes: Mutex::new(left.unwrap_or(0)),
            waiting_bytes_max: AtomicU64::new(u64::MAX),
        }
    }

    /// So much may wait to be written, bytes: half of the reserve, so that the rest is left for what consumers settle. No bound while
    /// the disk has plenty of room.
    #[inline]
    pub(super) fn waiting_bytes_max(&self) -> u64 {
        self.waiting_bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes it has.
    pub(super) fn held_bytes(&self) -> u64 {
        *self.held_bytes.lock()
    }

    /// A start on a full disk needs room for files that are begun.
    pub(super) fn give_way_to_start(&self, free_bytes: u64) {
        if free_bytes < START_BYTES {
            self.give_up();
        }
    }

    /// Follows the free space, of which so much may not be used up, unless `is_needed` says that a log waits for room; true when that
    /// changed it. Waits for the disk.
    pub(super) fn follow(&self, free_bytes: u64, limit_bytes: u64, is_needed: impl FnOnce() -> bool) -> bool {
        let mut held = self.held_bytes.lock();
        let room = free_bytes.saturating_add(*held).saturating_sub(limit_bytes);
        let wanted = if room < NEAR_BYTES || (*held > 0 && room < 2 * NEAR_BYTES) {
            (room / PART).min(BYTES_MAX)
        } else {
            0
        };
        let before = *held;
        if wanted == 0 && room >= NEAR_BYTES {
            self.remove(&mut held);
        } else if wanted / 2 > *held && !is_needed() {
            self.grow(&mut held, wanted);
        }
        let is_plenty = room >= NEAR_BYTES && *held == 0;
        let waiting = if is_plenty { u64::MAX } else { (*held / 2).max(WAITING_BYTES_MIN) };
        self.waiting_bytes_max.store(waiting, Ordering::Relaxed);
        *held != before
    }

    /// The disk is full: what it has is free after this. Returns how much that is.
    pub(super) fn give_up(&self) -> u64 {
        let mut held = self.held_bytes.lock();
        let before = *held;
        self.remove(&mut held);
        before - *held
    }

    fn grow(&self, held: &mut u64, wanted: u64) {
        let file =
            self.disk.open(&self.path, if *held > 0 { OpenMode::ReadWrite } else { OpenMode::CreateEmpty });
        match file.and_then(|file| file.allocate(wanted)) {
            Ok(()) => *held = wanted,
            // Others may have taken the room since. A part of it would be one of which nobody knows.
            Err(error) => {
                tracing::debug!(%error, wanted, "no reserve on the disk");
                *held = wanted;
                self.remove(held);
            }
        }
    }

    fn remove(&self, held: &mut u64) {
        if *held == 0 {
            return;
        }
        match self.disk.remove(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, file = %self.path.display(), "the reserve cannot be given up");
            }
            _ => *held = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::*;

    const DIR: &str = "/data";
    const MB: u64 = 1 << 20;

    fn disk(space_bytes: u64) -> SimDisk {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.set_space_bytes(Some(space_bytes));
        disk
    }

    fn reserve(disk: &SimDisk) -> Reserve {
        Reserve::new(Arc::new(disk.clone()), Path::new(DIR))
    }

    /// One look: what it has then.
    fn look(reserve: &Reserve, limit_bytes: u64) -> u64 {
        let free = reserve.disk.free_bytes(Path::new(DIR)).unwrap();
        reserve.follow(free, limit_bytes, || false);
        let left = reserve.disk.free_bytes(Path::new(DIR)).unwrap();
        assert_eq!(left + reserve.held_bytes(), disk_room(reserve, free), "no byte is unaccounted for");
        reserve.held_bytes()
    }

    fn disk_room(reserve: &Reserve, free_before: u64) -> u64 {
        let named = reserve.disk.list(Path::new(DIR)).unwrap().contains(&FILE_NAME.to_owned());
        assert_eq!(named, reserve.held_bytes() > 0);
        free_before.max(reserve.disk.free_bytes(Path::new(DIR)).unwrap() + reserve.held_bytes())
    }

    #[test]
    fn it_is_there_while_the_disk_is_short_and_bounds_what_waits() {
        let disk = disk(2000 * MB);
        let reserve = reserve(&disk);
        for (space_mb, held_mb, waiting_bytes) in [
            (2000, 0, u64::MAX),
            (1024, 0, u64::MAX),
            (1023, 64, 32 * MB),
            (2047, 64, 32 * MB),
            (100, 64, 32 * MB),
            (2048, 0, u64::MAX),
            (100, 25, 25 * MB / 2),
            (150, 25, 25 * MB / 2),
            (208, 52, 26 * MB),
        ] {
            disk.set_space_bytes(Some(space_mb * MB));
            assert_eq!(look(&reserve, 0), held_mb * MB, "{space_mb}");
            assert_eq!(reserve.waiting_bytes_max(), waiting_bytes, "{space_mb}");
        }
    }

    #[test]
    fn it_takes_nothing_that_the_alarm_is_to_guard() {
        let disk = disk(60 * MB);
        let reserve = reserve(&disk);
        assert_eq!((look(&reserve, 50 * MB), look(&reserve, 50 * MB)), (5 * MB / 2, 5 * MB / 2));
        assert_eq!(reserve.give_up(), 5 * MB / 2);
        assert_eq!(look(&reserve, 60 * MB), 0);
        assert_eq!(reserve.waiting_bytes_max(), WAITING_BYTES_MIN);
    }

    #[test]
    fn given_up_it_comes_back_with_the_room_and_not_while_a_log_waits() {
        let disk = disk(100 * MB);
        let reserve = reserve(&disk);
        assert_eq!(look(&reserve, 0), 25 * MB);
        assert_eq!((reserve.give_up(), reserve.give_up()), (25 * MB, 0));
        assert!(!reserve.follow(100 * MB, 0, || true));
        assert_eq!(reserve.held_bytes(), 0);
        disk.set_space_bytes(Some(8 * MB));
        assert_eq!(look(&reserve, 0), 2 * MB);
    }

    #[test]
    fn the_next_life_has_it_unless_it_needs_the_room_to_start() {
        let disk = disk(100 * MB);
        assert_eq!(look(&reserve(&disk), 0), 25 * MB);
        let next = reserve(&disk);
        next.give_way_to_start(START_BYTES);
        assert_eq!(next.held_bytes(), 25 * MB);
        next.give_way_to_start(START_BYTES - 1);
        assert_eq!((next.held_bytes(), disk.free_bytes(Path::new(DIR)).unwrap()), (0, 100 * MB));
    }

    #[test]
    fn room_that_others_have_taken_meanwhile_is_let_go() {
        let disk = disk(10 * MB);
        let reserve = reserve(&disk);
        assert!(!reserve.follow(100 * MB, 0, || false), "there is no such room");
        assert_eq!((reserve.held_bytes(), disk.free_bytes(Path::new(DIR)).unwrap()), (0, 10 * MB));
    }
}
