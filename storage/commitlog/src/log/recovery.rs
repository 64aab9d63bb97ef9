//! Finds what a log holds when it is opened: which files, where the newest one really ends, and all records in order.
//! Refuses to skip: only an end that a crash can have torn off is cut.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, OpenMode};

use super::file::{SealedFile, first_of_name};
use super::format::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, record_crc};
use super::manifest::{Held, read_manifest};
use super::reader::{FileReader, Met};
use super::{Damage, LogError, Record, SyncPolicy};
use crate::bytes::{offset_of, u64_at};
use crate::{IoFailure, Position};

/// The records that a log held when it was opened. Read it with [`Self::next_record`]: one window (1 MiB, or the largest record) is in
/// memory at a time.
pub struct Recovered {
    disk: Arc<dyn Disk>,
    unread: VecDeque<SealedFile>,
    reader: Option<FileReader>,
    end: Position,
    bytes_cut: u64,
}

impl Recovered {
    /// The records of these files, which end at `end`.
    pub(super) fn of_files(disk: Arc<dyn Disk>, unread: VecDeque<SealedFile>, end: Position) -> Self {
        Self { disk, unread, reader: None, end, bytes_cut: 0 }
    }

    /// The next record, oldest first; `None` after the last. Records below the last [`crate::Log::drop_files_below`] may
    /// still be among them. Read all before dropping files of the log.
    ///
    /// # Errors
    /// [`LogError::Damaged`] with file and offset when a record is not as it was written, [`LogError::Io`] when it cannot be
    /// read; the same on every further call.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, LogError> {
        while let Some(file) = self.unread.front() {
            if self.reader.is_none() {
                self.reader = Some(open_sealed(&*self.disk, file)?);
            }
            let reader = self.reader.as_mut().expect("opened just above");
            match reader.advance()? {
                Met::Record => break,
                Met::Bad { offset, damage } => {
                    return Err(LogError::Damaged { file: file.path.clone(), offset, damage });
                }
                Met::End => {
                    self.reader = None;
                    self.unread.pop_front();
                }
            }
        }
        Ok(self.reader.as_ref().map(FileReader::record))
    }

    /// The position of the last record: where the log goes on.
    pub const fn end(&self) -> Position {
        self.end
    }

    /// Bytes of an unfinished write that were cut off the newest file; 0 after a clean stop. Worth a log line when not 0: no
    /// record that was durable under [`SyncPolicy::Fsync`] is among them.
    pub const fn bytes_cut(&self) -> u64 {
        self.bytes_cut
    }
}

/// A reader of exactly the records of a file.
fn open_sealed(disk: &dyn Disk, file: &SealedFile) -> Result<FileReader, LogError> {
    let mut reader = FileReader::open(disk, &file.path)?;
    let len = offset_of(FILE_HEADER_BYTES) + file.end.bytes_since(file.first);
    if reader.len() < len {
        let offset = reader.len();
        return Err(LogError::Damaged { file: file.path.clone(), offset, damage: Damage::Truncated });
    }
    reader.limit(len);
    Ok(reader)
}

/// Opens what is in `dir`: removes unfinished new files, checks that the files follow each other, cuts and syncs the end of
/// the newest. Returns the files too; all of them are sealed now. Nothing is changed when something that was there is missing.
pub(super) fn recover(disk: &Arc<dyn Disk>, dir: &Path) -> Result<(Recovered, Vec<SealedFile>), LogError> {
    let mut files: Vec<SealedFile> = Vec::new();
    let mut bytes_cut = 0;
    let paths = log_files(&**disk, dir)?;
    let held = read_manifest(&**disk, dir)?;
    for (index, path) in paths.iter().enumerate() {
        let mut reader = FileReader::open(&**disk, path)?;
        let first = reader.header().first;
        if path.file_name().and_then(|name| first_of_name(name.to_str()?)) != Some(first) {
            return Err(LogError::Damaged { file: path.clone(), offset: 0, damage: Damage::Name });
        }
        if let Some(before) = files.last_mut() {
            follow(before, path, first)?;
        }
        let mut end = reader.position_of(reader.len());
        if index + 1 == paths.len() {
            let found = find_end(&mut reader, path)?;
            end = reader.position_of(found.len);
            let oldest = files.first().map_or(first, |file| file.first);
            check_end(held, path, end, &found)?;
            check_held(held, dir, Some((oldest, first, end)))?;
            bytes_cut = found.bytes_cut;
            make_end_durable(&**disk, path, reader, &found)?;
        }
        files.push(SealedFile { path: path.clone(), first, end });
    }
    if files.is_empty() {
        check_held(held, dir, None)?;
    }
    let end = files.last().map_or(Position(0), |file| file.end);
    let recovered = Recovered {
        disk: disk.clone(),
        unread: files.iter().cloned().collect(),
        reader: None,
        end,
        bytes_cut,
    };
    Ok((recovered, files))
}

/// Tells damage at the end of the newest file by its place: a synced record is no unfinished write.
fn check_end(held: Option<Held>, path: &Path, end: Position, found: &FileEnd) -> Result<(), LogError> {
    match (found.bad, held) {
        (Some(damage), Some(held)) if end < held.end => {
            Err(LogError::Damaged { file: path.to_owned(), offset: found.len, damage })
        }
        _ => Ok(()),
    }
}

/// Checks that nothing is missing that the manifest names. `found`: where the oldest and the newest file begin, and the end.
fn check_held(
    held: Option<Held>,
    dir: &Path,
    found: Option<(Position, Position, Position)>,
) -> Result<(), LogError> {
    let Some(held) = held else { return Ok(()) };
    let expected = held.oldest;
    let Some((oldest, newest, end)) = found else {
        return Err(LogError::BeginningMissing { dir: dir.to_owned(), expected, found: None });
    };
    if oldest > expected {
        return Err(LogError::BeginningMissing { dir: dir.to_owned(), expected, found: Some(oldest) });
    }
    if newest < held.newest || end < held.end {
        let expected = held.newest.max(held.end);
        return Err(LogError::EndMissing { dir: dir.to_owned(), expected, found: end });
    }
    Ok(())
}

/// Checks that a file begins where the one before ends. A file is begun only after the end of the one before was settled. So further bytes
/// of the one before are an end that was cut, and whose cutting a failing disk has undone.
fn follow(before: &mut SealedFile, path: &Path, first: Position) -> Result<(), LogError> {
    if before.end < first {
        return Err(LogError::Gap { file: path.to_owned(), expected: before.end, found: first });
    }
    before.end = first;
    Ok(())
}

/// Whether there is a file of a log in `dir`. Changes nothing.
///
/// # Errors
/// The operating system refused to list it.
pub fn log_exists(disk: &dyn Disk, dir: &Path) -> Result<bool, IoFailure> {
    match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(IoFailure::of("list", dir)(error)),
        Ok(names) => Ok(names.iter().any(|name| first_of_name(name).is_some())),
    }
}

/// The log's files, oldest first (names sort as positions do). Files whose creation was not finished are removed.
fn log_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let mut paths = Vec::new();
    for name in disk.list(dir).map_err(IoFailure::of("list", dir))? {
        let path = dir.join(&name);
        if name.ends_with(".log.tmp") {
            disk.remove(&path).map_err(IoFailure::of("remove", &path))?;
        } else if first_of_name(&name).is_some() {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The end of the newest file, in bytes from its start.
struct FileEnd {
    /// Where the last good record ends.
    len: u64,
    /// Where the write began that it is part of.
    write_offset: u64,
    /// Bytes behind it that are the rest of an unfinished write.
    bytes_cut: u64,
    /// The damage instead of a record, if there is any.
    bad: Option<Damage>,
}

/// Finds where the newest file's records end.
fn find_end(reader: &mut FileReader, path: &Path) -> Result<FileEnd, LogError> {
    let mut write_offset = offset_of(FILE_HEADER_BYTES);
    let (offset, damage) = loop {
        match reader.advance()? {
            Met::Record => write_offset = reader.write_offset(),
            Met::End => return Ok(FileEnd { len: reader.len(), write_offset, bytes_cut: 0, bad: None }),
            Met::Bad { offset, damage } => break (offset, damage),
        }
    };
    let rest = reader.rest(offset)?;
    let bytes_cut = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| offset_of(last) + 1);
    if reader.header().sync == SyncPolicy::Fsync && was_synced(&rest, reader.position_of(offset)) {
        return Err(LogError::Damaged { file: path.to_owned(), offset, damage });
    }
    Ok(FileEnd { len: offset, write_offset, bytes_cut, bad: (bytes_cut > 0).then_some(damage) })
}

/// Whether `rest`, whose first byte has position `bad` and begins no valid record, holds a valid record of a later write:
/// then the bytes before that write had been synced.
fn was_synced(rest: &[u8], bad: Position) -> bool {
    let last = rest.len().saturating_sub(RECORD_HEADER_BYTES - 1);
    (1..last).any(|at| {
        let start = bad.plus(offset_of(at));
        // The position alone rules out all but one byte in 2^64, so this scan is fast.
        if u64_at(rest, at + 8) != start.0 {
            return false;
        }
        let room = offset_of(rest.len() - at - RECORD_HEADER_BYTES);
        let Ok(header) = RecordHeader::decode(&rest[at..], start, room) else { return false };
        let write_start = start.0 - u64::from(header.back);
        write_start > bad.0 && record_crc(&rest[at..at + header.record_bytes()]) == header.crc
    })
}

/// Shortens a file to its records and makes them durable before anyone acts on them.
///
/// The last write may never have been synced (a killed process) or its sync may have failed: then the page cache holds it as
/// clean, and a sync now would succeed without writing it. So it is written again. All writes before were synced.
fn make_end_durable(
    disk: &dyn Disk,
    path: &Path,
    mut reader: FileReader,
    end: &FileEnd,
) -> Result<(), LogError> {
    let file = disk.open(path, OpenMode::ReadWrite).map_err(IoFailure::of("open", path))?;
    let from = match reader.header().sync {
        SyncPolicy::Fsync => end.write_offset,
        SyncPolicy::Os => offset_of(FILE_HEADER_BYTES),
    };
    if reader.len() != end.len {
        file.truncate(end.len).map_err(IoFailure::of("truncate", path))?;
    }
    reader.limit(end.len);
    reader.seek(from);
    loop {
        match reader.advance()? {
            Met::Record => {
                let (offset, record) = reader.whole_record();
                file.write_all_at(offset, &[record]).map_err(IoFailure::of("write", path))?;
            }
            Met::End => break,
            // It was good a moment ago.
            Met::Bad { offset, damage } => {
                return Err(LogError::Damaged { file: path.to_owned(), offset, damage });
            }
        }
    }
    file.sync_data().map_err(IoFailure::of("sync", path))?;
    Ok(())
}
