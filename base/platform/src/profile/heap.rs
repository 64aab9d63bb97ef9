//! Which allocations are in use: one in [`INTERVAL_BYTES`] allocated bytes is remembered with its stack and labels until it is
//! freed. Off until started; earlier allocations are not seen. Knows neither functions nor names.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::labels::{self, Labels};
use super::ring::DEPTH_MAX;
use super::stack;

/// Bytes allocated by a thread between two allocations that are remembered, on average.
pub const INTERVAL_BYTES: usize = 128 << 10;

/// Allocations remembered at once at most: some 6 GB in use. More are counted as lost.
const LIVE_MAX: usize = 50_000;

/// Places in the filter; a power of two.
const PLACES: usize = 1 << 16;

/// A remembered allocation that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// How many bytes in use it stands for.
    pub weight_bytes: u64,
    /// Greater than that of all that were made before it.
    number: u64,
    /// Its own size.
    pub bytes: u64,
    /// The work that its thread did.
    pub labels: Labels,
    /// Where it was allocated, innermost first.
    pub stack: Vec<usize>,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// How many remembered allocations may have each hash: freeing anything else costs one look here. 255 stays for ever.
static FILTER: [AtomicU8; PLACES] = [const { AtomicU8::new(0) }; PLACES];

static TABLE: Mutex<Option<HashMap<usize, Allocation>>> = Mutex::new(None);

thread_local! {
    /// Bytes until the next allocation is remembered.
    static LEFT: Cell<usize> = const { Cell::new(INTERVAL_BYTES) };
    /// This thread is in here: its allocations now are ours.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn table() -> MutexGuard<'static, Option<HashMap<usize, Allocation>>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(address: usize) -> &'static AtomicU8 {
    // Addresses differ in their middle bits.
    &FILTER[(address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - PLACES.ilog2())]
}

/// Runs something whose own allocations are not watched; not within itself.
fn unwatched<T>(run: impl FnOnce() -> T) -> Option<T> {
    if INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true) {
        return None;
    }
    let result = run();
    let _left = INSIDE.try_with(|inside| inside.set(false));
    Some(result)
}

#[inline]
pub(super) fn note_allocated(address: usize, bytes: usize) {
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    let is_due = |left: &Cell<usize>| {
        let now = left.get();
        left.set(now.saturating_sub(bytes));
        bytes >= now
    };
    if LEFT.try_with(is_due).unwrap_or(false) {
        remember(address, bytes);
    }
}

#[inline]
pub(super) fn note_freed(address: usize) {
    if LIVE.load(Ordering::Relaxed) != 0 && place(address).load(Ordering::Relaxed) != 0 {
        forget(address);
    }
}

#[cold]
fn remember(address: usize, bytes: usize) {
    if address == 0 {
        return;
    }
    unwatched(|| {
        // Not always the same distance, or loops that allocate in step with it would be seen wrongly.
        let apart = INTERVAL_BYTES / 2 + (address >> 4).wrapping_mul(0x9E37_79B9) % INTERVAL_BYTES;
        LEFT.with(|left| left.set(apart));
        if LIVE.load(Ordering::Relaxed) >= LIVE_MAX {
            LOST.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut addresses = [0; DEPTH_MAX];
        let depth = stack::walk_here(&mut addresses);
        let allocation = Allocation {
            weight_bytes: bytes.max(INTERVAL_BYTES) as u64,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            bytes: bytes as u64,
            labels: labels::current(),
            stack: addresses[..depth].to_vec(),
        };
        let mut known = table();
        if let Some(known) = known.as_mut()
            && known.insert(address, allocation).is_none()
        {
            LIVE.fetch_add(1, Ordering::Relaxed);
            let _full = place(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < u8::MAX).then_some(count + 1)
            });
        }
    });
}

#[cold]
fn forget(address: usize) {
    unwatched(|| {
        let mut known = table();
        if known.as_mut().is_some_and(|known| known.remove(&address).is_some()) {
            LIVE.fetch_sub(1, Ordering::Relaxed);
            let _full = place(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < u8::MAX).then(|| count.saturating_sub(1))
            });
        }
    });
}

/// Remembers allocations from now on. Has an effect in a program whose allocator is [`super::WatchedAllocator`] only.
pub fn start_heap() {
    stack::learn_code();
    unwatched(|| {
        table().get_or_insert_default();
    });
    IS_ON.store(true, Ordering::Release);
}

/// Forgets everything and remembers nothing more.
pub fn stop_heap() {
    IS_ON.store(false, Ordering::Release);
    unwatched(|| {
        let mut known = table();
        *known = None;
        LIVE.store(0, Ordering::Relaxed);
        FILTER.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    });
}

/// Whether allocations are remembered.
pub fn is_heap_watched() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// A moment of the watch; the default is its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapMark {
    /// The least number of allocations since.
    number: u64,
    lost: u64,
}

/// This moment.
pub fn heap_mark() -> HeapMark {
    HeapMark { number: NUMBER.load(Ordering::Relaxed), lost: LOST.load(Ordering::Relaxed) }
}

/// The remembered allocations since a moment that are in use, and how many allocations found no room since.
pub fn heap(since: HeapMark) -> (Vec<Allocation>, u64) {
    let is_since = |it: &&Allocation| it.number >= since.number;
    let all =
        unwatched(|| table().iter().flat_map(HashMap::values).filter(is_since).cloned().collect::<Vec<_>>());
    (all.unwrap_or_default(), LOST.load(Ordering::Relaxed) - since.lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_are_remembered_until_they_are_freed() {
        super::super::register_thread();
        start_heap();
        // Addresses that no allocator gives out, so that nothing else comes between.
        let count = |address: usize| table().as_ref().is_some_and(|known| known.contains_key(&address));
        note_allocated(0x10, 10 * INTERVAL_BYTES);
        assert!(count(0x10));
        let (all, _) = heap(HeapMark::default());
        let one = all.iter().find(|it| it.bytes == 10 * INTERVAL_BYTES as u64).expect("it is in use");
        assert_eq!(one.weight_bytes, one.bytes);
        assert!(one.stack.len() > 1, "its callers are known");
        note_freed(0x20);
        assert!(count(0x10));
        note_freed(0x10);
        assert!(!count(0x10));
        // An allocation from before a moment is not of the time since.
        note_allocated(0x10, 10 * INTERVAL_BYTES);
        let mark = heap_mark();
        assert!(heap(mark).0.iter().all(|it| it.bytes != 10 * INTERVAL_BYTES as u64));
        note_allocated(0x30, 10 * INTERVAL_BYTES);
        assert!(heap(mark).0.iter().any(|it| it.bytes == 10 * INTERVAL_BYTES as u64));
        // Small ones: about one in so many.
        let small = 1 << 10;
        (1..=1000).for_each(|at| note_allocated(at << 20, small));
        let seen = (1..=1000).filter(|at| count(at << 20)).count();
        assert!((4..=16).contains(&seen), "{seen} of 1000 KiB");
        stop_heap();
        note_allocated(0x10, 10 * INTERVAL_BYTES);
        assert!(!count(0x10) && heap(HeapMark::default()).0.is_empty());
    }
}
