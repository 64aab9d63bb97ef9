//! The reserve: a file beside the logs that gives its room back when a write finds none.
//!
//! Without it a full disk could not become empty. Settlements of consumers make files unneeded, and no file may go before they are written
//! down.
//!
//! The rule:
//!
//! - While little is free, the file is there. It has a fixed size: 64 MiB, or a quarter of what is free when it is made.
//! - A write that finds no room takes a quarter of it. Publishers are blocked from then on.
//! - When the whole file and half as much beside it find room again, it is made whole, and publishers go on.
//!
//! Its room counts as free for the threshold of the disk alarm.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use platform::{Disk, OpenMode};

/// The file's name in the data directory. It begins with its whole size, eight bytes, little end first; what follows means nothing.
const FILE_NAME: &str = "warren.reserve";

/// These bytes stay: the next start must know how large the reserve is.
const HEAD_BYTES: u64 = 8;

/// The disk has plenty of room from so many reserves on that are free above the threshold; with a reserve on it, from twice as many on.
const PLENTY: u64 = 16;

/// The parts of the whole are quarters. It is a quarter of what is free, is given up in quarters, and so much may wait for the log and for
/// segments each. The other half is for what consumers settle.
const PART: u64 = 4;

/// A file of the log has at most this part of the whole: 1 / this. A file must be full of what nobody needs before the reserve is used up.
const FILE_PART: u64 = 8;

/// Of the largest reserve this part is the least that is of use: 1 / this. It stays for the next start, and bounds the other sizes below.
const LEAST_PART: u64 = 64;

/// The bytes that the reserve has.
struct Held {
    bytes: u64,
    /// As many as it has when nothing is given up; 0 while the disk has plenty of room.
    whole_bytes: u64,
}

/// The reserve of a data directory.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes_max: u64,
    /// Under this lock the file is made and cut: it must not grow while a log waits for room.
    held: Mutex<Held>,
    /// See [`Self::waiting_bytes_max`].
    waiting_bytes_max: AtomicU64,
}

impl Reserve {
    /// The one that an earlier life has left, if any. It has at most `bytes_max` bytes.
    pub(super) fn new(disk: Arc<dyn Disk>, data_dir: &Path, bytes_max: u64) -> Reserve {
        let path = data_dir.join(FILE_NAME);
        let (bytes, whole_bytes) = left(&*disk, &path, bytes_max).unwrap_or_default();
        let held = Mutex::new(Held { bytes, whole_bytes });
        Reserve { disk, path, bytes_max, held, waiting_bytes_max: AtomicU64::new(u64::MAX) }
    }

    /// Bytes of what is published that may wait for the log; as many may wait for segments. `u64::MAX` while the disk has plenty of room.
    #[inline]
    pub(super) fn waiting_bytes_max(&self) -> u64 {
        self.waiting_bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that a file of the log may have. `u64::MAX` while the disk has plenty of room.
    pub(super) fn log_file_bytes_max(&self) -> u64 {
        if self.waiting_bytes_max() == u64::MAX {
            return u64::MAX;
        }
        (self.held.lock().whole_bytes / FILE_PART).max(self.least_bytes())
    }

    /// The file's length in bytes: its room counts as free.
    pub(super) fn bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// Bytes that are free after a full disk, with the reserve, before publishers go on.
    pub(super) fn enough_bytes(&self) -> u64 {
        self.enough_for(&self.held.lock())
    }

    fn enough_for(&self, held: &Held) -> u64 {
        let whole_bytes = held.whole_bytes.max(self.least_bytes());
        whole_bytes + whole_bytes / 2
    }

    fn least_bytes(&self) -> u64 {
        self.bytes_max / LEAST_PART
    }

    /// The part of it that only a start takes.
    fn kept_bytes(&self, held: &Held) -> u64 {
        self.least_bytes().min(held.whole_bytes / PART)
    }

    /// Bytes of it that writes may take.
    pub(super) fn given_bytes_max(&self) -> u64 {
        let held = self.held.lock();
        held.bytes.saturating_sub(self.kept_bytes(&held))
    }

    /// Follows what is free above the threshold, unless `is_needed` says that a log waits for room. Waits for the disk. `is_full`: a write
    /// found no room, and publishers are still blocked for that.
    pub(super) fn follow(
        &self,
        free_bytes: u64,
        limit_bytes: u64,
        is_full: bool,
        is_needed: impl FnOnce() -> bool,
    ) {
        let mut held = self.held.lock();
        if is_needed() {
            return;
        }
        let all = free_bytes.saturating_add(held.bytes);
        let is_there = held.bytes > 0;
        let plenty = PLENTY * self.bytes_max * if is_there { 2 } else { 1 };
        if all.saturating_sub(limit_bytes) >= plenty {
            self.cut(&mut held, 0);
            self.waiting_bytes_max.store(u64::MAX, Ordering::Relaxed);
            return;
        }
        let usual_bytes = (all / PART).min(self.bytes_max);
        let wanted = if is_full && all < self.enough_for(&held) {
            // Where even this does not fit twice, the log needs it more.
            if free_bytes >= 2 * self.kept_bytes(&held) { self.kept_bytes(&held) } else { 0 }
        } else if usual_bytes / 2 > held.whole_bytes {
            usual_bytes
        } else {
            held.whole_bytes
        };
        if wanted > held.bytes {
            self.grow(&mut held, wanted);
        }
        let waiting_bytes = (held.whole_bytes / PART).max(self.least_bytes());
        self.waiting_bytes_max.store(waiting_bytes, Ordering::Relaxed);
    }

    /// A write found no room: a quarter of the reserve is free after this. Returns how many bytes that are.
    pub(super) fn give_part(&self) -> u64 {
        let mut held = self.held.lock();
        let kept_bytes = self.kept_bytes(&held);
        self.give(&mut held, kept_bytes)
    }

    /// A start begins files. Where less is free than publishers would wait for, it takes a quarter, and what is kept for it. True when it was
    /// given some, or when an earlier life left less than the whole: the disk is full as it was then.
    pub(super) fn give_way_to_start(&self, free_bytes: u64) -> bool {
        let mut held = self.held.lock();
        let is_full = free_bytes.saturating_add(held.bytes) < self.enough_for(&held);
        (is_full && self.give(&mut held, HEAD_BYTES) > 0) || held.bytes < held.whole_bytes
    }

    /// Cuts off a quarter of the whole, down to `least` bytes. Returns how many bytes that are.
    fn give(&self, held: &mut Held, least: u64) -> u64 {
        let before = held.bytes;
        let left = before.saturating_sub((held.whole_bytes / PART).max(self.least_bytes())).max(least);
        if left < before {
            self.cut(held, left);
        }
        before - held.bytes
    }

    fn grow(&self, held: &mut Held, wanted: u64) {
        let mode = if held.bytes > 0 { OpenMode::ReadWrite } else { OpenMode::CreateEmpty };
        let before = held.bytes;
        held.bytes = wanted;
        let whole_bytes = held.whole_bytes.max(wanted);
        let grown = self.disk.open(&self.path, mode).and_then(|file| {
            file.allocate(wanted)?;
            file.write_all_at(0, &[&whole_bytes.to_le_bytes()])?;
            // After a power cut it is what tells that the disk was full.
            file.sync_data()?;
            if before == 0 { self.disk.sync_dir(self.path.parent().unwrap_or(&self.path)) } else { Ok(()) }
        });
        match grown {
            Ok(()) => held.whole_bytes = whole_bytes,
            Err(error) => {
                // Others may have taken the room since. A part of it would be one of which nobody knows.
                tracing::debug!(%error, wanted, "no more reserve on the disk");
                self.cut(held, before);
            }
        }
    }

    /// Makes the file so long; removes it, and forgets how long it was, when that is 0.
    fn cut(&self, held: &mut Held, bytes: u64) {
        if held.bytes == 0 {
            return;
        }
        let cut = if bytes == 0 {
            self.disk.remove(&self.path)
        } else {
            self.disk.open(&self.path, OpenMode::ReadWrite).and_then(|file| file.truncate(bytes))
        };
        match cut {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, file = %self.path.display(), "the reserve cannot be given up");
            }
            _ => held.bytes = bytes,
        }
        if held.bytes == 0 {
            held.whole_bytes = 0;
        }
    }
}

/// How long an earlier life has left it, and its whole size.
fn left(disk: &dyn Disk, path: &Path, bytes_max: u64) -> std::io::Result<(u64, u64)> {
    let file = disk.open(path, OpenMode::Read)?;
    let (bytes, mut whole) = (file.len()?, [0; 8]);
    file.read_exact_at(0, &mut whole)?;
    Ok((bytes, u64::from_le_bytes(whole).clamp(bytes, bytes.max(bytes_max))))
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
        Reserve::new(Arc::new(disk.clone()), Path::new(DIR), 64 * MB)
    }

    fn free_bytes(reserve: &Reserve) -> u64 {
        reserve.disk.free_bytes(Path::new(DIR)).unwrap()
    }

    /// One look: what it has then.
    fn look(reserve: &Reserve, limit_bytes: u64, is_full: bool) -> u64 {
        let all = free_bytes(reserve) + reserve.bytes();
        reserve.follow(free_bytes(reserve), limit_bytes, is_full, || false);
        assert_eq!(free_bytes(reserve) + reserve.bytes(), all, "no byte is unaccounted for");
        reserve.bytes()
    }

    #[test]
    fn the_file_is_there_while_the_disk_is_short_and_bounds_what_waits() {
        let disk = disk(2000 * MB);
        let reserve = reserve(&disk);
        for (space_mb, held_mb, waiting_bytes) in [
            (2000, 0, u64::MAX),
            (1024, 0, u64::MAX),
            (1023, 64, 16 * MB),
            (2047, 64, 16 * MB),
            (100, 64, 16 * MB),
            (2048, 0, u64::MAX),
            (100, 25, 25 * MB / 4),
            (150, 25, 25 * MB / 4),
            (208, 52, 13 * MB),
        ] {
            disk.set_space_bytes(Some(space_mb * MB));
            assert_eq!(look(&reserve, 0, false), held_mb * MB, "{space_mb}");
            assert_eq!(reserve.waiting_bytes_max(), waiting_bytes, "{space_mb}");
            let file_bytes = if held_mb == 0 { u64::MAX } else { held_mb * MB / 8 };
            assert_eq!(reserve.log_file_bytes_max(), file_bytes, "{space_mb}");
        }
    }

    #[test]
    fn what_is_free_below_the_threshold_of_the_alarm_is_not_plenty() {
        let disk = disk(1500 * MB);
        assert_eq!(look(&reserve(&disk), 400 * MB, false), 0);
        assert_eq!(look(&reserve(&disk), 500 * MB, false), 64 * MB);
    }

    #[test]
    fn the_file_is_given_up_in_quarters_and_comes_back_whole() {
        let disk = disk(100 * MB);
        let reserve = reserve(&disk);
        assert_eq!(look(&reserve, 0, false), 25 * MB);
        disk.set_space_bytes(Some(25 * MB));
        let given = [(); 5].map(|()| reserve.give_part());
        assert_eq!(
            given,
            [25 * MB / 4, 25 * MB / 4, 25 * MB / 4, 25 * MB / 4 - MB, 0],
            "the last is for a start"
        );
        assert_eq!((reserve.bytes(), reserve.waiting_bytes_max()), (MB, 25 * MB / 4));
        assert_eq!(reserve.enough_bytes(), 25 * MB * 3 / 2);
        reserve.follow(24 * MB, 0, false, || true);
        assert_eq!(reserve.bytes(), MB, "a log waits");
        disk.set_space_bytes(Some(25 * MB * 3 / 2 - 1));
        assert_eq!(look(&reserve, 0, true), MB);
        disk.set_space_bytes(Some(25 * MB * 3 / 2));
        assert_eq!(look(&reserve, 0, true), 25 * MB);
    }

    #[test]
    fn what_is_kept_for_a_start_comes_back_as_soon_as_it_fits_twice() {
        let disk = disk(100 * MB);
        look(&reserve(&disk), 0, false);
        disk.set_space_bytes(Some(25 * MB));
        for life in 0..3 {
            let next = reserve(&disk);
            assert!(next.give_way_to_start(free_bytes(&next)), "{life}");
            while next.give_part() > 0 {}
            disk.set_space_bytes(Some(next.bytes() + 2 * MB - 1));
            look(&next, 0, true);
            disk.set_space_bytes(Some(next.bytes() + 2 * MB));
            assert_eq!(look(&next, 0, true), MB, "{life}");
        }
    }

    #[test]
    fn a_start_takes_a_quarter_where_less_is_free_than_publishers_would_wait_for() {
        let disk = disk(100 * MB);
        look(&reserve(&disk), 0, false);
        disk.set_space_bytes(Some(25 * MB + 25 * MB / 2));
        let next = reserve(&disk);
        assert!(!next.give_way_to_start(free_bytes(&next)) && next.bytes() == 25 * MB);
        disk.set_space_bytes(Some(25 * MB + 25 * MB / 2 - 1));
        let lives = [(); 5].map(|()| {
            let next = reserve(&disk);
            assert!(next.give_way_to_start(free_bytes(&next)), "the disk is full as in the life before");
            assert_eq!(next.enough_bytes(), 25 * MB * 3 / 2, "and waits for as much room");
            next.bytes()
        });
        let quarter = 25 * MB / 4;
        assert_eq!(lives, [3 * quarter, 2 * quarter, quarter, HEAD_BYTES, HEAD_BYTES]);
        disk.set_space_bytes(Some(25 * MB * 3 / 2));
        let last = reserve(&disk);
        assert!(last.give_way_to_start(free_bytes(&last)));
        assert_eq!(look(&last, 0, true), 25 * MB);
        assert!(!reserve(&SimDisk::new()).give_way_to_start(0), "there is none");
    }

    #[test]
    fn a_power_cut_leaves_it_there() {
        for seed in 0..20 {
            let disk = disk(100 * MB);
            assert_eq!(look(&reserve(&disk), 0, false), 25 * MB);
            disk.crash(seed);
            let next = reserve(&disk);
            assert_eq!((next.bytes(), next.held.lock().whole_bytes), (25 * MB, 25 * MB));
        }
    }

    #[test]
    fn a_file_that_names_a_wrong_size_is_no_larger_than_a_reserve_may_be() {
        let disk = disk(2000 * MB);
        let file = disk.open(&Path::new(DIR).join(FILE_NAME), OpenMode::CreateEmpty).unwrap();
        file.write_all_at(0, &[&[0xff; 9]]).unwrap();
        let reserve = reserve(&disk);
        assert_eq!((reserve.bytes(), reserve.enough_bytes()), (9, 96 * MB));
    }

    #[test]
    fn room_that_others_have_taken_meanwhile_is_let_go() {
        let disk = disk(10 * MB);
        let reserve = reserve(&disk);
        reserve.follow(100 * MB, 0, false, || false);
        assert_eq!((reserve.bytes(), free_bytes(&reserve)), (0, 10 * MB), "there is no such room");
        assert_eq!(look(&reserve, 0, false), 10 * MB / 4);
        reserve.follow(90 * MB, 0, false, || false);
        assert_eq!((reserve.bytes(), free_bytes(&reserve)), (10 * MB / 4, 30 * MB / 4));
    }
}
