//! Where signal handlers leave samples: slots that are claimed, filled and emptied with atomic operations only. Knows nothing of
//! signals and stacks.

use std::array::from_fn;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::labels::Labels;
use super::names::NameId;

/// Callers recorded of a stack at most, the innermost ones.
pub const DEPTH_MAX: usize = 96;

/// Samples that wait to be taken at most; more are counted and dropped. 0.9 MB.
const SLOTS: usize = 1024;

const FREE: u32 = 0;
const WRITING: u32 = 1;
const FULL: u32 = 2;

/// A sample of a thread at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The thread's number in the operating system.
    pub thread: u32,
    /// Why it did not run; none for one that ran, [`super::FAULT`] for one that had a page fault.
    pub waits: NameId,
    /// The work that it did.
    pub labels: Labels,
    /// Addresses, innermost first: where it was, then where each caller goes on.
    pub stack: Vec<usize>,
}

struct Slot {
    state: AtomicU32,
    thread: AtomicU32,
    waits: AtomicU32,
    protocol: AtomicU32,
    vhost: AtomicU32,
    connection: AtomicU64,
    exchange: AtomicU64,
    queue: AtomicU64,
    depth: AtomicUsize,
    stack: [AtomicUsize; DEPTH_MAX],
}

/// The slots.
pub(super) struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    dropped: AtomicU64,
}

impl Ring {
    /// All free.
    pub(super) fn new() -> Ring {
        let slot = |_| Slot {
            state: AtomicU32::new(FREE),
            thread: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            protocol: AtomicU32::new(0),
            vhost: AtomicU32::new(0),
            connection: AtomicU64::new(0),
            exchange: AtomicU64::new(0),
            queue: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            stack: from_fn(|_| AtomicUsize::new(0)),
        };
        Ring { slots: (0..SLOTS).map(slot).collect(), next: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }

    /// Leaves a sample; counts it as dropped when the next slot is not free. Safe in a signal handler: neither lock nor
    /// allocation.
    pub(super) fn put(&self, (thread, waits): (u32, NameId), labels: Labels, stack: &[usize]) {
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len()];
        if slot.state.compare_exchange(FREE, WRITING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        slot.thread.store(thread, Ordering::Relaxed);
        slot.waits.store(waits.0, Ordering::Relaxed);
        slot.protocol.store(labels.protocol.0, Ordering::Relaxed);
        slot.vhost.store(labels.vhost.0, Ordering::Relaxed);
        slot.connection.store(labels.connection, Ordering::Relaxed);
        slot.exchange.store(labels.exchange, Ordering::Relaxed);
        slot.queue.store(labels.queue, Ordering::Relaxed);
        let depth = stack.len().min(DEPTH_MAX);
        for (to, address) in slot.stack.iter().zip(stack) {
            to.store(*address, Ordering::Relaxed);
        }
        slot.depth.store(depth, Ordering::Relaxed);
        slot.state.store(FULL, Ordering::Release);
    }

    /// Takes out what is there, in no order.
    pub(super) fn drain(&self, mut each: impl FnMut(Sample)) {
        for slot in &self.slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            let depth = slot.depth.load(Ordering::Relaxed);
            let sample = Sample {
                thread: slot.thread.load(Ordering::Relaxed),
                waits: NameId(slot.waits.load(Ordering::Relaxed)),
                labels: Labels {
                    protocol: NameId(slot.protocol.load(Ordering::Relaxed)),
                    vhost: NameId(slot.vhost.load(Ordering::Relaxed)),
                    connection: slot.connection.load(Ordering::Relaxed),
                    exchange: slot.exchange.load(Ordering::Relaxed),
                    queue: slot.queue.load(Ordering::Relaxed),
                },
                stack: slot.stack[..depth].iter().map(|address| address.load(Ordering::Relaxed)).collect(),
            };
            slot.state.store(FREE, Ordering::Release);
            each(sample);
        }
    }

    /// Samples for which there was no slot, since start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_out_as_they_went_in_and_what_finds_no_room_is_counted() {
        let ring = Ring::new();
        let labels = Labels { connection: 7, queue: 9, ..Labels::default() };
        ring.put((3, NameId(4)), labels, &[1, 2, 3]);
        let mut seen = Vec::new();
        ring.drain(|sample| seen.push((sample.thread, sample.waits, sample.labels, sample.stack)));
        assert_eq!(seen, [(3, NameId(4), labels, vec![1, 2, 3])]);
        (0..SLOTS + 5).for_each(|_| ring.put((1, NameId::default()), labels, &[0; DEPTH_MAX + 1]));
        assert_eq!(ring.dropped(), 5);
        let mut count = 0;
        ring.drain(|sample| count += usize::from(sample.stack.len() == DEPTH_MAX));
        assert_eq!(count, SLOTS);
    }

    #[test]
    fn many_threads_may_leave_samples_while_one_takes_them() {
        let ring = Ring::new();
        let taken = std::thread::scope(|scope| {
            for thread in 1..=4 {
                let ring = &ring;
                scope.spawn(move || {
                    (0..20_000).for_each(|_| {
                        ring.put((thread, NameId::default()), Labels::default(), &[thread as usize; 9]);
                    });
                });
            }
            let mut taken = 0;
            for _ in 0..200 {
                ring.drain(|sample| {
                    assert_eq!(sample.stack, [sample.thread as usize; 9]);
                    taken += 1;
                });
            }
            taken
        });
        let mut rest = 0;
        ring.drain(|_| rest += 1);
        assert_eq!(taken + rest + ring.dropped(), 80_000);
    }
}
