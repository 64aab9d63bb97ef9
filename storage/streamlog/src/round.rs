//! Work of the writer for one stream: writes the gathered chunks, makes them durable, lets readers see them; begins new files and removes
//! old ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::{DiskFile, OpenMode, thread};

use crate::chunk::{ClosedChunk, StoredChunk};
use crate::error::StreamError;
use crate::file::{Extent, Known, StreamFile};
use crate::footer::Footer;
use crate::format::{Seal, file_path, folder_path, write_head};
use crate::index::SparseIndex;
use crate::log::{Limits, RoundTook, StreamLog};
use crate::node::Node;
use crate::tracking::Tracking;
use crate::walk;

/// Bytes that an appending thread writes at most; more is for the writers.
const HERE_BYTES_MAX: usize = 512 << 10;
/// A write that takes so long is slow, milliseconds.
const SLOW_MS: u64 = 3;
/// How long only writers write to a stream after a slow write, milliseconds.
const WRITERS_MS: u64 = 1000;

/// State of the writer.
pub(crate) struct Writing {
    /// The newest file, open for writing once something is written.
    pub(crate) handle: Option<Arc<dyn DiskFile>>,
    pub(crate) file: Arc<StreamFile>,
    /// Where the next chunk goes.
    pub(crate) end: u32,
    /// Where the last chunk starts; 0: none.
    pub(crate) last_chunk: u32,
    /// Up to here all was told: the file is durable, or in the system's cache where nothing is synced.
    pub(crate) synced: u32,
    /// Where the file ended when a mark was due last: it is written when nothing came meanwhile.
    pub(crate) marks_from: u32,
    /// A seal says that everything before the last chunk was told, and that chunk has no records.
    pub(crate) is_marked: bool,
    /// A footer lies behind the chunks.
    pub(crate) is_to_cut: bool,
    /// The tracking table as of the chunks that were written.
    pub(crate) tracking: Tracking,
    /// Sealed for their place, not committed.
    pub(crate) sealed: Vec<StoredChunk>,
    /// [`crate::StreamListener::may_write`] said so.
    pub(crate) is_named: bool,
    /// The file is damaged: nothing is written into it, not even a footer.
    pub(crate) is_damaged: bool,
}

impl StreamLog {
    fn path_of(&self, file: &StreamFile) -> std::path::PathBuf {
        file_path(&self.node.place.dir, self.id, file.first)
    }

    /// One round: afterwards nothing is left to write of what was appended before. False: nothing may be written yet.
    pub(crate) fn round(&self) -> Result<bool, StreamError> {
        self.check()?;
        let mut writing = self.writing.lock();
        let limits = *self.limits.lock();
        if !writing.sealed.is_empty() {
            self.flush(&mut writing)?;
        }
        self.filling.lock().close(self.node.now_ms(), limits.filter_bytes);
        loop {
            let Some(bytes) = self.filling.lock().closed.front().map(|chunk| chunk.stored_bytes() as u64)
            else {
                break;
            };
            if !writing.is_named {
                if !self.listener.may_write() {
                    return Ok(false);
                }
                writing.is_named = true;
            }
            if writing.is_damaged || self.is_full_for(&writing, &limits, bytes) {
                self.roll(&mut writing)?;
            }
            let Some(chunk) = self.filling.lock().closed.pop_front() else { break };
            self.seal(&mut writing, chunk);
        }
        self.flush(&mut writing).map(|()| true)
    }

    /// Writes a chunk without records when nothing was written since the last call: its seal says that all before it was told. A place that is bad
    /// after a kill is known as damage then. It is not synced: nobody waits for it. True: there is nothing more to mark.
    pub(crate) fn mark(&self) -> Result<bool, StreamError> {
        self.check()?;
        let mut writing = self.writing.lock();
        let is_pending = !writing.sealed.is_empty() || self.has_work();
        if writing.is_marked
            || writing.last_chunk == 0
            || writing.is_damaged
            || writing.handle.is_none()
            || writing.is_to_cut
        {
            return Ok(!is_pending);
        }
        if is_pending || writing.marks_from != writing.end {
            writing.marks_from = writing.end;
            return Ok(false);
        }
        let limits = *self.limits.lock();
        let mark = self.filling.lock().mark(writing.file.extent().highest_ms);
        let Some(mark) = mark else { return Ok(false) };
        if self.is_full_for(&writing, &limits, mark.stored_bytes() as u64) {
            return Ok(true);
        }
        self.seal(&mut writing, mark);
        self.write_sealed(&mut writing)?;
        self.commit(&mut writing);
        writing.is_marked = true;
        Ok(true)
    }

    /// Gives a chunk its place in the newest file.
    fn seal(&self, writing: &mut Writing, chunk: ClosedChunk) {
        let start = writing.end;
        let back = if writing.last_chunk == 0 { 0 } else { start - writing.last_chunk };
        writing.tracking.apply(chunk.trailer());
        let stored = chunk.seal(self.id, start, Seal { back, synced: writing.synced });
        writing.last_chunk = start;
        writing.end = start + u32::try_from(stored.stored_bytes()).expect("chunks are far below 4 GiB");
        writing.sealed.push(stored);
    }

    /// Writes the appended entries on the appending thread, if that is a plain write into the system's cache: nothing is synced, the
    /// file is open and has room, nobody else writes, and the disk was not slow lately. A writer that was woken and has not begun finds nothing left
    /// to do. False: a writer has something to do.
    pub(crate) fn write_here(&self) -> bool {
        let now_ms = self.node.now_ms();
        let is_for_writers = self.node.syncs()
            || self.unwritten_bytes.load(Ordering::Relaxed) > HERE_BYTES_MAX
            || now_ms < self.writers_until_ms.load(Ordering::Relaxed)
            || self.check().is_err();
        if is_for_writers {
            return false;
        }
        let Some(mut writing) = self.writing.try_lock() else { return false };
        let is_plain =
            writing.is_named && !writing.is_damaged && !writing.is_to_cut && writing.handle.is_some();
        if !is_plain || !writing.sealed.is_empty() {
            return false;
        }
        let limits = *self.limits.lock();
        self.filling.lock().close(now_ms, limits.filter_bytes);
        let mut is_all = true;
        loop {
            let mut filling = self.filling.lock();
            let Some(chunk) = filling.closed.front() else { break };
            if self.is_full_for(&writing, &limits, chunk.stored_bytes() as u64) {
                is_all = false;
                break;
            }
            let chunk = filling.closed.pop_front();
            drop(filling);
            chunk.into_iter().for_each(|chunk| self.seal(&mut writing, chunk));
        }
        let waits_before = thread::wait_count();
        // A round that could not be written stays sealed: a writer tries again, and tells.
        let is_written = self.flush(&mut writing).is_ok();
        let end_ms = self.node.now_ms();
        // A thread that lost its processor meanwhile says nothing of the disk.
        if end_ms.abs_diff(now_ms) >= SLOW_MS && thread::wait_count() != waits_before {
            self.writers_until_ms.store(end_ms + WRITERS_MS, Ordering::Relaxed);
        }
        is_all && is_written
    }

    fn is_full_for(&self, writing: &Writing, limits: &Limits, bytes: u64) -> bool {
        let end = u64::from(writing.end);
        writing.last_chunk != 0
            && (end + bytes > limits.segment_bytes || end + bytes > u64::from(u32::MAX) - (1 << 20))
    }

    /// Writes what is sealed, makes it durable, and lets readers see it.
    fn flush(&self, writing: &mut Writing) -> Result<(), StreamError> {
        if writing.sealed.is_empty() {
            return Ok(());
        }
        let began_ns = self.node.now_ns();
        let handle = self.write_sealed(writing)?;
        let written_ns = self.node.now_ns();
        let mut sync_ns = None;
        if self.node.syncs() {
            handle.sync_data().map_err(StreamError::io("sync", &self.path_of(&writing.file)))?;
            sync_ns = Some(self.node.now_ns().saturating_sub(written_ns));
        }
        (writing.synced, writing.is_marked) = (writing.end, false);
        self.listener.wrote(RoundTook { write_ns: written_ns.saturating_sub(began_ns), sync_ns });
        self.commit(writing);
        Ok(())
    }

    /// Writes what is sealed to the end of the newest file.
    fn write_sealed(&self, writing: &mut Writing) -> Result<Arc<dyn DiskFile>, StreamError> {
        let path = self.path_of(&writing.file);
        let sealed_bytes: usize = writing.sealed.iter().map(StoredChunk::stored_bytes).sum();
        let start = u64::from(writing.end) - sealed_bytes as u64;
        debug_assert!(
            writing.sealed.first().is_none_or(|first| first.chunk_id() >= writing.file.first),
            "chunks go into the file that was begun for them"
        );
        let handle = match &writing.handle {
            Some(handle) => handle.clone(),
            None => {
                let opened = self.node.place.disk.open(&path, OpenMode::ReadWrite);
                let handle = opened.map_err(StreamError::io("open", &path))?;
                writing.handle.insert(handle).clone()
            }
        };
        if writing.is_to_cut {
            handle.truncate(start).map_err(StreamError::io("truncate", &path))?;
            writing.is_to_cut = false;
        }
        let parts: Vec<&[u8]> = writing.sealed.iter().map(StoredChunk::stored).collect();
        if let Err(error) = handle.write_all_at(start, &parts) {
            // A prefix of it may be there: it is written again, or overwritten.
            return Err(StreamError::io("write", &path)(error));
        }
        Ok(handle)
    }

    /// The sealed chunks are written: readers see them.
    fn commit(&self, writing: &mut Writing) {
        let mut position = writing.end;
        for chunk in &writing.sealed {
            position -= u32::try_from(chunk.stored_bytes()).expect("chunks are far below 4 GiB");
        }
        writing.file.update(|known| {
            let mut index = known.index.take().unwrap_or_default();
            for chunk in &writing.sealed {
                walk::add(&mut known.extent, Arc::make_mut(&mut index), chunk, position);
                position = known.extent.end;
            }
            known.index = Some(index);
            known.bytes = u64::from(known.extent.end);
        });
        let mut data_bytes = 0;
        let mut readable = self.readable.lock();
        for chunk in writing.sealed.drain(..) {
            data_bytes += chunk.data().len();
            if chunk.header().record_count > 0 {
                readable.last_chunk_id = Some(chunk.chunk_id());
                readable.tail.push(chunk, &self.node.tails);
            }
        }
        drop(readable);
        let next = writing.file.extent().next;
        self.committed.store(next, Ordering::Release);
        self.unwritten_bytes.fetch_sub(data_bytes, Ordering::Relaxed);
        self.listener.committed(next);
        self.wake_all();
    }

    /// Closes the newest file and begins the next one.
    fn roll(&self, writing: &mut Writing) -> Result<(), StreamError> {
        self.flush(writing)?;
        let first = self.committed_next();
        // In this order: a file is closed before there is a newer one.
        self.close_file(writing)?;
        let begun = begin_file(&self.node, self.id, first, &writing.tracking)?;
        if writing.is_to_cut {
            // Its footer has the index.
            writing.file.update(|known| known.index = None);
        }
        let mut readable = self.readable.lock();
        // A file without records had the same name: the new one has taken its place, with all that it told.
        if writing.file.first == first {
            readable.files.pop_back();
        }
        readable.files.push_back(begun.file.clone());
        drop(readable);
        (writing.end, writing.synced, writing.last_chunk) = (begun.file.head_bytes, begun.file.head_bytes, 0);
        (writing.handle, writing.file) = (Some(begun.handle), begun.file);
        (writing.is_to_cut, writing.is_damaged, writing.is_marked) = (false, false, true);
        self.retain_with(writing)
    }

    /// Writes the footer of the newest file.
    fn close_file(&self, writing: &mut Writing) -> Result<(), StreamError> {
        // Without a handle nothing was written since it was closed the last time. A file without chunks is read as fast as a footer.
        let is_to_close = !writing.is_damaged && writing.last_chunk != 0;
        let Some(handle) = writing.handle.clone().filter(|_| is_to_close) else { return Ok(()) };
        let path = self.path_of(&writing.file);
        let (extent, index) = (writing.file.extent(), writing.file.index().unwrap_or_default());
        let footer = Footer { extent, index: (*index).clone(), tracking: writing.tracking.encode() };
        let bytes = footer.encode(self.id);
        if writing.is_to_cut {
            handle.truncate(u64::from(writing.end)).map_err(StreamError::io("truncate", &path))?;
        }
        handle.write_all_at(u64::from(writing.end), &[&bytes]).map_err(StreamError::io("write", &path))?;
        handle.sync_data().map_err(StreamError::io("sync", &path))?;
        writing.is_to_cut = true;
        writing.file.update(|known| known.bytes = u64::from(known.extent.end) + bytes.len() as u64);
        Ok(())
    }

    /// A clean end: appended entries are written, and the newest file closed.
    pub(crate) fn finish(&self) -> Result<(), StreamError> {
        self.round()?;
        self.close_file(&mut self.writing.lock())
    }

    /// Removes files that the limits do not leave; also the newest, once all of it is too old.
    pub(crate) fn retain(&self) -> Result<(), StreamError> {
        self.check()?;
        let mut writing = self.writing.lock();
        let extent = writing.file.extent();
        let is_too_old = self.oldest_kept_ms().is_some_and(|oldest| extent.highest_ms < oldest);
        if extent.last_chunk != 0 && is_too_old && writing.sealed.is_empty() {
            if writing.handle.is_none() {
                let path = self.path_of(&writing.file);
                let opened = self.node.place.disk.open(&path, OpenMode::ReadWrite);
                writing.handle = Some(opened.map_err(StreamError::io("open", &path))?);
            }
            return self.roll(&mut writing);
        }
        self.retain_with(&mut writing)
    }

    /// Time before which records are too old.
    fn oldest_kept_ms(&self) -> Option<i64> {
        let age_ms = self.limits.lock().max_age_ms?;
        let now_ms = i64::try_from(self.node.now_ms()).unwrap_or(i64::MAX);
        Some(now_ms.saturating_sub(i64::try_from(age_ms).unwrap_or(i64::MAX)))
    }

    fn retain_with(&self, _writing: &mut Writing) -> Result<(), StreamError> {
        let max_bytes = self.limits.lock().max_bytes.unwrap_or(u64::MAX);
        let oldest_kept_ms = self.oldest_kept_ms();
        loop {
            let removed = {
                let mut readable = self.readable.lock();
                if readable.files.len() < 2 {
                    return Ok(());
                }
                let bytes: u64 = readable.files.iter().map(|file| file.bytes()).sum();
                let extent = readable.files[0].extent();
                let is_old =
                    extent.last_chunk != 0 && oldest_kept_ms.is_some_and(|oldest| extent.highest_ms < oldest);
                let is_empty = extent.last_chunk == 0;
                if !(bytes > max_bytes || is_old || (is_empty && oldest_kept_ms.is_some())) {
                    return Ok(());
                }
                readable.files.pop_front()
            };
            let Some(removed) = removed else { return Ok(()) };
            remove_file(&self.node, self.id, removed.first)?;
        }
    }

    /// All files go. The stream has ended before.
    pub(crate) fn remove_files(&self) -> Result<(), StreamError> {
        // The writer has seen by now that it has ended, or does so before the next file.
        let _writing = self.writing.lock();
        let firsts: Vec<u64> = self.readable.lock().files.iter().map(|file| file.first).collect();
        self.readable.lock().tail.clear(&self.node.tails);
        let removed = firsts.into_iter().map(|first| remove_file(&self.node, self.id, first));
        removed.fold(Ok(()), Result::and)
    }
}

/// Removes a file, durably; one that is not there is no error.
pub(crate) fn remove_file(node: &Node, stream: u64, first: u64) -> Result<(), StreamError> {
    let path = file_path(&node.place.dir, stream, first);
    match node.place.disk.remove(&path).map_err(StreamError::io("remove", &path)) {
        Err(error) if error.is_missing() => return Ok(()),
        other => other?,
    }
    let folder = folder_path(&node.place.dir, stream);
    node.place.disk.sync_dir(&folder).map_err(StreamError::io("sync", &folder))
}

/// A file that was begun.
pub(crate) struct Begun {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) handle: Arc<dyn DiskFile>,
}

/// Begins a file, durably: it is there with its head, or not at all.
pub(crate) fn begin_file(
    node: &Node,
    stream: u64,
    first: u64,
    tracking: &Tracking,
) -> Result<Begun, StreamError> {
    let disk = &node.place.disk;
    let (folder, path) = (folder_path(&node.place.dir, stream), file_path(&node.place.dir, stream, first));
    disk.create_dir_all(&folder).map_err(StreamError::io("create", &folder))?;
    let new_path = path.with_extension("tmp");
    let handle = disk.open(&new_path, OpenMode::CreateEmpty).map_err(StreamError::io("create", &new_path))?;
    let head = write_head(stream, first, &tracking.encode());
    handle.write_all_at(0, &[&head]).map_err(StreamError::io("write", &new_path))?;
    handle.sync_data().map_err(StreamError::io("sync", &new_path))?;
    disk.rename(&new_path, &path).map_err(StreamError::io("rename", &new_path))?;
    disk.sync_dir(&folder).map_err(StreamError::io("sync", &folder))?;
    let head_bytes = u32::try_from(head.len()).expect("tracking tables are bounded");
    let extent = Extent { first, next: first, end: head_bytes, ..Extent::default() };
    let known = Known {
        extent,
        index: Some(Arc::new(SparseIndex::default())),
        bytes: u64::from(head_bytes),
        damage: None,
    };
    Ok(Begun { file: StreamFile::new(first, head_bytes, known), handle })
}
