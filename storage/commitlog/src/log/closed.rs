//! Reads of a log that is not open, and that nobody writes. Knows nothing of who reads, nor of what records mean.
//!
//! A caller that looks at everything asks for each stream in turn. Where many streams lie among each other, that would be the whole log for
//! each: so of a file of which much more was read than it has, it is noted where the records of each stream are.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use platform::{Disk, DiskFile};

use super::LogError;
use super::format::{FILE_HEADER_BYTES, RECORD_HEADER_BYTES};
use super::inspect::{LogFile, list_log_files};
use super::kept::{
    Damaged, Part, RangeBytes, RecordAt, check, end_of, holds, list_kept_files, open, part_of, read, read_at,
    whole_header,
};
use super::reader::{FileReader, Met};
use crate::bytes::{index_of, offset_of};
use crate::{IoFailure, Position};

/// A file is looked through for the records of all streams once single ones had so many times its length read.
const READS_MAX: u64 = 2;

/// So many records are noted of all files together: 16 bytes each, 64 MiB. Records beyond are read again and again.
const NOTED_MAX: usize = 4 << 20;

/// The files of a log that is not open, kept ones among them: reads ranges of it.
pub struct ClosedLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    parts: Vec<Part>,
    looked: Mutex<Looked>,
}

/// The known files.
struct Looked {
    /// In the order of the parts.
    parts: Vec<LookedPart>,
    /// So many more records may be noted.
    room: usize,
}

/// The known records of a file.
#[derive(Clone, Default)]
struct LookedPart {
    /// Bytes that were read of it for single streams.
    read_bytes: u64,
    noted: Option<Arc<Noted>>,
}

/// Where the records of each stream begin in a file, and how long they are.
#[derive(Debug, Default)]
struct Noted {
    /// By stream, then in the order of the log.
    records: Vec<(u64, u32, u32)>,
    /// Records up to here are whole and follow each other.
    checked_bytes: u64,
}

impl ClosedLog {
    /// Looks which files there are. Checks nothing of what is in them.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, LogError> {
        let mut files = list_kept_files(&*disk, dir)?;
        files.extend(list_log_files(&*disk, dir)?);
        let part = |file: LogFile| {
            let end = end_of(file.first, file.bytes);
            Part {
                end: file.next_first.map_or(end, |next| next.min(end)),
                path: file.path,
                first: file.first,
            }
        };
        let parts: Vec<Part> = files.into_iter().map(part).collect();
        let looked = Looked { parts: vec![LookedPart::default(); parts.len()], room: NOTED_MAX };
        Ok(Self { parts, dir: dir.to_owned(), disk, looked: Mutex::new(looked) })
    }

    /// Whether there are files that should hold the range.
    pub fn holds(&self, first: Position, bytes: u32) -> bool {
        holds(first, bytes, |at| part_of(&self.parts, at).map(|part| part.end))
    }

    /// As [`super::Log::read_range`]; records of which one byte is wrong are put right.
    ///
    /// # Errors
    /// As [`super::Log::read_range`].
    pub fn read_range(&self, first: Position, bytes: u32) -> Result<RangeBytes, LogError> {
        read(&self.dir, (first, bytes), Damaged::Mended, |at| {
            let part = part_of(&self.parts, at).cloned();
            part.map(|part| Ok((open(&*self.disk, &part.path)?, part))).transpose()
        })
    }

    /// As [`Self::read_range`], but returns the records of one stream only. Records of others were checked as well, now or before. In memory is
    /// no more of them than the part of the range that one file has.
    ///
    /// # Errors
    /// As [`Self::read_range`].
    pub fn read_stream(&self, stream: u64, first: Position, bytes: u32) -> Result<RangeBytes, LogError> {
        let (mut own, mut at, end) = (RangeBytes::default(), first, first.plus(bytes.into()));
        while at < end {
            let nth = self.parts.iter().position(|part| part.first <= at && at < part.end);
            let nth = nth.ok_or_else(|| LogError::NotHeld { dir: self.dir.clone(), position: at })?;
            let stop = self.parts[nth].end.min(end);
            let file = open(&*self.disk, &self.parts[nth].path)?;
            self.read_part(&mut own, stream, (&*file, nth, at..stop), Damaged::Mended)?;
            at = stop;
        }
        Ok(own)
    }

    /// As [`Self::read_stream`], without the records that cannot be read, and those in files that are not there.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn read_remains(&self, stream: u64, first: Position, bytes: u32) -> Result<RangeBytes, LogError> {
        let (mut own, mut at, end) = (RangeBytes::default(), first, first.plus(bytes.into()));
        for (nth, part) in self.parts.iter().enumerate().filter(|(_, part)| part.first < end) {
            let (begin, stop) = (part.first.max(at), part.end.min(end));
            if begin >= stop {
                continue;
            }
            let file = open(&*self.disk, &part.path)?;
            let offset = offset_of(FILE_HEADER_BYTES) + begin.bytes_since(part.first);
            let there = file.len().map_err(IoFailure::of("measure", &part.path))?.saturating_sub(offset);
            let span = begin..begin.plus(there.min(stop.bytes_since(begin)));
            self.read_part(&mut own, stream, (&*file, nth, span), Damaged::LeftOut)?;
            at = stop;
        }
        Ok(own)
    }

    /// Adds what a stream has in a part of a file.
    fn read_part(
        &self,
        own: &mut RangeBytes,
        stream: u64,
        (file, nth, span): (&dyn DiskFile, usize, Range<Position>),
        damaged: Damaged,
    ) -> Result<(), LogError> {
        let part = &self.parts[nth];
        let bytes = span.end.bytes_since(span.start);
        if let Some(noted) = self.noted(nth, bytes)
            && let Some(found) = noted.read(stream, (file, part), &span)
        {
            own.add(&found, stream);
            return Ok(());
        }
        let mut whole = RangeBytes { bytes: vec![0; index_of(bytes)], records: Vec::new() };
        read_at(file, part, span.start, &mut whole.bytes)?;
        let length = whole.bytes.len();
        check(&mut whole, span.start, 0..length, part, damaged)?;
        own.add(&whole, stream);
        Ok(())
    }

    /// Where the records of the streams are in a file, if that is known. So many bytes are to be read of it if not.
    fn noted(&self, nth: usize, bytes: u64) -> Option<Arc<Noted>> {
        let mut looked = self.looked.lock();
        let (part, room) = (&self.parts[nth], looked.room);
        let known = &mut looked.parts[nth];
        known.read_bytes = known.read_bytes.saturating_add(bytes);
        let is_dear = known.read_bytes > READS_MAX * part.end.bytes_since(part.first);
        if known.noted.is_none() && is_dear && room > 0 {
            let noted = Noted::of(&*self.disk, part, room);
            known.noted = Some(noted.clone());
            looked.room -= noted.records.len();
        }
        looked.parts[nth].noted.clone()
    }
}

impl RangeBytes {
    /// Adds the records of a stream.
    fn add(&mut self, from: &RangeBytes, stream: u64) {
        for record in from.records.iter().filter(|record| record.stream == stream) {
            let RecordAt { kind, payload, .. } = record;
            let begin = self.bytes.len() + RECORD_HEADER_BYTES;
            self.bytes.extend_from_slice(&from.bytes[payload.start - RECORD_HEADER_BYTES..payload.end]);
            self.records.push(RecordAt { stream, kind: *kind, payload: begin..self.bytes.len() });
        }
    }
}

impl Noted {
    /// Reads a file as far as it is whole, and so many records at most. The reader of an unreadable record gets the error.
    fn of(disk: &dyn Disk, part: &Part, records_max: usize) -> Arc<Noted> {
        let mut noted = Noted::default();
        if let Ok(mut reader) = FileReader::open_despite(disk, &part.path, part.first) {
            let length = offset_of(FILE_HEADER_BYTES) + part.end.bytes_since(part.first);
            reader.limit(length.min(reader.len()));
            while noted.records.len() < records_max && matches!(reader.advance(), Ok(Met::Record)) {
                let record = reader.record();
                let begin = record.range().start - part.first.0;
                let bytes = record.range().end - record.range().start;
                let Some((begin, bytes)) = u32::try_from(begin).ok().zip(u32::try_from(bytes).ok()) else {
                    break;
                };
                noted.records.push((record.stream, begin, bytes));
                noted.checked_bytes = u64::from(begin) + u64::from(bytes);
            }
        }
        noted.records.sort_unstable();
        noted.records.shrink_to_fit();
        Arc::new(noted)
    }

    /// The records of a stream in a part of the file. `None` when it is not known that records begin and end where it does: then it is not
    /// known either that all of them are whole.
    fn read(
        &self,
        stream: u64,
        (file, part): (&dyn DiskFile, &Part),
        span: &Range<Position>,
    ) -> Option<RangeBytes> {
        let (begin, end) = (span.start.bytes_since(part.first), span.end.bytes_since(part.first));
        let after = |at: u64| self.records.partition_point(|it| (it.0, u64::from(it.1)) < (stream, at));
        let own = &self.records[after(begin)..after(end)];
        let is_begin = begin == 0 || own.first().is_some_and(|it| u64::from(it.1) == begin);
        let is_end = end == self.checked_bytes
            || own.last().is_some_and(|it| u64::from(it.1) + u64::from(it.2) == end);
        if !is_begin || !is_end {
            return None;
        }
        let mut read = RangeBytes::default();
        for (_, at, bytes) in own {
            let (from, start) = (read.bytes.len(), part.first.plus(u64::from(*at)));
            read.bytes.resize(from + index_of(u64::from(*bytes)), 0);
            read_at(file, part, start, &mut read.bytes[from..]).ok()?;
            let header = whole_header(&read.bytes[from..], start).ok()?;
            let payload = from + RECORD_HEADER_BYTES..read.bytes.len();
            read.records.push(RecordAt { stream: header.stream, kind: header.kind, payload });
        }
        Some(read)
    }
}
