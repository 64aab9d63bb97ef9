//! Manifest of a log: the files that it must hold, written down beside its directory, so that missing files are noticed: `log.manifest` for
//! `log/`. Knows nothing of records. The same drawing is in `docs/formats/log.md`.
//!
//! ```text
//! two slots, at bytes 0 and 4096; both say the same, the one with the higher sequence number counts
//!  0       8         12      16         24       32       40     48
//!  +-------+---------+-------+----------+--------+--------+------+
//!  | magic | version | crc   | sequence | oldest | newest | end  |
//!  +-------+---------+-------+----------+--------+--------+------+
//!  magic "WARRNMAN"; version 1; crc: CRC-32 of bytes 0..12, then 16..48; oldest, newest: first positions of the
//!  oldest and the newest file; end: all up to here was synced
//! ```
//!
//! Each start makes a new file. Then it is written where it lies, one slot after the other with a sync between: that needs no
//! room on the disk, and one slot is whole at every moment. It may say less than there is (an older file than it names is back after a power cut, a newer one
//! was begun just before one), never more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, DiskFile, OpenMode};

use super::LogError;
use crate::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::{IoFailure, Position};

/// Bytes of a slot that are used.
const SLOT_BYTES: usize = 48;
/// Where the slots begin: in blocks of their own on every file system.
const SLOT_OFFSETS: [u64; 2] = [0, 4096];
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"WARRNMAN";

/// The positions that a log must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// No file may be missing that begins here or later.
    pub oldest: Position,
    /// There is a file that begins here or later.
    pub newest: Position,
    /// Everything up to here was synced.
    pub end: Position,
}

/// The manifest's path, beside the log's directory.
pub(super) fn path_of(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".manifest");
    dir.with_file_name(name)
}

/// The manifest of an open log.
pub(super) struct Manifest {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    sequence: u64,
    held: Held,
    /// The slot to be written first: the other one is whole, and synced.
    first: usize,
    /// A sync has failed: the file has the old or the new content after a power cut, and nothing more is written to it.
    failure: Option<IoFailure>,
}

impl Manifest {
    /// Makes the manifest of the log in `dir`, in place of the one that was there; it is durable and says `held` when this
    /// returns. A new file, because a sync of the old one may have failed.
    pub(super) fn create(disk: &dyn Disk, dir: &Path, held: Held) -> Result<Self, IoFailure> {
        let path = path_of(dir);
        let unfinished = path.with_extension("manifest.tmp");
        let file =
            disk.open(&unfinished, OpenMode::CreateEmpty).map_err(IoFailure::of("create", &unfinished))?;
        let mut manifest = Self { file, path: unfinished, sequence: 0, held, first: 0, failure: None };
        manifest.update(|_| ())?;
        disk.rename(&manifest.path, &path).map_err(IoFailure::of("rename", &manifest.path))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        disk.sync_dir(parent).map_err(IoFailure::of("sync", parent))?;
        Ok(Self { path, ..manifest })
    }

    /// Changes what it says; durable when this returns. After a failure it says the old or the new.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut Held)) -> Result<(), IoFailure> {
        self.failure.clone().map_or(Ok(()), Err)?;
        let mut held = self.held;
        change(&mut held);
        self.sequence += 1;
        let slot = encode(self.sequence, held);
        for nth in [self.first, 1 - self.first] {
            // Part of it may be there when this fails: it is written again before the other one is touched.
            self.first = nth;
            let written = self.file.write_all_at(SLOT_OFFSETS[nth], &[&slot]);
            written.map_err(IoFailure::of("write", &self.path))?;
            let synced = self.file.sync_data().map_err(IoFailure::of("sync", &self.path));
            if let Err(failure) = synced {
                self.failure = Some(failure.clone());
                return Err(failure);
            }
        }
        self.held = held;
        Ok(())
    }
}

/// The positions that the log in `dir` must hold; `None` when they were never written down.
///
/// # Errors
/// [`LogError::Manifest`] when the file is there and cannot be used, [`LogError::Io`].
pub fn read_manifest(disk: &dyn Disk, dir: &Path) -> Result<Option<Held>, LogError> {
    let path = path_of(dir);
    let file = match disk.open(&path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(IoFailure::of("open", &path))?,
    };
    let slots = SLOT_OFFSETS.into_iter().filter_map(|offset| {
        let mut slot = [0; SLOT_BYTES];
        file.read_exact_at(offset, &mut slot).ok()?;
        decode(&slot)
    });
    let newest = slots.max_by_key(|(sequence, _)| *sequence);
    newest.map_or(Err(LogError::Manifest { file: path }), |(_, held)| Ok(Some(held)))
}

fn encode(sequence: u64, held: Held) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    put_u32(&mut slot, 8, VERSION);
    put_u64(&mut slot, 16, sequence);
    put_u64(&mut slot, 24, held.oldest.0);
    put_u64(&mut slot, 32, held.newest.0);
    put_u64(&mut slot, 40, held.end.0);
    let crc = checksum(&slot);
    put_u32(&mut slot, 12, crc);
    slot
}

fn decode(slot: &[u8; SLOT_BYTES]) -> Option<(u64, Held)> {
    let is_whole = &slot[..8] == MAGIC && u32_at(slot, 8) == VERSION && u32_at(slot, 12) == checksum(slot);
    let position = |at| Position(u64_at(slot, at));
    is_whole
        .then(|| (u64_at(slot, 16), Held { oldest: position(24), newest: position(32), end: position(40) }))
}

fn checksum(slot: &[u8; SLOT_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&slot[..12]);
    hasher.update(&slot[16..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use platform::SimDisk;

    use super::*;

    const DIR: &str = "/data/log";

    fn held(oldest: u64, newest: u64, end: u64) -> Held {
        Held { oldest: Position(oldest), newest: Position(newest), end: Position(end) }
    }

    fn create(disk: &SimDisk, held: Held) -> Manifest {
        disk.create_dir_all(Path::new(DIR)).unwrap();
        Manifest::create(disk, Path::new(DIR), held).unwrap()
    }

    fn flip(disk: &SimDisk, at: u64) {
        let file = disk.open(&path_of(Path::new(DIR)), OpenMode::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_exact_at(at, &mut byte).unwrap();
        file.write_all_at(at, &[&[byte[0] ^ 1]]).unwrap();
    }

    #[test]
    fn it_says_after_a_restart_what_was_said_last() {
        let disk = SimDisk::new();
        assert_eq!(read_manifest(&disk, Path::new(DIR)).unwrap(), None);
        let mut manifest = create(&disk, held(0, 0, 0));
        manifest.update(|held| held.newest = Position(70)).unwrap();
        assert_eq!(read_manifest(&disk, Path::new(DIR)).unwrap(), Some(held(0, 70, 0)));
        drop(create(&disk, held(5, 80, 90)));
        assert_eq!(read_manifest(&disk, Path::new(DIR)).unwrap(), Some(held(5, 80, 90)));
    }

    /// A file of which one write fails in the middle.
    struct Failing {
        file: Arc<dyn DiskFile>,
        writes_left: AtomicU64,
    }

    impl DiskFile for Failing {
        fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.file.read_exact_at(offset, buffer)
        }

        fn write_all_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
            let bytes = parts.concat();
            if self.writes_left.fetch_sub(1, Ordering::Relaxed) > 1 {
                return self.file.write_all_at(offset, parts);
            }
            self.writes_left.store(u64::MAX, Ordering::Relaxed);
            self.file.write_all_at(offset, &[&bytes[..bytes.len() / 2]])?;
            Err(io::Error::other("a write that fails"))
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn truncate(&self, len: u64) -> io::Result<()> {
            self.file.truncate(len)
        }

        fn allocate(&self, len: u64) -> io::Result<()> {
            self.file.allocate(len)
        }
    }

    #[test]
    fn one_slot_is_whole_after_a_write_a_sync_and_the_power_have_failed() {
        for (nth_write, nth_sync, seed) in
            (1..3).flat_map(|write| (1..4).flat_map(move |sync| (0..40).map(move |seed| (write, sync, seed))))
        {
            let disk = SimDisk::new();
            let mut manifest = create(&disk, held(0, 0, 0));
            let file = manifest.file.clone();
            manifest.file = Arc::new(Failing { file, writes_left: AtomicU64::new(nth_write) });
            manifest.update(|held| held.newest = Position(70)).unwrap_err();
            disk.fail_nth_sync(nth_sync);
            let (first, second) = (
                manifest.update(|held| held.newest = Position(80)),
                manifest.update(|held| held.newest = Position(90)),
            );
            assert!(first.is_err() || second.is_err());
            drop(manifest);
            disk.crash(seed);
            let found = read_manifest(&disk, Path::new(DIR)).map(|held| held.map(|held| held.newest.0));
            assert!(matches!(found, Ok(Some(0 | 70 | 80 | 90))), "{nth_write} {nth_sync} {seed}: {found:?}");
            assert!(
                first.is_err() || matches!(found, Ok(Some(80 | 90))),
                "{nth_write} {nth_sync} {seed}: {found:?}"
            );
        }
    }

    #[test]
    fn one_flipped_bit_does_no_harm_and_two_are_told() {
        let disk = SimDisk::new();
        drop(create(&disk, held(1, 2, 3)));
        for at in [0, 9, 13, 17, 30, 47, 4096, 4096 + 40] {
            flip(&disk, at);
            assert_eq!(read_manifest(&disk, Path::new(DIR)).unwrap(), Some(held(1, 2, 3)), "byte {at}");
            flip(&disk, at);
        }
        flip(&disk, 20);
        flip(&disk, 4096 + 20);
        let refused = read_manifest(&disk, Path::new(DIR)).unwrap_err();
        assert!(matches!(refused, LogError::Manifest { .. }), "{refused}");
    }
}
