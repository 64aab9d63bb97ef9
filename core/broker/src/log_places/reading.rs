//! Blocks that stay where they were logged, and the way they are read there.

use std::ops::Range;
use std::sync::{Arc, Weak};

use commitlog::{BlockSource, LogError, Position, SegmentError};
use platform::Caching;
use queues::{BlockToken, Holes, LogRange, LoggedBlock, Machine};
use stdx::QueueId;

use crate::cell::condition::Condition;
use crate::cell::{Event, Queue};
use crate::data::batch::BatchConfirms;
use crate::data::confirms::{ConfirmRange, ConfirmSink};
use crate::log_places::assemble;
use crate::log_places::pins::Pins;
use crate::services::Services;

impl Services {
    /// The queues that have blocks in the log, or had some, in the order of their numbers; nothing for one that is gone.
    pub(crate) fn queues_in_log(&self) -> Vec<Option<Arc<Queue>>> {
        self.log_places.queues().into_iter().map(|queue| self.queue_by_id(queue)).collect()
    }

    /// The parts of these files that queues need.
    pub(crate) fn pins_of(&self, files: Vec<Range<u64>>) -> Pins {
        let mut pins = Pins::of(files);
        for queue in self.queues_in_log() {
            match queue {
                Some(queue) => self.add_pins(&queue, &mut pins),
                None => pins.is_partial = true,
            }
        }
        pins
    }

    fn add_pins(&self, queue: &Arc<Queue>, pins: &mut Pins) {
        let read = queue.read_used(|machine, _| {
            if queue.condition() != Condition::Running {
                pins.is_partial = true;
                return;
            }
            let Some(store) = machine.store() else { return };
            self.log_places.note_stated(store.stated_end());
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
                self.log_places.forget(queue.id);
            }
        });
        pins.is_partial |= read.is_none() && queue.condition() != Condition::Running;
    }

    /// Tells a queue when a block can be read from the log, or that it never will.
    pub(crate) fn keep_in_log(&self, queue: &Arc<Queue>, token: BlockToken, range: LogRange) {
        self.log_places.note(queue.id);
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
    /// The holes to leave out, as it is written to a segment; as it is in memory when it is only read.
    holes: Option<Holes>,
}

impl BlockSource for FromLog {
    fn read_bytes(&self) -> u64 {
        // Records of others between its own are passed over.
        u64::from(self.block.range.bytes.min(self.block.own_bytes.saturating_mul(2)))
    }

    fn read(&self) -> Result<Vec<u8>, SegmentError> {
        let closed = SegmentError::Log(LogError::Closed);
        let services = self.services.upgrade().ok_or(closed)?;
        let LogRange { position, bytes } = self.block.range;
        // A queue that has the rest of a range that several queues have reads it, too.
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
