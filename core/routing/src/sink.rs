//! Where matches go while a message is routed: each queue once, exchanges onto the list of those still to visit.
//!
//! Refuses to know how matches are found.

use std::sync::Arc;

use hashbrown::HashTable;
use stdx::hamt::hash_of;

use crate::QueueHandle;
use crate::chance::Chance;
use crate::targets::Targets;

/// Up to so many queues a list is searched from end to end; beyond, it is indexed.
const SEARCHED_LEN_MAX: usize = 16;
/// An index that has grown beyond so many queues is given back to the allocator after use.
const INDEX_KEPT_LEN_MAX: usize = 1 << 18;

/// Which queues are already in the list of results: positions in that list, by the queue's hash.
#[derive(Default)]
pub(crate) struct Seen {
    positions: HashTable<u32>,
    /// The list's first so many queues are in the index.
    indexed: usize,
}

impl Seen {
    /// Forgets the list of the last message.
    pub(crate) fn reset(&mut self) {
        if self.indexed > 0 {
            self.indexed = 0;
            self.positions.clear();
            if self.positions.capacity() > INDEX_KEPT_LEN_MAX {
                self.positions = HashTable::new();
            }
        }
    }

    fn push_new<Q: QueueHandle>(&mut self, out: &mut Vec<Q>, queue: &Q) {
        if out.len() <= SEARCHED_LEN_MAX {
            if !out.contains(queue) {
                out.push(queue.clone());
            }
            return;
        }
        for (position, listed) in out.iter().enumerate().skip(self.indexed) {
            let position = u32::try_from(position).expect("a vhost has fewer queues than 2^32");
            self.positions.insert_unique(hash_of(listed), position, |&at| hash_of(&out[at as usize]));
        }
        self.indexed = out.len();
        let hash = hash_of(queue);
        if self.positions.find(hash, |&at| out[at as usize] == *queue).is_none() {
            out.push(queue.clone());
        }
    }
}

/// Takes the matches of one message in one exchange.
pub(crate) struct Sink<'s, Q: QueueHandle> {
    pub(crate) out: &'s mut Vec<Q>,
    pub(crate) pending: &'s mut Vec<Arc<Q::Exchange>>,
    pub(crate) seen: &'s mut Seen,
    pub(crate) chance: &'s mut Chance,
    /// Whether this exchange matched anything: a queue, also one listed before, or an exchange.
    pub(crate) matched: bool,
}

impl<Q: QueueHandle> Sink<'_, Q> {
    /// Takes what one place of the table leads to, which must not be empty.
    #[inline]
    pub(crate) fn add(&mut self, targets: &Targets<Q>) {
        self.matched = true;
        if self.out.is_empty() {
            for chunk in targets.queues().chunks() {
                self.out.extend_from_slice(chunk);
            }
        } else {
            for queue in targets.queues().iter() {
                self.seen.push_new(self.out, queue);
            }
        }
        if let Some(exchanges) = targets.exchanges() {
            self.pending.extend(exchanges.iter().cloned());
        }
    }
}
