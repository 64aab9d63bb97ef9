//! Blocks whose bytes stay in the message log, where the enqueue records of their messages put them. Refuses to know what a log's
//! records look like beyond their payloads.

use std::ops::Range;

use smallvec::SmallVec;

use crate::record::{self, BlockPlace, RecordKind};
use crate::traffic::MessageSeq;

/// Bytes of log that are read for a block, for each of its own, at most. Many queues may take turns in the log. Then a block of one is
/// better written anew than read together with those of the others, as long as there is room for that.
const LOG_BYTES_PER_BYTE_MAX: u64 = 2;

/// Consecutive records of the log that hold the messages of a block, others perhaps among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogRange {
    /// Where the first record begins.
    pub position: u64,
    /// Bytes to the end of the last.
    pub bytes: u32,
}

impl LogRange {
    /// Where the last record ends.
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.bytes)
    }

    /// Whether others have most of what lies there, of a block of so many bytes.
    pub(crate) fn is_spread(&self, block_bytes: usize) -> bool {
        u64::from(self.bytes) > LOG_BYTES_PER_BYTE_MAX * block_bytes as u64
    }

    /// Whether some of it lies in one of these parts of the log.
    pub fn touches(&self, parts: &[Range<u64>]) -> bool {
        parts.iter().any(|part| self.position < part.end && part.start < self.end())
    }
}

impl From<LogRange> for Range<u64> {
    fn from(range: LogRange) -> Range<u64> {
        range.position..range.end()
    }
}

/// Where the bytes of a block lie on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a segment of the queue.
    Segment(BlockPlace),
    /// In the message log.
    Log(LogRange),
}

impl Place {
    /// Bytes on disk.
    pub fn bytes(&self) -> u32 {
        match self {
            Place::Segment(place) => place.bytes,
            Place::Log(range) => range.bytes,
        }
    }
}

/// A block in the log, to be put together again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedBlock {
    /// Its first message.
    pub first: MessageSeq,
    /// Its messages.
    pub count: u32,
    /// Where they lie.
    pub range: LogRange,
    /// Bytes that they have in memory, about.
    pub own_bytes: u32,
}

/// The rest of a block of which some messages cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// The block, with placeholders for messages that are missing.
    pub bytes: Vec<u8>,
    /// Their places in the block, ascending.
    pub missing: Vec<Range<u32>>,
}

impl Remains {
    fn miss(&mut self, missing: Range<u32>) {
        if !missing.is_empty() {
            record::store_holes(&mut self.bytes, missing.len() as u32);
            self.missing.push(missing);
        }
    }
}

/// Where the bytes of a block are read that are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnBytes {
    /// In a segment of the queue.
    Segment(BlockPlace),
    /// In the message log.
    Log(LoggedBlock),
}

impl LoggedBlock {
    /// The block's bytes; `bytes` are those of its log range, and in them lie the payloads of the queue's enqueue records, whose kinds are
    /// given. `None` when they do not hold exactly its messages. Their memory is used again where nothing in it has to grow: one message
    /// may be hundreds of megabytes.
    pub fn assemble(
        &self,
        bytes: Vec<u8>,
        payloads: impl IntoIterator<Item = (RecordKind, Range<usize>)>,
    ) -> Option<Vec<u8>> {
        let payloads: SmallVec<[_; 8]> = payloads.into_iter().collect();
        if payloads.iter().any(|(kind, _)| *kind == RecordKind::EnqueueAlike) {
            return self.assemble_anew(&bytes, &payloads);
        }
        self.assemble_in_place(bytes, payloads.into_iter().map(|(_, payload)| payload))
    }

    /// The rest of the block when records of its range cannot be read; the others are given as to [`LoggedBlock::assemble`]. `None` when nothing
    /// is left.
    pub fn assemble_remains(
        &self,
        bytes: &[u8],
        payloads: impl IntoIterator<Item = (RecordKind, Range<usize>)>,
    ) -> Option<Remains> {
        let (mut next, mut remains) = (0, Remains { bytes: Vec::new(), missing: Vec::new() });
        for (kind, payload) in payloads {
            let runs = record::runs(kind, bytes.get(payload)?);
            for run in runs.map_while(|run| run) {
                let own = self.own(&run);
                let first = (run.first.0 + u64::from(own.start)).wrapping_sub(self.first.0) as u32;
                if !own.is_empty() && first >= next {
                    remains.miss(next..first);
                    next = first + own.len() as u32;
                    run.store_some(&mut remains.bytes, own);
                }
            }
        }
        let is_something = next > 0;
        remains.miss(next..self.count);
        is_something.then_some(remains)
    }

    /// Which messages of a run are the block's.
    fn own(&self, run: &record::Run<'_>) -> Range<u32> {
        let (first, end) = (run.first.0, self.first.0 + u64::from(self.count));
        let (from, to) = (first.max(self.first.0), first.saturating_add(run.count.into()).min(end));
        if from >= to { 0..0 } else { (from - first) as u32..(to - first) as u32 }
    }

    fn assemble_anew(&self, bytes: &[u8], payloads: &[(RecordKind, Range<usize>)]) -> Option<Vec<u8>> {
        let (mut next, mut length, mut parts) = (self.first.0, 0, Vec::new());
        for (kind, payload) in payloads {
            for run in record::runs(*kind, bytes.get(payload.clone())?) {
                let run = run?;
                let own = self.own(&run);
                if !own.is_empty() {
                    if run.first.0 + u64::from(own.start) != next {
                        return None;
                    }
                    next += own.len() as u64;
                    length += run.stored_bytes(own.clone());
                    parts.push((run, own));
                }
            }
        }
        if next != self.first.0 + u64::from(self.count) {
            return None;
        }
        let mut whole = Vec::with_capacity(length);
        parts.into_iter().for_each(|(run, own)| run.store_some(&mut whole, own));
        Some(whole)
    }

    fn assemble_in_place(
        &self,
        mut bytes: Vec<u8>,
        payloads: impl Iterator<Item = Range<usize>>,
    ) -> Option<Vec<u8>> {
        const SEQ_BYTES: usize = 8;
        let end = self.first.0 + u64::from(self.count);
        let (mut next, mut length) = (self.first.0, 0);
        for payload in payloads {
            let mut at = payload.start;
            while at < payload.end {
                let seq = bytes.get(at..at + SEQ_BYTES)?;
                let seq = u64::from_be_bytes(seq.try_into().expect("eight bytes"));
                let stored = at + SEQ_BYTES;
                let (_, taken) = record::parse(bytes.get(stored..payload.end)?)?;
                if seq == next && seq < end {
                    // The record before it was as long, and had its number besides: the copy never moves backwards over unread bytes.
                    bytes.copy_within(stored..stored + taken, length);
                    length += taken;
                    next += 1;
                } else if (self.first.0..end).contains(&seq) {
                    return None;
                }
                at = stored + taken;
            }
        }
        if next != end {
            return None;
        }
        bytes.truncate(length);
        if bytes.capacity() - length > length / 8 {
            bytes.shrink_to_fit();
        }
        Some(bytes)
    }
}

/// Where in the log the messages of a block in memory are, as far as they are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Logged {
    start: u64,
    first_end: u64,
    end: u64,
    messages: u32,
    own_bytes: u32,
}

impl Logged {
    /// So many more messages came with this record, and so many bytes of it are theirs; messages and records come in order.
    pub(crate) fn note(&mut self, record: &Range<u64>, messages: u32, bytes: u32) {
        if self.messages == 0 {
            (self.start, self.first_end) = (record.start, record.end);
        }
        self.own_bytes = self.own_bytes.saturating_add(bytes);
        self.end = record.end;
        self.messages += messages;
    }

    /// Bytes of the records that are of the block's messages: with priorities, blocks of several levels share one.
    pub(crate) fn own_bytes(&self) -> u32 {
        self.own_bytes
    }

    /// The place of a block of `count` messages and `block_bytes` bytes, if the log has all of it from `oldest_log` on, as close together as
    /// it has to be.
    pub(crate) fn place_of(&self, count: u32, block_bytes: usize, oldest_log: u64) -> Option<LogRange> {
        // The log before the part that the queue needs may be gone; after a failure nothing is in it.
        let is_there = oldest_log > 0 && self.first_end >= oldest_log && self.end < u64::MAX;
        if self.messages != count || count == 0 || !is_there {
            return None;
        }
        let range = LogRange { position: self.start, bytes: u32::try_from(self.end - self.start).ok()? };
        (!range.is_spread(block_bytes)).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(body: &[u8]) -> Vec<u8> {
        record::stored(body, true, None)
    }

    /// Records of (number, body), with a header of five bytes each.
    fn log(records: &[&[(u64, &[u8])]]) -> (Vec<u8>, Vec<(RecordKind, Range<usize>)>) {
        let (mut bytes, mut payloads) = (Vec::new(), Vec::new());
        for record in records {
            bytes.extend_from_slice(b"head:");
            let start = bytes.len();
            for (number, body) in *record {
                record::write_enqueued(&mut bytes, MessageSeq(*number), &stored(body));
            }
            payloads.push((RecordKind::Enqueue, start..bytes.len()));
        }
        (bytes, payloads)
    }

    fn block(first: u64, count: u32) -> LoggedBlock {
        LoggedBlock {
            first: MessageSeq(first),
            count,
            range: LogRange { position: 0, bytes: 0 },
            own_bytes: 0,
        }
    }

    #[test]
    fn a_block_is_put_together_from_records_that_hold_more() {
        let (bytes, payloads) =
            log(&[&[(3, b"before"), (4, b"a")], &[(1 << 56, b"other level")], &[(5, b"bc"), (6, b"after")]]);
        let whole = block(4, 2).assemble(bytes, payloads).expect("it is there");
        assert_eq!(whole, [stored(b"a"), stored(b"bc")].concat());
    }

    #[test]
    fn a_block_is_put_together_from_runs_and_single_messages() {
        let (mut bytes, mut payloads) = log(&[&[(3, b"before"), (4, b"four")]]);
        for bodies in [[&b"five"[..], b"", b"seven"], [b"eight", b"nine", b"ten"]] {
            let (start, first) = (bytes.len(), MessageSeq(5 + 3 * (payloads.len() as u64 - 1)));
            record::write_run(&mut bytes, first, &stored(bodies[0]), 2, bodies[1..].iter().copied());
            payloads.push((RecordKind::EnqueueAlike, start..bytes.len()));
        }
        let (log, places) = (bytes.clone(), payloads.clone());
        let whole = |block: LoggedBlock| block.assemble(log.clone(), places.clone());
        let names: [&[u8]; 7] = [b"four", b"five", b"", b"seven", b"eight", b"nine", b"ten"];
        for (first, count) in (4..=10).flat_map(|first| (1..=11 - first).map(move |count| (first, count))) {
            let own = &names[first as usize - 4..][..count as usize];
            let expected: Vec<u8> = own.iter().flat_map(|body| stored(body)).collect();
            assert_eq!(whole(block(first, count as u32)), Some(expected), "{count} from {first}");
        }
        assert_eq!(whole(block(10, 2)), None, "the last is missing");
        let at = bytes.len();
        record::write_enqueued(&mut bytes, MessageSeq(u64::MAX), &stored(b"no number follows"));
        let with_last = payloads.iter().cloned().chain([(RecordKind::Enqueue, at..bytes.len())]);
        assert!(block(5, 4).assemble(bytes.clone(), with_last).is_some(), "it is none of the block's");
        payloads.swap(1, 2);
        assert_eq!(block(5, 4).assemble(bytes, payloads), None, "out of order");
    }

    #[test]
    fn what_is_left_of_a_block_has_placeholders_for_the_rest() {
        let (mut bytes, mut payloads) =
            log(&[&[(3, b"before"), (4, b"four"), (5, b"five")], &[(9, b"nine")]]);
        let start = bytes.len();
        record::write_run(
            &mut bytes,
            MessageSeq(10),
            &stored(b"ten"),
            2,
            [&b"eleven"[..], b"twelve"].into_iter(),
        );
        payloads.push((RecordKind::EnqueueAlike, start..bytes.len()));
        let remains = |first, count| block(first, count).assemble_remains(&bytes, payloads.clone());
        let left = remains(4, 8).expect("four of eight");
        let bodies = [stored(b"four"), stored(b"five")].concat();
        let behind = [stored(b"nine"), stored(b"ten"), stored(b"eleven")].concat();
        assert_eq!(left.bytes, [&bodies[..], &record::holes(3), &behind].concat());
        let missing = |first, count| -> Option<Vec<u32>> {
            Some(remains(first, count)?.missing.into_iter().flatten().collect())
        };
        assert_eq!(missing(4, 8), Some(vec![2, 3, 4]));
        assert_eq!((missing(1, 3), missing(12, 3)), (Some(vec![0, 1]), Some(vec![1, 2])));
        assert_eq!((missing(6, 3), missing(20, 3), missing(9, 2)), (None, None, Some(vec![])));
    }

    #[test]
    fn a_missing_message_or_one_out_of_order_is_noticed() {
        for records in [&[(4, b"a"), (6, b"c")], &[(5, b"b"), (4, b"a")]] as [&[(u64, &[u8; 1])]; 2] {
            let records: Vec<(u64, &[u8])> = records.iter().map(|(n, body)| (*n, &body[..])).collect();
            let (bytes, payloads) = log(&[&records]);
            assert_eq!(block(4, 3).assemble(bytes, payloads), None);
        }
        let (mut bytes, payloads) = log(&[&[(4, b"a")]]);
        bytes.truncate(20);
        assert_eq!(block(4, 1).assemble(bytes, payloads), None);
    }

    #[test]
    fn only_what_lies_together_and_is_needed_anyway_has_a_place_in_the_log() {
        let mut logged = Logged::default();
        logged.note(&(100..200), 1, 70);
        logged.note(&(100..200), 1, 30);
        logged.note(&(230..300), 1, 70);
        let range = LogRange { position: 100, bytes: 200 };
        let place = |count, bytes, oldest_log| logged.place_of(count, bytes, oldest_log);
        assert_eq!((place(3, 150, 200), logged.own_bytes()), (Some(range), 170));
        assert_eq!(place(3, 99, 200), None, "much else lies between");
        assert_eq!(place(4, 150, 200), None, "a message is not in it");
        assert_eq!(place(3, 150, 201), None, "the first record may be gone");
        assert_eq!(place(3, 150, 0), None);
        let mut far = logged;
        far.note(&(1 << 32..(1 << 32) + 101), 1, 101);
        assert_eq!(far.place_of(4, usize::MAX, 200), None, "4 GiB are too much");
        assert_eq!((range.is_spread(100), range.is_spread(99)), (false, true));
        assert_eq!(
            (range.end(), range.touches(std::slice::from_ref(&(300..400))), range.touches(&[0..1, 299..300])),
            (300, false, true)
        );
    }
}
