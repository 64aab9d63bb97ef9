//! Files and directories as storage code needs them. Knows nothing of formats, retries or policies.
//!
//! Two implementations: [`real::RealDisk`] and [`sim::SimDisk`]. The damage that a crash may do to a file is part of the contract here:
//! written bytes are sure to be there again only after [`DiskFile::sync_data`], names (created, renamed, removed) only after
//! [`Disk::sync_dir`] of their directory.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub mod real;
pub mod sim;

/// How [`Disk::open`] treats a file that is there or is missing. Every mode can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; reading only.
    Read,
    /// Must exist; reading and writing.
    ReadWrite,
    /// Must not exist; created empty.
    CreateNew,
    /// Created when missing, emptied when there.
    CreateEmpty,
}

/// The system cache's treatment of bytes that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// It may be read again soon: all of it.
    Keep,
    /// It is read in its turn, as a backlog is, and not again soon: nothing once memory that nobody uses is short, so that a
    /// long backlog puts nothing else out of the cache. A hint. It writes bytes that are not on the disk yet: use it only for bytes that
    /// are.
    Pass,
}

/// One open file. Reads and writes name their offset; there is no cursor, so a handle may be shared between threads.
pub trait DiskFile: Send + Sync {
    /// Fills `buffer` from `offset` (bytes from the file's start).
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before the buffer is full, else what the operating system reports.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Fills the start of `buffer` with what can be read from `offset` without waiting for the disk, and returns how many bytes that is: 0 when
    /// there are none, or when the system cannot say.
    ///
    /// # Errors
    /// The operating system's error.
    fn read_now_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    /// Of these bytes, which were read just now, the cache need not keep what [`Caching::Pass`] says. Does nothing where the system cannot.
    fn pass_cached(&self, _: Range<u64>) {}

    /// Writes all `parts` one after the other from `offset`, extending the file as needed. Not durable before
    /// [`Self::sync_data`]. After an error an unknown prefix has been written.
    ///
    /// # Errors
    /// The error that the operating system reports, e.g. `StorageFull`.
    fn write_all_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()>;

    /// Makes all written bytes, and the length needed to read them, durable (`fdatasync`).
    ///
    /// # Errors
    /// The error that the operating system reports. After an error the state of every byte written since the last success is unknown,
    /// and a second call may report success without having written them: the caller must give the file up.
    fn sync_data(&self) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// The error that the operating system reports.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`Self::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends (with zeros) to `len` bytes. Durable after [`Self::sync_data`].
    ///
    /// # Errors
    /// The error that the operating system reports.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Extends to `len` bytes for which room is taken from the file system at once, whatever they read as. Durable after
    /// [`Self::sync_data`].
    ///
    /// # Errors
    /// The error that the operating system reports, e.g. `StorageFull`; the file may be longer then.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Opens or creates a file. A new name is durable after [`Self::sync_dir`] of its directory.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` as `mode` says, else what the operating system reports.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, replacing what bore it, in one step. Durable after [`Self::sync_dir`].
    ///
    /// # Errors
    /// `NotFound`, else what the operating system reports.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name. Durable after [`Self::sync_dir`]; without it the name may be back after a crash.
    ///
    /// # Errors
    /// `NotFound`, else what the operating system reports.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names of the files (not the directories) in `dir`, sorted. Names that are not UTF-8 are left out: nothing here
    /// creates such.
    ///
    /// # Errors
    /// `NotFound`, else what the operating system reports.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates `dir` and its missing parents, durably.
    ///
    /// # Errors
    /// The error that the operating system reports.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in `dir` durable.
    ///
    /// # Errors
    /// The error that the operating system reports; the same warning as for [`DiskFile::sync_data`].
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that an unprivileged process may still write on the file system that holds `path`.
    ///
    /// # Errors
    /// The error that the operating system reports.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Creates the file if needed and takes an exclusive lock that ends when the handle is dropped or the process dies, however
    /// it dies. `None` when another handle, of this or another process, has it.
    ///
    /// # Errors
    /// The error that the operating system reports.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>>;
}
