//! Enqueue records whatever their kind: their messages as runs that differ in their bodies only, which is how producers send them. The
//! common part of such messages stands once in a record of [`RecordKind::EnqueueAlike`]; in memory each message has it.
//!
//! ```text
//! repeated: first sequence u64 | count u32 | first stored message | per other message: body bytes u32, body
//! ```

use std::ops::Range;

use super::{LENGTH_BYTES, RecordKind, Stored, enqueued, parse, u32_at, u64_at};
use crate::traffic::MessageSeq;

const SEQ_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;

/// Consecutive messages of an enqueue record that differ in their bodies only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) first: MessageSeq,
    /// At least 1.
    pub(crate) count: u32,
    /// The first message, stored.
    stored: &'a [u8],
    /// Of that, what the others begin with but for their lengths.
    head_bytes: usize,
    /// Bodies of the others, each behind its length.
    bodies: &'a [u8],
}

/// Appends a run: its first message as it is stored, and the bodies of those that follow it, of which there are `others`.
pub(crate) fn write_run<'a>(
    out: &mut Vec<u8>,
    first: MessageSeq,
    stored: &[u8],
    others: u32,
    bodies: impl Iterator<Item = &'a [u8]>,
) {
    out.extend_from_slice(&first.0.to_be_bytes());
    out.extend_from_slice(&(others + 1).to_be_bytes());
    out.extend_from_slice(stored);
    for body in bodies {
        let length = u32::try_from(body.len()).expect("a message is below 4 GiB");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(body);
    }
}

/// Bytes of a run whose messages have so many when they are stored: the beginning of each of the others is not repeated.
pub(crate) fn run_bytes(stored_bytes: usize, others: usize, head_bytes: usize) -> usize {
    SEQ_BYTES + COUNT_BYTES + stored_bytes + others * LENGTH_BYTES - others * head_bytes
}

/// Walks an enqueue record; yields `None` once where it is damaged.
pub(crate) fn runs(kind: RecordKind, payload: &[u8]) -> impl Iterator<Item = Option<Run<'_>>> {
    let is_alike = kind == RecordKind::EnqueueAlike;
    let single = enqueued(if is_alike { &[] } else { payload }).map(|entry| {
        let (first, stored) = entry?;
        Some(Run { first, count: 1, stored, head_bytes: 0, bodies: &[] })
    });
    let mut rest = if is_alike { payload } else { &[] };
    single.chain(std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let run = Run::parse(rest);
        rest = run.map_or(&[], |(_, rest)| rest);
        Some(run.map(|(run, _)| run))
    }))
}

/// Whether an enqueue record is whole and `is_fine` with each of its runs: its first message, how many there are, and what they have in common.
pub(crate) fn are_fine(
    kind: RecordKind,
    payload: &[u8],
    mut is_fine: impl FnMut(MessageSeq, u32, &Stored<'_>) -> bool,
) -> bool {
    runs(kind, payload).all(|run| {
        let known = run.and_then(|run| Some((run.first, run.count, parse(run.stored)?.0)));
        known.is_some_and(|(first, count, stored)| is_fine(first, count, &stored))
    })
}

/// Shows each message of an enqueue record as it is stored elsewhere; false when the record is damaged, behind those that were shown.
pub fn each_enqueued(kind: RecordKind, payload: &[u8], mut show: impl FnMut(MessageSeq, &[u8])) -> bool {
    each_logged(kind, payload, |seq, stored, _| show(seq, stored))
}

/// The same, each with the bytes that it takes in the record.
pub(crate) fn each_logged(
    kind: RecordKind,
    payload: &[u8],
    mut show: impl FnMut(MessageSeq, &[u8], usize),
) -> bool {
    let begin_bytes = SEQ_BYTES + if kind == RecordKind::EnqueueAlike { COUNT_BYTES } else { 0 };
    let mut whole = Vec::new();
    runs(kind, payload).all(|run| {
        let Some(run) = run else { return false };
        show(run.first, run.stored, begin_bytes + run.stored.len());
        for (nth, body) in (1..).zip(run.bodies()) {
            whole.clear();
            run.store(&mut whole, body);
            show(MessageSeq(run.first.0 + nth), &whole, LENGTH_BYTES + body.len());
        }
        true
    })
}

/// Whether these bytes of an enqueue record, damaged perhaps further on, begin with a message.
pub fn begins_with_message(kind: RecordKind, payload: &[u8]) -> bool {
    let count_bytes = if kind == RecordKind::EnqueueAlike { COUNT_BYTES } else { 0 };
    payload.get(SEQ_BYTES + count_bytes..).and_then(parse).is_some()
}

impl<'a> Run<'a> {
    /// The run at the start of these bytes, and what follows it.
    fn parse(bytes: &'a [u8]) -> Option<(Run<'a>, &'a [u8])> {
        let first = MessageSeq(u64_at(bytes, 0)?);
        let count = u32_at(bytes, SEQ_BYTES)?;
        let rest = &bytes[SEQ_BYTES + COUNT_BYTES..];
        let (message, taken) = parse(rest)?;
        let (stored, bodies) = rest.split_at(taken);
        let others = count.checked_sub(1)?;
        let is_one_level = first.number().checked_add(others.into())? <= MessageSeq::NUMBER_MAX;
        if (message.shared.is_some() && others > 0) || !is_one_level {
            return None;
        }
        let mut at = 0;
        for _ in 0..others {
            let end = at + LENGTH_BYTES + u32_at(bodies, at)? as usize;
            at = Some(end).filter(|end| *end <= bodies.len())?;
        }
        let (bodies, rest) = bodies.split_at(at);
        let head_bytes = taken - message.message.body.len();
        Some((Run { first, count, stored, head_bytes, bodies }, rest))
    }

    fn bodies(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bodies;
        std::iter::from_fn(move || {
            let length = u32_at(rest, 0)? as usize;
            let (body, behind) = rest[LENGTH_BYTES..].split_at(length);
            rest = behind;
            Some(body)
        })
    }

    /// Appends one of the messages behind the first as it is stored.
    fn store(&self, out: &mut Vec<u8>, body: &[u8]) {
        let length = u32::try_from(self.head_bytes - LENGTH_BYTES + body.len());
        out.extend_from_slice(&length.expect("a message is below 4 GiB").to_be_bytes());
        out.extend_from_slice(&self.stored[LENGTH_BYTES..self.head_bytes]);
        out.extend_from_slice(body);
    }

    /// Bytes that these of its messages have when they are stored.
    pub(crate) fn stored_bytes(&self, nth: Range<u32>) -> usize {
        let first = if nth.start == 0 && nth.end > 0 { self.stored.len() } else { 0 };
        let others = self.bodies_of(&nth).map(|body| self.head_bytes + body.len());
        first + others.sum::<usize>()
    }

    /// Appends these of its messages as they are stored.
    pub(crate) fn store_some(&self, out: &mut Vec<u8>, nth: Range<u32>) {
        if nth.start == 0 && nth.end > 0 {
            out.extend_from_slice(self.stored);
        }
        self.bodies_of(&nth).for_each(|body| self.store(out, body));
    }

    /// Bodies of these of its messages, but for the first.
    fn bodies_of(&self, nth: &Range<u32>) -> impl Iterator<Item = &'a [u8]> {
        let begin = nth.start.max(1);
        let count = nth.end.saturating_sub(begin);
        self.bodies().skip(begin as usize - 1).take(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{self, stored};

    const FIRST: MessageSeq = MessageSeq((2 << 56) + 5);

    fn record(bodies: &[&[u8]]) -> Vec<u8> {
        let (first, others) = bodies.split_first().unwrap();
        let mut out = Vec::new();
        let stored = stored(first, true, Some(9));
        write_run(&mut out, FIRST, &stored, others.len() as u32, others.iter().copied());
        let whole: usize = bodies.iter().map(|body| record::stored(body, true, Some(9)).len()).sum();
        assert_eq!(out.len(), run_bytes(whole, others.len(), stored.len() - first.len()));
        out
    }

    fn shown(payload: &[u8]) -> (Vec<(MessageSeq, Vec<u8>)>, bool) {
        let mut all = Vec::new();
        let whole =
            each_enqueued(RecordKind::EnqueueAlike, payload, |seq, stored| all.push((seq, stored.to_vec())));
        (all, whole)
    }

    #[test]
    fn messages_of_a_run_are_stored_as_if_each_had_come_alone() {
        let bodies: [&[u8]; 4] = [b"first", b"", b"a longer one", b"x"];
        let mut payload = record(&bodies);
        payload.extend(record(&[b"alone"]));
        let (all, whole) = shown(&payload);
        let numbers = (FIRST.0..).map(MessageSeq).take(4).chain([FIRST]);
        let alone: &[u8] = b"alone";
        let expected = bodies.iter().chain([&alone]).map(|body| stored(body, true, Some(9)));
        assert!(whole && all == numbers.zip(expected).collect::<Vec<_>>());
    }

    #[test]
    fn some_of_a_run_are_taken_out_of_it() {
        let bodies: [&[u8]; 4] = [b"first", b"", b"a longer one", b"x"];
        let payload = record(&bodies);
        let run = runs(RecordKind::EnqueueAlike, &payload).next().flatten().unwrap();
        for (begin, end) in (0..=4).flat_map(|begin| (begin..=4).map(move |end| (begin, end))) {
            let expected: Vec<u8> =
                bodies[begin..end].iter().flat_map(|body| stored(body, true, Some(9))).collect();
            let mut some = Vec::new();
            run.store_some(&mut some, begin as u32..end as u32);
            assert_eq!(some, expected, "{begin}..{end}");
            assert_eq!(run.stored_bytes(begin as u32..end as u32), expected.len());
        }
    }

    #[test]
    fn a_record_that_is_damaged_further_on_begins_with_a_message_all_the_same() {
        let mut payload = record(&[b"first", b"second"]);
        let first_end = payload.len() - 10;
        assert!(begins_with_message(RecordKind::EnqueueAlike, &payload[..first_end]));
        assert!(!begins_with_message(RecordKind::EnqueueAlike, &payload[..first_end - 1]));
        assert!(!begins_with_message(RecordKind::Enqueue, &payload));
        payload.drain(SEQ_BYTES..SEQ_BYTES + COUNT_BYTES);
        assert!(begins_with_message(RecordKind::EnqueueShared, &payload));
    }

    #[test]
    fn every_cut_and_every_lie_is_noticed() {
        let payload = record(&[b"first", b"second", b"third"]);
        for end in 1..payload.len() {
            assert!(!shown(&payload[..end]).1, "cut at {end}");
        }
        let lie = |at: usize, value: u8| {
            let mut payload = payload.clone();
            payload[at] = value;
            shown(&payload).1
        };
        assert!(lie(11, 3));
        assert!(!lie(11, 0), "a run has a message");
        assert!(!lie(11, 2) && !lie(11, 4), "another number of messages");
        assert!(!lie(8, 0xff), "more than there are bytes");
        let mut last = payload.clone();
        last[1..8].fill(0xff);
        assert!(!shown(&last).1, "the numbers of a level end");
        let mut shared = payload.clone();
        shared[16] |= 8;
        assert!(!shown(&shared).1, "a shared body is no body of its own");
    }
}
