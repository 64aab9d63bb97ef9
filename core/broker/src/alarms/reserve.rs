//! Room on the disk that only a full disk brings into use: a file beside the logs that becomes shorter when one of them cannot write.
//!
//! Without it a full disk could not become empty: what consumers settle makes files unneeded, and nothing may go before that is written
//! down. It is there only while the disk is short of room, and with it less may wait to be written than it is sure to hold. It is given up
//! in parts, because whoever finds room takes it, and only the logs tell when they find none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use platform::{Disk, OpenMode};

use crate::foundation::RoomSizes;

/// The file's name in the data directory. It begins with as many bytes as it had at most since there was plenty of room, eight bytes, little
/// end first; what follows means nothing.
const FILE_NAME: &str = "warren.reserve";

/// What of it a start leaves there: that there was one, and how large, is what the next one must know if this one comes to nothing.
const HEAD_BYTES: u64 = 8;

/// On a small disk it is this part of what is free above the threshold of the alarm: 1 / this.
const PART: u64 = 4;

/// The same since the disk was full, until it is as large as it was: who has filled the disk once will do so again.
const FULL_PART: u64 = 2;

/// Of it, log and segments may each have so much waiting to be written: 1 / this. The other half is for what consumers settle.
const WAITING_PART: u64 = 4;

/// While there is one, a file of the log has at most this part of it: 1 / this. What is written to make room must find some before a file is
/// full of what nobody needs.
const FILE_PART: u64 = 8;

/// It is given up in so many parts, none of them smaller than [`RoomSizes::given_bytes_min`].
const GIVEN_PARTS: u64 = 4;

/// It is waited for until no more room has come in so many looks.
const WAITED_LOOKS: u16 = 30;

/// It is back when all but one of so many parts of it are.
const BACK_PARTS: u64 = 8;

/// It is looked at so often, five minutes or one while letters wait, before less of it makes do on a disk that was full: publishers wait for that.
const CALM_LOOKS: u16 = 300;

/// What there is of it. Under the lock the file is made and cut: it must not grow while a log waits for room.
struct Held {
    sizes: RoomSizes,
    bytes: u64,
    /// As many as it had at most since there was plenty of room.
    whole_bytes: u64,
    /// Some of it was given up, and there is not enough room since.
    is_full: bool,
    /// So much was given up for a start, and not taken back yet.
    lent_bytes: u64,
    /// Looks since a write found the disk full.
    calm_looks: u16,
    /// The most that was free and in reserve since it was given up, ...
    room_max: u64,
    /// ... and looks since that has grown.
    waited_looks: u16,
}

impl Held {
    /// See [`Reserve::free_bytes_min`].
    fn go_on_bytes(&self) -> u64 {
        self.whole_bytes.min(self.sizes.go_on_bytes_max) / 2
    }

    /// Whether it alone keeps publishers waiting: with half of what it and they may have free, they would go on.
    fn keeps_waiting(&self, free_bytes: u64, limit_bytes: u64) -> bool {
        let room = free_bytes.saturating_add(self.bytes).saturating_sub(limit_bytes);
        let free_without = limit_bytes + room / FULL_PART;
        // Of a disk that was full just now it would be missed.
        let is_calm = self.is_full && self.calm_looks >= CALM_LOOKS;
        let enough = limit_bytes.max(if is_calm { self.go_on_bytes() } else { 0 });
        let has_more = self.bytes > (room / FULL_PART).max(self.sizes.kept_bytes);
        has_more && room >= self.go_on_bytes() && free_bytes < enough && free_without >= enough
    }

    /// As large as it should be, with so much free or held already, of which so much may not be used up.
    fn wanted_bytes(&self, all: u64, limit_bytes: u64) -> u64 {
        let RoomSizes { kept_bytes, start_bytes, .. } = self.sizes;
        let room = all.saturating_sub(limit_bytes);
        let wanted = if self.is_full {
            // Below the threshold as well: publishers wait there, and nobody else would leave any room.
            let below = if room >= self.go_on_bytes() { 0 } else { all.min(limit_bytes) };
            let rest = room.saturating_sub(self.go_on_bytes().max(self.sizes.room_bytes_min));
            let half = (room.max(below) / FULL_PART).max(rest).min(self.whole_bytes);
            let unused = self.lent_bytes.min(all.saturating_sub(kept_bytes));
            let do_publishers_wait = all - half < limit_bytes.max(self.go_on_bytes());
            if do_publishers_wait { half.max(unused) } else { half }
        } else {
            let small = room.saturating_sub(self.sizes.beside_bytes()).min(self.sizes.reserve_bytes_small);
            (room / PART).max(small).min(self.sizes.reserve_bytes_max)
        };
        // What the latest start took of it, the next one needs as well; where a start needs it, whatever the threshold.
        let is_there = room >= kept_bytes || (kept_bytes..limit_bytes.min(start_bytes)).contains(&all);
        if is_there { wanted.max(kept_bytes) } else { wanted }
    }
}

/// The reserve of a data directory.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    held: Mutex<Held>,
    /// See [`Self::waiting_bytes_max`].
    waiting_bytes_max: AtomicU64,
}

impl Reserve {
    /// The one that an earlier life has left, if any.
    pub(super) fn new(disk: Arc<dyn Disk>, data_dir: &Path, sizes: RoomSizes) -> Reserve {
        let path = data_dir.join(FILE_NAME);
        let (bytes, whole_bytes) = left(&*disk, &path, &sizes).unwrap_or_default();
        let held = Held {
            sizes,
            bytes,
            whole_bytes,
            is_full: false,
            lent_bytes: 0,
            calm_looks: 0,
            room_max: 0,
            waited_looks: 0,
        };
        Reserve { disk, path, held: Mutex::new(held), waiting_bytes_max: AtomicU64::new(u64::MAX) }
    }

    /// So much of what is published may wait to be written to the log, and as much to segments, bytes. No bound while the disk has plenty of
    /// room.
    #[inline]
    pub(super) fn waiting_bytes_max(&self) -> u64 {
        self.waiting_bytes_max.load(Ordering::Relaxed)
    }

    /// As many bytes a file of the log may have.
    pub(super) fn log_file_bytes_max(&self) -> u64 {
        let held = self.held.lock();
        if self.waiting_bytes_max() == u64::MAX {
            return u64::MAX;
        }
        (held.whole_bytes / FILE_PART).max(held.sizes.log_file_bytes_min)
    }

    /// Since the disk became full: so much must be free before more may come, and as much is in reserve again then. Less would be full
    /// again before anybody looks.
    pub(super) fn free_bytes_min(&self) -> u64 {
        let held = self.held.lock();
        if held.is_full { held.go_on_bytes() } else { 0 }
    }

    /// Whether it is what it was, or nearly, or has been waited for long enough: publishers who go on with less fill the disk with less in
    /// reserve each time, until letters leave all there is to consumers, and wait for ever.
    pub(super) fn is_back(&self) -> bool {
        let held = self.held.lock();
        !held.is_full
            || held.waited_looks > WAITED_LOOKS
            || held.bytes >= held.whole_bytes / BACK_PARTS * (BACK_PARTS - 1)
    }

    /// So much of it may be given up.
    pub(super) fn given_bytes_max(&self) -> u64 {
        let held = self.held.lock();
        held.bytes.saturating_sub(held.sizes.kept_bytes)
    }

    #[cfg(test)]
    fn held_bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// A start on a full disk needs room for files that are begun. True when it was given some: the disk is full as it was in the life
    /// before, until there is as much room as that would have waited for. Otherwise each life would have a smaller reserve than the one before.
    pub(super) fn give_way_to_start(&self, free_bytes: u64) -> bool {
        let mut held = self.held.lock();
        if free_bytes >= held.sizes.start_bytes || held.bytes == 0 {
            return false;
        }
        held.lent_bytes = held.bytes;
        self.cut(&mut held, HEAD_BYTES);
        // No write has failed for it in this life.
        (held.is_full, held.calm_looks) = (true, CALM_LOOKS);
        true
    }

    /// Follows the free space, of which so much may not be used up, unless `is_needed` says that a log waits for room; true when that
    /// changed it. Waits for the disk.
    pub(super) fn follow(&self, free_bytes: u64, limit_bytes: u64, is_needed: impl FnOnce() -> bool) -> bool {
        let mut held = self.held.lock();
        if is_needed() {
            return false;
        }
        held.calm_looks = held.calm_looks.saturating_add(1);
        let RoomSizes { near_bytes, kept_bytes, given_bytes_min, waiting_bytes_min, .. } = held.sizes;
        let before = held.bytes;
        let all = free_bytes.saturating_add(before);
        let room = all.saturating_sub(limit_bytes);
        let is_plenty = room >= if before > 0 { 2 * near_bytes } else { near_bytes };
        let wanted = held.wanted_bytes(all, limit_bytes);
        let step_bytes = given_bytes_min.min(held.whole_bytes / BACK_PARTS);
        if all > held.room_max.saturating_add(step_bytes) {
            (held.room_max, held.waited_looks) = (all, 0);
        }
        held.waited_looks = held.waited_looks.saturating_add(1);
        let is_missed = before < kept_bytes && wanted >= kept_bytes;
        if is_plenty {
            self.cut(&mut held, 0);
            held.whole_bytes = 0;
        } else if is_missed || wanted / 2 > before || (held.is_full && wanted > before + step_bytes) {
            self.grow(&mut held, wanted);
        } else if held.keeps_waiting(free_bytes, limit_bytes) {
            self.cut(&mut held, (room / FULL_PART).max(kept_bytes));
        }
        let is_bounded = !is_plenty || held.bytes > 0;
        let waiting = if is_bounded { (held.bytes / WAITING_PART).max(waiting_bytes_min) } else { u64::MAX };
        self.waiting_bytes_max.store(waiting, Ordering::Relaxed);
        held.bytes != before
    }

    /// A write that can wait found the disk full. Nothing is given up for it, but who fills the disk waits as when it were.
    pub(super) fn found_full(&self) {
        let mut held = self.held.lock();
        if !std::mem::replace(&mut held.is_full, true) {
            (held.room_max, held.waited_looks) = (0, 0);
        }
        held.calm_looks = 0;
    }

    /// The disk is full: a part of what it has is free after this. Returns how much that is.
    pub(super) fn give_part(&self) -> u64 {
        self.found_full();
        let mut held = self.held.lock();
        (held.room_max, held.waited_looks) = (0, 0);
        let before = held.bytes;
        let part = (held.whole_bytes / GIVEN_PARTS).max(held.sizes.given_bytes_min);
        let left = before.saturating_sub(part).max(held.sizes.kept_bytes);
        if left < before {
            self.cut(&mut held, left);
        }
        before - held.bytes
    }

    /// The disk is not full any more.
    pub(super) fn full_no_more(&self) {
        let mut held = self.held.lock();
        (held.is_full, held.lent_bytes) = (false, 0);
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
            Ok(()) => (held.whole_bytes, held.lent_bytes) = (whole_bytes, 0),
            Err(error) => {
                // Others may have taken the room since. A part of it would be one of which nobody knows.
                tracing::debug!(%error, wanted, "no more reserve on the disk");
                self.cut(held, before);
            }
        }
    }

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
    }
}

/// How long an earlier life has left it, and how long it was at most.
fn left(disk: &dyn Disk, path: &Path, sizes: &RoomSizes) -> std::io::Result<(u64, u64)> {
    let file = disk.open(path, OpenMode::Read)?;
    let (bytes, mut whole) = (file.len()?, [0; 8]);
    file.read_exact_at(0, &mut whole)?;
    Ok((bytes, u64::from_le_bytes(whole).clamp(bytes, bytes.max(sizes.reserve_bytes_max))))
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
        Reserve::new(Arc::new(disk.clone()), Path::new(DIR), RoomSizes::default())
    }

    /// One look: what it has then.
    fn look(reserve: &Reserve, limit_bytes: u64) -> u64 {
        let free = reserve.disk.free_bytes(Path::new(DIR)).unwrap();
        let before = reserve.held_bytes();
        reserve.follow(free, limit_bytes, || false);
        let left = reserve.disk.free_bytes(Path::new(DIR)).unwrap();
        let held = reserve.held_bytes();
        assert_eq!(left + held, free + before, "no byte is unaccounted for");
        held
    }

    #[test]
    fn what_a_start_takes_of_it_is_taken_back_however_little_is_left() {
        let disk = disk(40 * MB);
        assert_eq!(look(&reserve(&disk), 0), 10 * MB);
        disk.set_space_bytes(Some(11 * MB + MB / 2));
        let next = reserve(&disk);
        assert!(next.give_way_to_start(MB + MB / 2) && next.held_bytes() == HEAD_BYTES);
        disk.set_space_bytes(Some(MB + MB / 2));
        assert_eq!(look(&next, 0), MB, "half of what is free would be too little for the start after it");
    }

    #[test]
    fn others_who_take_all_that_is_free_leave_most_of_it_however_often_a_start_is_given_it() {
        let disk = disk(140 * MB);
        assert_eq!(look(&reserve(&disk), 50 * MB), 45 * MB / 2);
        let lives: Vec<u64> = (0..4)
            .map(|_| {
                let held_bytes = reserve(&disk).held_bytes();
                disk.set_space_bytes(Some(held_bytes));
                let next = reserve(&disk);
                assert!(next.give_way_to_start(0) && next.held_bytes() == HEAD_BYTES);
                look(&next, 50 * MB)
            })
            .collect();
        assert_eq!(lives, [1, 2, 3, 4].map(|life| 45 * MB / 2 - life * MB), "a start leaves one of it free");
    }

    #[test]
    fn what_a_start_takes_is_taken_back_below_the_threshold_of_the_alarm_too() {
        let disk = disk(140 * MB);
        assert_eq!(look(&reserve(&disk), 50 * MB), 45 * MB / 2);
        disk.set_space_bytes(Some(45 * MB / 2 + 6 * MB));
        let next = reserve(&disk);
        assert!(next.give_way_to_start(6 * MB));
        assert_eq!(look(&next, 50 * MB), 45 * MB / 2);
        assert_eq!(look(&reserve(&disk), 50 * MB), 45 * MB / 2, "and the life after it knows");
        let again = reserve(&disk);
        assert!(again.give_way_to_start(6 * MB));
        let go_on_bytes = 45 * MB / 4;
        assert_eq!(look(&again, 0), 45 * MB / 2 + 6 * MB - go_on_bytes, "so much is left free");
        disk.set_space_bytes(Some(3 * MB));
        disk.remove(&Path::new(DIR).join(FILE_NAME)).unwrap();
        assert_eq!(look(&reserve(&disk), 50 * MB), MB, "the least that a start needs, whatever there was");
    }

    #[test]
    fn it_does_not_keep_publishers_waiting_where_more_than_the_threshold_is_free() {
        let disk = disk(140 * MB);
        let reserve = reserve(&disk);
        assert_eq!(look(&reserve, 50 * MB), 45 * MB / 2);
        reserve.give_part();
        for (space_mb, held_mb) in [(40, 20), (60, 22), (62, 6), (61, 22), (62, 6)] {
            disk.set_space_bytes(Some(space_mb * MB));
            assert_eq!(look(&reserve, 50 * MB) / MB, held_mb, "{space_mb}");
        }
        reserve.full_no_more();
        for (space_mb, held_mb) in [(140, 22), (72, 11), (70, 11), (60, 11), (40, 11)] {
            disk.set_space_bytes(Some(space_mb * MB));
            assert_eq!(look(&reserve, 50 * MB) / MB, held_mb, "{space_mb}");
        }
    }

    #[test]
    fn once_full_it_leaves_what_publishers_wait_for_however_little_others_leave_beside_it() {
        let disk = disk(156 * MB);
        let reserve = reserve(&disk);
        assert_eq!(look(&reserve, 0), 39 * MB);
        reserve.give_part();
        disk.set_space_bytes(Some(100 * MB));
        assert_eq!(look(&reserve, 0), 39 * MB);
        disk.set_space_bytes(Some(42 * MB));
        for _ in 2..CALM_LOOKS {
            assert_eq!(look(&reserve, 0), 39 * MB, "it is full just now");
        }
        for (space_mb, held_mb, goes_on) in [(42, 21, true), (24, 21, false), (31, 21, false)] {
            disk.set_space_bytes(Some(space_mb * MB));
            assert_eq!(look(&reserve, 0), held_mb * MB, "{space_mb}");
            let free = disk.free_bytes(Path::new(DIR)).unwrap();
            assert_eq!(free >= reserve.free_bytes_min(), goes_on, "{space_mb}");
        }
    }

    #[test]
    fn it_is_there_while_the_disk_is_short_and_bounds_what_waits() {
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
            assert_eq!(look(&reserve, 0), held_mb * MB, "{space_mb}");
            assert_eq!(reserve.waiting_bytes_max(), waiting_bytes, "{space_mb}");
        }
    }

    #[test]
    fn of_a_small_disk_it_takes_a_larger_part() {
        for (space_mb, held_mb) in [(4, 1), (8, 2), (10, 4), (14, 8), (20, 8), (32, 8), (40, 10)] {
            assert_eq!(look(&reserve(&disk(space_mb * MB)), 0), held_mb * MB, "{space_mb}");
        }
    }

    #[test]
    fn it_takes_nothing_that_the_alarm_is_to_guard() {
        let disk = disk(60 * MB);
        let reserve = reserve(&disk);
        assert_eq!((look(&reserve, 50 * MB), look(&reserve, 50 * MB)), (4 * MB, 4 * MB));
        disk.set_space_bytes(Some(50 * MB));
        assert_eq!((look(&reserve, 50 * MB), reserve.waiting_bytes_max()), (4 * MB, MB));
    }

    #[test]
    fn it_is_given_up_in_parts_and_comes_back_with_the_room() {
        let disk = disk(100 * MB);
        let reserve = reserve(&disk);
        assert_eq!(look(&reserve, 0), 25 * MB);
        disk.set_space_bytes(Some(25 * MB));
        let given: Vec<u64> = (0..5).map(|_| reserve.give_part()).collect();
        assert_eq!(
            given,
            [25 * MB / 4, 25 * MB / 4, 25 * MB / 4, 25 * MB / 4 - MB, 0],
            "the last is for a start"
        );
        assert_eq!((reserve.waiting_bytes_max(), reserve.held_bytes()), (25 * MB / 4, MB));
        assert_eq!(reserve.free_bytes_min(), 25 * MB / 2);
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), 24 * MB);
        assert!(!reserve.follow(24 * MB, 0, || true), "a log waits");
        disk.set_space_bytes(Some(8 * MB));
        assert_eq!((look(&reserve, 0), reserve.is_back()), (4 * MB, false));
        disk.set_space_bytes(Some(40 * MB));
        assert_eq!((look(&reserve, 0), reserve.is_back()), (25 * MB, true));
        reserve.full_no_more();
        assert_eq!((look(&reserve, 0), reserve.free_bytes_min()), (25 * MB, 0));
        assert_eq!(
            (reserve.give_part(), reserve.free_bytes_min()),
            (25 * MB / 4, 25 * MB / 2),
            "as at first"
        );
    }

    #[test]
    fn no_part_is_smaller_than_a_write_may_be() {
        let disk = disk(6 * MB);
        let reserve = reserve(&disk);
        assert_eq!(look(&reserve, 0), 6 * MB / 4);
        assert_eq!([(); 2].map(|()| reserve.give_part()), [MB / 2, 0]);
    }

    #[test]
    fn the_next_life_has_it_unless_it_needs_the_room_to_start() {
        let disk = disk(100 * MB);
        assert_eq!(look(&reserve(&disk), 0), 25 * MB);
        let next = reserve(&disk);
        let start_bytes = RoomSizes::default().start_bytes;
        assert!(!next.give_way_to_start(start_bytes));
        assert_eq!(next.held_bytes(), 25 * MB);
        assert!(next.give_way_to_start(start_bytes - 1));
        assert_eq!(next.held_bytes(), HEAD_BYTES);
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), 100 * MB - HEAD_BYTES);
        assert!(!reserve(&SimDisk::new()).give_way_to_start(0), "there is none");
    }

    #[test]
    fn a_life_that_begins_on_a_full_disk_waits_for_as_much_room_as_the_one_before() {
        let disk = disk(100 * MB);
        let first = reserve(&disk);
        look(&first, 0);
        disk.set_space_bytes(Some(25 * MB));
        (0..4).for_each(|_| assert!(first.give_part() > 0));
        disk.set_space_bytes(Some(2 * MB));
        for _ in 0..2 {
            let next = reserve(&disk);
            assert!(next.give_way_to_start(MB));
            assert_eq!(look(&next, 0), MB, "half of what is there");
            assert_eq!(next.free_bytes_min(), 25 * MB / 2, "it does not become less from life to life");
        }
        disk.set_space_bytes(Some(100 * MB));
        let next = reserve(&disk);
        assert!(next.give_way_to_start(0));
        assert_eq!(look(&next, 0), 25 * MB);
    }

    #[test]
    fn publishers_wait_for_nearly_all_of_it_but_not_for_ever() {
        let disk = disk(100 * MB);
        let reserve = reserve(&disk);
        assert_eq!((look(&reserve, 0), reserve.is_back()), (25 * MB, true));
        disk.set_space_bytes(Some(30 * MB));
        assert!(reserve.give_part() > 0);
        assert_eq!(look(&reserve, 0), 25 * MB / 4 * 3, "half of it, 12.5 MB, is to be free");
        let looks_until_back = || {
            let looks = (1..100).take_while(|_| {
                look(&reserve, 0);
                !reserve.is_back()
            });
            looks.count()
        };
        assert_eq!(looks_until_back(), usize::from(WAITED_LOOKS) - 1, "no more room comes");
        disk.set_space_bytes(Some(32 * MB));
        assert_eq!(looks_until_back(), usize::from(WAITED_LOOKS), "some came meanwhile");
    }

    #[test]
    fn a_power_cut_leaves_it_there() {
        for seed in 0..20 {
            let disk = disk(100 * MB);
            let first = reserve(&disk);
            assert_eq!(look(&first, 0), 25 * MB);
            disk.crash(seed);
            let next = reserve(&disk);
            assert_eq!(next.held_bytes(), 25 * MB);
            assert_eq!(next.held.lock().whole_bytes, 25 * MB);
        }
    }

    #[test]
    fn after_a_start_that_came_to_nothing_the_next_one_knows_of_it() {
        let disk = disk(100 * MB);
        look(&reserve(&disk), 0);
        disk.set_space_bytes(Some(30 * MB));
        assert!(reserve(&disk).give_way_to_start(5 * MB));
        disk.kill();
        let next = reserve(&disk);
        assert!(next.give_way_to_start(5 * MB), "the disk is full as it was");
        look(&next, 0);
        assert_eq!(next.free_bytes_min(), 25 * MB / 2);
    }

    #[test]
    fn room_that_others_have_taken_meanwhile_is_let_go() {
        let disk = disk(10 * MB);
        let reserve = reserve(&disk);
        assert!(!reserve.follow(100 * MB, 0, || false), "there is no such room");
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), 10 * MB);
        assert!(reserve.follow(4 * MB, 0, || false));
        assert!(!reserve.follow(90 * MB, 0, || false));
        assert_eq!((reserve.held_bytes(), disk.free_bytes(Path::new(DIR)).unwrap()), (MB, 9 * MB));
    }
}
