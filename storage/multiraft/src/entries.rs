//! Entries of a group beside their heads: where their records lie in the log, and recent bodies. Knows no rules.

use std::collections::VecDeque;

use bytes::Bytes;
use commitlog::Position;

use crate::log::Place;

/// Where the records of consecutive entries lie: 8 bytes an entry.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The index of the first entry.
    first: u64,
    parts: VecDeque<Part>,
}

/// Entries whose records lie within 4 GiB.
#[derive(Debug)]
struct Part {
    base: u64,
    /// Distance from the base, and bytes.
    records: VecDeque<(u32, u32)>,
}

impl Places {
    pub(crate) fn from(first: u64) -> Self {
        Self { first, parts: VecDeque::new() }
    }

    /// Adds the next entry, or replaces one and all behind it.
    pub(crate) fn push(&mut self, index: u64, place: Place) {
        self.truncate(index);
        // Within a part they ascend, so that its first is its lowest.
        let offset = |part: &Part| {
            let offset = u32::try_from(place.first.0.checked_sub(part.base)?).ok()?;
            part.records.back().is_none_or(|last| last.0 <= offset).then_some(offset)
        };
        match self.parts.back_mut().and_then(|part| Some((offset(part)?, part))) {
            Some((offset, part)) => part.records.push_back((offset, place.bytes)),
            None => {
                let records = VecDeque::from([(0, place.bytes)]);
                self.parts.push_back(Part { base: place.first.0, records });
            }
        }
    }

    fn truncate(&mut self, from: u64) {
        let mut keep = from.saturating_sub(self.first);
        for part in &mut self.parts {
            let here = keep.min(part.records.len() as u64);
            part.records.truncate(to_usize(here));
            keep -= here;
        }
        while self.parts.back().is_some_and(|part| part.records.is_empty()) {
            self.parts.pop_back();
        }
    }

    pub(crate) fn get(&self, index: u64) -> Option<Place> {
        let mut at = to_usize(index.checked_sub(self.first)?);
        for part in &self.parts {
            if let Some((offset, bytes)) = part.records.get(at) {
                return Some(Place { first: Position(part.base + u64::from(*offset)), bytes: *bytes });
            }
            at -= part.records.len();
        }
        None
    }

    /// Forgets entries up to this one.
    pub(crate) fn compact(&mut self, index: u64) {
        while self.first <= index {
            let Some(part) = self.parts.front_mut() else { break };
            part.records.pop_front();
            self.first += 1;
            if part.records.is_empty() {
                self.parts.pop_front();
            }
        }
        self.first = self.first.max(index + 1);
    }

    /// The lowest position of all entries.
    pub(crate) fn lowest(&self) -> Option<Position> {
        let firsts =
            self.parts.iter().filter_map(|part| Some(part.base + u64::from(part.records.front()?.0)));
        firsts.min().map(Position)
    }
}

/// Bodies of consecutive entries up to the last: all that are not applied, and some of those that are.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    first: u64,
    bodies: VecDeque<Bytes>,
    bytes: u64,
    /// Of those that are applied.
    applied_bytes: u64,
    applied: u64,
}

impl Bodies {
    /// None, before the entry at `first`.
    pub(crate) fn from(first: u64) -> Self {
        Self { first, applied: first - 1, ..Self::default() }
    }

    /// Adds the next entry, or replaces one that is not applied, and all behind it.
    pub(crate) fn push(&mut self, index: u64, body: Bytes) {
        while self.next() > index
            && let Some(gone) = self.bodies.pop_back()
        {
            self.bytes -= gone.len() as u64;
        }
        self.bytes += body.len() as u64;
        self.bodies.push_back(body);
    }

    fn next(&self) -> u64 {
        self.first + self.bodies.len() as u64
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Bytes> {
        self.bodies.get(to_usize(index.checked_sub(self.first)?))
    }

    /// The next entry is applied. Returns its body.
    pub(crate) fn apply(&mut self, index: u64) -> Option<Bytes> {
        let body = self.get(index)?.clone();
        self.applied_bytes += body.len() as u64;
        self.applied = index;
        Some(body)
    }

    /// Drops applied bodies that nobody needs, up to `needed`, and as many more as are needed to keep no more than `bytes_max` of them.
    pub(crate) fn trim(&mut self, needed: u64, bytes_max: u64) {
        while self.first <= self.applied && (self.first <= needed || self.applied_bytes > bytes_max) {
            let Some(gone) = self.bodies.pop_front() else { break };
            self.bytes -= gone.len() as u64;
            self.applied_bytes -= gone.len() as u64;
            self.first += 1;
        }
        if self.bodies.is_empty() {
            self.bodies = VecDeque::new();
        }
    }

    /// Bytes of bodies that are not applied.
    pub(crate) fn unapplied_bytes(&self) -> u64 {
        self.bytes - self.applied_bytes
    }

    /// Bytes of all bodies.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(first: u64) -> Place {
        Place { first: Position(first), bytes: 40 }
    }

    #[test]
    fn places_are_found_after_jumps_replacements_and_compaction() {
        let mut places = Places::from(5);
        for (index, first) in [(5, 100), (6, 200), (7, 1 << 40), (8, (1 << 40) + 50), (9, 300)] {
            places.push(index, place(first));
        }
        assert_eq!(places.get(8), Some(place((1 << 40) + 50)));
        assert_eq!(places.lowest(), Some(Position(100)));
        places.push(7, place(400));
        assert_eq!([places.get(7), places.get(8), places.get(4)], [Some(place(400)), None, None]);
        places.compact(6);
        assert_eq!([places.get(6), places.get(7)], [None, Some(place(400))]);
        assert_eq!(places.lowest(), Some(Position(400)));
        places.compact(20);
        places.push(21, place(7));
        assert_eq!([places.get(20), places.get(21)], [None, Some(place(7))]);
    }

    #[test]
    fn bodies_stay_until_they_are_applied_and_then_as_long_as_there_is_room() {
        let mut bodies = Bodies::from(1);
        for index in 1..=4 {
            bodies.push(index, Bytes::from(vec![1; 10]));
        }
        bodies.push(4, Bytes::from(vec![2; 5]));
        assert_eq!((bodies.bytes(), bodies.unapplied_bytes()), (35, 35));
        bodies.trim(4, 0);
        assert!(bodies.get(1).is_some(), "nothing is applied");
        for index in 1..=3 {
            assert!(bodies.apply(index).is_some());
        }
        bodies.trim(1, 10);
        assert_eq!([bodies.get(2), bodies.get(3)].map(|body| body.is_some()), [false, true]);
        assert_eq!((bodies.bytes(), bodies.unapplied_bytes()), (15, 5));
    }
}
