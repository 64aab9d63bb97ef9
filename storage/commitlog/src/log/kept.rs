//! Kept files: sealed files that are no part of the log any more, because nothing in them has to be replayed. They stay because callers
//! still read records in them by position. And those reads, whichever file they come to. Knows nothing of readers, or how long a file is
//! needed.
//!
//! A kept file is the log file under another name: `%016x.kept`, after its first position. They need not follow each other.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Caching, Disk, OpenMode};

use super::file::{SealedFile, first_of_name};
use super::format::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, record_crc};
use super::inspect::{LogFile, first_of_header, next_record};
use super::mend::mend;
use super::{Damage, Log, LogError};
use crate::bytes::{index_of, offset_of};
use crate::{IoFailure, Position};

/// Whether a file stays, for what is read of it, when the log goes on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterlife {
    /// It goes.
    None,
    /// It becomes a kept file.
    Kept,
}

/// A record in [`RangeBytes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordAt {
    /// The caller's stream number.
    pub stream: u64,
    /// The caller's kind.
    pub kind: u8,
    /// Where its payload lies in the bytes.
    pub payload: Range<usize>,
}

/// A range of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeBytes {
    /// Headers and payloads as they were written.
    pub bytes: Vec<u8>,
    /// The records, in order, every one of them checked.
    pub records: Vec<RecordAt>,
}

/// Bytes that [`Log::read_stream`] reads at once, unless a record is longer.
const WINDOW_BYTES: usize = 1 << 20;

/// The treatment of a record that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Damaged {
    /// It is an error.
    Refused,
    /// It is put right if one byte of it is wrong and no more, else an error.
    Mended,
    /// It is put right if it can be, else left out.
    LeftOut,
}

/// Where the records of one file lie, and under which path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) first: Position,
    /// Where its records end; of the file being written, where the caller says that they are durable.
    pub(super) end: Position,
}

/// The name under which a file that began at `first` is kept.
fn kept_name(first: Position) -> String {
    format!("{:016x}.kept", first.0)
}

pub(super) fn first_of_kept_name(name: &str) -> Option<Position> {
    let digits = name.strip_suffix(".kept")?;
    let position = Position(u64::from_str_radix(digits, 16).ok()?);
    (kept_name(position) == name).then_some(position)
}

/// The path of a log file once it is kept.
pub(super) fn kept_path(dir: &Path, first: Position) -> PathBuf {
    dir.join(kept_name(first))
}

/// The kept files beside the log in `dir`, oldest first, misnamed ones too. Each has its own end as `next_first`: nothing may be missing of it. Where a
/// file is longer than that the next one begins, a failing disk has undone the cutting of its end: the rest is no part of it.
///
/// # Errors
/// [`LogError::Io`].
pub fn list_kept_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>, LogError> {
    list_kept(disk, dir, |path, named| Ok(first_of_header(disk, path)?.unwrap_or(named)))
}

/// As [`list_kept_files`]; `first_of` says where a file begins that has the name of one that begins there.
fn list_kept(
    disk: &dyn Disk,
    dir: &Path,
    first_of: impl Fn(&Path, Position) -> Result<Position, LogError>,
) -> Result<Vec<LogFile>, LogError> {
    let names = match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(IoFailure::of("list", dir))?,
    };
    let (mut begun, mut kept) = (BTreeSet::new(), Vec::new());
    for name in &names {
        let path = dir.join(name);
        if let Some(named) = first_of_kept_name(name) {
            let first = first_of(&path, named)?;
            begun.insert(first);
            kept.push((first, path));
        } else if let Some(named) = first_of_name(name) {
            begun.insert(first_of(&path, named)?);
        }
    }
    kept.sort();
    let mut files = Vec::new();
    for (first, path) in kept {
        let file = disk.open(&path, OpenMode::Read).map_err(IoFailure::of("open", &path))?;
        let bytes = file.len().map_err(IoFailure::of("measure", &path))?;
        let next = begun.range(first.plus(1)..).next().copied();
        let end = end_of(first, bytes);
        files.push(LogFile { path, first, next_first: Some(next.map_or(end, |next| next.min(end))), bytes });
    }
    Ok(files)
}

/// Where a sealed file of so many bytes ends.
pub(super) fn end_of(first: Position, bytes: u64) -> Position {
    first.plus(bytes.saturating_sub(offset_of(FILE_HEADER_BYTES)))
}

/// The kept files as an open log lists them: by their names.
pub(super) fn find_kept(disk: &dyn Disk, dir: &Path) -> Result<Vec<SealedFile>, LogError> {
    let sealed = |file: LogFile| SealedFile {
        end: file.next_first.unwrap_or_else(|| end_of(file.first, file.bytes)),
        path: file.path,
        first: file.first,
    };
    Ok(list_kept(disk, dir, |_, named| Ok(named))?.into_iter().map(sealed).collect())
}

impl Log {
    /// The kept files: positions of their first records, and where they end. Oldest first.
    pub fn kept_files(&self) -> Vec<Range<u64>> {
        self.shared.kept.lock().iter().map(|file| file.first.0..file.end.0).collect()
    }

    /// Whether there is a kept file.
    pub fn has_kept_files(&self) -> bool {
        !self.shared.kept.lock().is_empty()
    }

    /// The files of the log that nothing will be written to again: where their records begin and end. Oldest first.
    pub fn sealed_files(&self) -> Vec<Range<u64>> {
        let files = self.shared.files.lock();
        files.iter().take(files.len() - 1).map(|file| file.first.0..file.end.0).collect()
    }

    /// Removes the kept file that begins at `first`; nothing happens when there is none. After a power cut it may be there again,
    /// like every file that nothing points to.
    ///
    /// # Errors
    /// [`LogError::Io`]; trying again is allowed.
    pub fn remove_kept(&self, first: u64) -> Result<(), LogError> {
        let _one_at_a_time = self.dropping.lock();
        let path = {
            let kept = self.shared.kept.lock();
            kept.iter().find(|file| file.first.0 == first).map(|file| file.path.clone())
        };
        let Some(path) = path else { return Ok(()) };
        match self.disk.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(IoFailure::of("remove", &path)(error).into());
            }
            _ => {}
        }
        self.shared.kept.lock().retain(|file| file.first.0 != first);
        Ok(())
    }

    /// Whether the log and the kept files have the range.
    pub fn holds(&self, first: Position, bytes: u32) -> bool {
        holds(first, bytes, |at| self.look_at(at, |_, end| end))
    }

    /// The records from position `first` on, which has to be where one begins, `bytes` in all, up to where one ends. They have to be
    /// durable ([`Self::durable`]). Waits for the disk.
    ///
    /// # Errors
    /// [`LogError::Damaged`] with file and offset, [`LogError::NotHeld`] when no file has it, [`LogError::Io`].
    pub fn read_range(&self, first: Position, bytes: u32) -> Result<RangeBytes, LogError> {
        read(&self.dir, (first, bytes), Damaged::Refused, |at| self.open_at(at))
    }

    /// As [`Self::read_range`], of a range most of which other streams may have: all its records are checked, those of `stream` are returned, and
    /// in memory is no more of the others than 1 MiB, or a longer record. The hint to the system's cache counts for what is synced, whatever
    /// the policy.
    ///
    /// # Errors
    /// As [`Self::read_range`].
    pub fn read_stream(
        &self,
        stream: u64,
        (first, bytes): (Position, u32),
        caching: Caching,
    ) -> Result<RangeBytes, LogError> {
        let is_on_disk = self.is_synced(first.plus(bytes.into())).unwrap_or(false);
        let caching = if is_on_disk { caching } else { Caching::Keep };
        read_stream(&self.dir, stream, (first, bytes), caching, |at| self.open_at(at))
    }

    /// The file that holds a position.
    fn open_at(&self, at: Position) -> Result<Option<OpenedPart>, LogError> {
        if let Some(part) = self.part_at(at)
            && let Ok(file) = open(&*self.disk, &part.path)
        {
            return Ok(Some((file, part)));
        }
        // It may just have become a kept file: not while this is held.
        let _nobody_drops = self.dropping.lock();
        let Some(part) = self.part_at(at) else { return Ok(None) };
        Ok(Some((open(&*self.disk, &part.path)?, part)))
    }

    /// The file that holds a position. The one being written holds what its reader knows to be durable.
    fn part_at(&self, at: Position) -> Option<Part> {
        self.look_at(at, |file, end| Part { path: file.path.clone(), first: file.first, end })
    }

    /// As [`Self::part_at`]: shows the file, and where it ends. Two files overlap only while one of them is both, or where an end was
    /// cut off that is no part of the log.
    fn look_at<T>(&self, at: Position, show: impl Fn(&SealedFile, Position) -> T) -> Option<T> {
        let kept = {
            let kept = self.shared.kept.lock();
            let after = kept.partition_point(|file| file.first <= at);
            kept[..after].last().filter(|file| at < file.end).map(|file| show(file, file.end))
        };
        kept.or_else(|| {
            let files = self.shared.files.lock();
            let after = files.partition_point(|file| file.first <= at);
            let file = files.get(after.checked_sub(1)?)?;
            Some(show(file, if after == files.len() { Position::NEVER } else { file.end }))
        })
    }
}

pub(super) fn part_of(parts: &[Part], at: Position) -> Option<&Part> {
    parts.iter().find(|part| part.first <= at && at < part.end)
}

/// Whether files follow each other from `first` on; `end_at` tells where the one ends that holds a position.
pub(super) fn holds(first: Position, bytes: u32, end_at: impl Fn(Position) -> Option<Position>) -> bool {
    let end = first.plus(bytes.into());
    let mut at = first;
    while at < end {
        let Some(stop) = end_at(at) else { return false };
        at = stop;
    }
    true
}

type OpenedPart = (Arc<dyn platform::DiskFile>, Part);

pub(super) fn open(disk: &dyn Disk, path: &Path) -> Result<Arc<dyn platform::DiskFile>, IoFailure> {
    disk.open(path, OpenMode::Read).map_err(IoFailure::of("open", path))
}

/// Reads a range file by file and checks its records. Each carries its position: a wrong file does not pass.
pub(super) fn read(
    dir: &Path,
    (first, bytes): (Position, u32),
    damaged: Damaged,
    open: impl Fn(Position) -> Result<Option<OpenedPart>, LogError>,
) -> Result<RangeBytes, LogError> {
    let end = first.plus(bytes.into());
    let mut read = RangeBytes { bytes: vec![0; index_of(bytes.into())], records: Vec::new() };
    let mut at = first;
    while at < end {
        let not_held = || LogError::NotHeld { dir: dir.to_owned(), position: at };
        let (file, part) = open(at)?.ok_or_else(not_held)?;
        let stop = part.end.min(end);
        let span = index_of(at.bytes_since(first))..index_of(stop.bytes_since(first));
        read_at(&*file, &part, at, &mut read.bytes[span.clone()])?;
        check(&mut read, first, span, &part, damaged)?;
        at = stop;
    }
    Ok(read)
}

/// As [`read`], window by window: only the records of one stream are kept.
fn read_stream(
    dir: &Path,
    stream: u64,
    (first, bytes): (Position, u32),
    caching: Caching,
    open: impl Fn(Position) -> Result<Option<OpenedPart>, LogError>,
) -> Result<RangeBytes, LogError> {
    let end = first.plus(bytes.into());
    let mut own = RangeBytes::default();
    let mut at = first;
    while at < end {
        let not_held = || LogError::NotHeld { dir: dir.to_owned(), position: at };
        let (file, part) = open(at)?.ok_or_else(not_held)?;
        let stop = part.end.min(end);
        while at < stop {
            at = read_window(&mut own, stream, (&*file, &part), at..stop, caching)?;
        }
    }
    Ok(own)
}

/// The first records of a part of a file, at least one. Returns where the others begin.
fn read_window(
    own: &mut RangeBytes,
    stream: u64,
    (file, part): (&dyn platform::DiskFile, &Part),
    span: Range<Position>,
    caching: Caching,
) -> Result<Position, LogError> {
    let (begin, there) = (own.bytes.len(), index_of(span.end.bytes_since(span.start)));
    let mut window = there.min(WINDOW_BYTES);
    own.bytes.resize(begin + window, 0);
    read_as(file, part, span.start, &mut own.bytes[begin..], caching)?;
    let first_bytes = record_bytes(&own.bytes[begin..], span.start, there)
        .map_err(|damage| damaged_at(part, span.start, damage))?;
    if first_bytes > window {
        own.bytes.reserve_exact(first_bytes - window);
        own.bytes.resize(begin + first_bytes, 0);
        let rest = span.start.plus(offset_of(window));
        read_as(file, part, rest, &mut own.bytes[begin + window..], caching)?;
        window = first_bytes;
    }
    let (mut at, mut end) = (begin, begin);
    while at < begin + window {
        let start = span.start.plus(offset_of(at - begin));
        let rest = &own.bytes[at..begin + window];
        let is_next_windows = window < there
            && !record_bytes(rest, start, there - (at - begin)).is_ok_and(|bytes| bytes <= rest.len());
        if at > begin && is_next_windows {
            break;
        }
        let header = whole_header(rest, start).map_err(|damage| damaged_at(part, start, damage))?;
        let length = header.record_bytes();
        if header.stream == stream {
            own.bytes.copy_within(at..at + length, end);
            let payload = end + RECORD_HEADER_BYTES..end + length;
            own.records.push(RecordAt { stream, kind: header.kind, payload });
            end += length;
        }
        at += length;
    }
    own.bytes.truncate(end);
    Ok(span.start.plus(offset_of(at - begin)))
}

/// The length of the record that begins here, of so many bytes, which need not be here.
fn record_bytes(bytes: &[u8], start: Position, there: usize) -> Result<usize, Damage> {
    let room = there.checked_sub(RECORD_HEADER_BYTES).filter(|_| bytes.len() >= RECORD_HEADER_BYTES);
    let header = RecordHeader::decode(bytes, start, offset_of(room.ok_or(Damage::Truncated)?))?;
    Ok(header.record_bytes())
}

fn damaged_at(part: &Part, start: Position, damage: Damage) -> LogError {
    let offset = offset_of(FILE_HEADER_BYTES) + start.bytes_since(part.first);
    LogError::Damaged { file: part.path.clone(), offset, damage }
}

pub(super) fn read_at(
    file: &dyn platform::DiskFile,
    part: &Part,
    at: Position,
    into: &mut [u8],
) -> Result<(), LogError> {
    let offset = offset_of(FILE_HEADER_BYTES) + at.bytes_since(part.first);
    file.read_exact_at(offset, into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            LogError::Damaged { file: part.path.clone(), offset, damage: Damage::Truncated }
        }
        _ => IoFailure::of("read", &part.path)(error).into(),
    })
}

/// The same, with a hint to the system's cache.
fn read_as(
    file: &dyn platform::DiskFile,
    part: &Part,
    at: Position,
    into: &mut [u8],
    caching: Caching,
) -> Result<(), LogError> {
    read_at(file, part, at, into)?;
    if caching == Caching::Pass {
        let offset = offset_of(FILE_HEADER_BYTES) + at.bytes_since(part.first);
        file.pass_cached(offset..offset + offset_of(into.len()));
    }
    Ok(())
}

/// Notes the records in a part of the bytes.
pub(super) fn check(
    read: &mut RangeBytes,
    first: Position,
    span: Range<usize>,
    part: &Part,
    how: Damaged,
) -> Result<(), LogError> {
    let mut at = span.start;
    while at < span.end {
        let start = first.plus(offset_of(at));
        let rest = &mut read.bytes[at..span.end];
        if how != Damaged::Refused {
            mend_at(rest, start);
        }
        match whole_header(rest, start) {
            Ok(header) => {
                let end = at + header.record_bytes();
                let payload = at + RECORD_HEADER_BYTES..end;
                read.records.push(RecordAt { stream: header.stream, kind: header.kind, payload });
                at = end;
            }
            Err(_) if how == Damaged::LeftOut => {
                let Some(skipped) = next_record(rest, start) else { return Ok(()) };
                at += index_of(skipped);
            }
            Err(damage) => return Err(damaged_at(part, start, damage)),
        }
    }
    Ok(())
}

/// The header of the record that these bytes begin with, which is whole.
pub(super) fn whole_header(bytes: &[u8], start: Position) -> Result<RecordHeader, Damage> {
    let room = bytes.len().checked_sub(RECORD_HEADER_BYTES).ok_or(Damage::Truncated)?;
    let header = RecordHeader::decode(bytes, start, offset_of(room))?;
    match record_crc(&bytes[..header.record_bytes()]) == header.crc {
        true => Ok(header),
        false => Err(Damage::RecordChecksum),
    }
}

/// Puts the record right that these bytes begin with, if it can be.
fn mend_at(bytes: &mut [u8], start: Position) {
    if bytes.len() < RECORD_HEADER_BYTES || whole_header(bytes, start).is_ok() {
        return;
    }
    if let Some(mended) = mend(bytes, start, next_record(bytes, start)) {
        bytes[..mended.record.len()].copy_from_slice(&mended.record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_this_code_gives_are_kept_files() {
        assert_eq!(first_of_kept_name("00000000000000ff.kept"), Some(Position(255)));
        for name in ["ff.kept", "00000000000000FF.kept", "00000000000000ff.log", ".kept", ""] {
            assert_eq!(first_of_kept_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_range_is_held_when_its_parts_follow_each_other() {
        let part = |first, end| Part { path: PathBuf::new(), first: Position(first), end: Position(end) };
        let parts = [part(10, 20), part(20, 30), part(40, 50)];
        let has = |first, bytes| holds(Position(first), bytes, |at| part_of(&parts, at).map(|part| part.end));
        assert!(has(10, 20) && has(45, 5));
        assert!(!has(25, 10) && !has(9, 2));
    }
}
