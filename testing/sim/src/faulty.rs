//! The simulated disk behind one that is slow and that fails calls of any kind: writes, reads, openings, renames. The disk behind decides
//! which bytes are lost with the power. Knows nothing of callers.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use platform::{Disk, DiskFile, OpenMode};
use platform::{SimClock, SimDisk};

/// Kinds of calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Write,
    Read,
    /// Opening, creating, renaming, removing, listing.
    Name,
}

impl Call {
    /// All of them.
    pub(crate) const ALL: [Call; 3] = [Call::Write, Call::Read, Call::Name];
}

/// The faults of a disk. Shared by the test that breaks it and all that use it.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Calls until one fails, by kind; 0: none will.
    until_failure: [AtomicU64; 3],
    /// How long each write and sync takes, microseconds.
    slow_us: AtomicU64,
    /// Calls of any kind until the process is as good as gone; 0: it is not going.
    until_end: AtomicU64,
    /// Nothing reaches the disk any more.
    is_over: AtomicBool,
}

impl Faults {
    /// The `nth` call of a kind from now fails (1: the next).
    pub(crate) fn fail_nth(&self, call: Call, nth: u64) {
        self.until_failure[call as usize].store(nth, Ordering::Relaxed);
    }

    /// Each write and sync takes so long from now on.
    pub(crate) fn slow_down(&self, slow_us: u64) {
        self.slow_us.store(slow_us, Ordering::Relaxed);
    }

    /// From the `nth` call from now on, of any kind, none reaches the disk: the process ends there, whatever it still tries.
    pub(crate) fn end_at(&self, nth: u64) {
        self.until_end.store(nth, Ordering::Relaxed);
    }

    /// Nothing is wrong any more.
    pub(crate) fn heal(&self) {
        self.end_at(0);
        self.is_over.store(false, Ordering::Relaxed);
        self.until_failure.iter().for_each(|until| until.store(0, Ordering::Relaxed));
        self.slow_down(0);
    }

    /// Any call.
    fn go_on(&self) -> io::Result<()> {
        let left = self.until_end.load(Ordering::Relaxed);
        if left > 0 {
            self.end_at(left - 1);
            self.is_over.fetch_or(left == 1, Ordering::Relaxed);
        }
        if self.is_over.load(Ordering::Relaxed) {
            return Err(io::Error::other("the simulated process has ended"));
        }
        Ok(())
    }

    fn pass(&self, call: Call) -> io::Result<()> {
        self.go_on()?;
        match self.until_failure[call as usize].load(Ordering::Relaxed) {
            0 => Ok(()),
            left => {
                self.until_failure[call as usize].store(left - 1, Ordering::Relaxed);
                if left == 1 { Err(io::Error::other(format!("simulated failure: {call:?}"))) } else { Ok(()) }
            }
        }
    }
}

/// The disk.
#[derive(Clone)]
pub(crate) struct FaultyDisk {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) faults: Arc<Faults>,
}

impl FaultyDisk {
    fn take_time(&self) {
        let slow_us = self.faults.slow_us.load(Ordering::Relaxed);
        if slow_us > 0 {
            self.clock.advance(Duration::from_micros(slow_us));
        }
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile { disk: self.clone(), file })
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.faults.pass(Call::Name)?;
        Ok(self.file(self.disk.open(path, mode)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.pass(Call::Name)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.pass(Call::Name)?;
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.faults.pass(Call::Name)?;
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.faults.go_on()?;
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.faults.go_on()?;
        self.take_time();
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.faults.go_on()?;
        Ok(self.disk.try_lock(path)?.map(|file| self.file(file)))
    }
}

/// An open file of it.
struct FaultyFile {
    disk: FaultyDisk,
    file: Arc<dyn DiskFile>,
}

impl DiskFile for FaultyFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.faults.pass(Call::Read)?;
        self.file.read_exact_at(offset, buffer)
    }

    fn pass_cached(&self, part: Range<u64>) {
        self.file.pass_cached(part);
    }

    fn write_all_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.disk.take_time();
        if let Err(error) = self.disk.faults.pass(Call::Write) {
            // Half of it may be there.
            let bytes = parts.concat();
            self.file.write_all_at(offset, &[&bytes[..bytes.len() / 2]])?;
            return Err(error);
        }
        self.file.write_all_at(offset, parts)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.faults.go_on()?;
        self.disk.take_time();
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.faults.pass(Call::Write)?;
        self.file.truncate(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.faults.pass(Call::Write)?;
        self.file.allocate(len)
    }
}
