//! The membership of a node, in a file of its data directory: its cluster, its number, the other nodes. Once it is written the node
//! never forms or joins anything else before it is reset.

use std::path::{Path, PathBuf};

use bytes::{BufMut, BytesMut};
use commitlog::{Position, read_latest_snapshot, write_snapshot};
use platform::Disk;

use super::frames::{Fields, Welcome};
use crate::open_errors::StartError;

/// The folder below the data directory.
pub(crate) fn dir_in(data_dir: &Path) -> PathBuf {
    data_dir.join("cluster")
}

/// The folder of the group's log.
pub(crate) fn log_dir_in(data_dir: &Path) -> PathBuf {
    dir_in(data_dir).join("log")
}

const NAME: &str = "member";
const VERSION: u16 = 1;

/// Reads the membership; `None` for a node that is no member of anything.
///
/// # Errors
/// It cannot be read, or a newer version wrote it.
pub(crate) fn read(disk: &dyn Disk, data_dir: &Path) -> Result<Option<Welcome>, StartError> {
    let dir = dir_in(data_dir);
    if !disk.list(&dir).is_ok_and(|names| names.iter().any(|name| name.starts_with(NAME))) {
        return Ok(None);
    }
    let snapshot = read_latest_snapshot(disk, &dir, NAME).map_err(StartError::storage)?;
    let Some(snapshot) = snapshot else { return Ok(None) };
    let mut from = Fields(snapshot.bytes.into());
    let welcome = (from.u16() == Some(VERSION)).then(|| Welcome::decode(from.0)).flatten();
    let unreadable = || StartError::Storage(format!("the membership in {} cannot be read", dir.display()));
    welcome.map(Some).ok_or_else(unreadable)
}

/// Writes the membership, durably.
///
/// # Errors
/// The disk refuses.
pub(crate) fn write(disk: &dyn Disk, data_dir: &Path, welcome: &Welcome) -> Result<(), StartError> {
    let mut bytes = BytesMut::new();
    bytes.put_u16(VERSION);
    bytes.extend_from_slice(&welcome.encode());
    write_snapshot(disk, &dir_in(data_dir), NAME, Position(1), &bytes).map(drop).map_err(StartError::storage)
}

/// Removes a log, and what says which files it must have.
///
/// # Errors
/// The disk refuses.
pub(crate) fn remove_log(disk: &dyn Disk, data_dir: &Path) -> Result<(), StartError> {
    let manifest = dir_in(data_dir).join("log.manifest");
    if disk.list(&dir_in(data_dir)).is_ok_and(|names| names.iter().any(|name| name == "log.manifest")) {
        disk.remove(&manifest).map_err(StartError::storage)?;
    }
    let dir = log_dir_in(data_dir);
    for name in disk.list(&dir).unwrap_or_default() {
        disk.remove(&dir.join(name)).map_err(StartError::storage)?;
    }
    Ok(())
}
