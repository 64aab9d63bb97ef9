//! Where a reader begins, and where an offset lies.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::DiskFile;
use wire::stream::ChunkHeader;

use crate::chunk::peek;
use crate::file::StreamFile;
use crate::footer::read_footer;
use crate::format::file_path;
use crate::index::Entry;
use crate::{StreamError, StreamLog};

/// Bytes that are read at once to walk headers.
const WINDOW_BYTES: usize = 16 << 10;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The first record that is there.
    First,
    /// The first record of the last chunk.
    Last,
    /// Entries that are committed from now on.
    Next,
    /// The chunk with this offset; the first one if it is gone, the end if it is not there yet.
    Offset(u64),
    /// The first chunk of this time or later, milliseconds since 1970; else the end.
    Timestamp(i64),
}

/// A chunk's place.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) position: u32,
}

/// The outcome of a look-up: where to go on, and where that lies if it was looked for.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) next: u64,
    pub(crate) spot: Option<Spot>,
}

impl StreamLog {
    /// Resolves what needs no file.
    pub(crate) fn seek_now(&self, seek: Seek) -> Option<Found> {
        let committed = self.committed.load(Ordering::Acquire);
        let readable = self.readable.lock();
        let next = match seek {
            Seek::First => readable.files[0].first,
            Seek::Last => readable.last_chunk_id.unwrap_or(committed),
            Seek::Next => committed,
            Seek::Offset(offset) => offset.clamp(readable.files[0].first, committed),
            Seek::Timestamp(ms) => {
                let is_later = |file: &Arc<StreamFile>| {
                    let extent = file.extent();
                    extent.last_chunk != 0 && extent.highest_ms >= ms
                };
                // The first file with such a chunk, if all of it is late enough.
                match readable.files.iter().find(|file| is_later(file)) {
                    None => committed,
                    Some(file) if file.extent().first_ms >= ms => file.first,
                    Some(_) => return None,
                }
            }
        };
        Some(Found { next, spot: None })
    }

    /// Resolves anything; waits for the disk.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged where it is looked into.
    pub fn resolve(&self, seek: Seek) -> Result<u64, StreamError> {
        match self.seek_now(seek) {
            Some(found) => Ok(found.next),
            None => Ok(self.look_up(seek)?.next),
        }
    }

    /// Finds a place in the files; waits for the disk.
    pub(crate) fn look_up(&self, seek: Seek) -> Result<Found, StreamError> {
        loop {
            match self.look_up_once(seek) {
                // Retention took the file between the look at the list and the opening.
                Err(error) if error.is_missing() => {}
                other => return other,
            }
        }
    }

    fn look_up_once(&self, seek: Seek) -> Result<Found, StreamError> {
        let ms = match seek {
            Seek::Timestamp(ms) => ms,
            other => {
                let Some(found) = self.seek_now(other) else { unreachable!("only times need files") };
                return self.spot_of(found.next);
            }
        };
        let file = {
            let readable = self.readable.lock();
            readable.files.iter().find(|file| file.extent().highest_ms >= ms).cloned()
        };
        let Some(file) = file else { return Ok(Found { next: self.committed_next(), spot: None }) };
        let handle = file.handle(&self.node.place, self.id)?;
        let start = self.index_entry(&file, &*handle, |index| index.before_time(ms))?;
        self.walk_to(&file, &*handle, start, |header| header.timestamp >= ms)
    }

    /// Where an offset lies.
    fn spot_of(&self, offset: u64) -> Result<Found, StreamError> {
        let file = {
            let readable = self.readable.lock();
            let after = readable.files.partition_point(|file| file.first <= offset);
            readable.files[after.saturating_sub(1)].clone()
        };
        if offset <= file.first {
            let spot = Spot { position: file.head_bytes, file: file.clone() };
            return Ok(Found { next: file.first, spot: Some(spot) });
        }
        let handle = file.handle(&self.node.place, self.id)?;
        let start = self.index_entry(&file, &*handle, |index| index.before_offset(offset))?;
        let found = self.walk_to(&file, &*handle, start, |header| {
            header.chunk_id + u64::from(header.record_count) > offset
        })?;
        // Within that chunk.
        Ok(Found { next: found.next.max(offset), ..found })
    }

    fn index_entry(
        &self,
        file: &StreamFile,
        handle: &dyn DiskFile,
        find: impl FnOnce(&crate::index::SparseIndex) -> Option<Entry>,
    ) -> Result<u32, StreamError> {
        let index = match file.index() {
            Some(index) => index,
            None => {
                let path = file_path(&self.node.place.dir, self.id, file.first);
                let footer = read_footer(handle, self.id, &path, file.bytes(), file.head_bytes)?;
                let damaged = || StreamError::Damaged {
                    path,
                    position: u64::from(file.extent().end),
                    what: "the footer does not fit its checksum",
                };
                Arc::new(footer.ok_or_else(damaged)?.index)
            }
        };
        Ok(find(&index).map_or(file.head_bytes, |entry| entry.position))
    }

    /// Walks headers from a chunk to the first one that is wanted; to the end of the file when there is none.
    fn walk_to(
        &self,
        file: &Arc<StreamFile>,
        handle: &dyn DiskFile,
        start: u32,
        is_wanted: impl Fn(&ChunkHeader) -> bool,
    ) -> Result<Found, StreamError> {
        let path = file_path(&self.node.place.dir, self.id, file.first);
        let (extent, mut position) = (file.extent(), start);
        let (mut window, mut window_at) = (Vec::new(), u64::from(start));
        while position < extent.end {
            let mut within = (u64::from(position) - window_at) as usize;
            if within + 48 > window.len() {
                let bytes = (extent.end - position).min(WINDOW_BYTES as u32) as usize;
                window.resize(bytes, 0);
                handle
                    .read_exact_at(u64::from(position), &mut window)
                    .map_err(StreamError::io("read", &path))?;
                (window_at, within) = (u64::from(position), 0);
            }
            let Some((header, len)) = peek(&window[within..]) else {
                let position = u64::from(position);
                return Err(StreamError::Damaged { path, position, what: "no chunk starts there" });
            };
            if header.record_count > 0 && is_wanted(&header) {
                let spot = Spot { file: file.clone(), position };
                return Ok(Found { next: header.chunk_id, spot: Some(spot) });
            }
            position = position.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        }
        Ok(Found { next: extent.next, spot: Some(Spot { file: file.clone(), position: extent.end }) })
    }
}
