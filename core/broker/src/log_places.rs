//! What queues read of the message log although no restart replays it: blocks that were left where they were logged. Knows which files
//! must stay for them, and reads them; refuses to know when files go.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use commitlog::{Afterlife, BlockSource, LogError, Position, RangeBytes, RecordAt, SegmentError};
use parking_lot::Mutex;
use platform::Caching;
use queues::{BlockToken, Holes, LogRange, LoggedBlock, Machine, RecordKind, Remains};
use stdx::QueueId;

use crate::cell::crash::Condition;
use crate::cell::{Event, Queue};
use crate::data::batch::BatchConfirms;
use crate::data::confirms::{ConfirmRange, ConfirmSink};
use crate::services::Services;

/// The queues that have blocks in the log, or had some.
#[derive(Default)]
pub(crate) struct LogPlaces {
    /// A leaf, below the cells. A queue that is deleted leaves it when its deletion is durable: until then a crash brings it back.
    queues: Mutex<HashMap<QueueId, Weak<Queue>, foldhash::fast::RandomState>>,
    /// No state record refers to the log from here on.
    stated_end: AtomicU64,
}

/// Which bytes of which files queues need, at one moment. What was needed before may be needed again after a crash until everything
/// that had been appended at that moment is durable.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// In the order of the log, with what is needed of each.
    files: Vec<(Range<u64>, FileNeed)>,
    /// Some queue cannot tell: it is out of service, or its deletion may be undone.
    is_partial: bool,
}

/// What is needed of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileNeed {
    /// Bytes that must be there.
    pub(crate) bytes: u64,
    /// Bytes in it that would have to be elsewhere if the file had to go, about: without what is settled.
    pub(crate) kept_bytes: u64,
    /// Bytes that would be written for that: of blocks of which other files have a part, that part, too.
    pub(crate) written_bytes: u64,
}

impl LogPlaces {
    /// A queue has blocks in the log. Only by the one who has its cell.
    pub(crate) fn note(&self, queue: &Arc<Queue>) {
        self.queues.lock().entry(queue.id).or_insert_with(|| Arc::downgrade(queue));
    }

    /// A queue has blocks in the log at the start, to which a state record refers up to `stated_end`. That is known from then on, even
    /// if the queue comes to rest before anybody looks at it.
    pub(crate) fn note_at_start(&self, queue: &Arc<Queue>, stated_end: u64) {
        self.stated_end.fetch_max(stated_end, Ordering::Relaxed);
        self.note(queue);
    }

    /// The deletion of a queue is durable.
    pub(crate) fn forget(&self, queue: QueueId) {
        self.queues.lock().remove(&queue);
    }

    /// No state record refers to the log from here on: files beyond may go before it is durable that nothing in them is needed.
    pub(crate) fn stated_end(&self) -> u64 {
        self.stated_end.load(Ordering::Relaxed)
    }

    /// The queues, in the order of their numbers; nothing for one that is gone.
    pub(crate) fn queues(&self) -> Vec<Option<Arc<Queue>>> {
        let mut known: Vec<_> = self.queues.lock().iter().map(|(id, queue)| (*id, queue.upgrade())).collect();
        known.sort_unstable_by_key(|(id, _)| *id);
        known.into_iter().map(|(_, queue)| queue).collect()
    }

    /// What queues need of these files.
    pub(crate) fn pins(&self, files: Vec<Range<u64>>) -> Pins {
        let mut pins = Pins::of(files);
        for queue in self.queues() {
            match queue {
                Some(queue) => self.add(&queue, &mut pins),
                None => pins.is_partial = true,
            }
        }
        pins
    }

    fn add(&self, queue: &Arc<Queue>, pins: &mut Pins) {
        let read = queue.read_used(|machine, _| {
            if queue.condition() != Condition::Running {
                pins.is_partial = true;
                return;
            }
            let Some(store) = machine.store() else { return };
            self.stated_end.fetch_max(store.stated_end(), Ordering::Relaxed);
            let mut latest = LogRange { position: 0, bytes: 0 };
            let mut is_there = false;
            for (range, kept_bytes) in store.log_uses() {
                is_there = true;
                pins.add_kept(range, kept_bytes);
                // Two blocks may share a record.
                let overlaps = (latest.position..latest.end()).contains(&range.position);
                let start = if overlaps { latest.end() } else { range.position };
                pins.add(start..range.end().max(start));
                latest = range;
            }
            if !is_there {
                self.forget(queue.id);
            }
        });
        pins.is_partial |= read.is_none() && queue.condition() != Condition::Running;
    }
}

impl Pins {
    /// Nothing is needed of these files.
    pub(crate) fn of(mut files: Vec<Range<u64>>) -> Pins {
        files.sort_unstable_by_key(|file| file.start);
        let files = files.into_iter().map(|file| (file, FileNeed::default())).collect();
        Pins { files, is_partial: false }
    }

    /// This range is needed.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        self.add_part(&range, |need, part| need.bytes += part);
    }

    /// This range has so many bytes that live.
    pub(crate) fn add_kept(&mut self, range: LogRange, kept_bytes: u64) {
        let all = u64::from(range.bytes.max(1));
        self.add_part(&range.into(), |need, part| {
            need.kept_bytes += kept_bytes * part / all;
            need.written_bytes += kept_bytes;
        });
    }

    fn add_part(&mut self, range: &Range<u64>, mut add: impl FnMut(&mut FileNeed, u64)) {
        let first = self.files.partition_point(|(file, _)| file.end <= range.start);
        for (file, need) in &mut self.files[first..] {
            if file.start >= range.end {
                return;
            }
            add(need, file.end.min(range.end) - file.start.max(range.start));
        }
    }

    /// Whether some queue could not tell what it needs.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Files with what is needed of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Range<u64>, FileNeed)> {
        self.files.iter().map(|(file, need)| (file, *need))
    }

    /// What becomes of a file that no restart needs.
    pub(crate) fn afterlife(&self, file: &Range<u64>) -> Afterlife {
        let is_free = self.files.iter().any(|(known, need)| known == file && need.bytes == 0);
        if is_free && !self.is_partial { Afterlife::None } else { Afterlife::Kept }
    }
}

impl Services {
    /// Tells a queue when a block can be read from the log, or that it never will.
    pub(crate) fn keep_in_log(&self, queue: &Arc<Queue>, token: BlockToken, range: LogRange) {
        self.log_places.note(queue);
        let sink: Arc<dyn ConfirmSink> = Arc::new(LeftInLog { queue: Arc::downgrade(queue), token });
        let mut confirms = BatchConfirms::new();
        confirms.group_of(&sink, 1);
        let is_last = confirms.answered(range.end());
        debug_assert!(is_last, "only the log is waited for");
        self.confirm_when_durable(&Arc::new(confirms));
    }

    /// Reads a block from the log.
    pub(crate) fn read_logged(self: &Arc<Self>, queue: QueueId, token: BlockToken, block: LoggedBlock) {
        self.segments.submit_fetch(queue.0, token.0, Box::new(self.source(queue, block, None)));
    }

    /// Copies a block from the log to a segment.
    pub(crate) fn move_logged(
        self: &Arc<Self>,
        queue: QueueId,
        token: BlockToken,
        block: LoggedBlock,
        holes: Holes,
    ) {
        self.segments.submit_move(queue.0, token.0, Box::new(self.source(queue, block, Some(holes))));
    }

    fn source(self: &Arc<Self>, queue: QueueId, block: LoggedBlock, holes: Option<Holes>) -> FromLog {
        FromLog { services: Arc::downgrade(self), queue, block, holes }
    }
}

/// A block that stays in the log, as soon as that is durable.
struct LeftInLog {
    queue: Weak<Queue>,
    token: BlockToken,
}

impl ConfirmSink for LeftInLog {
    fn confirmed(&self, range: ConfirmRange) {
        if let Some(queue) = self.queue.upgrade() {
            queue.submit_later(Event::BlockLogged(self.token, range.rejected.is_empty()));
        }
    }
}

/// Others may have as large a part of a range of the log, to what a queue has of it itself, for it to count as of that queue alone.
const OTHERS_PART: u64 = 4;

/// A block in the log, for the threads that read blocks.
struct FromLog {
    services: Weak<Services>,
    queue: QueueId,
    block: LoggedBlock,
    /// What it is wanted without, as it is written to a segment; as it is in memory when it is only read.
    holes: Option<Holes>,
}

impl BlockSource for FromLog {
    fn read_bytes(&self) -> u64 {
        // What others have between its records is passed over.
        u64::from(self.block.range.bytes.min(self.block.own_bytes.saturating_mul(2)))
    }

    fn read(&self) -> Result<Vec<u8>, SegmentError> {
        let closed = SegmentError::Log(LogError::Closed);
        let services = self.services.upgrade().ok_or(closed)?;
        let LogRange { position, bytes } = self.block.range;
        // Who has the rest of a range that several queues have reads it, too.
        let own_bytes = u64::from(self.block.own_bytes);
        let is_alone = u64::from(bytes) <= own_bytes + own_bytes / OTHERS_PART;
        let caching = if is_alone { Caching::Pass } else { Caching::Keep };
        let read = services.log.read_stream(self.queue.0, (Position(position), bytes), caching)?;
        let whole = assemble(read, self.queue.0, &self.block)?;
        match &self.holes {
            Some(holes) => holes.punch(whole).ok_or(SegmentError::NotInLog { position }),
            None => Ok(whole),
        }
    }
}

/// Puts a block together from its range of the log.
pub(crate) fn assemble(read: RangeBytes, stream: u64, block: &LoggedBlock) -> Result<Vec<u8>, SegmentError> {
    let RangeBytes { bytes, records } = read;
    let whole = block.assemble(bytes, enqueued(records, stream));
    whole.ok_or(SegmentError::NotInLog { position: block.range.position })
}

/// What is left of a block of whose range some records cannot be read.
pub(crate) fn assemble_remains(read: RangeBytes, stream: u64, block: &LoggedBlock) -> Option<Remains> {
    block.assemble_remains(&read.bytes, enqueued(read.records, stream))
}

/// The enqueue records of a queue.
fn enqueued(records: Vec<RecordAt>, stream: u64) -> impl Iterator<Item = (RecordKind, Range<usize>)> {
    let own = records.into_iter().filter(move |record| record.stream == stream);
    own.filter_map(|record| {
        let kind = RecordKind::from_code(record.kind).filter(|kind| kind.is_enqueue())?;
        Some((kind, record.payload))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_only_when_it_is_known_that_nobody_needs_a_byte_of_it() {
        let mut pins = Pins::of(vec![300..400, 400..500, 0..100, 100..200]);
        pins.add(150..210);
        pins.add(390..401);
        pins.add_kept(LogRange { position: 150, bytes: 100 }, 10);
        let needed = pins.files().map(|(_, need)| (need.bytes, need.kept_bytes, need.written_bytes));
        assert_eq!(needed.collect::<Vec<_>>(), [(0, 0, 0), (50, 5, 10), (10, 0, 0), (1, 0, 0)]);
        assert_eq!(pins.afterlife(&(0..100)), Afterlife::None);
        assert_eq!(pins.afterlife(&(100..200)), Afterlife::Kept);
        assert_eq!(pins.afterlife(&(200..300)), Afterlife::Kept, "nobody asked for it");
        pins.is_partial = true;
        assert_eq!(pins.afterlife(&(0..100)), Afterlife::Kept);
    }
}
