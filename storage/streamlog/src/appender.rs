//! How entries get into the open chunk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use wire::stream::Entry;

use crate::chunk::{ClosedChunk, OpenChunk};
use crate::tracking::{Changes, Tracking};
use crate::{StreamError, StreamLog};

/// The open chunk, which appenders fill and the writer takes.
pub(crate) struct Filling {
    /// Offset of the next record.
    pub(crate) next: u64,
    pub(crate) epoch: u64,
    pub(crate) open: OpenChunk,
    pub(crate) closed: VecDeque<ClosedChunk>,
    /// As of the last append.
    pub(crate) tracking: Tracking,
    pub(crate) changes: Changes,
}

impl Filling {
    /// Closes the open chunk, if there is something in it or beside it.
    pub(crate) fn close(&mut self, now_ms: u64, filter_bytes: u8) {
        if self.open.is_empty() && self.changes.is_empty() {
            return;
        }
        let mut trailer = Vec::new();
        self.changes.take(&mut trailer);
        let timestamp = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let closed = self.open.close(self.next_of_open(), self.epoch, timestamp, &trailer);
        self.open.bloom.clear(filter_bytes);
        self.closed.push_back(closed);
    }

    /// A chunk of nothing, when nothing waits to be written. Its time is that of what lies before it: it keeps nothing young.
    pub(crate) fn mark(&mut self, timestamp: i64) -> Option<ClosedChunk> {
        if !self.open.is_empty() || !self.closed.is_empty() || !self.changes.is_empty() {
            return None;
        }
        Some(self.open.close(self.next, self.epoch, timestamp, &[]))
    }

    /// Offset of the open chunk's first record.
    fn next_of_open(&self) -> u64 {
        self.next - u64::from(self.open.record_count())
    }
}

/// Outcome of an entry of a named publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the stream once the committed offset is at least this.
    New(u64),
    /// One with this publishing id or a greater one is in the stream, or will be once the committed offset is at least this.
    Duplicate(u64),
}

impl Appended {
    /// The offset to wait for.
    #[must_use]
    pub fn next_offset(self) -> u64 {
        match self {
            Self::New(next) | Self::Duplicate(next) => next,
        }
    }
}

/// A named publisher of a stream: its name, at most 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherSlot(pub Box<[u8]>);

/// The right to append: nobody else does meanwhile. The appended entries go to the writer when it is dropped.
pub struct Appender<'a> {
    log: &'a Arc<StreamLog>,
    filling: MutexGuard<'a, Filling>,
    filter_bytes: u8,
    now_ms: u64,
    added_bytes: usize,
    named: Option<Named>,
}

/// The named publisher of the latest entries: its table is asked once for a run of them.
struct Named {
    name: Box<[u8]>,
    last: Option<u64>,
    is_changed: bool,
}

impl StreamLog {
    /// Begins to append. Hold it for a batch and no longer.
    ///
    /// # Errors
    /// [`StreamError::Deleted`], [`StreamError::Failed`].
    pub fn append(self: &Arc<Self>) -> Result<Appender<'_>, StreamError> {
        self.check()?;
        let (filter_bytes, now_ms) = (self.limits.lock().filter_bytes, self.node.now_ms());
        Ok(Appender {
            log: self,
            filling: self.filling.lock(),
            filter_bytes,
            now_ms,
            added_bytes: 0,
            named: None,
        })
    }
}

impl Appender<'_> {
    /// Offset that the next record gets.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.filling.next
    }

    /// Appends a message that lies in pieces: the sections of AMQP 1.0. Returns the offset after it.
    ///
    /// # Panics
    /// If it has 2 GiB or more: sessions bound messages far below.
    #[inline]
    pub fn message(&mut self, parts: &[&[u8]], filter: Option<&[u8]>) -> u64 {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let len = i32::try_from(bytes).expect("messages are below 2 GiB").cast_unsigned();
        self.make_room(4 + bytes);
        self.filling.open.add_message(parts, len);
        self.filling.open.bloom.add(filter);
        self.filling.next += 1;
        self.filling.next
    }

    /// Appends an entry as a publisher of the stream protocol sent it, a sub-batch for instance. Returns the offset after it. The caller has
    /// checked it.
    pub fn entry(&mut self, entry: &Entry<'_>, filter: Option<&[u8]>) -> u64 {
        self.make_room(entry.encoded_bytes());
        self.filling.open.add_entry(entry);
        self.filling.open.bloom.add(filter);
        self.filling.next += u64::from(entry.record_count());
        self.filling.next
    }

    /// As [`Self::entry`], of a named publisher: an entry whose publishing id is not greater than the last one is not stored again.
    pub fn entry_once(
        &mut self,
        publisher: &PublisherSlot,
        publishing_id: u64,
        entry: &Entry<'_>,
        filter: Option<&[u8]>,
    ) -> Appended {
        if self.named.as_ref().is_none_or(|named| named.name != publisher.0) {
            self.note_named();
            let last = self.filling.tracking.sequence(&publisher.0);
            self.named = Some(Named { name: publisher.0.clone(), last, is_changed: false });
        }
        if self.named.as_ref().is_some_and(|named| named.last.is_some_and(|last| publishing_id <= last)) {
            return Appended::Duplicate(self.filling.next);
        }
        let next = self.entry(entry, filter);
        if let Some(named) = &mut self.named {
            (named.last, named.is_changed) = (Some(publishing_id), true);
        }
        Appended::New(next)
    }

    /// Ends the batch. Where nothing is synced and nobody writes to the stream, this thread writes the appended entries: that costs less than
    /// waking a writer. Else it goes to the writers, as when the appender is dropped.
    pub fn finish(mut self) {
        self.note_named();
        let (log, added_bytes) = (self.log, std::mem::take(&mut self.added_bytes));
        drop(self);
        if added_bytes == 0 {
            return;
        }
        log.unwritten_bytes.fetch_add(added_bytes, Ordering::Relaxed);
        log.node.mark_later(log);
        if !log.write_here() {
            log.node.queue(log);
        }
    }

    /// Puts the publishing id of the latest entries into the table, and among what the chunk with them tells.
    fn note_named(&mut self) {
        let Some(Named { name, last: Some(last), is_changed }) = &mut self.named else { return };
        if std::mem::take(is_changed) {
            let filling = &mut *self.filling;
            filling.tracking.set_sequence(name, *last);
            filling.changes.set_sequence(name, *last);
        }
    }

    fn make_room(&mut self, entry_bytes: usize) {
        self.added_bytes += entry_bytes;
        if self.filling.open.is_full_for(entry_bytes) {
            self.note_named();
            self.filling.close(self.now_ms, self.filter_bytes);
        }
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        self.note_named();
        if self.added_bytes > 0 {
            self.log.unwritten_bytes.fetch_add(self.added_bytes, Ordering::Relaxed);
            self.log.node.mark_later(self.log);
            self.log.node.queue(self.log);
        }
    }
}
