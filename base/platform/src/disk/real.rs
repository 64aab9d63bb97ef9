//! The operating system's files. Knows nothing of formats.
//!
//! No log is written into what `fallocate` took: on ext4 an `fdatasync` into allocated but never written blocks costs the same as one that
//! extends the file (the extent has to be marked written); only blocks that were written before are cheaper. The figures are
//! in `docs/formats/log.md`.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::system::Sysinfo;

use super::{Disk, DiskFile, OpenMode};

/// Fewer bytes stay in the system's cache in any case: a call for each would cost more than it brings.
const PASS_BYTES_MIN: u64 = 64 << 10;

/// So many bytes before those that were read are dropped with them: the system's cache has pieces of several pages, which go as a whole only, and
/// the last one of the read before was not read to its end then.
const PASSED_BYTES: u64 = 256 << 10;

/// Of the machine's memory as large a part is left unused by what is read in its turn. Dropping it costs processor time (`docs/storage.md`
/// says how much), which is for nothing as long as nobody else needs that memory.
const UNUSED_PART: u64 = 16;

/// Written where the file system cannot take room without writing.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// A file of the real file system.
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn read_now_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let into = &mut [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.file, into, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(0),
            read => Ok(read?),
        }
    }

    fn pass_cached(&self, part: Range<u64>) {
        if part.end - part.start >= PASS_BYTES_MIN && is_short(&rustix::system::sysinfo()) {
            self.drop_cached(part);
        }
    }

    fn write_all_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut at = offset;
        for part in parts {
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(len),
            allocated => Ok(allocated?),
        }
    }
}

/// Whether the system has so little memory that nobody uses that it will soon take some from its cache.
fn is_short(system: &Sysinfo) -> bool {
    system.freeram < system.totalram / UNUSED_PART
}

impl RealFile {
    /// Drops what the system has in its cache of a part of the file. A file system that cannot has done nothing wrong.
    fn drop_cached(&self, part: Range<u64>) {
        let first = part.start.saturating_sub(PASSED_BYTES);
        let _ = rustix::fs::fadvise(&self.file, first, NonZeroU64::new(part.end - first), Advice::DontNeed);
    }

    /// Extends to `len` bytes by writing.
    fn write_zeros(&self, len: u64) -> io::Result<()> {
        let mut at = self.len()?;
        while at < len {
            let part = (len - at).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..part as usize], at)?;
            at += part;
        }
        Ok(())
    }
}

/// The options that belong to a mode.
fn options_of(mode: OpenMode) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    match mode {
        OpenMode::Read => {}
        OpenMode::ReadWrite => {
            options.write(true);
        }
        OpenMode::CreateNew => {
            options.write(true).create_new(true);
        }
        OpenMode::CreateEmpty => {
            options.write(true).create(true).truncate(true);
        }
    }
    options
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile { file: options_of(mode).open(path)? }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
        std::fs::create_dir_all(dir)?;
        for created in missing {
            match created.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent)?,
                _ => self.sync_dir(Path::new("."))?,
            }
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Arc::new(RealFile { file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_in_parts_are_read_back_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_all_at(2, &[b"ab", b"", b"cde"]).unwrap();
        file.sync_data().unwrap();
        let mut bytes = [9; 7];
        file.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0abcde");
        assert_eq!(file.read_exact_at(1, &mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        file.truncate(3).unwrap();
        assert_eq!(file.len().unwrap(), 3);
        assert!(RealDisk.open(&path, OpenMode::CreateNew).is_err());
        assert!(RealDisk.open(&path, OpenMode::CreateEmpty).unwrap().is_empty().unwrap());
    }

    /// Whether the page of the file with this offset is not in the system's cache after that. Looking brings it there, on a fast disk before
    /// the answer, and a busy system keeps it for a moment: so it is tried again.
    fn is_gone_after(file: &RealFile, offset: u64, drop_it: impl Fn()) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            drop_it();
            let mut byte = [0];
            let into = &mut [IoSliceMut::new(&mut byte)];
            rustix::io::preadv2(&file.file, into, offset, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN)
        })
    }

    #[test]
    fn what_is_read_in_its_turn_does_not_stay_in_the_cache() {
        const BYTES: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let file = RealFile { file: File::create_new(dir.path().join("a")).unwrap() };
        let written: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
        file.write_all_at(0, &[&written]).unwrap();
        file.sync_data().unwrap();
        let mut read = vec![0; written.len()];
        // Some file systems have their files nowhere else.
        let can_drop = is_gone_after(&file, BYTES / 2, || {
            let _ = rustix::fs::fadvise(&file.file, 0, None, Advice::DontNeed);
        });
        file.read_exact_at(0, &mut read).unwrap();
        let is_dropped = is_gone_after(&file, BYTES / 2, || file.drop_cached(10..BYTES));
        assert!(is_dropped || !can_drop);
        file.pass_cached(0..BYTES);
        file.read_exact_at(0, &mut read).unwrap();
        assert!(read == written);
    }

    #[test]
    fn memory_is_short_when_less_than_a_sixteenth_is_left() {
        let mut system = rustix::system::sysinfo();
        (system.totalram, system.freeram) = (16_000, 1_000);
        assert!(!is_short(&system));
        system.freeram = 999;
        assert!(is_short(&system));
    }

    #[test]
    fn room_that_is_taken_is_there_for_nobody_else() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let written = RealFile { file: File::create_new(dir.path().join("written")).unwrap() };
        let taken = RealFile { file: File::create_new(dir.path().join("taken")).unwrap() };
        written.write_zeros(200_000).unwrap();
        taken.allocate(200_000).unwrap();
        for file in [&written, &taken] {
            let found = file.file.metadata().unwrap();
            assert_eq!(found.len(), 200_000);
            file.sync_data().unwrap();
            assert!(file.file.metadata().unwrap().blocks() * 512 >= 200_000);
        }
    }

    #[test]
    fn names_are_listed_sorted_and_without_directories() {
        let dir = tempfile::tempdir().unwrap();
        RealDisk.create_dir_all(&dir.path().join("x/y/z")).unwrap();
        for name in ["b", "a"] {
            RealDisk.open(&dir.path().join(name), OpenMode::CreateNew).unwrap();
        }
        assert_eq!(RealDisk.list(dir.path()).unwrap(), ["a", "b"]);
        RealDisk.rename(&dir.path().join("a"), &dir.path().join("c")).unwrap();
        RealDisk.remove(&dir.path().join("b")).unwrap();
        RealDisk.sync_dir(dir.path()).unwrap();
        assert_eq!(RealDisk.list(dir.path()).unwrap(), ["c"]);
        assert!(RealDisk.free_bytes(dir.path()).unwrap() > 0);
    }

    #[test]
    fn a_lock_is_exclusive_until_its_handle_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = RealDisk.try_lock(&path).unwrap();
        assert!(held.is_some());
        assert!(RealDisk.try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(RealDisk.try_lock(&path).unwrap().is_some());
    }
}
