//! Publishes of the client that are not acknowledged yet, in their order: PUBACK and PUBREC go out in the order of the publishes.

use std::collections::VecDeque;

use broker::ConfirmRange;
use wire::mqtt::{Ack, Packet, Qos, Version, reason};

/// Publishes that may be unacknowledged: packet ids tell no more apart.
pub(crate) const ACKS_MAX: usize = 65_535;

/// The part of the broker that confirms a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// The queues that the message was routed to.
    Routed,
    /// The store of retained messages.
    Kept,
}

/// A publish that was handed in.
#[derive(Clone, Copy, Debug)]
struct Unacked {
    /// Its number; that of the one before if it has none of its own.
    routed: u64,
    /// Its number at the store of retained messages, or of the latest one there before it.
    kept: u64,
    awaits_routed: bool,
    awaits_kept: bool,
    packet_id: u16,
    qos: Qos,
    code: u8,
}

/// The news for the session of a publish that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) packet_id: u16,
    pub(crate) qos: Qos,
    pub(crate) code: u8,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    waiting: VecDeque<Unacked>,
    /// Publishes that were confirmed.
    pub(crate) confirmed: u64,
}

/// A publish to be acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewAck {
    pub(crate) packet_id: u16,
    pub(crate) qos: Qos,
    /// How it went so far.
    pub(crate) code: u8,
    /// The latest number given to a message of this connection.
    pub(crate) routed: u64,
    /// It is this message's.
    pub(crate) awaits_routed: bool,
    /// The same at the store of retained messages.
    pub(crate) kept: u64,
    pub(crate) awaits_kept: bool,
}

impl Acks {
    /// How many are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one of QoS 2 is among them.
    pub(crate) fn has_exactly_once(&self) -> bool {
        self.waiting.iter().any(|it| it.qos == Qos::ExactlyOnce)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Unacked>()
    }

    /// One more.
    pub(crate) fn push(&mut self, new: NewAck) {
        let NewAck { packet_id, qos, code, routed, awaits_routed, kept, awaits_kept } = new;
        self.waiting.push_back(Unacked { routed, kept, awaits_routed, awaits_kept, packet_id, qos, code });
    }

    /// Some are confirmed, or refused.
    pub(crate) fn settle(&mut self, which: Confirmed, range: &ConfirmRange) {
        let number = |it: &Unacked| if which == Confirmed::Routed { it.routed } else { it.kept };
        let from = self.waiting.partition_point(|it| number(it) < range.first);
        for entry in self.waiting.range_mut(from..) {
            let number = number(entry);
            if number > range.last {
                break;
            }
            let awaits = match which {
                Confirmed::Routed => &mut entry.awaits_routed,
                Confirmed::Kept => &mut entry.awaits_kept,
            };
            if std::mem::take(awaits) && range.rejected.binary_search(&number).is_ok() {
                entry.code = reason::QUOTA_EXCEEDED;
            }
        }
    }

    /// Writes what can be said. A publish that a queue refused is not acknowledged before version 5, which has no words for it.
    pub(crate) fn write(&mut self, version: Version, out: &mut Vec<u8>, mut each: impl FnMut(Answered)) {
        while let Some(first) = self.waiting.front().filter(|it| !it.awaits_routed && !it.awaits_kept) {
            let &Unacked { packet_id, qos, code, .. } = first;
            self.waiting.pop_front();
            let is_refused = code >= reason::UNSPECIFIED_ERROR;
            self.confirmed += u64::from(!is_refused);
            each(Answered { packet_id, qos, code });
            if is_refused && version != Version::V5 {
                continue;
            }
            let ack = Ack { packet_id, reason_code: code, ..Ack::default() };
            let packet = if qos == Qos::ExactlyOnce { Packet::PubRec(ack) } else { Packet::PubAck(ack) };
            packet.encode(version, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(packet_id: u16, routed: u64, kept: Option<u64>) -> NewAck {
        NewAck {
            packet_id,
            qos: Qos::AtLeastOnce,
            code: 0,
            routed,
            awaits_routed: true,
            kept: kept.unwrap_or(0),
            awaits_kept: kept.is_some(),
        }
    }

    fn range(first: u64, last: u64, rejected: &[u64]) -> ConfirmRange {
        ConfirmRange { first, last, rejected: rejected.to_vec() }
    }

    fn written(acks: &mut Acks, version: Version) -> Vec<(u16, u8)> {
        let mut answered = Vec::new();
        acks.write(version, &mut Vec::new(), |it| answered.push((it.packet_id, it.code)));
        answered
    }

    #[test]
    fn acknowledgements_keep_the_order_of_the_publishes() {
        let mut acks = Acks::default();
        (1..=4).for_each(|nth| acks.push(new(nth * 10, u64::from(nth), None)));
        acks.settle(Confirmed::Routed, &range(2, 3, &[3]));
        assert_eq!(written(&mut acks, Version::V5), []);
        acks.settle(Confirmed::Routed, &range(1, 1, &[]));
        assert_eq!(written(&mut acks, Version::V5), [(10, 0), (20, 0), (30, reason::QUOTA_EXCEEDED)]);
        assert_eq!((acks.len(), acks.confirmed), (1, 2));
    }

    #[test]
    fn a_retained_message_waits_for_its_store_too() {
        let mut acks = Acks::default();
        acks.push(new(1, 1, Some(1)));
        acks.push(NewAck { code: reason::NOT_AUTHORIZED, awaits_routed: false, kept: 1, ..new(2, 1, None) });
        acks.settle(Confirmed::Routed, &range(1, 1, &[]));
        assert_eq!(written(&mut acks, Version::V5), []);
        acks.settle(Confirmed::Kept, &range(1, 1, &[]));
        assert_eq!(written(&mut acks, Version::V5), [(1, 0), (2, reason::NOT_AUTHORIZED)]);
    }

    #[test]
    fn version_3_is_not_told_what_was_refused() {
        let mut acks = Acks::default();
        acks.push(new(1, 1, None));
        acks.settle(Confirmed::Routed, &range(1, 1, &[1]));
        let mut out = Vec::new();
        acks.write(Version::V311, &mut out, |_| {});
        assert!(out.is_empty() && acks.len() == 0);
    }
}
