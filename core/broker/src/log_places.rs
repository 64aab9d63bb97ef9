//! Parts of the message log that queues read although no restart replays them: blocks that were left where they were logged. Knows which
//! files must stay for them, and reads them; refuses to know when files go.

pub(crate) mod pins;
mod reading;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use commitlog::{RangeBytes, RecordAt, SegmentError};
use parking_lot::Mutex;
use queues::{LoggedBlock, RecordKind, Remains};
use stdx::QueueId;

/// The queues that have blocks in the log, or had some.
#[derive(Default)]
pub(crate) struct LogPlaces {
    /// A leaf, below the cells. A queue that is deleted leaves it when its deletion is durable: until then a crash brings it back.
    queues: Mutex<HashSet<QueueId, foldhash::fast::RandomState>>,
    /// No state record refers to the log from here on.
    stated_end: AtomicU64,
}

impl LogPlaces {
    /// A queue has blocks in the log. Only by the one who has its cell.
    pub(crate) fn note(&self, queue: QueueId) {
        self.queues.lock().insert(queue);
    }

    /// A queue has blocks in the log at the start, to which a state record refers up to `stated_end`. That is known from then on, even
    /// if the queue comes to rest before anybody looks at it.
    pub(crate) fn note_at_start(&self, queue: QueueId, stated_end: u64) {
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

    /// The queues, in the order of their numbers.
    pub(crate) fn queues(&self) -> Vec<QueueId> {
        let mut known: Vec<_> = self.queues.lock().iter().copied().collect();
        known.sort_unstable();
        known
    }

    /// A state record refers to the log up to here.
    pub(crate) fn note_stated(&self, end: u64) {
        self.stated_end.fetch_max(end, Ordering::Relaxed);
    }
}

/// Puts a block together from its range of the log.
pub(crate) fn assemble(read: RangeBytes, stream: u64, block: &LoggedBlock) -> Result<Vec<u8>, SegmentError> {
    let RangeBytes { bytes, records } = read;
    let whole = block.assemble(bytes, enqueued(records, stream));
    whole.ok_or(SegmentError::NotInLog { position: block.range.position })
}

/// The rest of a block of whose range some records cannot be read.
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
    use crate::log_places::pins::Pins;
    use commitlog::Afterlife;
    use queues::LogRange;

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
