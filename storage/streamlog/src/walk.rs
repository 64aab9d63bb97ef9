//! Walks a file that has no footer, chunk by chunk, and says where its chunks end and why.
//!
//! A chunk that does not follow is a torn tail, which may be cut, or damage, which may not. Each seal says up to where all had been told when its
//! chunk was written: a bad chunk before that is damage. So is one in a file that has another after it.

use std::path::Path;
use std::sync::Arc;

use platform::DiskFile;
use wire::stream::CHUNK_MAGIC;

use crate::StreamError;
use crate::chunk::{ChunkFault, StoredChunk, peek};
use crate::file::Extent;
use crate::index::{Entry, SparseIndex};
use crate::tracking::Tracking;

/// Bytes that are read at once.
const WINDOW_BYTES: usize = 1 << 20;

/// Result of a walk.
pub(crate) struct Walked {
    pub(crate) extent: Extent,
    pub(crate) index: SparseIndex,
    /// A chunk that was durable cannot be read; and what is known of those behind it.
    pub(crate) damage: Option<Damage>,
    /// Up to here all was told when the last chunk was written.
    pub(crate) synced: u32,
    /// The last chunk has no records, and all before it was told.
    pub(crate) is_marked: bool,
    /// Why what follows the chunks is none.
    pub(crate) fault: Option<&'static str>,
}

/// Behind a damaged place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Damage {
    pub(crate) position: u64,
    pub(crate) what: &'static str,
    /// Offset after the last record of the last whole chunk behind it.
    pub(crate) next: u64,
}

/// The file that is walked.
pub(crate) struct Walk<'a> {
    pub(crate) stream: u64,
    pub(crate) path: &'a Path,
    pub(crate) file: &'a dyn DiskFile,
    /// Bytes of the file.
    pub(crate) len: u64,
}

impl Walk<'_> {
    fn window(&self, position: u64, bytes: usize) -> Result<Arc<Vec<u8>>, StreamError> {
        let bytes = (self.len - position).min(bytes as u64) as usize;
        let mut window = vec![0; bytes];
        self.file.read_exact_at(position, &mut window).map_err(StreamError::io("read", self.path))?;
        Ok(Arc::new(window))
    }

    /// Walks from the end of the head. Changes of the tracking table go into `tracking`.
    pub(crate) fn run(
        &self,
        first: u64,
        head_bytes: u32,
        tracking: &mut Tracking,
    ) -> Result<Walked, StreamError> {
        let mut extent = Extent { first, next: first, end: head_bytes, ..Extent::default() };
        let mut index = SparseIndex::default();
        let (mut position, mut synced, mut is_marked) = (u64::from(head_bytes), head_bytes, true);
        let fault = 'file: loop {
            if position >= self.len {
                break None;
            }
            let mut window = self.window(position, WINDOW_BYTES)?;
            let mut start = 0;
            while start < window.len() {
                let Ok(at) = u32::try_from(position) else { break 'file Some(ChunkFault::NoHeader) };
                match StoredChunk::read(self.stream, at, &window, start) {
                    Ok((chunk, seal)) if chunk.chunk_id() == extent.next => {
                        (synced, is_marked) =
                            (seal.synced, chunk.header().record_count == 0 && seal.synced == at);
                        add(&mut extent, &mut index, &chunk, at);
                        tracking.apply(chunk.trailer());
                        start += chunk.stored_bytes();
                        position += chunk.stored_bytes() as u64;
                    }
                    Ok(_) => break 'file Some(ChunkFault::NoHeader),
                    Err(ChunkFault::Short(len)) if position + len as u64 <= self.len => {
                        (window, start) = (self.window(position, len.max(WINDOW_BYTES))?, 0);
                    }
                    // The window ends within a header.
                    Err(ChunkFault::NoHeader) if window.len() - start < 48 && start > 0 => {
                        (window, start) = (self.window(position, WINDOW_BYTES)?, 0);
                    }
                    Err(fault) => break 'file Some(fault),
                }
            }
        };
        let damage = match fault {
            None => None,
            Some(fault) => self.damage_at(position, extent.next, fault)?,
        };
        Ok(Walked { extent, index, damage, synced, is_marked, fault: fault.map(ChunkFault::what) })
    }

    /// Looks for chunks behind a bad one that were written when it was durable.
    fn damage_at(&self, bad: u64, next: u64, fault: ChunkFault) -> Result<Option<Damage>, StreamError> {
        let mut found: Option<Damage> = None;
        let mut position = bad + 1;
        while position < self.len {
            let window = self.window(position, WINDOW_BYTES)?;
            let mut start = 0;
            while start < window.len() {
                if window[start] != CHUNK_MAGIC {
                    start += 1;
                    continue;
                }
                let Ok(at) = u32::try_from(position + start as u64) else { return Ok(found) };
                // A chunk that the window cuts is looked at in a window of its own.
                let cut = peek(&window[start..]).is_none_or(|(_, len)| window.len() - start < len);
                let own = if cut && u64::from(at) < self.len { self.own_window(at)? } else { None };
                let (block, at_start) = own.as_ref().map_or((&window, start), |own| (own, 0));
                match StoredChunk::read(self.stream, at, block, at_start) {
                    Ok((chunk, seal)) if chunk.chunk_id() >= next => {
                        if u64::from(seal.synced) > bad {
                            found =
                                Some(Damage { position: bad, what: fault.what(), next: chunk.next_offset() });
                        }
                        start += chunk.stored_bytes();
                    }
                    _ => start += 1,
                }
            }
            position += start as u64;
        }
        Ok(found)
    }

    /// The bytes of what may be a chunk at a place, if the file has them all.
    fn own_window(&self, at: u32) -> Result<Option<Arc<Vec<u8>>>, StreamError> {
        let head = self.window(u64::from(at), 48)?;
        match peek(&head) {
            Some((_, len)) if u64::from(at) + len as u64 <= self.len => {
                Ok(Some(self.window(u64::from(at), len)?))
            }
            _ => Ok(None),
        }
    }
}

/// A chunk at a place follows what the extent has.
pub(crate) fn add(extent: &mut Extent, index: &mut SparseIndex, chunk: &StoredChunk, position: u32) {
    let header = chunk.header();
    if extent.last_chunk == 0 {
        (extent.first_ms, extent.highest_ms) = (header.timestamp, header.timestamp);
    }
    extent.highest_ms = extent.highest_ms.max(header.timestamp);
    extent.next = chunk.next_offset();
    extent.epoch = header.epoch;
    extent.last_chunk = position;
    extent.end = position + u32::try_from(chunk.stored_bytes()).expect("chunks are far below 4 GiB");
    index.add(Entry { chunk_id: header.chunk_id, highest_ms: extent.highest_ms, position });
}
