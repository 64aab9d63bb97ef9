//! How many messages were in records of the log that cannot be read: the numbers of a queue's messages follow each other, so the number
//! that comes after a damaged place tells what was in it. Knows nothing of why it cannot be read.
//!
//! Only a bound: transient messages have numbers, too, and no records.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use commitlog::Record;
use queues::{MessageSeq, RecordKind, Recovering, begins_with_message, each_enqueued, settled};

use super::survey::UntoldLoss;
use crate::bodies::{BODY, PLACES, STREAM};

/// Bytes that a message takes in a record at least (`docs/formats/queue-records.md`): one that is like that before it has only its length.
pub(super) const MESSAGE_BYTES_MIN: u64 = 4;

/// The knowledge of one log, fed with its good records in order.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Where the log begins.
    start: u64,
    /// Where the next record begins if nothing is missing.
    end: u64,
    /// Places that cannot be read.
    count: u64,
    /// The last of them, counted from one, that may have held a state record.
    stateful: u64,
    /// The next place holds none, if it ends here.
    stateless_end: u64,
    /// One of them may have held records of shared bodies.
    has_hidden_bodies: bool,
    /// The next place holds none, if it ends here.
    bodiless_end: u64,
    /// The next unreadable place seems to bring this queue messages, if it ends here.
    enqueue_end: Option<(u64, u64)>,
    /// Queues whose messages are among what cannot be read.
    unread: HashSet<u64>,
    /// The bytes that follow the last good record.
    tail: Option<Tail>,
    /// Streams of good records.
    told: HashSet<u64>,
    /// Streams of good state records.
    stated: HashSet<u64>,
    /// Bytes of them.
    bytes: u64,
    /// Bytes at most of a newest file that is missing and of which nothing tells how long it was.
    unmeasured_bytes_max: u64,
    queues: HashMap<u64, QueueGaps>,
}

/// The end of the newest file, which cannot be read: a write that a crash interrupted, or damage of the last one.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// Stream and kind of the only record in it, if its header says so.
    header: Option<(u64, u8)>,
}

#[derive(Debug, Default)]
struct QueueGaps {
    /// Gaps, and bytes of them, before its last state record, which tells everything.
    stated: (u64, u64),
    /// Gaps, and bytes of them, before the last messages of each level.
    seen: HashMap<u8, (u64, u64)>,
    /// Sequence numbers of which no record could be read.
    missing: Vec<Range<u64>>,
    /// The missing numbers that were settled later.
    settled: u64,
}

impl Gaps {
    /// Of a log of which the files from this position on should be there.
    pub(super) fn from(start: u64) -> Gaps {
        Gaps { start, end: start, ..Gaps::default() }
    }

    /// This is the next good record.
    pub(super) fn record(&mut self, record: &Record<'_>) {
        let range = record.range();
        self.expect(range.start);
        self.end = self.end.max(range.end);
        self.told.insert(record.stream);
    }

    /// The rest of the newest file cannot be read.
    pub(super) fn unfinished(&mut self, header: Option<(u64, u8)>) {
        self.tail = Some(Tail { header });
        self.has_hidden_bodies |= header.is_none_or(|(stream, _)| stream == STREAM);
    }

    /// There should be records up to here.
    pub(super) fn expect(&mut self, position: u64) {
        if position > self.end {
            self.count += 1;
            if position != self.stateless_end {
                self.stateful = self.count;
            }
            self.has_hidden_bodies |= position != self.bodiless_end;
            let enqueue = self.enqueue_end.take().filter(|(_, end)| *end == position);
            self.unread.extend(enqueue.map(|(stream, _)| stream));
            self.bytes += position - self.end;
            self.end = position;
        }
    }

    /// The next unreadable place seems to be this record.
    pub(super) fn alleged(&mut self, record: &Record<'_>) {
        if record.stream != STREAM && RecordKind::from_code(record.kind).is_some() {
            self.bodiless_end = record.position.0;
        }
        let begins = match RecordKind::from_code(record.kind) {
            Some(RecordKind::State) => false,
            Some(kind) if kind.is_enqueue() => {
                self.enqueue_end = Some((record.stream, record.position.0));
                begins_with_message(kind, record.payload)
            }
            Some(_) => settled(record.payload).all(|run| run.is_some_and(|run| run.count > 0)),
            None => record.stream == STREAM && matches!(record.kind, BODY | PLACES),
        };
        if begins {
            self.stateless_end = record.position.0;
        }
    }

    /// The newest file is missing, and nothing tells where it ended. `bytes_max`: how long it can have been, if it is known where it began.
    pub(super) fn end_is_missing(&mut self, bytes_max: Option<u64>) {
        self.count += 1;
        self.stateful = self.count;
        self.has_hidden_bodies = true;
        self.unmeasured_bytes_max = bytes_max.unwrap_or(0);
    }

    /// Whether the newest state record of a queue may be among what cannot be read. Of the end of the log that is not believed: see
    /// [`Gaps::has_tail`].
    pub(super) fn may_lack_state(&self, id: u64) -> bool {
        let is_tail = |tail: Tail| tail.header == Some((id, RecordKind::State as u8));
        self.lacks_state(id) || self.tail.is_some_and(is_tail)
    }

    /// As [`Gaps::may_lack_state`], whatever is at the end of the log.
    pub(super) fn lacks_state(&self, id: u64) -> bool {
        self.gaps_before_state(id) < self.stateful
    }

    /// Whether what follows the last good record cannot be read. If it was a state record that was ever durable, what was there before may be gone
    /// because of it: as long as nothing is, nothing is missing.
    pub(super) fn has_tail(&self) -> bool {
        self.tail.is_some()
    }

    /// Queues whose messages are in records that cannot be read: blocks in segments may have them, too.
    pub(super) fn unread(&self) -> impl Iterator<Item = u64> + '_ {
        self.unread.iter().copied()
    }

    /// Whether any good record is of this stream.
    pub(super) fn is_told(&self, id: u64) -> bool {
        self.told.contains(&id)
    }

    /// Whether what names segments of this stream may be among what cannot be read. Of the end of the log that is not believed.
    pub(super) fn may_hide_segments(&self, stream: u64) -> bool {
        if stream == STREAM {
            return self.may_hide_bodies();
        }
        self.lacks_state(stream) || self.unread.contains(&stream)
    }

    /// Whether messages of the queue that cannot be read may have been settled by what cannot be read of the log.
    pub(super) fn may_lack_settlements(&self, id: u64) -> bool {
        self.gaps_before_state(id) < self.count || self.has_tail()
    }

    /// Whether what cannot be read of the log may tell of shared bodies.
    pub(super) fn may_hide_bodies(&self) -> bool {
        self.has_hidden_bodies
    }

    /// Places that cannot be read before the queue's last state record.
    fn gaps_before_state(&self, id: u64) -> u64 {
        self.queues.get(&id).map_or(0, |queue| queue.stated.0)
    }

    /// Bytes that cannot be read, beside those of a newest file that is missing.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes at most of a newest file that is missing and of which nothing tells how long it was; 0 if there is none.
    pub(super) fn unmeasured_bytes_max(&self) -> u64 {
        self.unmeasured_bytes_max
    }

    /// The queue whose record seems to be all that follows the last good one, and brings it messages.
    pub(super) fn tail_enqueue(&self) -> Option<u64> {
        let (stream, kind) = self.tail?.header?;
        RecordKind::from_code(kind).is_some_and(RecordKind::is_enqueue).then_some(stream)
    }

    /// To be told of each record of a queue before it is applied.
    pub(super) fn before(&mut self, id: u64, queue: &Recovering, kind: RecordKind, payload: &[u8]) {
        let (count, bytes) = (self.count, self.bytes);
        if kind == RecordKind::State {
            self.stated.insert(id);
        }
        if count == 0 {
            return;
        }
        let known = self.queues.entry(id).or_default();
        match kind {
            RecordKind::Enqueue | RecordKind::EnqueueShared | RecordKind::EnqueueAlike => {
                each_enqueued(kind, payload, |seq, _| known.enqueued(seq, queue, (count, bytes)));
            }
            RecordKind::Settle => settled(payload).map_while(|run| run).for_each(|run| {
                let run = run.first.0..run.first.0 + u64::from(run.count);
                known.settled += known.missing.iter().map(|gap| overlap(gap, &run)).sum::<u64>();
            }),
            RecordKind::Returned => {}
            RecordKind::State => *known = QueueGaps { stated: (count, bytes), ..QueueGaps::default() },
        }
    }

    /// Messages of the queue at most that were in what cannot be read, as far as later records tell.
    pub(super) fn messages_max(&self, id: u64) -> u64 {
        self.queues.get(&id).map_or(0, QueueGaps::messages)
    }

    /// Whether nothing that follows tells how many messages of the queue were in what cannot be read. `has_levels`: what follows may be of
    /// others of its levels.
    pub(super) fn is_open(&self, id: u64, has_levels: bool) -> bool {
        let last = |queue: &QueueGaps| queue.seen.values().map(|(count, _)| *count).max().unwrap_or(0);
        let seen = self.queues.get(&id).map_or(0, |queue| queue.stated.0.max(last(queue)));
        // A lost state record told of messages whose records are gone, unless an earlier one is there, or the beginning of the log.
        let is_begin_lost = self.start > 0 && !self.stated.contains(&id) && self.may_lack_state(id);
        let is_level_lost =
            has_levels && (self.gaps_before_state(id) < self.stateful || self.unread.contains(&id));
        seen < self.count || is_begin_lost || is_level_lost
    }

    /// Messages at most that any queue can have had in what cannot be read.
    pub(super) fn any_messages_max(&self) -> u64 {
        (self.bytes + self.unmeasured_bytes_max) / MESSAGE_BYTES_MIN
    }

    /// The messages that the queue may have lost and of which nothing that follows tells.
    pub(super) fn untold_loss(&self, id: u64, has_levels: bool) -> Option<UntoldLoss> {
        if !self.is_open(id, has_levels) {
            return None;
        }
        // Without any file nobody knows how long they were.
        let bytes_max = self.bytes + self.unmeasured_bytes_max;
        Some(if bytes_max == 0 { UntoldLoss::Unknown } else { UntoldLoss::AtMost(self.any_messages_max()) })
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
