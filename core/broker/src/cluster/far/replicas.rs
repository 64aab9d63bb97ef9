//! Messages between the leader of a queue and its members, as bytes. Each begins with the header of a question.

use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use queues::{MessageSeq, RecordKind};
use stdx::QueueId;

use super::frames::{ASK, Asking, consumer, put_consumer};
use crate::cell::{Event, Queue};
use crate::cluster::far::known::Far;
use crate::cluster::frames::Fields;
use crate::cluster::replicas::seen;
use crate::cluster::replicas::{Claiming, Holder, ReplicaEvent};
use crate::data::batch::HandoverId;

/// The leader says what lives: `epoch u32 | live set`.
pub(in crate::cluster) const SYNC: u8 = 32;
/// A member says what it has: `epoch u32 | cursor`.
pub(in crate::cluster) const HAS: u8 = 33;
/// The leader has logged: `epoch u32 | number u64 | (kind u8 | bytes u32 | payload) ...`.
pub(in crate::cluster) const RECORDS: u8 = 34;
/// A member has a frame on its disk: `epoch u32 | number u64`.
pub(in crate::cluster) const STORED: u8 = 35;
/// A member has heard who leads: `epoch u32`. A leader that has told it what lives before that tells it again.
pub(in crate::cluster) const HERE: u8 = 36;
/// A client of the sender has messages since before the receiver led: `epoch u32 | holding`.
pub(in crate::cluster) const CLAIM: u8 = 37;
/// The sender's clients have nothing else: `epoch u32`.
pub(in crate::cluster) const CLAIMED: u8 = 38;
/// Deliveries that the receiver claimed and does not get: `epoch u32 | holding`.
pub(in crate::cluster) const LOST: u8 = 39;

/// The code of handovers among records.
const SEEN: u8 = 255;

/// The code of what has been handed out: `number u64`.
const HANDED_OUT: u8 = 254;

/// A part of what the leader sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Part<'a> {
    Record(RecordKind, &'a [u8]),
    /// The leader has taken this handover, and those behind it before the number.
    Seen(HandoverId, u64),
    /// Consumers have had the messages below this one, of its level.
    HandedOut(MessageSeq),
}

/// Whether a question is about members.
pub(super) fn is_of_members(code: u8) -> bool {
    (SYNC..=LOST).contains(&code)
}

/// Adds who has which messages: `is a consumer u8 | consumer | (first u64 | end u64) ...`.
pub(in crate::cluster) fn put_holding(out: &mut BytesMut, holder: Holder, numbers: &[Range<u64>]) {
    out.put_u8(u8::from(holder.is_some()));
    holder.into_iter().for_each(|id| put_consumer(out, id));
    for run in numbers {
        out.put_u64(run.start);
        out.put_u64(run.end);
    }
}

fn holding(from: &mut Fields) -> Option<(Holder, Vec<Range<u64>>)> {
    let holder = if from.u8()? == 0 { None } else { Some(consumer(from)?) };
    let mut numbers = Vec::new();
    while !from.0.is_empty() {
        numbers.push(from.u64()?..from.u64()?);
    }
    Some((holder, numbers))
}

/// Adds a record to a frame.
pub(in crate::cluster) fn put_record(out: &mut BytesMut, kind: RecordKind, payload: &[u8]) {
    out.put_u8(kind as u8);
    out.put_u32(payload.len() as u32);
    out.extend_from_slice(payload);
}

/// Adds handovers whose messages are in the records before them, or came with earlier frames.
pub(in crate::cluster) fn put_seen(out: &mut BytesMut, id: HandoverId, end: u64) {
    out.put_u8(SEEN);
    out.put_u32(seen::SEEN_BYTES as u32);
    seen::put(out, id, end);
}

/// Adds what consumers have had.
pub(in crate::cluster) fn put_handed_out(out: &mut BytesMut, below: MessageSeq) {
    out.put_u8(HANDED_OUT);
    out.put_u32(size_of::<u64>() as u32);
    out.put_u64(below.0);
}

/// The records of a frame; `None` for what cannot be read, and then nothing more.
pub(in crate::cluster) fn records(bytes: &[u8]) -> impl Iterator<Item = Option<Part<'_>>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let all = rest.filter(|all| !all.is_empty())?;
        let read = record(all);
        rest = read.map(|(_, behind)| behind);
        Some(read.map(|(shipped, _)| shipped))
    })
}

fn record(bytes: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    if *kind == SEEN {
        let (id, end) = seen::read(payload)?;
        return Some((Part::Seen(id, end), rest));
    }
    if *kind == HANDED_OUT {
        let below = u64::from_be_bytes(payload.try_into().ok()?);
        return Some((Part::HandedOut(MessageSeq(below)), rest));
    }
    Some((Part::Record(RecordKind::from_code(*kind)?, payload), rest))
}

impl Far {
    /// Tells the other node something about a queue of which both are members. It waits there until so much of the metadata is applied.
    pub(in crate::cluster) fn send_replica(
        &self,
        queue: QueueId,
        applied: u64,
        code: u8,
        put: impl FnOnce(&mut BytesMut),
    ) {
        let mut out = Asking { number: 0, queue: queue.0, applied, code }.begin();
        put(&mut out);
        self.outlet.send(ASK, out.freeze());
    }

    /// The other node tells something about a queue of which this one is a member.
    pub(super) fn told_by_member(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        code: u8,
        from: &mut Fields,
    ) -> Option<()> {
        let epoch = from.u32()?;
        let far = self.clone();
        let node = || {
            let view = queue.services().cluster.as_ref()?.view();
            view.members.iter().find(|member| member.name == *self.outlet.to()).map(|member| member.number)
        };
        let event = match code {
            SYNC => ReplicaEvent::Sync { epoch, live: rest(from), far },
            HAS => ReplicaEvent::Has { node: node()?, epoch, cursor: rest(from) },
            HERE => ReplicaEvent::Here { node: node()?, epoch },
            RECORDS => ReplicaEvent::Records { epoch, number: from.u64()?, records: rest(from), far },
            CLAIM => {
                let (holder, numbers) = holding(from)?;
                let numbers = self.note_claimed(queue, epoch, holder, &numbers);
                ReplicaEvent::Claim(Claiming { epoch, holder, numbers, far: Some(far) })
            }
            CLAIMED => ReplicaEvent::Claimed { node: node()?, epoch },
            LOST => {
                let (holder, numbers) = holding(from)?;
                ReplicaEvent::Lost { epoch, holder, numbers }
            }
            STORED => {
                queue.member_answered(node()?, epoch, from.u64()?);
                return Some(());
            }
            _ => return None,
        };
        queue.submit_here_one(Event::Replica(Box::new(event)));
        if code == CLAIM && self.outlet.is_closed() {
            // Deliveries that were noted after the link had ended go back as well.
            self.leave(true);
        }
        Some(())
    }
}

fn rest(from: &mut Fields) -> Bytes {
    std::mem::take(&mut from.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_what_is_cut_ends_them() {
        let mut out = BytesMut::new();
        put_record(&mut out, RecordKind::Settle, b"one");
        put_handed_out(&mut out, MessageSeq(7));
        put_record(&mut out, RecordKind::Enqueue, b"");
        let all: Vec<_> = records(&out).collect();
        let (one, other) = (Part::Record(RecordKind::Settle, b"one"), Part::Record(RecordKind::Enqueue, b""));
        let handed_out = Part::HandedOut(MessageSeq(7));
        assert_eq!(all, [Some(one), Some(handed_out), Some(other)]);
        let cut: Vec<_> = records(&out[..out.len() - 1]).collect();
        assert_eq!(cut, [Some(one), Some(handed_out), None]);
    }
}
