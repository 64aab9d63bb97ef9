//! The state to remember of a queue that was used and is empty again: its totals, when it was used, and which numbers are taken. A few bytes, so
//! that a node with very many queues pays for those that are in use. Not stored: it lives as long as the process.

use super::state::Service;
use super::totals::{QueueTotals, TOTALS};
use crate::store::Store;

/// The queue has had a consumer.
const HAD_CONSUMER: u64 = 1;

/// A timer is under way: another one need not be asked for when the queue is used before it fires.
const WAKES: u64 = 2;

/// The queue goes when it is unused for long: since when it is, is told.
const EXPIRES: u64 = 4;

/// The queue follows a leader.
const FOLLOWS: u64 = 8;

/// Levels that are made later begin with a number that is told.
const BEGINS: u64 = 16;

/// A record to make a queue at rest from again; `None` while it has messages, consumers or anything under way but a timer.
pub(crate) fn rest(store: &Store, service: &Service) -> Option<Box<[u8]>> {
    if !store.is_at_rest() || !service.is_at_rest() {
        return None;
    }
    let mut out = Vec::with_capacity(32);
    let has = |flag, it: bool| if it { flag } else { 0 };
    let (wakes, expires) = (service.wake_ms != u64::MAX, service.config.expires_ms.is_some());
    let begins = store.first_number > 0;
    let served = has(HAD_CONSUMER, service.had_consumer) | has(FOLLOWS, service.follows);
    write(&mut out, served | has(WAKES, wakes) | has(EXPIRES, expires) | has(BEGINS, begins));
    write(&mut out, service.active_ms);
    let clocks = [(wakes, service.wake_ms), (expires, service.last_used_ms)];
    clocks.iter().filter(|(is_told, _)| *is_told).for_each(|(_, time_ms)| write(&mut out, *time_ms));
    begins.then(|| write(&mut out, store.first_number));
    write(&mut out, store.levels.len() as u64);
    store.levels.iter().for_each(|level| write(&mut out, level.next_number()));
    let totals = service.totals(store).to_array();
    let used = (0..TOTALS).filter(|nth| totals[*nth] > 0);
    write(&mut out, used.clone().fold(0, |mask, nth| mask | 1 << nth));
    used.for_each(|nth| write(&mut out, totals[nth]));
    Some(out.into())
}

/// An empty queue goes on where one was that rested.
///
/// # Panics
/// When the bytes are not of [`rest`].
pub(crate) fn wake(store: &mut Store, service: &mut Service, mut bytes: &[u8], now_ms: u64) {
    let from = &mut bytes;
    let flags = read(from);
    service.had_consumer = flags & HAD_CONSUMER > 0;
    service.active_ms = read(from);
    if flags & WAKES > 0 {
        // One that should have fired is not waited for.
        service.wake_ms = Some(read(from)).filter(|wake_ms| *wake_ms > now_ms).unwrap_or(u64::MAX);
    }
    if flags & EXPIRES > 0 {
        service.last_used_ms = read(from);
    }
    service.follows = flags & FOLLOWS > 0;
    if flags & BEGINS > 0 {
        store.first_number = read(from);
    }
    for nth in 0..read(from) as usize {
        store.level_mut(nth).go_on_at(read(from));
    }
    let mask = read(from);
    let mut totals = [0; TOTALS];
    (0..TOTALS).filter(|nth| mask & 1 << nth > 0).for_each(|nth| totals[nth] = read(from));
    if mask > 0 {
        let totals = QueueTotals::from_array(totals);
        (store.disk_reads, store.disk_writes) = (totals.disk_reads, totals.disk_writes);
        *service.tally.totals() = totals;
    }
}

impl Service {
    /// Whether nobody waits for anything.
    fn is_at_rest(&self) -> bool {
        self.consumers.count() == 0 && self.gets.is_empty() && self.rejects.is_empty()
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn write(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read(from: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first().expect("bytes that this process wrote");
        *from = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::DeliveryTotals;
    use crate::{Classic, Machine, QueueConfig};

    #[test]
    fn numbers_of_all_sizes_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        numbers.iter().for_each(|number| write(&mut out, *number));
        let mut from = &out[..];
        assert_eq!(numbers.map(|_| read(&mut from)), numbers);
        assert!(from.is_empty());
    }

    #[test]
    fn a_queue_goes_on_counting_where_it_was() {
        let config = Arc::new(QueueConfig { max_priority: 2, ..QueueConfig::default() });
        let mut queue = Classic::new(config.clone(), 0);
        let deliveries = DeliveryTotals { got: 3, ..DeliveryTotals::NONE };
        *queue.service.tally.totals() = QueueTotals { published: 700, deliveries, ..QueueTotals::NONE };
        queue.store.disk_writes = 1 << 40;
        queue.store.level_mut(1).go_on_at(700);
        (queue.service.had_consumer, queue.service.active_ms) = (true, 1_800_000_000_000);
        let bytes = queue.rest().expect("it is empty");
        assert!(bytes.len() < 24, "{}", bytes.len());
        let again = Classic::from_rest(config, &bytes, 5);
        assert_eq!(again.service.totals(&again.store), queue.service.totals(&queue.store));
        assert_eq!((again.store.levels[0].next_number(), again.store.levels[1].next_number()), (0, 700));
        assert_eq!((again.service.had_consumer, again.service.active_ms), (true, queue.service.active_ms));
        assert_eq!(again.counts(), queue.counts());
        assert_eq!(again.rest(), Some(bytes));
    }

    #[test]
    fn a_queue_that_will_expire_rests_and_knows_since_when_it_is_unused() {
        let config = Arc::new(QueueConfig { expires_ms: Some(60_000), ..QueueConfig::default() });
        let mut queue = Classic::new(config.clone(), 1_000);
        queue.service.wake_ms = 61_000;
        let bytes = queue.rest().expect("it is empty");
        let again = Classic::from_rest(config.clone(), &bytes, 30_000);
        assert_eq!((again.service.last_used_ms, again.service.wake_ms), (1_000, 61_000));
        assert_eq!(again.rest(), Some(bytes.clone()), "a question does not make it used");
        // Its timer fires, or has been missed.
        assert_eq!(Classic::from_rest(config, &bytes, 61_000).service.wake_ms, u64::MAX);
    }
}
