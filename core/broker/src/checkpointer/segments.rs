//! Queues that have much in segments that nobody needs: which to look at, and how many of them move the rest at once. Knows nothing
//! of what is in a segment.

use std::collections::VecDeque;
use std::sync::Arc;

use queues::{Machine, SegmentRoom};
use stdx::QueueId;

use super::{LOOK_INTERVAL, RETRY_INTERVAL, SHORT_RETRY_INTERVAL};
use crate::call::Call;
use crate::cell::machine::AnyMachine;
use crate::cell::{Event, Queue};
use crate::checkpointer::notes::Checkpointer;
use crate::checkpointer::pace::ns;
use crate::checkpointer::sparse::FreePart;
use crate::services::Services;
use crate::services::motion::Motion;

/// Queues that compact their segments at once, at most.
const COMPACTED_MAX: usize = 16;

/// Bytes that may be free in their segments when that is begun with one more: about half of it is written at most.
const COMPACTED_BYTES_MAX: u64 = 64 << 20;

/// When to look at segments next.
#[derive(Default)]
pub(super) struct Looks {
    next_ns: u64,
    /// Queues that were asked to compact: when to look whether they could.
    asked: VecDeque<(u64, QueueId)>,
}

impl Looks {
    /// Whether queues were asked of which nobody has looked since what they could do.
    pub(super) fn are_due(&self) -> bool {
        !self.asked.is_empty()
    }
}

impl Checkpointer {
    /// Asks queues to compact that have much in segments that nobody needs: they write what is needed of those to others.
    pub(super) fn compact_segments(&self, services: &Services, looks: &mut Looks) -> Vec<Call<()>> {
        let now_ns = services.clock.now().0;
        let is_too_early = services.motion == Motion::Threads && now_ns < looks.next_ns;
        // On a full disk there is no room for what would be written.
        if is_too_early || services.log.waits_for_room().is_some() {
            return Vec::new();
        }
        let is_short = self.0.0.lock().disk_is_short;
        looks.next_ns = now_ns + ns(if is_short { SHORT_RETRY_INTERVAL } else { LOOK_INTERVAL });
        self.note_asked(services, looks, now_ns);
        let mut queues = self.worth_compacting(services);
        if queues.is_empty() {
            queues = self.compacted_for_node(services);
            if !queues.is_empty() {
                // There may be many more, each with little.
                looks.next_ns = now_ns;
            }
        }
        let again_ns = now_ns + ns(RETRY_INTERVAL);
        looks.asked.extend(queues.iter().map(|queue| (again_ns, queue.id)));
        queues.iter().map(compact).collect()
    }

    /// Notes that work that a queue could not do when it was asked is perhaps done now.
    fn note_asked(&self, services: &Services, looks: &mut Looks, now_ns: u64) {
        let mut state = self.0.0.lock();
        state.sparse.forget_gone(|queue| services.queue_by_id(queue).is_some());
        while let Some((_, queue)) = looks.asked.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            state.sparse.note(queue);
        }
    }

    fn worth_compacting(&self, services: &Services) -> Vec<Arc<Queue>> {
        let is_short = self.0.0.lock().disk_is_short;
        let free_bytes_max = if is_short { 0 } else { services.sizes.segment_free_bytes_max };
        let mut place = Place::new(services, is_short);
        let (mut queues, mut unfitting, mut bytes) = (Vec::new(), Vec::new(), 0);
        while queues.len() < COMPACTED_MAX && bytes < COMPACTED_BYTES_MAX {
            let Some(queue) = self.0.0.lock().sparse.next() else { break };
            let Some(queue) = services.queue_by_id(queue) else { continue };
            // Without a lock: there may be many.
            let room = segment_room(&queue, free_bytes_max);
            if !is_worth_it(room, free_bytes_max) {
                if room.free_bytes > 0 {
                    self.0.0.lock().sparse.pass_over(queue.id, Some(free_part(room)));
                }
            } else if place.takes(services, &queue, room) {
                bytes += room.free_bytes;
                queues.push(queue);
            } else {
                unfitting.push(queue);
            }
        }
        let mut state = self.0.0.lock();
        unfitting.iter().for_each(|queue| {
            state.sparse.note(queue.id);
        });
        queues
    }

    /// Queues that have less free than is worth the work, but all of them together have too much: those of which the largest part is free.
    fn compacted_for_node(&self, services: &Services) -> Vec<Arc<Queue>> {
        let totals = &services.segment_totals;
        let bound = totals.live_bytes().max(services.sizes.node_free_bytes_max);
        let (mut queues, mut bytes) = (Vec::new(), 0);
        while queues.len() < COMPACTED_MAX
            && bytes < COMPACTED_BYTES_MAX
            && totals.dead_bytes() > bound.saturating_add(bytes)
        {
            let Some(queue) = self.0.0.lock().sparse.sparsest() else { break };
            let Some(queue) = services.queue_by_id(queue) else { continue };
            let room = segment_room(&queue, 0);
            if room.free_bytes > 0 {
                bytes += room.free_bytes;
                queues.push(queue);
            } else {
                // Dead bytes lie beside as many that live: until more of them die.
                self.0.0.lock().sparse.pass_over(queue.id, None);
            }
        }
        queues
    }
}

/// Room for what is written to compact segments.
struct Place {
    /// `None` while there is plenty.
    left_bytes: Option<u64>,
    taken_bytes: u64,
}

impl Place {
    fn new(services: &Services, is_short: bool) -> Place {
        Place { left_bytes: is_short.then(|| super::place_bytes(services)), taken_bytes: 0 }
    }

    /// Whether there is some for this queue. The first may use a part of the reserve: it gives back more than it takes.
    fn takes(&mut self, services: &Services, queue: &Arc<Queue>, room: SegmentRoom) -> bool {
        let Some(left_bytes) = self.left_bytes else { return true };
        let needed_bytes = room.moved_bytes + queue.checkpoint_bytes();
        let may_give = self.taken_bytes == 0;
        if needed_bytes > left_bytes
            && !(may_give && services.alarms.takes_place(needed_bytes, services.waiting_bytes()))
        {
            return false;
        }
        self.left_bytes = Some(left_bytes.saturating_sub(needed_bytes));
        self.taken_bytes += needed_bytes;
        true
    }
}

/// The part of the queue's bytes that is free.
fn free_part(room: SegmentRoom) -> FreePart {
    let all = u128::from(room.free_bytes) + u128::from(room.needed_bytes);
    FreePart::try_from(u128::from(room.free_bytes) * 1000 / all.max(1)).expect("a part is at most a thousand")
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

/// The room of a queue in segments, as [`queues::Store::segment_room`] tells it.
fn segment_room(queue: &Arc<Queue>, free_bytes_min: u64) -> SegmentRoom {
    let read = |machine: &AnyMachine| machine.store().map(|store| store.segment_room(free_bytes_min));
    queue.read_used(|machine, _| read(machine)).flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use message::TableBuf;
    use platform::{SimClock, SimDisk};

    use super::*;
    use crate::data::publish::{Incoming, PublishChannel, Publisher};
    use crate::test_broker::driven_with;
    use crate::{Broker, BrokerOptions, FileSizes, Principal, QueueDeclare};

    const QUEUES: usize = 12;
    const MESSAGES: usize = 400;
    /// One of so many stays.
    const KEPT: usize = 50;

    fn name(nth: usize) -> String {
        format!("q{nth}")
    }

    fn declare_and_fill(broker: &Broker, principal: &Principal) {
        let arguments = TableBuf::new();
        for nth in 0..QUEUES {
            let (name, arguments) = (name(nth), arguments.as_table());
            let name = name.as_bytes();
            let declare =
                QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
            broker.declare_queue(principal, declare).expect("it can be declared");
            let mut publisher = Publisher::new(broker, principal);
            for _ in 0..MESSAGES {
                let (routing_key, properties, body) = (name, &[0, 0][..], &[1; 1000][..]);
                let message = Incoming { mandatory: false, exchange: b"", routing_key, properties, body };
                publisher.publish(&mut PublishChannel::new(), message).expect("it is routed");
            }
            publisher.flush();
        }
    }

    /// Bytes of queues in segments, live and dead, when all but a few messages of each were settled.
    fn bytes_left(node_free_bytes_max: u64) -> (u64, u64) {
        let (disk, clock) = (SimDisk::new(), Arc::new(SimClock::new(1_000_000)));
        let sizes = FileSizes {
            segment_bytes_max: 64 << 10,
            segment_free_bytes_max: 1 << 20,
            node_free_bytes_max,
            ..FileSizes::default()
        };
        let options = BrokerOptions { queue_memory_bytes_max: 16 << 10, ..BrokerOptions::default() };
        let (broker, mut driver, principal) = driven_with(&disk, &clock, sizes, options);
        declare_and_fill(&broker, &principal);
        driver.run_until_idle();
        for nth in 0..QUEUES * MESSAGES {
            let (queue, is_kept) = (name(nth / MESSAGES), nth % KEPT == 0);
            let (_, mut got) = broker.get(&principal, queue.as_bytes(), is_kept).expect("it is there");
            driver.run_until_idle();
            assert!(got.try_take().expect("it is answered").expect("it is in service").is_some());
        }
        clock.advance(RETRY_INTERVAL);
        driver.run_until_idle();
        let (live, dead) =
            (broker.storage_state().segment_live_bytes, broker.storage_state().segment_dead_bytes);
        for nth in 0..QUEUES {
            let queue = broker.check_queue(&principal, name(nth).as_bytes()).expect("it is there").queue;
            let room = segment_room(&queue, 0);
            let stats = queue.stats().wait();
            assert_eq!(stats.unacked, (MESSAGES / KEPT) as u64);
            assert!(room.free_bytes < 1 << 20, "it is below the bound for each");
        }
        (live, dead)
    }

    #[test]
    fn queues_with_less_free_than_the_bound_for_each_compact_when_all_of_them_have_too_much() {
        const BOUND: u64 = 1 << 19;
        let (live, dead) = bytes_left(u64::MAX);
        let kept = (QUEUES * MESSAGES / KEPT) as u64;
        assert!((1000 * kept..1100 * kept).contains(&live), "{live}");
        assert!(dead > 2 * BOUND, "{dead}");
        let (live_after, dead_after) = bytes_left(BOUND);
        let placeholders = (QUEUES * MESSAGES / KEPT * 2 * queues::record::HOLES_BYTES) as u64;
        assert!((live..live + placeholders).contains(&live_after), "{live} {live_after}");
        assert!(dead_after <= BOUND, "{dead_after}");
    }
}
