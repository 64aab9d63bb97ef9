//! Looks at the files of a log that is not open, damaged ones too, and changes nothing. Knows nothing of what records mean.
//!
//! Opening a log refuses damage; here it is stepped over: behind a bad place the next record is found by its position, which
//! every record carries, and its checksum.

use std::path::{Path, PathBuf};

use platform::{Disk, OpenMode};

use super::file::first_of_name;
use super::format::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, record_crc};
use super::kept::first_of_kept_name;
use super::mend::{Mended, mend};
use super::reader::{FileReader, Met};
use super::{Damage, LogError, Record};
use crate::bytes::{index_of, offset_of, u64_at};
use crate::{IoFailure, Position};

/// A file of a log, as its header, name and length tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    /// Where its first record begins: the position in a whole header, whatever the name is; else the one in the name.
    pub first: Position,
    /// Where the next file begins; `None` for the newest.
    pub next_first: Option<Position>,
    /// Its length, bytes.
    pub bytes: u64,
}

/// An item of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A record as it was written.
    Record(Record<'a>),
    /// A record of which one byte is not what was written: its checksum tells what was. An open log does not take it.
    Mended {
        /// The byte, from the file's start.
        offset: u64,
        /// The record as it was written.
        record: Record<'a>,
    },
    /// Bytes that are not what was written.
    Damaged {
        /// Bytes from the file's start.
        offset: u64,
        /// How many; 0 when it is not known how many are missing.
        bytes: u64,
        /// The part that does not match.
        damage: Damage,
        /// The record, if the bytes are one record and its header is whole. Nothing in it is to be trusted.
        record: Option<Record<'a>>,
    },
    /// The rest of a write that was never finished, at the end of the newest file: not damage. Damage of the last write looks the same.
    Unfinished {
        /// Bytes from the file's start.
        offset: u64,
        /// How many.
        bytes: u64,
        /// Stream and kind of the one record in it, if its header is whole.
        header: Option<(u64, u8)>,
    },
}

/// The files of the log in `dir`, oldest first, misnamed ones too; none when there is no such directory.
///
/// # Errors
/// [`LogError::Io`].
pub fn list_log_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<LogFile>, LogError> {
    let names = match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(IoFailure::of("list", dir))?,
    };
    let mut files: Vec<LogFile> = Vec::new();
    for (name, named) in names.iter().filter_map(|name| Some((name, first_of_name(name)?))) {
        let path = dir.join(name);
        let file = disk.open(&path, OpenMode::Read).map_err(IoFailure::of("open", &path))?;
        let bytes = file.len().map_err(IoFailure::of("measure", &path))?;
        let first = first_of_header(disk, &path)?.unwrap_or(named);
        files.push(LogFile { path, first, next_first: None, bytes });
    }
    // Of two that begin at one place the last is read: the one whose name is right.
    files.sort_by_key(|file| (file.first, !is_misnamed(file)));
    for at in 1..files.len() {
        files[at - 1].next_first = Some(files[at].first);
    }
    Ok(files)
}

/// The first position in the header of a file, if it is whole.
pub(super) fn first_of_header(disk: &dyn Disk, path: &Path) -> Result<Option<Position>, LogError> {
    match FileReader::open(disk, path) {
        Ok(reader) => Ok(Some(reader.header().first)),
        Err(error @ LogError::Io(_)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether it lies under the name of another file: then an open log refuses it.
fn is_misnamed(file: &LogFile) -> bool {
    let name = file.path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| first_of_name(name).or_else(|| first_of_kept_name(name))) != Some(file.first)
}

/// Shows what is in a file, in order. Gaps between files are not seen here: compare `first` and `next_first`.
///
/// # Errors
/// [`LogError::Io`], [`LogError::Version`].
pub fn inspect_log_file(
    disk: &dyn Disk,
    file: &LogFile,
    mut show: impl FnMut(Found<'_>),
) -> Result<(), LogError> {
    let mut reader = match FileReader::open(disk, &file.path) {
        Err(LogError::Damaged { offset, damage, .. }) => {
            let bytes = file.bytes.min(offset_of(FILE_HEADER_BYTES));
            show(Found::Damaged { offset, bytes, damage, record: None });
            if file.bytes <= offset_of(FILE_HEADER_BYTES) {
                return Ok(());
            }
            FileReader::open_despite(disk, &file.path, file.first)?
        }
        opened => opened?,
    };
    if is_misnamed(file) {
        show(Found::Damaged { offset: 0, bytes: 0, damage: Damage::Name, record: None });
    }
    if let Some(next) = file.next_first {
        let len = offset_of(FILE_HEADER_BYTES) + next.0.saturating_sub(file.first.0);
        if reader.len() >= len {
            reader.limit(len);
        } else {
            let damage = Damage::Truncated;
            show(Found::Damaged { offset: reader.len(), bytes: 0, damage, record: None });
        }
    }
    loop {
        match reader.advance()? {
            Met::Record => show(Found::Record(reader.record())),
            Met::End => return Ok(()),
            Met::Bad { offset, damage } => {
                let (rest, start) = (reader.rest(offset)?, reader.position_of(offset));
                let next = next_record(&rest, start);
                if let Some(Mended { record, at }) = mend(&rest, start, next) {
                    show(Found::Mended { offset: offset + offset_of(at), record: whole(&record, start) });
                    reader.seek(offset + offset_of(record.len()));
                    continue;
                }
                let Some(skipped) = next else {
                    let header = alleged_header(&rest, start);
                    show_end(&rest, file.next_first.is_none(), (offset, damage, header), &mut show);
                    return Ok(());
                };
                let record = alleged(&rest[..index_of(skipped)], start);
                show(Found::Damaged { offset, bytes: skipped, damage, record });
                reader.seek(offset + skipped);
            }
        }
    }
}

/// The one record that fills these bytes, by its header.
fn alleged(bytes: &[u8], start: Position) -> Option<Record<'_>> {
    let room = offset_of(bytes.len().checked_sub(RECORD_HEADER_BYTES)?);
    let header = RecordHeader::decode(bytes, start, room).ok()?;
    (header.record_bytes() == bytes.len()).then(|| whole(bytes, start))
}

/// The apparent header of a record of which the rest may not be there.
fn alleged_header(bytes: &[u8], start: Position) -> Option<RecordHeader> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return None;
    }
    RecordHeader::decode(bytes, start, u64::MAX).ok()
}

/// A record whose header is known to be whole.
fn whole(bytes: &[u8], start: Position) -> Record<'_> {
    let room = offset_of(bytes.len() - RECORD_HEADER_BYTES);
    let header = RecordHeader::decode(bytes, start, room).expect("it is whole");
    let payload = &bytes[RECORD_HEADER_BYTES..];
    Record { position: header.end(), stream: header.stream, kind: header.kind, payload }
}

/// Tells of bytes behind which nothing good follows.
fn show_end(
    rest: &[u8],
    is_newest: bool,
    (offset, damage, header): (u64, Damage, Option<RecordHeader>),
    show: &mut impl FnMut(Found<'_>),
) {
    let bytes = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| offset_of(last) + 1);
    if !is_newest {
        show(Found::Damaged { offset, bytes: offset_of(rest.len()), damage, record: None });
    } else if bytes > 0 {
        let only = header.filter(|header| offset_of(header.record_bytes()) >= bytes);
        show(Found::Unfinished { offset, bytes, header: only.map(|header| (header.stream, header.kind)) });
    }
}

/// How far behind the start of `rest`, whose first byte has position `bad`, the next good record begins.
pub(super) fn next_record(rest: &[u8], bad: Position) -> Option<u64> {
    let last = rest.len().saturating_sub(RECORD_HEADER_BYTES - 1);
    let found = (1..last).find(|at| {
        let start = bad.plus(offset_of(*at));
        if u64_at(rest, at + 8) != start.0 {
            return false;
        }
        let room = offset_of(rest.len() - at - RECORD_HEADER_BYTES);
        RecordHeader::decode(&rest[*at..], start, room)
            .is_ok_and(|header| record_crc(&rest[*at..at + header.record_bytes()]) == header.crc)
    });
    found.map(offset_of)
}
