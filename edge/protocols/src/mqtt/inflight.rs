//! Messages on their way to the client that it has to acknowledge, by packet id.

use broker::MessageSeq;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::deliver::AT_LEAST_ONCE;

/// Packet ids of the session's own queue: 1 to this. They follow from the place in the queue, so a message that comes again, also after a
/// restart, has the same one. Ids above are for queues that sessions share.
const OWN_IDS: u16 = 32_767;

/// How far the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// QoS 1: PUBACK is awaited.
    Ack,
    /// QoS 2: PUBREC is awaited.
    Receive,
    /// QoS 2: PUBREL is sent, PUBCOMP awaited. The message has left its queue if that is a shared one.
    Complete,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it comes from.
    pub(crate) token: u32,
    pub(crate) seq: MessageSeq,
    pub(crate) stage: Stage,
}

impl Entry {
    /// Whether the queue still has the message.
    pub(crate) fn is_held(&self) -> bool {
        self.token == AT_LEAST_ONCE || self.stage != Stage::Complete
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Inflight {
    entries: HashMap<u16, Entry, FixedState>,
    shared_latest: u16,
}

impl Default for Inflight {
    fn default() -> Self {
        Inflight { entries: HashMap::with_hasher(FixedState::default()), shared_latest: OWN_IDS }
    }
}

impl Inflight {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.allocation_size()
    }

    /// The packet id for a message of the session's own queue, or of one that is shared; `None` while it is taken.
    pub(crate) fn id_for(&mut self, is_own: bool, seq: MessageSeq) -> Option<u16> {
        if is_own {
            let id = 1 + (seq.0 % u64::from(OWN_IDS)) as u16;
            return (!self.entries.contains_key(&id)).then_some(id);
        }
        for _ in OWN_IDS..u16::MAX {
            self.shared_latest =
                if self.shared_latest == u16::MAX { OWN_IDS + 1 } else { self.shared_latest + 1 };
            if !self.entries.contains_key(&self.shared_latest) {
                return Some(self.shared_latest);
            }
        }
        None
    }

    /// A message goes out.
    pub(crate) fn add(&mut self, id: u16, entry: Entry) {
        self.entries.insert(id, entry);
    }

    /// The message that has this packet id.
    pub(crate) fn get(&mut self, id: u16) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    /// It is done.
    pub(crate) fn remove(&mut self, id: u16) -> Option<Entry> {
        self.entries.remove(&id)
    }

    /// Takes those of one source.
    pub(crate) fn take_of(&mut self, token: u32) -> Vec<Entry> {
        self.entries.extract_if(|_, entry| entry.token == token).map(|(_, entry)| entry).collect()
    }

    /// Takes all, in the order of their places.
    pub(crate) fn take_all(&mut self) -> Vec<(u16, Entry)> {
        let mut all: Vec<_> = self.entries.drain().collect();
        all.sort_unstable_by_key(|(_, entry)| (entry.token, entry.seq.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64) -> Entry {
        Entry { token: 1, seq: MessageSeq(seq), stage: Stage::Ack }
    }

    #[test]
    fn ids_of_the_own_queue_follow_from_the_place() {
        let mut inflight = Inflight::default();
        assert_eq!(inflight.id_for(true, MessageSeq(0)), Some(1));
        assert_eq!(inflight.id_for(true, MessageSeq(32_766)), Some(32_767));
        inflight.add(1, entry(0));
        assert_eq!(inflight.id_for(true, MessageSeq(32_767)), None, "taken");
        inflight.remove(1);
        assert_eq!(inflight.id_for(true, MessageSeq(32_767)), Some(1));
    }

    #[test]
    fn shared_ids_go_round_above_them() {
        let mut inflight = Inflight::default();
        assert_eq!(inflight.id_for(false, MessageSeq(5)), Some(32_768));
        inflight.add(32_768, entry(5));
        inflight.shared_latest = u16::MAX;
        assert_eq!(inflight.id_for(false, MessageSeq(6)), Some(32_769));
        for id in 32_768..=u16::MAX {
            inflight.add(id, entry(u64::from(id)));
        }
        assert_eq!(inflight.id_for(false, MessageSeq(6)), None);
        let all = inflight.take_all();
        assert!(all.is_sorted_by_key(|(_, entry)| entry.seq.0) && all.len() == 32_768);
    }
}
