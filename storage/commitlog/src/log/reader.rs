//! Reads one log file record by record through a window, verifying everything. Knows nothing of other files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, DiskFile, OpenMode};

use super::format::{
    FILE_HEADER_BYTES, FileHeader, HeaderProblem, RECORD_HEADER_BYTES, RecordHeader, record_crc,
};
use super::{Damage, LogError, SyncPolicy};
use crate::bytes::{index_of, offset_of};
use crate::{IoFailure, Position};

/// Bytes read from the file at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// One record as it was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it ends: the position that [`crate::Log::append`] returned for it.
    pub position: Position,
    /// The caller's stream number.
    pub stream: u64,
    /// The caller's kind.
    pub kind: u8,
    /// The caller's bytes.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Where it begins and ends.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<u64> {
        let bytes = offset_of(RECORD_HEADER_BYTES + self.payload.len());
        self.position.0 - bytes..self.position.0
    }
}

/// The item that a step of the reader met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// A valid record: [`FileReader::record`] shows it.
    Record,
    /// The file ends here.
    End,
    /// No valid record begins at this byte of the file.
    Bad { offset: u64, damage: Damage },
}

/// Reads a file from its first record to `len`.
pub(super) struct FileReader {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    header: FileHeader,
    len: u64,
    offset: u64,
    window: Vec<u8>,
    window_start: u64,
    current: Option<RecordHeader>,
}

impl FileReader {
    /// Opens a file and checks its header. Sees the whole file; [`Self::limit`] makes it see less.
    pub(super) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, LogError> {
        let file = disk.open(path, OpenMode::Read).map_err(IoFailure::of("open", path))?;
        let len = file.len().map_err(IoFailure::of("measure", path))?;
        let damaged = |damage| LogError::Damaged { file: path.to_owned(), offset: 0, damage };
        if len < offset_of(FILE_HEADER_BYTES) {
            return Err(damaged(Damage::Truncated));
        }
        let mut bytes = [0; FILE_HEADER_BYTES];
        file.read_exact_at(0, &mut bytes).map_err(IoFailure::of("read", path))?;
        let header = FileHeader::decode(&bytes).map_err(|problem| match problem {
            HeaderProblem::Damaged(damage) => damaged(damage),
            HeaderProblem::Version(version) => LogError::Version { file: path.to_owned(), version },
        })?;
        Ok(Self::new(file, path, header, len))
    }

    /// Opens a file whose header is damaged and whose first position is known from its name.
    pub(super) fn open_despite(disk: &dyn Disk, path: &Path, first: Position) -> Result<Self, LogError> {
        let file = disk.open(path, OpenMode::Read).map_err(IoFailure::of("open", path))?;
        let len = file.len().map_err(IoFailure::of("measure", path))?;
        Ok(Self::new(file, path, FileHeader { first, sync: SyncPolicy::Os }, len))
    }

    fn new(file: Arc<dyn DiskFile>, path: &Path, header: FileHeader, len: u64) -> Self {
        Self {
            file,
            path: path.to_owned(),
            header,
            len,
            offset: offset_of(FILE_HEADER_BYTES),
            window: Vec::new(),
            window_start: 0,
            current: None,
        }
    }

    pub(super) const fn header(&self) -> FileHeader {
        self.header
    }

    /// Length of the part that is read, in bytes of the file.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Treats the file as if it ended at `len`.
    pub(super) fn limit(&mut self, len: u64) {
        assert!(len <= self.len, "a limit only shortens");
        self.len = len;
    }

    /// The position that belongs to a byte of the file.
    pub(super) fn position_of(&self, offset: u64) -> Position {
        self.header.first.plus(offset - offset_of(FILE_HEADER_BYTES))
    }

    /// Steps to the next record and verifies it. After [`Met::End`] or [`Met::Bad`] the reader stays where it is.
    pub(super) fn advance(&mut self) -> Result<Met, LogError> {
        if let Some(done) = self.current.take() {
            self.offset += offset_of(done.record_bytes());
        }
        let offset = self.offset;
        let room = self.len - offset;
        if room == 0 {
            return Ok(Met::End);
        }
        let header_bytes = offset_of(RECORD_HEADER_BYTES);
        if room < header_bytes {
            return Ok(Met::Bad { offset, damage: Damage::Truncated });
        }
        let at = self.load(header_bytes)?;
        let start = self.position_of(offset);
        let header = match RecordHeader::decode(&self.window[at..], start, room - header_bytes) {
            Ok(header) => header,
            Err(damage) => return Ok(Met::Bad { offset, damage }),
        };
        let at = self.load(offset_of(header.record_bytes()))?;
        if record_crc(&self.window[at..at + header.record_bytes()]) != header.crc {
            return Ok(Met::Bad { offset, damage: Damage::RecordChecksum });
        }
        self.current = Some(header);
        Ok(Met::Record)
    }

    /// The record that [`Self::advance`] met last.
    ///
    /// # Panics
    /// When it met none.
    pub(super) fn record(&self) -> Record<'_> {
        let header = self.current.expect("the last step met a record");
        let payload = &self.whole_record().1[RECORD_HEADER_BYTES..];
        Record { position: header.end(), stream: header.stream, kind: header.kind, payload }
    }

    /// The bytes of the record met last, header included, and where in the file they begin.
    ///
    /// # Panics
    /// When none was met.
    pub(super) fn whole_record(&self) -> (u64, &[u8]) {
        let header = self.current.expect("the last step met a record");
        let at = index_of(self.offset - self.window_start);
        (self.offset, &self.window[at..at + header.record_bytes()])
    }

    /// Goes to a byte of the file at which a record begins.
    pub(super) fn seek(&mut self, offset: u64) {
        assert!(offset <= self.len, "a reader stays within its file");
        self.current = None;
        self.offset = offset;
    }

    /// Where, in the file, the write began that the record met last is part of.
    ///
    /// # Panics
    /// When none was met.
    pub(super) fn write_offset(&self) -> u64 {
        let header = self.current.expect("the last step met a record");
        self.offset.saturating_sub(u64::from(header.back)).max(offset_of(FILE_HEADER_BYTES))
    }

    /// Everything from `offset` to the end, for the search behind a bad place. The file bounds it.
    pub(super) fn rest(&self, offset: u64) -> Result<Vec<u8>, LogError> {
        let mut bytes = vec![0; index_of(self.len - offset)];
        self.file.read_exact_at(offset, &mut bytes).map_err(IoFailure::of("read", &self.path))?;
        Ok(bytes)
    }

    /// Has the next `bytes` in the window, and returns where in it; the caller knows that the file has them.
    fn load(&mut self, bytes: u64) -> Result<usize, LogError> {
        let window_end = self.window_start + offset_of(self.window.len());
        if self.offset < self.window_start || self.offset + bytes > window_end {
            let wanted = bytes.max(WINDOW_BYTES).min(self.len - self.offset);
            // A window that a very large record has stretched does not stay so.
            self.window.clear();
            self.window.shrink_to(index_of(wanted));
            self.window.resize(index_of(wanted), 0);
            self.window_start = self.offset;
            if let Err(error) = self.file.read_exact_at(self.offset, &mut self.window) {
                self.window.clear();
                return Err(IoFailure::of("read", &self.path)(error).into());
            }
        }
        Ok(index_of(self.offset - self.window_start))
    }
}
