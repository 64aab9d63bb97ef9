//! Memory of an exchange of type `x-message-deduplication`: values of the header `x-deduplication-header`, each for a time,
//! at most as many as its `x-cache-size` says and [`VALUE_COUNT_MAX`]. Refuses to know where that is kept over restarts.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use platform::Clock;

use message::{Table, UniqueKey};
use routing::Gate;

use crate::seen_files::Remembered;

/// Values that one exchange remembers at most, whatever its declaration says: half a gigabyte.
const VALUE_COUNT_MAX: usize = 8 * 1024 * 1024;

/// Never forgotten for its age.
const FOR_EVER: u64 = u64::MAX;

/// Bytes of one value in [`SeenValues::encode`].
const ENCODED_BYTES: usize = 24;

/// The memory of one exchange.
pub(crate) struct SeenValues {
    value_count_max: usize,
    ttl_ms: Option<u64>,
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    known: HashMap<UniqueKey, Known, foldhash::fast::RandomState>,
    /// In the order in which they were let through: the oldest makes room. A value that passed again after its time stands there
    /// once more, and its latest place counts.
    order: VecDeque<UniqueKey>,
    /// Grows with every change.
    changes: u64,
}

struct Known {
    /// Milliseconds since the epoch.
    until_ms: u64,
    /// How often it stands in the order.
    place_count: u32,
}

impl Memory {
    fn insert(&mut self, key: UniqueKey, until_ms: u64, count_max: usize) {
        self.changes += 1;
        if let Some(known) = self.known.get_mut(&key) {
            *known = Known { until_ms, place_count: known.place_count + 1 };
        } else {
            while self.known.len() >= count_max && self.forget_a_place() {}
            self.known.insert(key, Known { until_ms, place_count: 1 });
        }
        self.order.push_back(key);
        if self.order.len() / 2 > self.known.len() {
            self.keep_latest_places();
        }
    }

    /// Drops the oldest place, and the value if it was its last; says whether there was one.
    fn forget_a_place(&mut self) -> bool {
        let Some(oldest) = self.order.pop_front() else { return false };
        if self.is_latest_place(oldest) {
            self.known.remove(&oldest);
        }
        true
    }

    /// Whether the foremost place of a value is its only one; counts it off if not.
    fn is_latest_place(&mut self, key: UniqueKey) -> bool {
        match self.known.get_mut(&key) {
            Some(known) if known.place_count > 1 => {
                known.place_count -= 1;
                false
            }
            _ => true,
        }
    }

    /// Leaves each value one place in the order.
    fn keep_latest_places(&mut self) {
        let order = std::mem::take(&mut self.order);
        self.order = order.into_iter().filter(|key| self.is_latest_place(*key)).collect();
    }
}

impl SeenValues {
    /// One that remembers nothing yet.
    pub(crate) fn new(value_count_max: u32, ttl_ms: Option<u64>, clock: Arc<dyn Clock>) -> SeenValues {
        SeenValues {
            value_count_max: (value_count_max as usize).clamp(1, VALUE_COUNT_MAX),
            ttl_ms,
            clock,
            memory: Mutex::default(),
        }
    }
}

impl Remembered for SeenValues {
    /// Of the hash that makes keys of values.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(b"x-deduplication-header");
        hasher.finish()
    }

    fn changes(&self) -> u64 {
        self.memory.lock().changes
    }

    /// All it remembers, oldest first: repeated (key u128, until u64), big-endian.
    fn encode(&self) -> (u64, Vec<u8>) {
        let mut memory = self.memory.lock();
        memory.keep_latest_places();
        let mut bytes = Vec::with_capacity(memory.order.len() * ENCODED_BYTES);
        for key in &memory.order {
            bytes.extend_from_slice(&key.0.to_be_bytes());
            bytes.extend_from_slice(&memory.known[key].until_ms.to_be_bytes());
        }
        (memory.changes, bytes)
    }

    fn restore(&self, bytes: &[u8]) {
        let now_ms = self.clock.wall_ms();
        let mut memory = self.memory.lock();
        for entry in bytes.chunks_exact(ENCODED_BYTES) {
            let (key, until_ms) = entry.split_at(16);
            let key = UniqueKey(u128::from_be_bytes(key.try_into().expect("sixteen bytes")));
            let until_ms = u64::from_be_bytes(until_ms.try_into().expect("eight bytes"));
            if until_ms > now_ms {
                memory.insert(key, until_ms, self.value_count_max);
            }
        }
    }
}

impl Memory {
    /// Whether a message with this value is a duplicate at that time.
    fn knows(&self, key: &UniqueKey, now_ms: u64) -> bool {
        self.known.get(key).is_some_and(|known| known.until_ms > now_ms)
    }
}

impl Gate for SeenValues {
    fn admits(&self, headers: Option<Table<'_>>) -> bool {
        let Some(headers) = headers else { return true };
        let Some(key) = UniqueKey::of_headers(headers) else { return true };
        let own = headers.get("x-cache-ttl").and_then(|ttl| ttl.as_i64());
        // A negative one is over at once.
        let ttl_ms = own.map(|ttl| u64::try_from(ttl).unwrap_or(0)).or(self.ttl_ms);
        let now_ms = self.clock.wall_ms();
        let mut memory = self.memory.lock();
        if memory.knows(&key, now_ms) {
            return false;
        }
        let until_ms = ttl_ms.map_or(FOR_EVER, |ttl| now_ms.saturating_add(ttl));
        memory.insert(key, until_ms, self.value_count_max);
        true
    }

    fn would_admit(&self, headers: Option<Table<'_>>) -> bool {
        let key = headers.and_then(UniqueKey::of_headers);
        key.is_none_or(|key| !self.memory.lock().knows(&key, self.clock.wall_ms()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use message::TableBuf;
    use platform::SimClock;

    use super::*;

    fn offer(seen: &SeenValues, value: &str, ttl_ms: Option<i64>) -> bool {
        let mut headers = TableBuf::new();
        headers.push_str("x-deduplication-header", value);
        if let Some(ttl_ms) = ttl_ms {
            headers.push_i64("x-cache-ttl", ttl_ms);
        }
        seen.admits(Some(headers.as_table()))
    }

    fn with(value_count_max: u32, ttl_ms: Option<u64>) -> (SeenValues, Arc<SimClock>) {
        let clock = Arc::new(SimClock::new(1));
        (SeenValues::new(value_count_max, ttl_ms, clock.clone()), clock)
    }

    #[test]
    fn a_value_passes_once_and_messages_without_one_always() {
        let (seen, _) = with(10, None);
        assert!(offer(&seen, "a", None) && offer(&seen, "b", None));
        assert!(!offer(&seen, "a", None));
        assert!(seen.admits(None) && seen.admits(Some(Table::EMPTY)) && seen.admits(Some(Table::EMPTY)));
    }

    #[test]
    fn values_are_forgotten_after_their_time_and_messages_may_set_another() {
        let (seen, clock) = with(10, Some(1000));
        assert!(offer(&seen, "a", None) && offer(&seen, "short", Some(10)) && offer(&seen, "gone", Some(-5)));
        assert!(offer(&seen, "gone", None));
        clock.advance(Duration::from_millis(10));
        assert!(offer(&seen, "short", None) && !offer(&seen, "a", None));
        clock.advance(Duration::from_millis(990));
        assert!(offer(&seen, "a", None));
    }

    #[test]
    fn memory_is_bounded_whatever_the_declaration_says() {
        assert_eq!(with(u32::MAX, None).0.value_count_max, VALUE_COUNT_MAX);
        assert_eq!(with(0, None).0.value_count_max, 1);
    }

    #[test]
    fn the_oldest_makes_room() {
        let (seen, _) = with(2, None);
        assert!(offer(&seen, "a", None) && offer(&seen, "b", None) && offer(&seen, "c", None));
        assert!(!offer(&seen, "b", None) && offer(&seen, "a", None));
        assert_eq!(seen.memory.lock().known.len(), 2);
    }

    #[test]
    fn a_value_that_passes_again_after_its_time_is_the_newest() {
        let (seen, clock) = with(3, Some(1000));
        assert!(["a", "b", "c"].iter().all(|value| offer(&seen, value, None)));
        clock.advance(Duration::from_secs(1));
        assert!(offer(&seen, "a", None) && offer(&seen, "d", None) && !offer(&seen, "a", None));
        assert!(offer(&seen, "e", None) && !offer(&seen, "a", None) && offer(&seen, "f", None));
        assert!(offer(&seen, "a", None), "three have come since");
        let again = SeenValues::new(3, None, clock.clone());
        again.restore(&seen.encode().1);
        assert!(offer(&again, "g", None) && offer(&again, "e", None) && !offer(&again, "a", None));
    }

    #[test]
    fn values_that_pass_again_and_again_take_no_more_memory() {
        let (seen, clock) = with(100, Some(1));
        for round in 0..1000 {
            clock.advance(Duration::from_millis(1));
            assert!(offer(&seen, "a", None) && offer(&seen, &format!("{}", round % 7), None));
        }
        let memory = seen.memory.lock();
        assert_eq!(memory.known.len(), 8);
        assert!(memory.order.len() <= 2 * 8 + 1);
    }

    #[test]
    fn what_is_encoded_is_restored_but_for_what_is_over() {
        let (seen, clock) = with(10, None);
        assert!(offer(&seen, "lasts", None) && offer(&seen, "over", Some(5)));
        let (changes, bytes) = seen.encode();
        assert_eq!((changes, bytes.len()), (2, 2 * ENCODED_BYTES));
        clock.advance(Duration::from_millis(5));
        let again = SeenValues::new(10, None, clock);
        again.restore(&bytes);
        assert!(!offer(&again, "lasts", None) && offer(&again, "over", None));
    }
}
