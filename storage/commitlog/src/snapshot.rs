//! Snapshot files: a whole state in one checksummed file, beside the log that leads on from it. Does not know what the state is.
//!
//! The newest two are kept: when the newest is damaged the one before it serves, and the log has to reach back to that one,
//! which is why [`write_snapshot`] returns how far back that is. The format is drawn in `docs/formats/segment.md`:
//!
//! ```text
//!  0       8         12      16           24           32     36     40
//!  +-------+---------+-------+------------+------------+------+------+----------+
//!  | magic | version | 0     | position   | length     | 0    | crc  | bytes..  |
//!  +-------+---------+-------+------------+------------+------+------+----------+
//!  magic "WARRNSNP"; version 1; all numbers big-endian; crc: CRC-32 of bytes 0..36, then of the state's bytes
//! ```

use std::path::{Path, PathBuf};

use platform::{Disk, OpenMode};

use crate::bytes::{index_of, offset_of, put_u32, put_u64, u32_at, u64_at};
use crate::{IoFailure, Position};

const MAGIC: &[u8; 8] = b"WARRNSNP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
/// How many snapshots of one name are kept.
const KEPT_COUNT: usize = 2;

/// A snapshot as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The state holds everything of the log up to here.
    pub position: Position,
    /// The state.
    pub bytes: Vec<u8>,
    /// Newer snapshots that are damaged and were set aside under these names; worth a loud log line when not empty.
    pub damaged: Vec<PathBuf>,
}

/// An error of snapshots.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// There are snapshots, but none can be used. Nothing was removed.
    #[error("all snapshots are damaged: {}", files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", "))]
    AllDamaged {
        /// The snapshots, newest first.
        files: Vec<PathBuf>,
    },
    /// The newest usable file was written by a later version of Warren.
    #[error("snapshot {} has format version {version}, which this version of Warren cannot read", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its format version.
        version: u32,
    },
}

/// Writes a snapshot of `name` (letters, digits and `_`) durably, removes all but the newest two of that name, and returns the
/// position of the oldest kept one: the log may be dropped below it. `dir` is created if needed.
///
/// # Errors
/// [`SnapshotError::Io`]; the snapshots that were there are then still usable.
///
/// # Panics
/// When `name` has other characters.
pub fn write_snapshot(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    position: Position,
    bytes: &[u8],
) -> Result<Position, SnapshotError> {
    assert!(is_name(name), "{name:?} is not a snapshot's name");
    disk.create_dir_all(dir).map_err(IoFailure::of("create", dir))?;
    let path = dir.join(format!("{name}-{:016x}.snap", position.0));
    let unfinished = path.with_extension("snap.tmp");
    let written = write_unfinished(disk, &unfinished, position, bytes);
    if written.is_err() {
        // It may have taken the last room there was.
        let _already_failed = disk.remove(&unfinished);
    }
    written?;
    disk.rename(&unfinished, &path).map_err(IoFailure::of("rename", &unfinished))?;
    disk.sync_dir(dir).map_err(IoFailure::of("sync", dir))?;
    remove_old(disk, dir, name)
}

fn write_unfinished(disk: &dyn Disk, path: &Path, position: Position, bytes: &[u8]) -> Result<(), IoFailure> {
    let file = disk.open(path, OpenMode::CreateEmpty).map_err(IoFailure::of("create", path))?;
    file.write_all_at(0, &[&header(position, bytes), bytes]).map_err(IoFailure::of("write", path))?;
    file.sync_data().map_err(IoFailure::of("sync", path))
}

/// Reads the newest usable snapshot of `name`; `None` when there never was one.
///
/// # Errors
/// [`SnapshotError::AllDamaged`], [`SnapshotError::Version`], [`SnapshotError::Io`].
pub fn read_latest_snapshot(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
) -> Result<Option<Snapshot>, SnapshotError> {
    disk.create_dir_all(dir).map_err(IoFailure::of("create", dir))?;
    let mut damaged = Vec::new();
    for (position, path) in snapshots(disk, dir, name)?.into_iter().rev() {
        match read(disk, &path, position)? {
            Some(bytes) => {
                let damaged = set_aside(disk, dir, &damaged)?;
                return Ok(Some(Snapshot { position, bytes, damaged }));
            }
            None => damaged.push(path),
        }
    }
    if damaged.is_empty() { Ok(None) } else { Err(SnapshotError::AllDamaged { files: damaged }) }
}

/// A snapshot's file, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The file.
    pub path: PathBuf,
    /// The position in its name.
    pub position: Position,
    /// The state; `None` when the file is damaged.
    pub state: Option<Vec<u8>>,
}

impl SnapshotFile {
    /// Looks at one file, also at one that was set aside, and changes nothing; `None` when its name is not that of a snapshot.
    ///
    /// # Errors
    /// [`SnapshotError::Version`], [`SnapshotError::Io`].
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, SnapshotError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.strip_suffix(".damaged").unwrap_or(name).strip_suffix(".snap");
        let Some(position) =
            name.and_then(|name| name.rsplit_once('-')).and_then(|(_, digits)| position_of(digits))
        else {
            return Ok(None);
        };
        Ok(Some(Self { path: path.to_owned(), position, state: read(disk, path, position)? }))
    }
}

/// All snapshots of `name`, newest first, damaged ones too; changes nothing. None when there is no such directory.
///
/// # Errors
/// [`SnapshotError::Version`], [`SnapshotError::Io`].
pub fn read_all_snapshots(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
) -> Result<Vec<SnapshotFile>, SnapshotError> {
    if disk.list(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(Vec::new());
    }
    let found = snapshots(disk, dir, name)?.into_iter().rev();
    found
        .map(|(position, path)| Ok(SnapshotFile { state: read(disk, &path, position)?, path, position }))
        .collect()
}

/// Renames damaged snapshots, so that they do not count among the two that are kept. They stay for people who want to know why.
fn set_aside(disk: &dyn Disk, dir: &Path, damaged: &[PathBuf]) -> Result<Vec<PathBuf>, SnapshotError> {
    let mut renamed = Vec::new();
    for path in damaged {
        let aside = path.with_extension("snap.damaged");
        disk.rename(path, &aside).map_err(IoFailure::of("rename", path))?;
        renamed.push(aside);
    }
    if !renamed.is_empty() {
        disk.sync_dir(dir).map_err(IoFailure::of("sync", dir))?;
    }
    Ok(renamed)
}

/// The position of the newest snapshot of `name` as its name tells it, whatever is in the file; `None` when there is none.
///
/// # Errors
/// [`SnapshotError::Io`].
pub(crate) fn newest_position(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
) -> Result<Option<Position>, SnapshotError> {
    disk.create_dir_all(dir).map_err(IoFailure::of("create", dir))?;
    Ok(snapshots(disk, dir, name)?.last().map(|(position, _)| *position))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The header of a snapshot file.
fn header(position: Position, bytes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    put_u32(&mut header, 8, VERSION);
    put_u64(&mut header, 16, position.0);
    put_u64(&mut header, 24, offset_of(bytes.len()));
    let crc = checksum(&header, bytes);
    put_u32(&mut header, 36, crc);
    header
}

fn checksum(header: &[u8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..36]);
    hasher.update(bytes);
    hasher.finalize()
}

/// The finished snapshots of a name, oldest first.
fn snapshots(disk: &dyn Disk, dir: &Path, name: &str) -> Result<Vec<(Position, PathBuf)>, SnapshotError> {
    let names = disk.list(dir).map_err(IoFailure::of("list", dir))?;
    let found = names.iter().filter_map(|file| {
        let digits = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".snap")?;
        Some((position_of(digits)?, dir.join(file)))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    Ok(found)
}

/// The position in the name of a file.
fn position_of(digits: &str) -> Option<Position> {
    let position = u64::from_str_radix(digits, 16).ok()?;
    (digits.len() == 16).then_some(Position(position))
}

/// Removes all but the newest, and the remains of unfinished ones; returns the oldest kept position.
fn remove_old(disk: &dyn Disk, dir: &Path, name: &str) -> Result<Position, SnapshotError> {
    let found = snapshots(disk, dir, name)?;
    let (old, kept) = found.split_at(found.len().saturating_sub(KEPT_COUNT));
    for (_, path) in old {
        disk.remove(path).map_err(IoFailure::of("remove", path))?;
    }
    for file in disk.list(dir).map_err(IoFailure::of("list", dir))? {
        if file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".snap.tmp")) {
            let path = dir.join(file);
            disk.remove(&path).map_err(IoFailure::of("remove", &path))?;
        }
    }
    Ok(kept.first().map_or(Position(0), |(position, _)| *position))
}

/// The state in a snapshot file; `None` when the file is damaged.
fn read(disk: &dyn Disk, path: &Path, position: Position) -> Result<Option<Vec<u8>>, SnapshotError> {
    let file = disk.open(path, OpenMode::Read).map_err(IoFailure::of("open", path))?;
    let len = file.len().map_err(IoFailure::of("measure", path))?;
    if len < offset_of(HEADER_BYTES) {
        return Ok(None);
    }
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(0, &mut header).map_err(IoFailure::of("read", path))?;
    let mut bytes = vec![0; index_of(len) - HEADER_BYTES];
    file.read_exact_at(offset_of(HEADER_BYTES), &mut bytes).map_err(IoFailure::of("read", path))?;
    if &header[..8] != MAGIC || u32_at(&header, 36) != checksum(&header, &bytes) {
        return Ok(None);
    }
    let version = u32_at(&header, 8);
    if version != VERSION {
        return Err(SnapshotError::Version { file: path.to_owned(), version });
    }
    let is_whole = u64_at(&header, 16) == position.0 && u64_at(&header, 24) == offset_of(bytes.len());
    Ok(is_whole.then_some(bytes))
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::*;

    const DIR: &str = "/meta";

    fn write(disk: &SimDisk, position: u64, bytes: &[u8]) -> Position {
        write_snapshot(disk, Path::new(DIR), "metadata", Position(position), bytes).unwrap()
    }

    fn read_latest(disk: &SimDisk) -> Result<Option<Snapshot>, SnapshotError> {
        read_latest_snapshot(disk, Path::new(DIR), "metadata")
    }

    #[test]
    fn the_newest_is_read_and_only_two_are_kept() {
        let disk = SimDisk::new();
        assert_eq!(read_latest(&disk).unwrap(), None);
        assert_eq!(write(&disk, 10, b"a"), Position(10));
        assert_eq!(write(&disk, 300, b"b"), Position(10));
        assert_eq!(write(&disk, 4000, b""), Position(300));
        assert_eq!(disk.file_count(), 2);
        let latest = read_latest(&disk).unwrap().unwrap();
        assert_eq!((latest.position, latest.bytes, latest.damaged), (Position(4000), vec![], vec![]));
    }

    #[test]
    fn any_damage_to_the_newest_falls_back_to_the_one_before_and_says_so() {
        let path = PathBuf::from("/meta/metadata-0000000000000014.snap");
        for offset in 0..43 {
            let disk = SimDisk::new();
            write(&disk, 10, b"old");
            write(&disk, 20, b"new");
            disk.corrupt(&path, offset, 0x10);
            let found = read_latest(&disk).unwrap().unwrap();
            assert_eq!((found.position, &found.bytes[..]), (Position(10), &b"old"[..]), "byte {offset}");
            assert_eq!(found.damaged, [path.with_extension("snap.damaged")]);
            assert_eq!(write(&disk, 30, b"next"), Position(10));
            assert_eq!(read_latest(&disk).unwrap().unwrap().bytes, b"next");
        }
    }

    #[test]
    fn damage_to_all_is_an_error_and_not_an_empty_state() {
        let disk = SimDisk::new();
        write(&disk, 10, b"only");
        disk.corrupt(Path::new("/meta/metadata-000000000000000a.snap"), 41, 1);
        assert!(matches!(read_latest(&disk), Err(SnapshotError::AllDamaged { files }) if files.len() == 1));
    }

    #[test]
    fn a_crash_while_writing_leaves_the_new_or_the_one_before() {
        for seed in 0..200 {
            let disk = SimDisk::new();
            write(&disk, 10, b"old");
            disk.fail_nth_sync(1 + seed % 2);
            let result = write_snapshot(&disk, Path::new(DIR), "metadata", Position(20), &[7; 3000]);
            assert!(result.is_err());
            disk.crash(seed);
            let found = read_latest(&disk).unwrap().unwrap();
            assert!(found.bytes == b"old" || found.bytes == [7; 3000]);
            assert_eq!(write(&disk, 30, b"next"), found.position);
        }
    }

    #[test]
    fn names_that_begin_alike_are_kept_apart() {
        let disk = SimDisk::new();
        write(&disk, 10, b"a");
        write_snapshot(&disk, Path::new(DIR), "meta", Position(99), b"b").unwrap();
        assert_eq!(read_latest(&disk).unwrap().unwrap().bytes, b"a");
    }
}
