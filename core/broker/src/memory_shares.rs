//! How much of their messages queues may keep in memory: a part of what the node may use, the same for all that have much, and
//! the smaller the more of them there are. Knows neither messages nor blocks.
//!
//! Only queues that hold more than a block are known here, and they come and go by blocks: nothing is done per message, and nothing for
//! queues that are short. A new holder has the next few of the others look at their share. So all have shrunk by the time there are a
//! quarter more of them. No disk is asked to take half of the memory at once.

mod holding;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;
use stdx::QueueId;

/// A queue that has more bytes of messages in memory than these is a holder, until it has fewer than half of them. The smallest
/// share, too: about one block.
const HOLDER_BYTES_MIN: usize = 64 << 10;

/// Holders that look at their share when another one joins.
const TRIMMED_PER_JOIN: usize = 4;

/// Part of the memory threshold that all holders together may use for messages: 1 / this.
const PART_OF_LIMIT: u64 = 4;

/// Part of the memory threshold that each of the buffers before the disk may use, of which there are four: 1 / this.
const BUFFER_PART: u64 = 16;

/// As much each of them may use in any case, bytes.
const BUFFER_BYTES_MIN: u64 = 4 << 20;

/// Bytes that a queue may hold while the node is short of memory: few, because there may be very many queues. Also the limit that the
/// others, which are no holders, are asked to give up.
const SHORT_SHARE_BYTES: usize = 4 << 10;

/// The shares of a node's queues.
pub(crate) struct MemoryShares {
    /// Bytes that each may hold now. Read once a turn of a queue.
    share_bytes: AtomicUsize,
    /// See [`MemoryShares::buffer_bytes_max`].
    buffer_bytes_max: AtomicU64,
    holders: Mutex<Holders>,
}

/// A queue that holds more than a block.
pub(crate) trait Holder: Send + Sync {
    /// Bytes of its messages that it keeps in memory, at most, however large its share is.
    fn memory_bytes_max(&self) -> usize;

    /// Has it give up what is beyond its share; on another thread.
    fn look_at_share(self: Arc<Self>);
}

struct Holders {
    /// Bytes that all may hold together; `u64::MAX` until it is known.
    budget_bytes: u64,
    /// The memory threshold was exceeded, and the used memory is not much below it.
    is_short: bool,
    /// In an order that does not change, so that everybody's turn comes.
    by_id: BTreeMap<QueueId, Weak<dyn Holder>>,
    /// The queue that looks at its share next.
    next: QueueId,
}

impl Default for MemoryShares {
    fn default() -> MemoryShares {
        let holders =
            Holders { budget_bytes: u64::MAX, is_short: false, by_id: BTreeMap::new(), next: QueueId(0) };
        MemoryShares {
            share_bytes: AtomicUsize::new(usize::MAX),
            buffer_bytes_max: AtomicU64::new(u64::MAX),
            holders: Mutex::new(holders),
        }
    }
}

impl std::fmt::Debug for MemoryShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryShares").field("share_bytes", &self.share_bytes).finish_non_exhaustive()
    }
}

impl Holders {
    fn share_bytes(&self) -> usize {
        if self.is_short {
            return SHORT_SHARE_BYTES;
        }
        let share = self.budget_bytes / (self.by_id.len() as u64).max(1);
        usize::try_from(share).unwrap_or(usize::MAX).max(HOLDER_BYTES_MIN)
    }

    /// The next few in turn.
    fn next_few(&mut self) -> SmallVec<[Arc<dyn Holder>; TRIMMED_PER_JOIN]> {
        let in_turn = self.by_id.range(self.next..).chain(self.by_id.range(..self.next));
        let few: SmallVec<[(QueueId, Arc<dyn Holder>); TRIMMED_PER_JOIN]> = in_turn
            .take(TRIMMED_PER_JOIN)
            .filter_map(|(id, queue)| queue.upgrade().map(|queue| (*id, queue)))
            .collect();
        if let Some((last, _)) = few.last() {
            self.next = QueueId(last.0 + 1);
        }
        few.into_iter().map(|(_, queue)| queue).collect()
    }
}

impl MemoryShares {
    /// Bytes of messages that one queue may keep in memory now; `usize::MAX` while nothing is known of the memory there is.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.share_bytes.load(Ordering::Relaxed)
    }

    /// Bytes in memory, at most: of records that wait for the log, of blocks that wait for segments, of shared bodies that are not written yet, and
    /// of bodies that were read. It holds for each of the four. `u64::MAX` while nothing is known of the memory there is.
    #[inline]
    pub(crate) fn buffer_bytes_max(&self) -> u64 {
        self.buffer_bytes_max.load(Ordering::Relaxed)
    }

    /// Whether a queue with so much in memory is a holder, when it was one before or not.
    pub(crate) fn is_holder(held_bytes: usize, was_holder: bool) -> bool {
        held_bytes > if was_holder { HOLDER_BYTES_MIN / 2 } else { HOLDER_BYTES_MIN }
    }

    /// A queue has become a holder. Others give up what is more than their share now, later and on another thread.
    pub(crate) fn join(&self, id: QueueId, queue: &Arc<dyn Holder>) {
        let few = {
            let mut holders = self.holders.lock();
            holders.by_id.insert(id, Arc::downgrade(queue));
            let share_bytes = holders.share_bytes();
            self.share_bytes.store(share_bytes, Ordering::Relaxed);
            // While shares are larger than what a queue keeps anyway, nobody has more.
            if share_bytes > queue.memory_bytes_max() { SmallVec::new() } else { holders.next_few() }
        };
        few.into_iter().for_each(|queue| queue.look_at_share());
    }

    /// A queue is no holder any more, or gone.
    pub(crate) fn leave(&self, queue: QueueId) {
        let mut holders = self.holders.lock();
        if holders.by_id.remove(&queue).is_some() {
            self.share_bytes.store(holders.share_bytes(), Ordering::Relaxed);
        }
    }

    /// The node may use so much memory before publishers are blocked. When that is less than before, all holders look at their
    /// shares.
    pub(crate) fn set_limit(&self, limit_bytes: u64) {
        let budget_bytes = limit_bytes / PART_OF_LIMIT;
        self.buffer_bytes_max.store((limit_bytes / BUFFER_PART).max(BUFFER_BYTES_MIN), Ordering::Relaxed);
        let all: Vec<Arc<dyn Holder>> = {
            let mut holders = self.holders.lock();
            let was = std::mem::replace(&mut holders.budget_bytes, budget_bytes);
            self.share_bytes.store(holders.share_bytes(), Ordering::Relaxed);
            if budget_bytes >= was {
                return;
            }
            holders.by_id.values().filter_map(Weak::upgrade).collect()
        };
        all.into_iter().for_each(|queue| queue.look_at_share());
    }

    /// The node uses so much of what it may, bytes. Once that is exceeded shares are small, until an eighth is free again.
    pub(crate) fn note_used(&self, used_bytes: u64, limit_bytes: u64) {
        let mut holders = self.holders.lock();
        let bound_bytes = if holders.is_short { limit_bytes - limit_bytes / 8 } else { limit_bytes };
        holders.is_short = used_bytes > bound_bytes;
        self.share_bytes.store(holders.share_bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use message::Table;

    use super::*;
    use crate::cell::Queue;
    use crate::data::publish::{Incoming, PublishChannel, Publisher};
    use crate::driven::{Driven, Engine};
    use crate::{Broker, MemoryLimit, Principal, QueueDeclare, test_broker};

    #[test]
    fn shares_are_equal_parts_of_a_quarter_of_the_limit_down_to_one_block() {
        let shares = MemoryShares::default();
        assert_eq!(shares.bytes(), usize::MAX, "nothing is known yet");
        shares.set_limit(64 << 20);
        assert_eq!(shares.bytes(), 16 << 20);
        for number in 0..8 {
            shares.holders.lock().by_id.insert(QueueId(number), Weak::<Queue>::new());
        }
        shares.set_limit(32 << 20);
        assert_eq!(shares.bytes(), 1 << 20);
        shares.set_limit(0);
        assert_eq!(shares.bytes(), HOLDER_BYTES_MIN);
        shares.set_limit(32 << 20);
        shares.leave(QueueId(7));
        assert_eq!(shares.bytes(), (8 << 20) / 7);
    }

    #[test]
    fn buffers_are_a_quarter_of_the_limit_together_and_follow_it() {
        let shares = MemoryShares::default();
        assert_eq!(shares.buffer_bytes_max(), u64::MAX, "nothing is known yet");
        for (limit_bytes, buffer_bytes_max) in
            [(1 << 40, 1 << 36), (320 << 20, 20 << 20), (0, 4 << 20), (1 << 30, 64 << 20)]
        {
            shares.set_limit(limit_bytes);
            assert_eq!(shares.buffer_bytes_max(), buffer_bytes_max);
        }
    }

    #[test]
    fn shares_are_small_from_when_the_limit_is_exceeded_until_an_eighth_is_free() {
        let shares = MemoryShares::default();
        shares.set_limit(80 << 20);
        let mut shares_at = |used_mib: u64| {
            shares.note_used(used_mib << 20, 80 << 20);
            shares.bytes()
        };
        assert_eq!(
            [80, 81, 71, 70, 79].map(&mut shares_at),
            [20 << 20, 4 << 10, 4 << 10, 20 << 20, 20 << 20]
        );
    }

    #[test]
    fn what_waits_for_the_disk_is_little_from_when_the_limit_is_moved() {
        let (broker, driver, principal, _) = test_broker::driven();
        let services = broker.services();
        fill_with(&broker, &principal, b"durable", &PERSISTENT, 5 * 1100);
        assert!(!services.is_pressed(), "more than 5 MB of 64 MiB");
        broker.alarms().set_memory_limit(MemoryLimit::Bytes(1 << 20));
        assert!(services.is_pressed());
        broker.alarms().set_memory_limit(MemoryLimit::Bytes(512 << 20));
        assert!(!services.is_pressed());
        drop(driver);
    }

    /// Publishes messages to a queue, few enough for it to be no holder.
    fn fill(broker: &Broker, principal: &Principal, name: &[u8]) {
        fill_with(broker, principal, name, &[0, 0], COUNT.into());
    }

    fn fill_with(broker: &Broker, principal: &Principal, name: &[u8], properties: &[u8], count: u32) {
        let arguments = Table::from_raw(&[]);
        let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
        broker.declare_queue(principal, declare).expect("it can be declared");
        let mut publisher = Publisher::new(broker, principal);
        for nth in 0..count {
            let body = [nth as u8; 1000];
            let (routing_key, body) = (name, &body[..]);
            let message = Incoming { mandatory: false, exchange: b"", routing_key, properties, body };
            publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
        }
        publisher.flush();
    }

    const COUNT: u8 = 40;

    /// Properties with a delivery mode only.
    const PERSISTENT: [u8; 3] = [0x10, 0, 2];

    #[test]
    fn while_memory_is_short_queues_that_are_no_holders_give_up_what_they_have_without_an_event_of_their_own()
    {
        let (broker, mut driver, principal, _) = test_broker::driven();
        let names: [&[u8]; 3] = [b"one", b"two", b"three"];
        names.iter().for_each(|name| fill(&broker, &principal, name));
        driver.run_until_idle();
        let services = broker.services();
        let held = || services.all_queues().iter().map(|queue| queue.memory_bytes().1).collect::<Vec<_>>();
        let bytes_min = u64::from(COUNT) * 1000;
        assert!(
            held().iter().all(|bytes| (bytes_min..HOLDER_BYTES_MIN as u64).contains(bytes)),
            "{:?}",
            held()
        );
        assert!(!services.relieve_queues(), "there is enough");
        services.memory_shares().note_used(2, 1);
        assert!(services.relieve_queues());
        while driver.step(Engine::Segments) == Driven::Worked {}
        assert!(held().iter().all(|bytes| *bytes < SHORT_SHARE_BYTES as u64), "{:?}", held());
        assert!(!services.relieve_queues(), "there is nothing left to give up");
        for name in names {
            let got = (0..COUNT).map(|_| {
                let (_, mut call) = broker.get(&principal, name, false).expect("it is there");
                driver.run_until_idle();
                call.try_take().expect("it is answered").expect("it is in service").expect("a message").body
                    [0]
            });
            assert_eq!(got.collect::<Vec<_>>(), (0..COUNT).collect::<Vec<_>>());
        }
    }

    #[test]
    fn holders_come_and_go_by_blocks_and_not_at_one_bound() {
        assert!(!MemoryShares::is_holder(HOLDER_BYTES_MIN, false));
        assert!(MemoryShares::is_holder(HOLDER_BYTES_MIN + 1, false));
        assert!(MemoryShares::is_holder(HOLDER_BYTES_MIN, true));
        assert!(!MemoryShares::is_holder(HOLDER_BYTES_MIN / 2, true));
    }
}
