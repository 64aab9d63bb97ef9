//! Bytes of messages and queue records: the one layout of messages in memory and, but for those that are alike, in segments and the log.
//!
//! A stored message (integers big-endian):
//!
//! ```text
//! 0        4       5            6              7           8                 12                 16
//! | length | flags | exchange # | routing key # | reserved | properties bytes | annotation bytes |
//! | expiry ms u64, only with flag 4 | exchange | routing key | properties | annotations | body ... |
//! ```
//!
//! `length` counts everything after itself. The body is what is left; with flag 8 that is a reference, `body id u64 | bytes u32`.
//! In blocks of segments, flag 16 alone stands for so many settled messages as the properties would have bytes. Flag 32 alone begins a run
//! of so many messages that differ in their bodies only.
//! Documented in `docs/formats/queue-records.md`.

mod alike;
mod packed;
mod whole;

pub(crate) use alike::{Run, are_fine, each_logged, run_bytes, runs, write_run};
pub use alike::{begins_with_message, each_enqueued};
pub(crate) use packed::{Item, pack_anew, settled_in_run};
pub use packed::{PackedRun, pack_block, unpack_block};
pub use whole::whole_record;
pub(crate) use whole::{whole, write_whole};

use std::ops::Range;

use crate::traffic::{IncomingMessage, MessageSeq};
use message::MessageView;

/// Kinds of records about a queue in the durable log. A code is never reused: 2 were settlements without bytes (before
/// format 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// Messages were enqueued: repeated (sequence u64, stored message).
    Enqueue = 1,
    /// The queue's whole durable state; replaces everything before it.
    State = 3,
    /// Messages are settled: repeated (first sequence u64, count u32, body bytes u32).
    Settle = 4,
    /// As [`RecordKind::Enqueue`], and some of the messages have shared bodies: a version that cannot read these must not take
    /// it for that.
    EnqueueShared = 5,
    /// Messages came back: repeated (sequence u64, how often u32, of those as failed u32, due time u64, 0 for at once). The last record of
    /// a message holds. Only of quorum queues.
    Returned = 9,
    /// As [`RecordKind::Enqueue`], in fewer bytes: the common part of messages that follow each other stands once.
    EnqueueAlike = 8,
}

/// Consecutive messages settled together, as a settle record has them. They lie in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledRun {
    /// First of the run.
    pub first: MessageSeq,
    /// Consecutive sequence numbers, at least 1.
    pub count: u32,
    /// Bytes of their bodies together.
    pub body_bytes: u32,
}

impl RecordKind {
    /// The kind behind a code.
    pub fn from_code(code: u8) -> Option<RecordKind> {
        match code {
            1 => Some(RecordKind::Enqueue),
            3 => Some(RecordKind::State),
            4 => Some(RecordKind::Settle),
            5 => Some(RecordKind::EnqueueShared),
            8 => Some(RecordKind::EnqueueAlike),
            9 => Some(RecordKind::Returned),
            _ => None,
        }
    }

    /// Whether records of this kind hold messages that enter the queue.
    pub fn is_enqueue(self) -> bool {
        matches!(self, RecordKind::Enqueue | RecordKind::EnqueueShared | RecordKind::EnqueueAlike)
    }
}

/// Where a block lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Segment number within the queue.
    pub segment: u64,
    /// Byte offset in the segment.
    pub offset: u64,
    /// Bytes of the block.
    pub bytes: u32,
}

/// Bytes of the length that a stored message begins with.
pub(crate) const LENGTH_BYTES: usize = 4;
const FIXED_BYTES: usize = 16;

/// Bytes of the placeholder for consecutive settled messages of a block.
pub const HOLES_BYTES: usize = FIXED_BYTES;
/// Bytes of a run of a block beside what its messages have in common, and what it has of each.
pub(crate) const RUN_BYTES: usize = FIXED_BYTES;

const FLAG_PERSISTENT: u8 = 1;
const FLAG_EXPIRES: u8 = 4;
const FLAG_SHARED: u8 = 8;
/// Alone: placeholders for as many messages as the properties would have bytes.
const FLAG_HOLES: u8 = 16;
/// Alone: a run of as many messages as the properties would have bytes.
const FLAG_RUN: u8 = 32;
const SHARED_BYTES: usize = 12;
const SETTLED_BYTES: usize = 16;

/// A shared body as a stored message names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRef {
    /// The body's number.
    pub id: u64,
    /// Its length.
    pub bytes: u32,
}

/// A stored message, parsed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// The message; its body is empty here when it is shared.
    pub message: MessageView<'a>,
    /// Broker-side death history.
    pub annotations: &'a [u8],
    /// Delivery mode 2.
    pub persistent: bool,
    /// Absolute expiry, milliseconds since the epoch.
    pub expiry_ms: Option<u64>,
    /// Its body, when that lies elsewhere.
    pub shared: Option<SharedRef>,
}

impl Stored<'_> {
    /// Bytes of the body, wherever it is.
    pub fn body_bytes(&self) -> usize {
        self.shared.map_or(self.message.body.len(), |shared| shared.bytes as usize)
    }
}

/// Appends a message in stored form.
pub fn store(out: &mut Vec<u8>, incoming: &IncomingMessage<'_>, expiry_ms: Option<u64>) {
    let own_bytes = incoming.shared.map_or(incoming.message.body.len(), |_| SHARED_BYTES);
    out.reserve(head_bytes(incoming, expiry_ms) + own_bytes);
    store_head(out, incoming, expiry_ms, own_bytes);
    match incoming.shared {
        None => out.extend_from_slice(incoming.message.body),
        Some(held) => {
            out.extend_from_slice(&held.body.id().to_be_bytes());
            out.extend_from_slice(&held.body.bytes().to_be_bytes());
        }
    }
}

/// Bytes of a message's stored form before its body.
#[inline]
fn head_bytes(incoming: &IncomingMessage<'_>, expiry_ms: Option<u64>) -> usize {
    let view = &incoming.message;
    let expiry_bytes = if expiry_ms.is_some() { 8 } else { 0 };
    let names_bytes = view.exchange.len() + view.routing_key.len();
    FIXED_BYTES + expiry_bytes + names_bytes + view.properties.len() + incoming.annotations.len()
}

/// Appends what a message's stored form has before its body, or the name of that, which has so many bytes.
#[inline]
pub(crate) fn store_head(
    out: &mut Vec<u8>,
    incoming: &IncomingMessage<'_>,
    expiry_ms: Option<u64>,
    own_bytes: usize,
) {
    let view = &incoming.message;
    let length = head_bytes(incoming, expiry_ms) - LENGTH_BYTES + own_bytes;
    let mut flags = 0;
    if incoming.persistent {
        flags |= FLAG_PERSISTENT;
    }
    if expiry_ms.is_some() {
        flags |= FLAG_EXPIRES;
    }
    if incoming.shared.is_some() {
        flags |= FLAG_SHARED;
    }
    let mut fixed = [0u8; FIXED_BYTES];
    fixed[..4].copy_from_slice(&u32::try_from(length).expect("a message is below 4 GiB").to_be_bytes());
    fixed[4] = flags;
    fixed[5] = u8::try_from(view.exchange.len()).expect("exchange names are short strings");
    fixed[6] = u8::try_from(view.routing_key.len()).expect("routing keys are short strings");
    fixed[8..12].copy_from_slice(&(view.properties.len() as u32).to_be_bytes());
    fixed[12..].copy_from_slice(&(incoming.annotations.len() as u32).to_be_bytes());
    out.extend_from_slice(&fixed);
    if let Some(expiry) = expiry_ms {
        out.extend_from_slice(&expiry.to_be_bytes());
    }
    out.extend_from_slice(view.exchange);
    out.extend_from_slice(view.routing_key);
    out.extend_from_slice(view.properties);
    out.extend_from_slice(incoming.annotations);
}

/// Appends a message whose stored form begins as the one whose bytes before the body are these of `out`; its body follows in one piece.
#[inline(always)]
pub(crate) fn store_alike(out: &mut Vec<u8>, head: Range<usize>, body: &[u8]) {
    let length = head.len() - LENGTH_BYTES + body.len();
    let at = out.len();
    out.reserve(head.len() + body.len());
    out.extend_from_within(head);
    let length = u32::try_from(length).expect("a message is below 4 GiB");
    out[at..at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(body);
}

/// Appends a placeholder for a message that is not there: keeps numbering dense within a block.
pub fn store_hole(out: &mut Vec<u8>) {
    let mut fixed = [0u8; FIXED_BYTES];
    fixed[..4].copy_from_slice(&(FIXED_BYTES as u32 - 4).to_be_bytes());
    out.extend_from_slice(&fixed);
}

/// An item of a block that stands for one message or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InBlock<'a> {
    /// One message.
    Message(Stored<'a>),
    /// So many messages, at least one, that were settled when the block was written anew.
    Holes(u32),
    /// Messages that differ in their bodies only.
    Run(PackedRun<'a>),
}

/// Appends a placeholder for `count` settled messages; only in blocks of segments.
///
/// # Panics
/// When there are none.
pub fn store_holes(out: &mut Vec<u8>, count: u32) {
    out.extend_from_slice(&holes(count));
}

/// A placeholder for `count` messages.
pub(crate) fn holes(count: u32) -> [u8; HOLES_BYTES] {
    assert!(
        count > 0,
        "a version that does not know the flag takes it for damage only when it says more than is there"
    );
    let mut fixed = [0u8; HOLES_BYTES];
    fixed[..4].copy_from_slice(&(HOLES_BYTES as u32 - 4).to_be_bytes());
    fixed[4] = FLAG_HOLES;
    fixed[8..12].copy_from_slice(&count.to_be_bytes());
    fixed
}

/// Parses what stands first in these bytes of a block; also returns how many bytes it takes. `None` when damaged.
#[inline]
pub fn parse_in_block(bytes: &[u8]) -> Option<(InBlock<'_>, usize)> {
    let flags = bytes.get(4).copied().unwrap_or(0);
    if flags & FLAG_RUN != 0 {
        return PackedRun::parse(bytes).map(|(run, taken)| (InBlock::Run(run), taken));
    }
    if flags & FLAG_HOLES != 0 {
        let count = u32_at(bytes, 8)?;
        let is_one = count > 0 && bytes.get(..HOLES_BYTES)? == holes(count);
        return is_one.then_some((InBlock::Holes(count), HOLES_BYTES));
    }
    parse(bytes).map(|(stored, taken)| (InBlock::Message(stored), taken))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Parses the stored message at the start of `bytes`; also returns how many bytes it takes. `None` when damaged.
#[inline]
pub fn parse(bytes: &[u8]) -> Option<(Stored<'_>, usize)> {
    let length = u32_at(bytes, 0)? as usize;
    let whole = bytes.get(..length.checked_add(4)?)?;
    let (fixed, rest) = whole.split_first_chunk::<FIXED_BYTES>()?;
    let [_, _, _, _, flags, exchange_bytes, key_bytes, _, a, b, c, d, e, f, g, h] = *fixed;
    let properties_bytes = u32::from_be_bytes([a, b, c, d]) as usize;
    let annotation_bytes = u32::from_be_bytes([e, f, g, h]) as usize;
    let (expiry_ms, rest) = match flags & FLAG_EXPIRES {
        0 => (None, rest),
        _ => rest.split_first_chunk().map(|(expiry, rest)| (Some(u64::from_be_bytes(*expiry)), rest))?,
    };
    let (exchange, rest) = rest.split_at_checked(exchange_bytes.into())?;
    let (routing_key, rest) = rest.split_at_checked(key_bytes.into())?;
    let (properties, rest) = rest.split_at_checked(properties_bytes)?;
    let (annotations, mut body) = rest.split_at_checked(annotation_bytes)?;
    let mut shared = None;
    if flags & FLAG_SHARED != 0 {
        let reference: &[u8; SHARED_BYTES] = body.try_into().ok()?;
        shared = Some(SharedRef { id: u64_at(reference, 0)?, bytes: u32_at(reference, 8)? });
        body = &[];
    }
    let message = MessageView { exchange, routing_key, properties, body };
    let persistent = flags & FLAG_PERSISTENT != 0;
    Some((Stored { message, annotations, persistent, expiry_ms, shared }, length + 4))
}

/// Appends one entry of a [`RecordKind::Enqueue`] or [`RecordKind::EnqueueShared`] record.
pub fn write_enqueued(out: &mut Vec<u8>, seq: MessageSeq, stored: &[u8]) {
    out.extend_from_slice(&seq.0.to_be_bytes());
    out.extend_from_slice(stored);
}

/// Walks the entries of a [`RecordKind::Enqueue`] or [`RecordKind::EnqueueShared`] record; yields `None` once where it is damaged.
pub fn enqueued(mut payload: &[u8]) -> impl Iterator<Item = Option<(MessageSeq, &[u8])>> {
    std::iter::from_fn(move || {
        if payload.is_empty() {
            return None;
        }
        let entry = (|| {
            let seq = MessageSeq(u64_at(payload, 0)?);
            let rest = &payload[8..];
            let (_, bytes) = parse(rest)?;
            Some((seq, &rest[..bytes], &rest[bytes..]))
        })();
        Some(match entry {
            Some((seq, stored, rest)) => {
                payload = rest;
                Some((seq, stored))
            }
            None => {
                payload = &[];
                None
            }
        })
    })
}

/// Appends one entry of a [`RecordKind::Settle`] record.
pub fn write_settled(out: &mut Vec<u8>, run: &SettledRun) {
    let mut entry = [0u8; SETTLED_BYTES];
    entry[..8].copy_from_slice(&run.first.0.to_be_bytes());
    entry[8..12].copy_from_slice(&run.count.to_be_bytes());
    entry[12..].copy_from_slice(&run.body_bytes.to_be_bytes());
    out.extend_from_slice(&entry);
}

/// Walks the entries of a [`RecordKind::Settle`] record; a partial entry at the end is `None`.
pub fn settled(payload: &[u8]) -> impl Iterator<Item = Option<SettledRun>> + '_ {
    payload.chunks(SETTLED_BYTES).map(|entry| {
        let first = MessageSeq(u64_at(entry, 0)?);
        Some(SettledRun { first, count: u32_at(entry, 8)?, body_bytes: u32_at(entry, 12)? })
    })
}

/// How often a message came back; never, if `acquired` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In all.
    pub acquired: u32,
    /// Of those, as failed.
    pub failed: u32,
}

/// A message that came back, as a record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Which.
    pub seq: MessageSeq,
    /// How often.
    pub counts: Counts,
    /// When it goes out again, milliseconds since the epoch; 0 for at once.
    pub due_ms: u64,
}

pub(crate) const RETURNED_BYTES: usize = 24;

/// Appends one entry of a [`RecordKind::Returned`] record.
pub fn write_returned(out: &mut Vec<u8>, one: &Returned) {
    out.extend_from_slice(&one.seq.0.to_be_bytes());
    out.extend_from_slice(&one.counts.acquired.to_be_bytes());
    out.extend_from_slice(&one.counts.failed.to_be_bytes());
    out.extend_from_slice(&one.due_ms.to_be_bytes());
}

/// Walks the entries of a [`RecordKind::Returned`] record; a partial entry at the end is `None`.
pub fn returned(payload: &[u8]) -> impl Iterator<Item = Option<Returned>> + '_ {
    payload.chunks(RETURNED_BYTES).map(|entry| {
        let seq = MessageSeq(u64_at(entry, 0)?);
        let counts = Counts { acquired: u32_at(entry, 8)?, failed: u32_at(entry, 12)? };
        Some(Returned { seq, counts, due_ms: u64_at(entry, 16)? })
    })
}

/// A message as it is stored, for tests.
#[cfg(test)]
pub(crate) fn stored(body: &[u8], persistent: bool, expiry_ms: Option<u64>) -> Vec<u8> {
    let message = MessageView { exchange: b"", routing_key: b"q", properties: &[0, 0], body };
    let annotations = &[];
    let incoming = IncomingMessage {
        message,
        persistent,
        priority: 0,
        ttl_ms: None,
        annotations,
        shared: None,
        is_alike: false,
    };
    let mut out = Vec::new();
    store(&mut out, &incoming, expiry_ms);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{HeldBody, SharedBody};

    fn sample<'a>() -> IncomingMessage<'a> {
        let message =
            MessageView { exchange: b"x", routing_key: b"key", properties: &[0, 0], body: b"hello" };
        IncomingMessage {
            message,
            persistent: true,
            priority: 3,
            ttl_ms: None,
            annotations: b"died",
            shared: None,
            is_alike: false,
        }
    }

    #[test]
    fn a_stored_message_parses_to_what_was_stored() {
        let mut bytes = Vec::new();
        store(&mut bytes, &sample(), Some(77));
        let (stored, taken) = parse(&bytes).expect("whole");
        assert_eq!(taken, bytes.len());
        assert_eq!(stored.message, sample().message);
        assert_eq!(stored.annotations, b"died");
        assert!(stored.persistent);
        assert_eq!(stored.expiry_ms, Some(77));
    }

    #[test]
    fn a_shared_body_is_a_reference_of_twelve_bytes() {
        let body = SharedBody::named(0x0102, 5);
        let held = HeldBody { body, bytes: std::sync::Arc::new(b"hello".to_vec().into()) };
        let mut bytes = Vec::new();
        store(&mut bytes, &IncomingMessage { shared: Some(&held), ..sample() }, None);
        let fixed = [0, 0, 0, 34, 9, 1, 3, 0, 0, 0, 0, 2, 0, 0, 0, 4];
        let reference = [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 5];
        assert_eq!(bytes, [&fixed[..], b"xkey\0\0died", &reference].concat());
        let (stored, taken) = parse(&bytes).expect("whole");
        assert_eq!((taken, stored.body_bytes(), stored.message.body), (bytes.len(), 5, &b""[..]));
        assert_eq!(stored.shared, Some(SharedRef { id: 0x0102, bytes: 5 }));
        (0..bytes.len()).for_each(|end| assert!(parse(&bytes[..end]).is_none(), "cut at {end}"));
        let length = bytes[3] - 1;
        bytes[3] = length;
        assert!(parse(&bytes).is_none(), "a reference is twelve bytes");
    }

    #[test]
    fn every_truncation_is_refused() {
        let mut bytes = Vec::new();
        store(&mut bytes, &sample(), None);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn lying_lengths_are_refused() {
        let mut bytes = Vec::new();
        store(&mut bytes, &sample(), None);
        bytes[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(parse(&bytes).is_none());
    }

    #[test]
    fn an_enqueue_record_yields_its_entries_in_order() {
        let mut stored = Vec::new();
        store(&mut stored, &sample(), None);
        let mut payload = Vec::new();
        write_enqueued(&mut payload, MessageSeq(5), &stored);
        write_enqueued(&mut payload, MessageSeq(9), &stored);
        let seqs: Vec<_> = enqueued(&payload).map(|entry| entry.expect("whole").0).collect();
        assert_eq!(seqs, [MessageSeq(5), MessageSeq(9)]);
        payload.pop();
        assert!(enqueued(&payload).last().expect("two").is_none());
    }

    #[test]
    fn placeholders_for_settled_messages_are_no_messages() {
        let mut bytes = Vec::new();
        store_holes(&mut bytes, 258);
        assert_eq!(bytes, [0, 0, 0, 12, 16, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(parse_in_block(&bytes), Some((InBlock::Holes(258), HOLES_BYTES)));
        assert_eq!(parse(&bytes), None, "versions before them take them for damage");
        for at in 0..bytes.len() {
            assert_eq!(parse_in_block(&bytes[..at]), None, "cut at {at}");
        }
        for (at, byte) in [(3, 13), (4, 17), (5, 1), (11, 0), (15, 1)] {
            let mut bad = bytes.clone();
            bad[at] = byte;
            (at == 11).then(|| bad[10] = 0);
            assert_eq!(parse_in_block(&bad), None, "byte {at}");
        }
        let mut message = Vec::new();
        store(&mut message, &sample(), None);
        assert!(matches!(parse_in_block(&message), Some((InBlock::Message(_), _))));
    }

    #[test]
    fn records_are_written_byte_for_byte_as_documented() {
        let mut bytes = Vec::new();
        write_settled(&mut bytes, &SettledRun { first: MessageSeq::new(1, 2), count: 3, body_bytes: 4 });
        assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        assert_eq!(settled(&bytes[..15]).collect::<Vec<_>>(), [None]);
        let mut bytes = Vec::new();
        store(&mut bytes, &sample(), Some(7));
        let fixed = [0, 0, 0, 35, 5, 1, 3, 0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!(bytes, [&fixed[..], b"xkey\0\0diedhello"].concat());
        assert_eq!([1, 3, 4, 5, 8].map(|code| RecordKind::from_code(code).is_some()), [true; 5]);
        assert_eq!([2, 6, 7].map(RecordKind::from_code), [None; 3], "6 and 7 are of the stream of bodies");
    }
}
