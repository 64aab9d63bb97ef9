//! Deliveries of one channel that are not settled, by delivery tag.
//!
//! Refuses to know queues and consumers: an entry carries the number of its source and nothing more of it.
//!
//! Invariants: tags ascend; the front is never a settled entry; at most half of a long list is settled entries, so
//! memory follows what is outstanding and not what was delivered since the oldest of them.

use std::collections::VecDeque;

use broker::MessageSeq;

/// Marks an entry that was settled out of order and still holds its place.
const SETTLED: u32 = u32::MAX;

/// Lists shorter than this are never compacted.
const COMPACT_LEN_MIN: usize = 64;

/// One delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Delivery tag.
    pub(crate) tag: u64,
    /// Place in its queue.
    pub(crate) seq: MessageSeq,
    /// Which source of this connection (consumer, or basic.get on a queue) it came through.
    pub(crate) source: u32,
    /// Tenths of a second on the session's clock before which it was delivered.
    pub(crate) delivered_ds: u32,
}

/// Unsettled deliveries in order of their tags.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    entries: VecDeque<Entry>,
    live_count: usize,
}

impl Unacked {
    /// Adds a delivery; its tag is higher than all before.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        debug_assert!(entry.source != SETTLED);
        debug_assert!(self.entries.back().is_none_or(|last| last.tag < entry.tag));
        self.entries.push_back(entry);
        self.live_count += 1;
    }

    /// As [`Self::push`], of all these.
    #[inline]
    pub(crate) fn extend(&mut self, entries: impl ExactSizeIterator<Item = Entry>) {
        self.live_count += entries.len();
        self.entries.extend(entries);
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Number of unsettled deliveries.
    pub(crate) fn len(&self) -> usize {
        self.live_count
    }

    /// All of them, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.source != SETTLED)
    }

    /// Takes the one with this tag.
    #[inline]
    pub(crate) fn take(&mut self, tag: u64) -> Option<Entry> {
        let index = self.position(tag)?;
        let entry = self.entries[index];
        self.live_count -= 1;
        if index == 0 {
            self.entries.pop_front();
            self.trim();
        } else {
            self.entries[index].source = SETTLED;
            self.compact();
        }
        Some(entry)
    }

    /// Takes all up to and including this tag. `false`, and nothing is taken, if the tag itself is not there (B127:
    /// RabbitMQ looks for exactly that tag, also with `multiple`).
    #[inline]
    pub(crate) fn take_through(&mut self, tag: u64, mut each: impl FnMut(Entry)) -> bool {
        let Some(index) = self.position(tag) else { return false };
        for entry in self.entries.drain(..=index).filter(|entry| entry.source != SETTLED) {
            self.live_count -= 1;
            each(entry);
        }
        self.trim();
        true
    }

    /// As [`Self::take_through`], of neighbours in one queue from one source the first and how many they are.
    #[inline]
    pub(crate) fn take_runs_through(&mut self, tag: u64, mut each: impl FnMut(Entry, u32)) -> bool {
        let Some(index) = self.position(tag) else { return false };
        let mut run: Option<(Entry, u32)> = None;
        let mut live_count = self.live_count;
        let mut end = |(first, count): (Entry, u32)| {
            live_count -= count as usize;
            each(first, count);
        };
        // Both parts of the ring by themselves: draining it looks where it is for each entry.
        let (front, back) = self.entries.as_slices();
        let (front, back) =
            (&front[..front.len().min(index + 1)], &back[..(index + 1).saturating_sub(front.len())]);
        for part in [front, back] {
            for entry in part.iter().filter(|entry| entry.source != SETTLED) {
                match &mut run {
                    Some((first, count))
                        if first.source == entry.source && first.seq.0 + u64::from(*count) == entry.seq.0 =>
                    {
                        *count += 1;
                    }
                    _ => run.replace((*entry, 1)).into_iter().for_each(&mut end),
                }
            }
        }
        run.into_iter().for_each(end);
        self.live_count = live_count;
        self.entries.drain(..=index);
        self.trim();
        true
    }

    /// Takes those of the range, which may be anywhere; in order.
    pub(crate) fn take_range(&mut self, first: u64, last: u64, mut each: impl FnMut(Entry)) {
        let from = self.entries.partition_point(|entry| entry.tag < first);
        let mut taken = 0;
        for entry in self.entries.range_mut(from..).take_while(|entry| entry.tag <= last) {
            if entry.source != SETTLED {
                each(*entry);
                entry.source = SETTLED;
                taken += 1;
            }
        }
        self.live_count -= taken;
        self.trim();
        self.compact();
    }

    /// Takes those that came through one source; in order.
    pub(crate) fn take_source(&mut self, source: u32, mut each: impl FnMut(Entry)) {
        self.entries.retain(|entry| {
            let is_of_it = entry.source == source;
            if is_of_it {
                self.live_count -= 1;
                each(*entry);
            }
            !is_of_it
        });
        self.trim();
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self, mut each: impl FnMut(Entry)) {
        self.live_count = 0;
        self.entries.drain(..).filter(|entry| entry.source != SETTLED).for_each(&mut each);
        self.entries = VecDeque::new();
    }

    /// Puts entries back that were taken (tx.rollback, B109).
    pub(crate) fn restore(&mut self, entries: impl Iterator<Item = Entry>) {
        let mut all: Vec<Entry> = self.entries.drain(..).filter(|entry| entry.source != SETTLED).collect();
        all.extend(entries);
        all.sort_unstable_by_key(|entry| entry.tag);
        self.live_count = all.len();
        self.entries = all.into();
    }

    #[inline]
    fn position(&self, tag: u64) -> Option<usize> {
        let front = self.entries.front()?.tag;
        // Without gaps, which is the rule, the tag tells the place.
        let guess = usize::try_from(tag.checked_sub(front)?).ok()?;
        let index = match self.entries.get(guess) {
            Some(entry) if entry.tag == tag => guess,
            _ => self.entries.binary_search_by_key(&tag, |entry| entry.tag).ok()?,
        };
        (self.entries[index].source != SETTLED).then_some(index)
    }

    #[inline]
    fn trim(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.source == SETTLED) {
            self.entries.pop_front();
        }
    }

    fn compact(&mut self) {
        if self.entries.len() >= COMPACT_LEN_MIN && self.live_count * 2 < self.entries.len() {
            self.entries.retain(|entry| entry.source != SETTLED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: u64) -> Entry {
        Entry { tag, seq: MessageSeq(tag * 10), source: 0, delivered_ds: 0 }
    }

    fn with(tags: impl IntoIterator<Item = u64>) -> Unacked {
        let mut unacked = Unacked::default();
        tags.into_iter().for_each(|tag| unacked.push(entry(tag)));
        unacked
    }

    fn through(unacked: &mut Unacked, tag: u64) -> Option<Vec<u64>> {
        let mut tags = Vec::new();
        unacked.take_through(tag, |entry| tags.push(entry.tag)).then_some(tags)
    }

    #[test]
    fn a_tag_is_taken_once() {
        let mut unacked = with(1..=3);
        assert_eq!(unacked.take(2).map(|entry| entry.seq), Some(MessageSeq(20)));
        assert_eq!(unacked.take(2), None);
        assert_eq!(unacked.take(9), None);
        assert_eq!(unacked.take(0), None);
        assert_eq!(unacked.len(), 2);
    }

    #[test]
    fn tags_are_found_across_gaps_of_no_ack_deliveries() {
        let mut unacked = with([2, 5, 6, 40]);
        assert_eq!(unacked.take(40).map(|entry| entry.tag), Some(40));
        assert_eq!(unacked.take(5).map(|entry| entry.tag), Some(5));
        assert_eq!(unacked.take(4), None);
        assert_eq!(through(&mut unacked, 6), Some(vec![2, 6]));
    }

    #[test]
    fn multiple_needs_its_own_tag_to_be_outstanding() {
        let mut unacked = with(1..=4);
        unacked.take(3);
        assert_eq!(through(&mut unacked, 3), None);
        assert_eq!(through(&mut unacked, 9), None);
        assert_eq!(through(&mut unacked, 4), Some(vec![1, 2, 4]));
        assert_eq!(unacked.len(), 0);
        assert_eq!(unacked.iter().next(), None);
    }

    #[test]
    fn neighbours_from_one_source_are_taken_together() {
        let mut unacked = Unacked::default();
        // Source and place of each.
        let places = [(0, 5), (0, 6), (0, 7), (1, 8), (0, 9), (0, 11), (0, 12), (0, 13)];
        for (tag, (source, place)) in (1..).zip(places) {
            unacked.push(Entry { seq: MessageSeq(place), source, ..entry(tag) });
        }
        unacked.take(2);
        let mut runs = Vec::new();
        assert!(unacked.take_runs_through(7, |first, count| runs.push((first.source, first.seq.0, count))));
        assert_eq!(runs, [(0, 5, 1), (0, 7, 1), (1, 8, 1), (0, 9, 1), (0, 11, 2)]);
        assert_eq!((unacked.len(), through(&mut unacked, 8)), (1, Some(vec![8])));
        assert!(!unacked.take_runs_through(8, |_, _| panic!("it was taken")));
    }

    #[test]
    fn neighbours_are_taken_together_wherever_the_ring_ends() {
        let neighbour = |tag| Entry { seq: MessageSeq(tag), ..entry(tag) };
        let mut unacked = Unacked::default();
        (1..=12).for_each(|tag| unacked.push(neighbour(tag)));
        // Each turn takes five and adds five, so that the list lies across the end of its room in many ways.
        for oldest in (1..500).step_by(5) {
            let mut runs = Vec::new();
            assert!(unacked.take_runs_through(oldest + 4, |first, count| runs.push((first.tag, count))));
            assert_eq!(runs, [(oldest, 5)]);
            unacked.extend([12, 13, 14, 15, 16].into_iter().map(|nth| neighbour(oldest + nth)));
            assert_eq!(unacked.len(), 12);
            assert!(unacked.iter().map(|entry| entry.tag).eq(oldest + 5..oldest + 17));
        }
    }

    #[test]
    fn ranges_and_sources_are_taken_wherever_they_are() {
        let mut unacked = with(1..=9);
        unacked.take(5);
        let range = |unacked: &mut Unacked, first, last| {
            let mut tags = Vec::new();
            unacked.take_range(first, last, |entry| tags.push(entry.tag));
            tags
        };
        assert_eq!(range(&mut unacked, 4, 6), [4, 6]);
        assert_eq!(range(&mut unacked, 0, 2), [1, 2]);
        assert_eq!(range(&mut unacked, 20, 30), []);
        unacked.push(Entry { source: 7, ..entry(10) });
        let mut tags = Vec::new();
        unacked.take_source(0, |entry| tags.push(entry.tag));
        assert_eq!((tags, unacked.len()), (vec![3, 7, 8, 9], 1));
        assert_eq!(range(&mut unacked, 0, u64::MAX), [10]);
    }

    #[test]
    fn the_oldest_is_never_a_settled_one() {
        let mut unacked = with(1..=3);
        unacked.take(2);
        unacked.take(1);
        assert_eq!(unacked.entries.front().map(|entry| entry.tag), Some(3));
    }

    #[test]
    fn one_stuck_delivery_does_not_hold_the_places_of_those_after_it() {
        let mut unacked = with([1]);
        for tag in 2..100_000 {
            unacked.push(entry(tag));
            unacked.take(tag);
        }
        assert_eq!(unacked.len(), 1);
        assert!(unacked.entries.len() <= COMPACT_LEN_MIN);
    }

    #[test]
    fn restored_entries_are_back_in_their_places() {
        let mut unacked = with(1..=6);
        let taken: Vec<Entry> = [4, 2].into_iter().filter_map(|tag| unacked.take(tag)).collect();
        unacked.restore(taken.into_iter());
        assert_eq!(through(&mut unacked, 6), Some(vec![1, 2, 3, 4, 5, 6]));
    }
}
