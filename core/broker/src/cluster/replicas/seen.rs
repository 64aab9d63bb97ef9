//! Which handovers a queue has taken from other nodes: one that a node sends again, because it has lost the leader that did not answer, is
//! taken once.
//!
//! Refuses to know: messages, links, the queue's machine.

use std::collections::HashMap;

use bytes::{BufMut, BytesMut};
use stdx::RunSet;

use crate::data::batch::HandoverId;

/// Gaps that are remembered for a node. Older ones count as not taken.
const RUNS_MAX: usize = 1_024;

/// See the module.
#[derive(Default)]
pub(super) struct Seen {
    /// By node: the life of the latest handover, and the numbers of that life.
    by_node: HashMap<u16, (u64, RunSet)>,
}

impl Seen {
    /// Whether the queue has taken a handover.
    pub(super) fn has(&self, id: HandoverId) -> bool {
        self.by_node
            .get(&id.node)
            .is_some_and(|(life, numbers)| *life == id.life && numbers.contains(id.number))
    }

    /// The queue takes handovers: this one, and those behind it before the number `end`.
    pub(super) fn note(&mut self, id: HandoverId, end: u64) {
        let (life, numbers) = self.by_node.entry(id.node).or_default();
        if *life != id.life {
            (*life, *numbers) = (id.life, RunSet::default());
        }
        numbers.insert(id.number..end);
        if numbers.run_count() > RUNS_MAX {
            numbers.forget_lowest();
        }
    }

    /// The messages of these may be gone.
    pub(super) fn clear(&mut self) {
        self.by_node.clear();
    }

    /// Everything, for a member that has the messages.
    pub(super) fn put_all(&self, out: &mut BytesMut, put: impl Fn(&mut BytesMut, HandoverId, u64)) {
        for (node, (life, numbers)) in &self.by_node {
            for run in numbers.iter() {
                put(out, HandoverId { node: *node, life: *life, number: run.start }, run.end);
            }
        }
    }
}

/// Bytes of [`put`].
pub(in crate::cluster) const SEEN_BYTES: usize = 26;

/// Writes handovers of one life that follow each other: `node u16 | life u64 | first u64 | end u64`.
pub(in crate::cluster) fn put(out: &mut BytesMut, id: HandoverId, end: u64) {
    out.put_u16(id.node);
    out.put_u64(id.life);
    out.put_u64(id.number);
    out.put_u64(end);
}

/// Reads what [`put`] wrote.
pub(in crate::cluster) fn read(bytes: &[u8]) -> Option<(HandoverId, u64)> {
    let (node, rest) = bytes.split_first_chunk::<2>()?;
    let (life, rest) = rest.split_first_chunk::<8>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let end = <[u8; 8]>::try_from(rest).ok()?;
    let id = HandoverId {
        node: u16::from_be_bytes(*node),
        life: u64::from_be_bytes(*life),
        number: u64::from_be_bytes(*number),
    };
    Some((id, u64::from_be_bytes(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(node: u16, life: u64, number: u64) -> HandoverId {
        HandoverId { node, life, number }
    }

    #[test]
    fn a_handover_is_known_until_its_node_has_another_life_or_too_many_gaps() {
        let mut seen = Seen::default();
        seen.note(id(1, 7, 0), 3);
        seen.note(id(2, 7, 5), 6);
        assert!(seen.has(id(1, 7, 2)) && !seen.has(id(1, 7, 3)) && !seen.has(id(2, 7, 2)));
        seen.note(id(1, 8, 0), 1);
        assert!(!seen.has(id(1, 7, 2)) && seen.has(id(1, 8, 0)));
        (0..=RUNS_MAX as u64).for_each(|nth| seen.note(id(2, 7, 10 + nth * 2), 11 + nth * 2));
        assert!(!seen.has(id(2, 7, 5)) && seen.has(id(2, 7, 12)));
    }

    #[test]
    fn what_one_member_tells_another_one_knows() {
        let (mut seen, mut other) = (Seen::default(), Seen::default());
        seen.note(id(1, 7, 4), 9);
        seen.note(id(3, 2, 0), 1);
        let mut out = BytesMut::new();
        seen.put_all(&mut out, put);
        for bytes in out.chunks(SEEN_BYTES) {
            let (id, end) = read(bytes).expect("it was written so");
            other.note(id, end);
        }
        assert!(other.has(id(1, 7, 8)) && other.has(id(3, 2, 0)) && !other.has(id(1, 7, 3)));
        assert_eq!(read(&out[..SEEN_BYTES - 1]), None);
    }
}
