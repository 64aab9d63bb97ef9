//! State that the appenders and the writer share. Knows nothing of files.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use super::file::SealedFile;
use super::listener::ListenerSlot;
use super::manifest::Manifest;
use super::names::Names;
use super::records::{LentBytes, Records};
use super::{LogError, LogOptions};
use crate::bytes::offset_of;
use crate::{IoFailure, Position};

/// With this much gathered the writer goes to work, whether anybody waits or not.
const UNAWAITED_BYTES_MAX: usize = 256 << 10;
/// The capacity a buffer for gathering records begins with, and is brought back to after a rush.
const BUFFER_BYTES: usize = 1 << 20;

/// A buffer with more capacity is not kept for long when less would do.
const BUFFER_BYTES_KEPT: usize = 4 * BUFFER_BYTES;

/// A buffer with more capacity, which mostly one large message has filled, is given up as soon as it is written: two of them, kept for the next such
/// message, would be twice its size. Bytes that small messages fill between two syncs are below that.
const BUFFER_BYTES_HUGE: usize = 16 << 20;

/// Whether the log takes records.
pub(super) enum Mode {
    Open,
    Closing,
    Closed,
    Failed(IoFailure),
}

/// The work of the writer's thread, as far as it concerns an appender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterIs {
    /// At work: it looks again before it rests.
    Busy,
    /// Waiting for a moment before it writes what nobody waits for: only what somebody waits for must wake it.
    Resting,
    /// Waiting for anything.
    Asleep,
}

/// The records that have gathered since the last write began.
pub(super) struct Pending {
    pub(super) records: Records,
    /// Bytes that others lent to the records that are being written.
    writing: Vec<Arc<dyn LentBytes>>,
    /// The most that either buffer held since they began: so much of their capacity was ever used.
    most_bytes: usize,
    /// Capacity of the buffer that the writer has.
    spare_capacity: usize,
    /// The position of the first of `records`.
    pub(super) start: Position,
    /// The highest stream that a record is of and that needs a name.
    pub(super) newest_stream: u64,
    /// Somebody waits for one of the records to be durable.
    pub(super) awaited: bool,
    /// A barrier waits for a sync that the policy would not make.
    pub(super) sync_wanted: bool,
    /// The next file is to begin although this one is not full.
    pub(super) seal_wanted: bool,
    pub(super) writer: WriterIs,
    pub(super) mode: Mode,
    /// The error of the write that is tried again.
    pub(super) no_room: Option<IoFailure>,
}

/// The shared part of a log. The mutexes are leaves: nothing is called and no other lock is taken under them.
pub(super) struct Shared {
    pub(super) options: LogOptions,
    /// As many bytes a file may have now: at most what the options say.
    pub(super) file_bytes_max: AtomicU64,
    pub(super) pending: Mutex<Pending>,
    /// There is something to write, or the log closes.
    pub(super) work: Condvar,
    /// Something became durable, or the log failed.
    pub(super) settled: Condvar,
    /// The end of all that was appended.
    pub(super) end: AtomicU64,
    /// The end of what is durable as the policy understands it.
    pub(super) durable: AtomicU64,
    /// The end of what was synced.
    pub(super) synced: AtomicU64,
    pub(super) listener: ListenerSlot,
    /// The names that must be synced elsewhere before records are written.
    pub(super) names: OnceLock<Arc<Names>>,
    /// Oldest first; the last is the one being written, whose end is not kept up to date.
    pub(super) files: Mutex<VecDeque<SealedFile>>,
    /// Sealed files that are no part of the log any more, oldest first.
    pub(super) kept: Mutex<Vec<SealedFile>>,
    /// Written when a file begins, when one goes and at the end, never for a record.
    pub(super) manifest: Mutex<Manifest>,
}

impl Shared {
    /// A log that goes on at `end`; everything before is durable.
    pub(super) fn new(
        options: LogOptions,
        end: Position,
        files: Vec<SealedFile>,
        kept: Vec<SealedFile>,
        manifest: Manifest,
    ) -> Self {
        let pending = Pending {
            records: Records::with_capacity(BUFFER_BYTES),
            writing: Vec::new(),
            most_bytes: 0,
            spare_capacity: 0,
            start: end,
            newest_stream: 0,
            awaited: false,
            sync_wanted: false,
            seal_wanted: false,
            writer: WriterIs::Busy,
            mode: Mode::Open,
            no_room: None,
        };
        Self {
            file_bytes_max: AtomicU64::new(options.file_bytes_max),
            options,
            pending: Mutex::new(pending),
            work: Condvar::new(),
            settled: Condvar::new(),
            end: AtomicU64::new(end.0),
            durable: AtomicU64::new(end.0),
            synced: AtomicU64::new(end.0),
            listener: ListenerSlot::default(),
            names: OnceLock::new(),
            files: Mutex::new(files.into()),
            kept: Mutex::new(kept),
            manifest: Mutex::new(manifest),
        }
    }

    pub(super) fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn synced(&self) -> Position {
        Position(self.synced.load(Ordering::Acquire))
    }

    /// The writer's records are written: lets go of what was lent, and begins anew if the buffer is huge.
    pub(super) fn give_up_huge(&self, spare: &mut Records) {
        if spare.buffer().1 > BUFFER_BYTES_HUGE {
            *spare = Records::with_capacity(BUFFER_BYTES);
            self.pending.lock().spare_capacity = spare.buffer().1;
        }
        if spare.is_lent() {
            spare.give_back();
            let written = std::mem::take(&mut self.pending.lock().writing);
            drop(written);
        }
    }

    /// A write has to be tried again: true when room was made for it. Else it is noted and told, once.
    pub(super) fn wait_for_room(&self, failure: &IoFailure) -> bool {
        if self.listener.ask(|listener| listener.makes_room()) {
            return true;
        }
        let is_new = self.pending.lock().no_room.replace(failure.clone()).is_none();
        if is_new {
            self.settled.notify_all();
            self.listener.tell(|listener| listener.waits_for_room(failure));
        }
        false
    }

    /// A write was made: nothing has to be tried again.
    pub(super) fn go_on(&self) {
        if self.pending.lock().no_room.take().is_some() {
            self.listener.tell(|listener| listener.goes_on());
        }
    }

    /// Records the failure, forgets what will never be written, wakes who waits, tells the listener.
    pub(super) fn fail(&self, failure: IoFailure) {
        let forgotten = {
            let mut pending = self.pending.lock();
            pending.mode = Mode::Failed(failure.clone());
            self.end.store(self.durable.load(Ordering::Acquire), Ordering::Release);
            (std::mem::take(&mut pending.records), std::mem::take(&mut pending.writing))
        };
        drop(forgotten);
        self.settled.notify_all();
        self.listener.fail(&LogError::Io(failure));
    }
}

impl Pending {
    /// The end of all that was appended.
    pub(super) fn end(&self) -> Position {
        self.start.plus(offset_of(self.records.len()))
    }

    /// Whether the writer has something to do at once.
    pub(super) fn is_urgent(&self) -> bool {
        self.awaited
            || self.sync_wanted
            || self.seal_wanted
            || self.records.len() > UNAWAITED_BYTES_MAX
            || !matches!(self.mode, Mode::Open)
    }

    /// Whether the writer has to be woken for what has just been brought; it is taken to be awake afterwards.
    pub(super) fn must_wake(&mut self) -> bool {
        let must = match self.writer {
            WriterIs::Busy => false,
            WriterIs::Resting => self.is_urgent(),
            WriterIs::Asleep => true,
        };
        if must {
            self.writer = WriterIs::Busy;
        }
        must
    }

    /// Takes what has gathered and leaves `spare`, emptied, in its place. Returns its first position and its newest stream.
    pub(super) fn swap(&mut self, spare: &mut Records) -> (Position, u64) {
        spare.clear();
        let (gathered, _) = self.records.buffer();
        let (_, capacity) = spare.buffer();
        if capacity > BUFFER_BYTES_KEPT && gathered < capacity / 4 {
            *spare = Records::with_capacity(BUFFER_BYTES);
        }
        self.awaited = false;
        let first = self.start;
        self.start = self.end();
        self.most_bytes = self.most_bytes.max(gathered);
        std::mem::swap(&mut self.records, spare);
        self.spare_capacity = spare.buffer().1;
        if spare.is_lent() {
            self.writing = spare.lenders();
        }
        (first, std::mem::take(&mut self.newest_stream))
    }

    /// Bytes of memory that both buffers occupy, and that only the log keeps of what others lent.
    pub(super) fn buffer_bytes(&self) -> usize {
        let (gathered, capacity) = self.records.buffer();
        let most = self.most_bytes.max(gathered);
        let lent: usize = self.writing.iter().map(|lent| lent.own_bytes()).sum();
        capacity.min(most) + self.spare_capacity.min(most) + self.records.own_lent_bytes() + lent
    }

    /// Whether buffers are kept that a rush has made large.
    pub(super) fn keeps_much(&self, spare: &Records) -> bool {
        self.records.buffer().1.max(spare.buffer().1) > BUFFER_BYTES_KEPT
    }

    /// Nothing has gathered for a while: both buffers begin anew. Returns the old one, to be freed without the lock.
    pub(super) fn begin_small(&mut self, spare: &mut Records) -> Records {
        debug_assert!(self.records.is_empty(), "what has gathered is not given up");
        *spare = Records::default();
        (self.most_bytes, self.spare_capacity) = (0, 0);
        std::mem::replace(&mut self.records, Records::with_capacity(BUFFER_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(writer: WriterIs) -> Pending {
        Pending {
            most_bytes: 0,
            spare_capacity: 0,
            records: Records::default(),
            writing: Vec::new(),
            start: Position(0),
            newest_stream: 0,
            awaited: false,
            sync_wanted: false,
            seal_wanted: false,
            writer,
            mode: Mode::Open,
            no_room: None,
        }
    }

    #[test]
    fn a_resting_writer_is_woken_once_and_only_for_what_somebody_waits_for() {
        let mut pending = pending(WriterIs::Resting);
        pending.records.push(1, 1, |_| ());
        assert!(!pending.must_wake());
        pending.awaited = true;
        assert!(pending.must_wake());
        assert!(!pending.must_wake());
    }

    #[test]
    fn a_resting_writer_is_woken_when_very_much_has_gathered() {
        let mut pending = pending(WriterIs::Resting);
        pending.records.push(1, 1, |out| out.resize(UNAWAITED_BYTES_MAX + 1, 0));
        assert!(pending.must_wake());
    }

    #[test]
    fn a_sleeping_writer_is_woken_for_anything() {
        let mut pending = pending(WriterIs::Asleep);
        pending.records.push(1, 1, |_| ());
        assert!(pending.must_wake());
        assert_eq!(pending.writer, WriterIs::Busy);
    }
}
