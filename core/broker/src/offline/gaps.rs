//! How many messages were in records of the log that cannot be read: the numbers of a queue's messages follow each other, so what comes
//! after a damaged place tells what was in it. Knows nothing of why it cannot be read.
//!
//! Only a bound: transient messages have numbers, too, and no records.

use std::collections::HashMap;
use std::ops::Range;

use commitlog::Record;
use queues::{MessageSeq, RecordKind, Recovering, enqueued, settled};

use crate::bodies::{BODY, PLACES, STREAM};

/// Bytes that a message takes in a record at least (`docs/formats/queue-records.md`).
const MESSAGE_BYTES_MIN: u64 = 24;

/// What is known of one log, fed with its good records in order.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Where the next record begins if nothing is missing.
    end: u64,
    /// Places that cannot be read.
    count: u64,
    /// The last of them, counted from one, that may have held a state record.
    stateful: u64,
    /// The next place holds none, if it ends here.
    stateless_end: u64,
    /// Bytes of them.
    bytes: u64,
    queues: HashMap<u64, QueueGaps>,
}

#[derive(Debug, Default)]
struct QueueGaps {
    /// Gaps, and bytes of them, before its last state record, which tells everything.
    stated: (u64, u64),
    /// Gaps, and bytes of them, before the last messages of each level.
    seen: HashMap<u8, (u64, u64)>,
    /// Sequence numbers of which no record could be read.
    missing: Vec<Range<u64>>,
    /// Those among them that were settled later.
    settled: u64,
}

impl Gaps {
    /// Of a log of which the files from this position on should be there.
    pub(super) fn from(start: u64) -> Gaps {
        Gaps { end: start, ..Gaps::default() }
    }

    /// The next good record lies here.
    pub(super) fn record(&mut self, range: &Range<u64>) {
        self.expect(range.start);
        self.end = self.end.max(range.end);
    }

    /// There should be records up to here.
    pub(super) fn expect(&mut self, position: u64) {
        if position > self.end {
            self.count += 1;
            if position != self.stateless_end {
                self.stateful = self.count;
            }
            self.bytes += position - self.end;
            self.end = position;
        }
    }

    /// What cannot be read next seems to be this record.
    pub(super) fn alleged(&mut self, record: &Record<'_>) {
        let begins = match RecordKind::from_code(record.kind) {
            Some(RecordKind::State) => false,
            Some(RecordKind::Enqueue | RecordKind::EnqueueShared) => {
                enqueued(record.payload).next().flatten().is_some()
            }
            Some(RecordKind::Settle) => {
                settled(record.payload).all(|run| run.is_some_and(|run| run.count > 0))
            }
            None => record.stream == STREAM && matches!(record.kind, BODY | PLACES),
        };
        if begins {
            self.stateless_end = record.position.0;
        }
    }

    /// No file is there, and nothing tells where they ended.
    pub(super) fn all_is_missing(&mut self) {
        self.count += 1;
        self.stateful = self.count;
    }

    /// Whether the newest state record of a queue may be among what cannot be read.
    pub(super) fn may_lack_state(&self, id: u64) -> bool {
        self.queues.get(&id).map_or(0, |queue| queue.stated.0) < self.stateful
    }

    /// Bytes that cannot be read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// To be told of each record of a queue before it is applied.
    pub(super) fn before(&mut self, id: u64, queue: &Recovering, kind: RecordKind, payload: &[u8]) {
        let (count, bytes) = (self.count, self.bytes);
        if count == 0 {
            return;
        }
        let known = self.queues.entry(id).or_default();
        match kind {
            RecordKind::Enqueue | RecordKind::EnqueueShared => {
                for (seq, _) in enqueued(payload).map_while(|entry| entry) {
                    known.enqueued(seq, queue, (count, bytes));
                }
            }
            RecordKind::Settle => settled(payload).map_while(|run| run).for_each(|run| {
                let run = run.first.0..run.first.0 + u64::from(run.count);
                known.settled += known.missing.iter().map(|gap| overlap(gap, &run)).sum::<u64>();
            }),
            RecordKind::State => *known = QueueGaps { stated: (count, bytes), ..QueueGaps::default() },
        }
    }

    /// Messages of the queue at most that were in what cannot be read, as far as later records tell.
    pub(super) fn messages_max(&self, id: u64) -> u64 {
        self.queues.get(&id).map_or(0, QueueGaps::messages)
    }

    /// Whether no record of the queue follows the last gap.
    pub(super) fn ends_in_gap(&self, id: u64) -> bool {
        let last = |queue: &QueueGaps| queue.seen.values().map(|(count, _)| *count).max().unwrap_or(0);
        let seen = self.queues.get(&id).map_or(0, |queue| queue.stated.0.max(last(queue)));
        seen < self.count
    }

    /// Messages at most that any queue can have had in what cannot be read.
    pub(super) fn any_messages_max(&self) -> u64 {
        self.bytes / MESSAGE_BYTES_MIN
    }
}

impl QueueGaps {
    fn enqueued(&mut self, seq: MessageSeq, queue: &Recovering, (count, bytes): (u64, u64)) {
        let level = seq.level();
        let (seen, seen_bytes) = self.seen.get(&level).copied().unwrap_or(self.stated);
        if seen == count {
            return;
        }
        self.seen.insert(level, (count, bytes));
        let next = MessageSeq::new(level, queue.next_number(level)).0;
        // Numbers of messages that were settled long ago are not missing: a gap holds only so many.
        let room = (bytes - seen_bytes) / MESSAGE_BYTES_MIN;
        let first = next.max(seq.0.saturating_sub(room));
        if seq.0 > first {
            self.missing.push(first..seq.0);
        }
    }

    fn messages(&self) -> u64 {
        let missing: u64 = self.missing.iter().map(|gap| gap.end - gap.start).sum();
        missing.saturating_sub(self.settled)
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}
