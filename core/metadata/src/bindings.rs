//! The bindings of a vhost: found by identity, and listed by source and by destination, each in constant time per
//! binding. Knows nothing of exchanges and queues but that they hold the ends of the lists.
//!
//! ```text
//!  identity table ──► slot number ──► slot: binding, links of two doubly linked lists
//!                                      ▲                    ▲
//!                 list of the source ──┘                    └── list of the destination
//! ```

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::records::{Binding, Identity};

/// No slot.
const NONE: u32 = u32::MAX;

/// Which of a binding's two lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The list of bindings that leave an exchange.
    Source = 0,
    /// The list of bindings that end at a queue or exchange.
    Destination = 1,
}

/// Both ends of a list in one slot.
#[derive(Debug, Clone, Copy)]
struct Links {
    previous: u32,
    next: u32,
}

const UNLINKED: Links = Links { previous: NONE, next: NONE };

#[derive(Debug)]
struct Slot {
    /// `None` in a free slot, whose first `next` is the next free one.
    binding: Option<Arc<Binding>>,
    links: [Links; 2],
    /// Grows from binding to binding.
    made: u64,
}

/// The bindings on one side of an exchange or queue, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    count: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, count: 0 }
    }
}

impl List {
    pub(crate) fn len(self) -> usize {
        self.count as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// The number of a slot in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

/// All bindings of a vhost.
#[derive(Debug)]
pub(crate) struct Bindings {
    slots: Vec<Slot>,
    free: u32,
    identities: HashTable<u32>,
    hasher: RandomState,
    next_made: u64,
}

impl Default for Bindings {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            identities: HashTable::new(),
            hasher: RandomState::default(),
            next_made: 0,
        }
    }
}

impl Bindings {
    pub(crate) fn len(&self) -> usize {
        self.identities.len()
    }

    /// Bytes of the tables, without the bindings themselves.
    pub(crate) fn table_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.identities.allocation_size()
    }

    pub(crate) fn find(&self, identity: Identity<'_>) -> Option<SlotId> {
        let hash = self.hasher.hash_one(identity);
        self.identities.find(hash, |slot| self.at(*slot).identity() == identity).copied().map(SlotId)
    }

    pub(crate) fn get(&self, slot: SlotId) -> &Arc<Binding> {
        self.at(slot.0)
    }

    /// Adds a binding whose identity is new, in no list yet.
    pub(crate) fn insert(&mut self, binding: Arc<Binding>) -> SlotId {
        debug_assert!(self.find(binding.identity()).is_none(), "identities of bindings are unique");
        let hash = self.hasher.hash_one(binding.identity());
        let slot = self.take_slot();
        self.slots[slot as usize] =
            Slot { binding: Some(binding), links: [UNLINKED; 2], made: self.next_made };
        self.next_made += 1;
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.identities.insert_unique(hash, slot, |slot| hasher.hash_one(held(slots, *slot).identity()));
        SlotId(slot)
    }

    /// Puts a binding with the same identity in the place of one.
    pub(crate) fn replace(&mut self, slot: SlotId, binding: Arc<Binding>) {
        debug_assert!(self.get(slot).identity() == binding.identity(), "it is found as before");
        self.slots[slot.0 as usize].binding = Some(binding);
    }

    /// Takes out a binding that is in no list any more.
    pub(crate) fn remove(&mut self, slot: SlotId) -> Arc<Binding> {
        let hash = self.hasher.hash_one(self.get(slot).identity());
        self.identities
            .find_entry(hash, |candidate| *candidate == slot.0)
            .expect("every slot in use is in the identity table")
            .remove();
        let links = [Links { previous: NONE, next: self.free }, UNLINKED];
        let freed = Slot { binding: None, links, made: 0 };
        self.free = slot.0;
        std::mem::replace(&mut self.slots[slot.0 as usize], freed).binding.expect("the slot was in use")
    }

    /// Puts a binding at the front of a list.
    pub(crate) fn link(&mut self, slot: SlotId, side: Side, list: &mut List) {
        let old_head = list.head;
        self.links_mut(slot.0, side).next = old_head;
        if old_head != NONE {
            self.links_mut(old_head, side).previous = slot.0;
        }
        *list = List { head: slot.0, count: list.count + 1 };
    }

    /// Takes a binding out of the list that it is in.
    pub(crate) fn unlink(&mut self, slot: SlotId, side: Side, list: &mut List) {
        let Links { previous, next } = std::mem::replace(self.links_mut(slot.0, side), UNLINKED);
        if previous == NONE {
            list.head = next;
        } else {
            self.links_mut(previous, side).next = next;
        }
        if next != NONE {
            self.links_mut(next, side).previous = previous;
        }
        list.count -= 1;
    }

    /// The slots of a list, newest binding first; with snapshots in between the order may differ.
    pub(crate) fn slots(&self, list: List, side: Side) -> impl Iterator<Item = SlotId> {
        let first = (list.head != NONE).then_some(list.head);
        std::iter::successors(first, move |slot| {
            let next = self.slots[*slot as usize].links[side as usize].next;
            (next != NONE).then_some(next)
        })
        .map(SlotId)
    }

    /// The slots of a list in [`Binding::order`].
    pub(crate) fn sorted_slots(&self, list: List, side: Side) -> Vec<SlotId> {
        let mut slots: Vec<SlotId> = self.slots(list, side).collect();
        slots.sort_unstable_by(|left, right| self.get(*left).order(self.get(*right)));
        slots
    }

    /// All bindings, in no order.
    pub(crate) fn unsorted(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.slots.iter().filter_map(|slot| slot.binding.as_ref())
    }

    /// All bindings in [`Binding::order`].
    pub(crate) fn sorted(&self) -> Vec<&Arc<Binding>> {
        let mut all: Vec<_> = self.slots.iter().filter_map(|slot| slot.binding.as_ref()).collect();
        all.sort_unstable_by(|left, right| left.order(right));
        all
    }

    /// All bindings in the order in which they were made.
    pub(crate) fn in_order_made(&self) -> Vec<&Arc<Binding>> {
        let mut all: Vec<_> =
            self.slots.iter().filter_map(|slot| Some((slot.made, slot.binding.as_ref()?))).collect();
        all.sort_unstable_by_key(|(made, _)| *made);
        all.into_iter().map(|(_, binding)| binding).collect()
    }

    fn at(&self, slot: u32) -> &Arc<Binding> {
        held(&self.slots, slot)
    }

    fn links_mut(&mut self, slot: u32, side: Side) -> &mut Links {
        &mut self.slots[slot as usize].links[side as usize]
    }

    fn take_slot(&mut self) -> u32 {
        if self.free != NONE {
            let slot = self.free;
            self.free = self.slots[slot as usize].links[0].next;
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot != NONE);
        let slot = slot.expect("memory ends long before 2^32 bindings of over 100 bytes each");
        self.slots.push(Slot { binding: None, links: [UNLINKED; 2], made: 0 });
        slot
    }
}

fn held(slots: &[Slot], slot: u32) -> &Arc<Binding> {
    slots[slot as usize].binding.as_ref().expect("tables and lists hold only slots in use")
}
