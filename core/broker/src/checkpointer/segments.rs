//! Queues that have much in segments that nobody needs: which to look at, and how many of them move the rest at once. Knows nothing
//! of what is in a segment.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use queues::SegmentRoom;
use stdx::QueueId;

use super::{LOOK_INTERVAL, RETRY_INTERVAL, ns};
use crate::call::Call;
use crate::cell::{Event, Queue};
use crate::services::{Motion, Services};

/// Queues that compact their segments at once, at most.
const COMPACTED_MAX: usize = 16;

/// Bytes that may be free in their segments when that is begun with one more: about half of it is written at most.
const COMPACTED_BYTES_MAX: u64 = 64 << 20;

/// Queues that may have segments of which little is needed.
#[derive(Default)]
pub(super) struct SparseQueues {
    /// To be looked at.
    new: BTreeMap<QueueId, Weak<Queue>>,
    /// What they would free was not worth the work.
    passed_over: BTreeMap<QueueId, Weak<Queue>>,
}

/// When to look at segments next.
#[derive(Default)]
pub(super) struct Looks {
    next_ns: u64,
    /// Queues that were asked to compact: when to look whether they could.
    asked: VecDeque<(u64, Weak<Queue>)>,
}

impl SparseQueues {
    /// One more is to be looked at; whether it is the first.
    pub(super) fn note(&mut self, queue: &Arc<Queue>) -> bool {
        let is_first = self.new.is_empty();
        self.new.entry(queue.id).or_insert_with(|| Arc::downgrade(queue));
        is_first
    }

    /// Those that were not worth the work are to be looked at again.
    pub(super) fn look_again(&mut self) {
        self.new.append(&mut self.passed_over);
    }

    /// Whether there are some to be looked at.
    pub(super) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    fn next(&mut self) -> Option<Arc<Queue>> {
        std::iter::from_fn(|| self.new.pop_first()).find_map(|(_, queue)| queue.upgrade())
    }

    fn pass_over(&mut self, queue: &Arc<Queue>) {
        self.passed_over.insert(queue.id, Arc::downgrade(queue));
    }

    fn forget_dropped(&mut self) {
        self.passed_over.retain(|_, queue| queue.strong_count() > 0);
    }
}

impl Looks {
    /// Whether queues were asked of which nobody has looked since what they could do.
    pub(super) fn are_due(&self) -> bool {
        !self.asked.is_empty()
    }
}

impl super::Checkpointer {
    /// Asks queues to compact that have much in segments that nobody needs: they write what is needed of those to others.
    pub(super) fn compact_segments(&self, services: &Services, looks: &mut Looks) -> Vec<Call<()>> {
        let now_ns = services.clock.now().0;
        let is_too_early = services.motion == Motion::Threads && now_ns < looks.next_ns;
        // On a full disk there is no room for what would be written.
        if is_too_early || services.log.waits_for_room().is_some() {
            return Vec::new();
        }
        looks.next_ns = now_ns + ns(LOOK_INTERVAL);
        self.note_asked(looks, now_ns);
        let queues = self.worth_compacting(services.segment_free_bytes_max);
        let again_ns = now_ns + ns(RETRY_INTERVAL);
        looks.asked.extend(queues.iter().map(|queue| (again_ns, Arc::downgrade(queue))));
        queues.iter().map(compact).collect()
    }

    /// What could not be done when a queue was asked is perhaps done now.
    fn note_asked(&self, looks: &mut Looks, now_ns: u64) {
        let mut state = self.0.0.lock();
        state.sparse.forget_dropped();
        while looks.asked.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
            let queue = looks.asked.pop_front().and_then(|(_, queue)| queue.upgrade());
            if let Some(queue) = &queue {
                state.sparse.note(queue);
            }
        }
    }

    fn worth_compacting(&self, free_bytes_max: u64) -> Vec<Arc<Queue>> {
        let free_bytes_max = if self.0.0.lock().disk_is_short { 0 } else { free_bytes_max };
        let (mut queues, mut bytes) = (Vec::new(), 0);
        while queues.len() < COMPACTED_MAX && bytes < COMPACTED_BYTES_MAX {
            let Some(queue) = self.0.0.lock().sparse.next() else { break };
            // Without a lock: there may be many.
            let room = queue.read_used(|machine, _| machine.segment_room(free_bytes_max)).unwrap_or_default();
            if is_worth_it(room, free_bytes_max) {
                bytes += room.free_bytes;
                queues.push(queue);
            } else if room.free_bytes > 0 {
                self.0.0.lock().sparse.pass_over(&queue);
            }
        }
        queues
    }
}

fn compact(queue: &Arc<Queue>) -> Call<()> {
    let (reply, call) = Call::pair();
    queue.submit(Event::Compact(reply));
    call
}

/// Whether more than so much, and than is needed, would be free. With no bound, whatever is sparse is compacted.
fn is_worth_it(room: SegmentRoom, free_bytes_max: u64) -> bool {
    let free_bytes_min = if free_bytes_max == 0 { 0 } else { free_bytes_max + room.needed_bytes };
    room.free_bytes > free_bytes_min
}
