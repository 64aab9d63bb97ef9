//! The data directory belongs to one process at a time. Knows nothing of what lies in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, DiskFile};

use crate::IoFailure;
use crate::bytes::index_of;

/// The file that is locked; it holds the owner's process id as decimal digits and a line feed.
const LOCK_FILE: &str = "warren.lock";
/// More than any process id has digits.
const PID_BYTES_MAX: u64 = 32;

/// Why the directory could not be locked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process has it.
    #[error("{} is in use by {}", dir.display(), pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    AlreadyRunning {
        /// The directory.
        dir: PathBuf,
        /// The process that has it, if the lock file says so.
        pid: Option<u32>,
    },
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(#[from] IoFailure),
}

/// The data directory of a node.
pub struct DataDir;

/// The exclusive right to the data directory; ends when dropped, and with the process however it ends.
pub struct DataDirLock {
    _locked: Arc<dyn DiskFile>,
}

impl DataDir {
    /// Creates the directory if needed and takes the exclusive right to it; `pid` is written into the lock file for a process
    /// that comes second, if there is room for it.
    ///
    /// # Errors
    /// [`DataDirError::AlreadyRunning`] when another process, or another part of this one, has it.
    pub fn lock(disk: &dyn Disk, dir: &Path, pid: u32) -> Result<DataDirLock, DataDirError> {
        disk.create_dir_all(dir).map_err(IoFailure::of("create", dir))?;
        let path = dir.join(LOCK_FILE);
        let Some(locked) = disk.try_lock(&path).map_err(IoFailure::of("lock", &path))? else {
            return Err(DataDirError::AlreadyRunning { dir: dir.to_owned(), pid: owner(disk, &path) });
        };
        locked.truncate(0).map_err(IoFailure::of("truncate", &path))?;
        // As long for every process: a node's behaviour where room is short must not depend on its number.
        let line = format!("{pid:<10}\n");
        let written = locked.write_all_at(0, &[line.as_bytes()]).map_err(IoFailure::of("write", &path));
        // On a full disk the start is what makes room.
        written.or_else(|failure| if failure.is_out_of_room() { Ok(()) } else { Err(failure) })?;
        Ok(DataDirLock { _locked: locked })
    }
}

/// The process id of the lock file; `None` when its content is no process id (its owner may be about to write it).
fn owner(disk: &dyn Disk, path: &Path) -> Option<u32> {
    let file = disk.open(path, platform::OpenMode::Read).ok()?;
    let mut bytes = vec![0; index_of(file.len().ok()?.min(PID_BYTES_MAX))];
    file.read_exact_at(0, &mut bytes).ok()?;
    std::str::from_utf8(&bytes).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use platform::{RealDisk, SimDisk};

    use super::*;

    fn second_is_refused_until_first_is_gone(disk: &dyn Disk, dir: &Path) {
        let first = DataDir::lock(disk, dir, 4711).unwrap();
        let refused = DataDir::lock(disk, dir, 4712).err().unwrap();
        assert!(matches!(refused, DataDirError::AlreadyRunning { pid: Some(4711), .. }));
        assert!(refused.to_string().ends_with("is in use by process 4711"), "{refused}");
        drop(first);
        DataDir::lock(disk, dir, 1).unwrap();
    }

    #[test]
    fn a_second_owner_is_told_who_the_first_is() {
        second_is_refused_until_first_is_gone(&SimDisk::new(), Path::new("/data"));
        let dir = tempfile::tempdir().unwrap();
        second_is_refused_until_first_is_gone(&RealDisk, &dir.path().join("data"));
    }

    #[test]
    fn a_full_disk_does_not_keep_anybody_from_it() {
        let disk = SimDisk::new();
        disk.set_space_bytes(Some(0));
        let _first = DataDir::lock(&disk, Path::new("/data"), 4711).unwrap();
        let refused = DataDir::lock(&disk, Path::new("/data"), 4712).err().unwrap();
        assert!(matches!(refused, DataDirError::AlreadyRunning { pid: None, .. }));
    }

    #[test]
    fn the_lock_of_a_killed_process_is_free() {
        let disk = SimDisk::new();
        let _killed = DataDir::lock(&disk, Path::new("/data"), 1).unwrap();
        disk.kill();
        DataDir::lock(&disk, Path::new("/data"), 2).unwrap();
    }
}
