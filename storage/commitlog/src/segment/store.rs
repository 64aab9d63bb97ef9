//! Operations on segments: write, read, sync, scan and delete blocks and files. Waits for the disk; `SegmentIo` does it
//! on threads. Knows nothing of queues.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use platform::{Caching, Disk, DiskFile, OpenMode};

use super::SegmentError;
use super::cache::{FileCache, OpenFile, Segment};
use super::format::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockLocation, FILE_HEADER_BYTES, HeaderProblem, block_crc,
    block_header, check_file_header, file_header, read_block_header,
};
use super::names::{FOLDER_COUNT, file_path, folder_of, folder_path, parse};
use crate::bytes::{index_of, offset_of};
use crate::snapshot::newest_position;
use crate::{IoFailure, Position, write_snapshot};

/// The snapshot whose position counts how often the directory was opened.
const EPOCH: &str = "epoch";

/// Limits of the segments of one directory.
#[derive(Clone, Copy, Debug)]
pub struct SegmentOptions {
    /// A stream's next block goes into a new file once its current one has this many bytes. Default 16 MiB, at most 2 GiB.
    pub segment_bytes_max: u32,
    /// Files kept open at once, of all streams. Default 512.
    pub open_files_max: usize,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { segment_bytes_max: 16 << 20, open_files_max: 512 }
    }
}

/// All segments of all streams in one directory. Share it between threads; operations on *one* stream wait for each other.
pub struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: SegmentOptions,
    segment_next: AtomicU64,
    /// A leaf.
    streams: Mutex<HashMap<u64, Arc<Stream>>>,
    cache: FileCache,
    /// Per folder: whether names in it have to be synced. Held during that sync, so that nobody takes it for done too early.
    folders: Vec<Mutex<bool>>,
}

/// One stream's files.
#[derive(Default)]
struct Stream {
    state: Mutex<StreamState>,
    failure: Arc<OnceLock<IoFailure>>,
}

#[derive(Default)]
struct StreamState {
    /// Oldest first.
    segments: Vec<Arc<Segment>>,
    /// Length of the last segment's file, if blocks may be added to it.
    writable_len: Option<u32>,
    /// The stream is no longer in the map: a thread that still has it looks there again.
    is_deleted: bool,
}

/// Where [`Segments::scan`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the end of the file.
    Whole,
    /// At a block that is not as it was written: the end of an unfinished write, or damage.
    Bad {
        /// Bytes from the file's start.
        offset: u64,
    },
}

impl Segments {
    /// Opens or creates the directory. Files of earlier lives are known but never written to again.
    ///
    /// # Errors
    /// [`SegmentError::Io`], [`SegmentError::Epoch`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: SegmentOptions) -> Result<Self, SegmentError> {
        let options = SegmentOptions { segment_bytes_max: options.segment_bytes_max.min(1 << 31), ..options };
        let streams = find_streams(&*disk, dir)?;
        // Numbers of deleted segments must not come again: an old location must never point into a new file. The name of the
        // epoch's file says all; damage of what is in it does no harm.
        let before = newest_position(&*disk, dir, EPOCH)?.map_or(0, |position| position.0);
        let newest = streams.values().flat_map(|stream| stream.state.lock().segments.last().cloned());
        let newest = newest.map(|segment| segment.number >> 32).max().unwrap_or(0);
        let epoch = before.max(newest) + 1;
        write_snapshot(&*disk, dir, EPOCH, Position(epoch), &[])?;
        Ok(Self {
            cache: FileCache::new(options.open_files_max),
            disk,
            dir: dir.to_owned(),
            options,
            segment_next: AtomicU64::new(epoch << 32),
            streams: Mutex::new(streams),
            folders: (0..FOLDER_COUNT).map(|_| Mutex::new(false)).collect(),
        })
    }

    /// Adds a block to the stream. It is durable after a [`Self::sync`] of the stream.
    ///
    /// # Errors
    /// [`SegmentError::Io`]: nothing was added, and trying again is allowed. [`SegmentError::Poisoned`].
    ///
    /// # Panics
    /// When the block is larger than [`BLOCK_BYTES_MAX`].
    pub fn write_block(&self, stream: u64, block: &[u8]) -> Result<BlockLocation, SegmentError> {
        assert!(
            block.len() <= BLOCK_BYTES_MAX,
            "a block of {} bytes exceeds the format's bound",
            block.len()
        );
        loop {
            let known = self.streams.lock().entry(stream).or_default().clone();
            let mut state = known.state.lock();
            if state.is_deleted {
                continue;
            }
            usable(&known)?;
            let before = (state.segments.len(), state.writable_len);
            let result = self.add_block(stream, &known, &mut state, block);
            if let Err(error) = &result {
                // Part of it may be there: leave that file alone.
                state.writable_len = None;
                if error.is_out_of_room() {
                    self.undo_add(stream, &mut state, before);
                }
            }
            return result;
        }
    }

    fn add_block(
        &self,
        stream: u64,
        known: &Stream,
        state: &mut StreamState,
        block: &[u8],
    ) -> Result<BlockLocation, SegmentError> {
        let writable = state.writable_len.filter(|len| *len < self.options.segment_bytes_max);
        let mut new_header = None;
        let (segment, file, offset) = match (writable, state.segments.last()) {
            (Some(len), Some(segment)) => (segment.clone(), self.open_segment(stream, segment)?, len),
            _ => {
                let (segment, file) = self.create_segment(stream, known, state)?;
                new_header = Some(file_header(stream, segment.number));
                (segment, file, u32::try_from(FILE_HEADER_BYTES).expect("a small constant"))
            }
        };
        let len = u32::try_from(block.len()).expect("the bound fits in 32 bits");
        let location = BlockLocation { segment: segment.number, offset, len };
        let header = block_header(stream, location, block);
        let path = file_path(&self.dir, stream, segment.number);
        let written = match &new_header {
            Some(first) => file.write_all_at(0, &[first, &header, block]),
            None => file.write_all_at(u64::from(offset), &[&header, block]),
        };
        written.map_err(IoFailure::of("write", &path))?;
        segment.note_write();
        // A file that is fuller than 4 GiB can hold is not written to again.
        let end = u64::from(offset) + offset_of(BLOCK_HEADER_BYTES + block.len());
        state.writable_len = u32::try_from(end).ok();
        Ok(location)
    }

    /// Gives back what a block that found no room has taken: a new file goes, and from one that was there its part is cut off.
    /// A change that cannot be undone stays and is not used.
    fn undo_add(&self, stream: u64, state: &mut StreamState, (count, writable_len): (usize, Option<u32>)) {
        let Some(segment) = state.segments.last().cloned() else { return };
        if state.segments.len() > count {
            if self.remove_file(stream, segment.number).is_ok() {
                state.segments.pop();
            }
        } else if let (Some(len), Ok(file)) = (writable_len, self.open_segment(stream, &segment))
            && file.truncate(u64::from(len)).is_ok()
        {
            state.writable_len = writable_len;
        }
    }

    fn create_segment(
        &self,
        stream: u64,
        known: &Stream,
        state: &mut StreamState,
    ) -> Result<(Arc<Segment>, Arc<dyn DiskFile>), IoFailure> {
        let folder = folder_of(stream);
        let folder_dir = folder_path(&self.dir, folder);
        let mut is_dirty = self.folders[folder].lock();
        self.disk.create_dir_all(&folder_dir).map_err(IoFailure::of("create", &folder_dir))?;
        let number = self.segment_next.fetch_add(1, Ordering::Relaxed);
        let path = file_path(&self.dir, stream, number);
        let file = self.disk.open(&path, OpenMode::CreateNew).map_err(IoFailure::of("create", &path))?;
        *is_dirty = true;
        drop(is_dirty);
        let segment = Arc::new(Segment::new(number, known.failure.clone()));
        state.segments.push(segment.clone());
        self.keep_open(OpenFile { stream, segment: segment.clone(), file: file.clone() });
        Ok((segment, file))
    }

    /// Puts a file into the cache. A dirty one that has to make room is synced before it is closed, because an error of its
    /// write-back could get lost with it.
    fn keep_open(&self, open: OpenFile) {
        for evicted in self.cache.insert(open) {
            if evicted.segment.is_dirty() {
                let path = file_path(&self.dir, evicted.stream, evicted.segment.number);
                // A failure is kept with the stream and told by its next write or sync.
                let _kept_with_the_stream = evicted.segment.sync(&*evicted.file, &path);
            }
        }
    }

    /// The segment's file, open.
    fn open_segment(&self, stream: u64, segment: &Arc<Segment>) -> Result<Arc<dyn DiskFile>, SegmentError> {
        if let Some(file) = self.cache.get(segment.number) {
            return Ok(file);
        }
        let path = file_path(&self.dir, stream, segment.number);
        let file = self.disk.open(&path, OpenMode::ReadWrite).map_err(IoFailure::of("open", &path))?;
        let mut header = [0; FILE_HEADER_BYTES];
        read_or_damaged(&*file, &path, 0, &mut header)?;
        check_file_header(&header, stream, segment.number).map_err(|problem| match problem {
            HeaderProblem::Damaged => SegmentError::Damaged { file: path.clone(), offset: 0 },
            HeaderProblem::Version(version) => SegmentError::Version { file: path.clone(), version },
        })?;
        self.keep_open(OpenFile { stream, segment: segment.clone(), file: file.clone() });
        Ok(file)
    }

    /// The block at a location that [`Self::write_block`] returned, in this life or an earlier one.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] when it is not as it was written, [`SegmentError::Io`] (`NotFound` when the segment does
    /// not exist).
    pub fn read_block(&self, stream: u64, location: BlockLocation) -> Result<Vec<u8>, SegmentError> {
        self.read_block_as(stream, location, Caching::Keep)
    }

    /// The same, with a hint to the system's cache.
    pub(super) fn read_block_as(
        &self,
        stream: u64,
        location: BlockLocation,
        caching: Caching,
    ) -> Result<Vec<u8>, SegmentError> {
        let path = file_path(&self.dir, stream, location.segment);
        let (file, caching) = {
            let known = self.streams.lock().get(&stream).cloned();
            let state = known.as_ref().map(|known| known.state.lock());
            let segment = state
                .as_ref()
                .and_then(|state| state.segments.iter().find(|segment| segment.number == location.segment));
            let Some(segment) = segment else {
                return Err(IoFailure::of("find", &path)(std::io::ErrorKind::NotFound.into()).into());
            };
            // Dropping would write bytes that the system has not written yet, although they may be deleted soon. Bytes that it failed to
            // write it has nowhere else.
            let caching = if segment.is_dirty() { Caching::Keep } else { caching };
            (self.open_segment(stream, segment)?, caching)
        };
        let damaged = || self.damaged(stream, location);
        let mut header = [0; BLOCK_HEADER_BYTES];
        read_or_damaged(&*file, &path, u64::from(location.offset), &mut header)?;
        let (len, crc) = read_block_header(&header);
        if len != location.len || index_of(u64::from(len)) > BLOCK_BYTES_MAX {
            return Err(damaged());
        }
        let mut block = vec![0; index_of(u64::from(len))];
        let start = u64::from(location.offset) + offset_of(BLOCK_HEADER_BYTES);
        read_or_damaged(&*file, &path, start, &mut block)?;
        if caching == Caching::Pass {
            file.pass_cached(u64::from(location.offset)..start + u64::from(len));
        }
        if block_crc(stream, location, &block) != crc { Err(damaged()) } else { Ok(block) }
    }

    /// The error for a block that is not as it was written.
    pub(super) fn damaged(&self, stream: u64, location: BlockLocation) -> SegmentError {
        let file = file_path(&self.dir, stream, location.segment);
        SegmentError::Damaged { file, offset: u64::from(location.offset) }
    }

    /// Makes all blocks of the stream that were written in this life, before the call, durable. Blocks that an earlier life
    /// wrote and did not sync stay unsure for ever: treat them as not written.
    ///
    /// # Errors
    /// [`SegmentError::Poisoned`] when a sync of this stream's files has failed, now or earlier: keep what the blocks were
    /// made from. [`SegmentError::Io`] when a file could not be opened.
    pub fn sync(&self, stream: u64) -> Result<(), SegmentError> {
        let Some(known) = self.streams.lock().get(&stream).cloned() else { return Ok(()) };
        usable(&known)?;
        let state = known.state.lock();
        for segment in state.segments.iter().filter(|segment| segment.is_dirty()) {
            let file = self.open_segment(stream, segment)?;
            let path = file_path(&self.dir, stream, segment.number);
            segment.sync(&*file, &path).map_err(SegmentError::Poisoned)?;
        }
        let folder = folder_of(stream);
        let mut is_dirty = self.folders[folder].lock();
        if *is_dirty {
            let path = folder_path(&self.dir, folder);
            if let Err(failure) = self.disk.sync_dir(&path).map_err(IoFailure::of("sync", &path)) {
                return Err(SegmentError::Poisoned(known.failure.get_or_init(|| failure).clone()));
            }
            *is_dirty = false;
        }
        usable(&known)
    }

    /// Shows the blocks of a segment in the order they were written, up to the first that is not as it was written.
    ///
    /// # Errors
    /// As [`Self::read_block`], but a bad block only ends the scan.
    pub fn scan(
        &self,
        stream: u64,
        segment: u64,
        mut show: impl FnMut(BlockLocation, &[u8]),
    ) -> Result<ScanEnd, SegmentError> {
        let path = file_path(&self.dir, stream, segment);
        let file = self.disk.open(&path, OpenMode::Read).map_err(IoFailure::of("open", &path))?;
        let end = file.len().map_err(IoFailure::of("measure", &path))?;
        let mut offset = offset_of(FILE_HEADER_BYTES);
        let mut header = [0; BLOCK_HEADER_BYTES];
        while offset < end {
            let room = (end - offset).checked_sub(offset_of(BLOCK_HEADER_BYTES));
            let (Some(room), Ok(place)) = (room, u32::try_from(offset)) else {
                return Ok(ScanEnd::Bad { offset });
            };
            read_or_damaged(&*file, &path, offset, &mut header)?;
            let (len, _) = read_block_header(&header);
            if u64::from(len) > room {
                return Ok(ScanEnd::Bad { offset });
            }
            let location = BlockLocation { segment, offset: place, len };
            match self.read_block(stream, location) {
                Ok(block) => show(location, &block),
                Err(SegmentError::Damaged { offset: found, .. }) if found == offset => {
                    return Ok(ScanEnd::Bad { offset });
                }
                Err(other) => return Err(other),
            }
            offset += offset_of(BLOCK_HEADER_BYTES) + u64::from(len);
        }
        Ok(ScanEnd::Whole)
    }

    /// The stream's segments, oldest first.
    pub fn segments_of(&self, stream: u64) -> Vec<u64> {
        let known = self.streams.lock().get(&stream).cloned();
        let Some(known) = known else { return Vec::new() };
        let state = known.state.lock();
        state.segments.iter().map(|segment| segment.number).collect()
    }

    /// Bytes of a segment's file; `None` when there is none.
    ///
    /// # Errors
    /// [`SegmentError::Io`].
    pub fn file_bytes(&self, stream: u64, segment: u64) -> Result<Option<u64>, SegmentError> {
        let path = file_path(&self.dir, stream, segment);
        let file = match self.disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(IoFailure::of("open", &path))?,
        };
        Ok(Some(file.len().map_err(IoFailure::of("measure", &path))?))
    }

    /// Adds no further block to this segment: the stream's next one goes into a new file.
    pub fn seal(&self, stream: u64, segment: u64) {
        let Some(known) = self.streams.lock().get(&stream).cloned() else { return };
        let mut state = known.state.lock();
        if state.segments.last().is_some_and(|last| last.number == segment) {
            state.writable_len = None;
        }
    }

    /// Removes one segment; nothing happens when there is none of this number. After a power cut it may be there again, like
    /// every file that nothing points to: on start, compare [`Self::segments_of`] with what is wanted.
    ///
    /// # Errors
    /// [`SegmentError::Io`].
    pub fn delete_segment(&self, stream: u64, segment: u64) -> Result<(), SegmentError> {
        let Some(known) = self.streams.lock().get(&stream).cloned() else { return Ok(()) };
        let mut state = known.state.lock();
        let Some(index) = state.segments.iter().position(|known| known.number == segment) else {
            return Ok(());
        };
        self.remove_file(stream, segment)?;
        state.segments.remove(index);
        if index == state.segments.len() {
            state.writable_len = None;
        }
        if state.segments.is_empty() && known.failure.get().is_none() {
            state.is_deleted = true;
            self.streams.lock().remove(&stream);
        }
        Ok(())
    }

    /// Removes all segments of a stream, and forgets that it failed if it did.
    ///
    /// # Errors
    /// [`SegmentError::Io`]; trying again is allowed.
    pub fn delete_stream(&self, stream: u64) -> Result<(), SegmentError> {
        let Some(known) = self.streams.lock().get(&stream).cloned() else { return Ok(()) };
        let mut state = known.state.lock();
        state.writable_len = None;
        while let Some(segment) = state.segments.last() {
            self.remove_file(stream, segment.number)?;
            state.segments.pop();
        }
        state.is_deleted = true;
        self.streams.lock().remove(&stream);
        Ok(())
    }

    /// Deletes all streams for which `keep` is false; for the start, when the caller knows which there are. Returns how many
    /// were deleted.
    ///
    /// # Errors
    /// [`SegmentError::Io`].
    pub fn retain(&self, mut keep: impl FnMut(u64) -> bool) -> Result<usize, SegmentError> {
        let mut unwanted: Vec<u64> = self.streams.lock().keys().copied().collect();
        unwanted.retain(|stream| !keep(*stream));
        unwanted.sort_unstable();
        for stream in &unwanted {
            self.delete_stream(*stream)?;
        }
        Ok(unwanted.len())
    }

    fn remove_file(&self, stream: u64, segment: u64) -> Result<(), IoFailure> {
        self.cache.forget(segment);
        let path = file_path(&self.dir, stream, segment);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(IoFailure::of("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether there is anything in the directory that [`Segments`] made, ever. Changes nothing.
///
/// # Errors
/// The operating system refused to list it.
pub fn segments_exist(disk: &dyn Disk, dir: &Path) -> Result<bool, IoFailure> {
    let names = names_in(disk, dir)?;
    let is_epoch = |name: &String| name.starts_with(EPOCH) && name.ends_with(".snap");
    Ok(names.iter().any(is_epoch) || !find_streams(disk, dir)?.is_empty())
}

/// Names in a directory, none when it does not exist.
fn names_in(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, IoFailure> {
    match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(IoFailure::of("list", dir)),
    }
}

/// Refuses a stream one of whose syncs has failed.
fn usable(known: &Stream) -> Result<(), SegmentError> {
    known.failure.get().map_or(Ok(()), |failure| Err(SegmentError::Poisoned(failure.clone())))
}

/// Reads; a file that is too short is damage.
fn read_or_damaged(
    file: &dyn DiskFile,
    path: &Path,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), SegmentError> {
    file.read_exact_at(offset, buffer).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => SegmentError::Damaged { file: path.to_owned(), offset },
        _ => IoFailure::of("read", path)(error).into(),
    })
}

/// The files of earlier lives.
fn find_streams(disk: &dyn Disk, dir: &Path) -> Result<HashMap<u64, Arc<Stream>>, IoFailure> {
    let mut streams: HashMap<u64, Arc<Stream>> = HashMap::new();
    for folder in 0..FOLDER_COUNT {
        let path = folder_path(dir, folder);
        let names = names_in(disk, &path)?;
        // Names are sorted, so each stream's segments come oldest first.
        for (stream, segment) in names.iter().filter_map(|name| parse(name)) {
            let known = streams.entry(stream).or_default();
            let segment = Segment::new(segment, known.failure.clone());
            known.state.lock().segments.push(Arc::new(segment));
        }
    }
    Ok(streams)
}
