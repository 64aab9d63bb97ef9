//! Tracking table of a stream beside its entries: the last publishing id of each named publisher, and offsets that consumers stored.
//!
//! Bounded: beyond the bounds the reference goes that was used longest ago.
//!
//! ```text
//!  table and changes: type u8 (0 publishing id, 1 offset) | name length u8 | name | value u64
//! ```

use std::collections::HashMap;

/// Publishers of which a stream remembers the publishing id.
pub(crate) const PUBLISHERS_MAX: usize = 4096;
/// Offsets that a stream remembers.
pub(crate) const OFFSETS_MAX: usize = 16_384;

const SEQUENCE: u8 = 0;
const OFFSET: u8 = 1;

/// A value and when it was last changed, in changes of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    value: u64,
    used: u64,
}

/// The table of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracking {
    sequences: HashMap<Box<[u8]>, Kept>,
    offsets: HashMap<Box<[u8]>, Kept>,
    changes: u64,
    /// References that had to go.
    pub(crate) dropped: u64,
}

impl Tracking {
    pub(crate) fn sequence(&self, name: &[u8]) -> Option<u64> {
        self.sequences.get(name).map(|kept| kept.value)
    }

    pub(crate) fn offset(&self, name: &[u8]) -> Option<u64> {
        self.offsets.get(name).map(|kept| kept.value)
    }

    pub(crate) fn offsets(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.offsets.iter().map(|(name, kept)| (&**name, kept.value))
    }

    pub(crate) fn sequences(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.sequences.iter().map(|(name, kept)| (&**name, kept.value))
    }

    pub(crate) fn set_sequence(&mut self, name: &[u8], value: u64) {
        self.changes += 1;
        self.dropped += put(&mut self.sequences, PUBLISHERS_MAX, name, value, self.changes);
    }

    pub(crate) fn set_offset(&mut self, name: &[u8], value: u64) {
        self.changes += 1;
        self.dropped += put(&mut self.offsets, OFFSETS_MAX, name, value, self.changes);
    }

    /// The whole table, as [`Self::apply`] takes it; the reference that was used longest ago comes first.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut all: Vec<(u64, u8, &[u8], u64)> = Vec::new();
        all.extend(self.sequences.iter().map(|(name, kept)| (kept.used, SEQUENCE, &**name, kept.value)));
        all.extend(self.offsets.iter().map(|(name, kept)| (kept.used, OFFSET, &**name, kept.value)));
        all.sort_unstable();
        let mut out = Vec::new();
        all.iter().for_each(|(_, kind, name, value)| write_change(*kind, name, *value, &mut out));
        out
    }

    /// Takes changes in; false when they are malformed: those before the malformed one are taken.
    pub(crate) fn apply(&mut self, mut bytes: &[u8]) -> bool {
        while let [kind, name_bytes, rest @ ..] = bytes {
            let Some((name, rest)) = rest.split_at_checked(usize::from(*name_bytes)) else { return false };
            let Some((value, rest)) = rest.split_first_chunk::<8>() else { return false };
            let value = u64::from_be_bytes(*value);
            match *kind {
                SEQUENCE => self.set_sequence(name, value),
                OFFSET => self.set_offset(name, value),
                _ => return false,
            }
            bytes = rest;
        }
        bytes.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let of = |map: &HashMap<Box<[u8]>, Kept>| {
            map.capacity() * (size_of::<(Box<[u8]>, Kept)>() + 1)
                + map.keys().map(|name| name.len()).sum::<usize>()
        };
        of(&self.sequences) + of(&self.offsets)
    }
}

/// Puts a value; returns how many others had to go.
fn put(map: &mut HashMap<Box<[u8]>, Kept>, count_max: usize, name: &[u8], value: u64, used: u64) -> u64 {
    if let Some(kept) = map.get_mut(name) {
        *kept = Kept { value, used };
        return 0;
    }
    let mut dropped = 0;
    if map.len() >= count_max
        && let Some(oldest) = map.iter().min_by_key(|(_, kept)| kept.used).map(|(name, _)| name.clone())
    {
        map.remove(&oldest);
        dropped = 1;
    }
    map.insert(name.into(), Kept { value, used });
    dropped
}

fn write_change(kind: u8, name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.push(kind);
    out.push(u8::try_from(name.len()).expect("references have at most 255 bytes"));
    out.extend_from_slice(name);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Changes since the last chunk: the newest value of each.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    sequences: HashMap<Box<[u8]>, u64>,
    offsets: HashMap<Box<[u8]>, u64>,
}

impl Changes {
    pub(crate) fn set_sequence(&mut self, name: &[u8], value: u64) {
        match self.sequences.get_mut(name) {
            Some(kept) => *kept = value,
            None => drop(self.sequences.insert(name.into(), value)),
        }
    }

    pub(crate) fn set_offset(&mut self, name: &[u8], value: u64) {
        match self.offsets.get_mut(name) {
            Some(kept) => *kept = value,
            None => drop(self.offsets.insert(name.into(), value)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.offsets.is_empty()
    }

    /// Writes all of them, in the order of their names, and forgets them.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        for (kind, map) in [(SEQUENCE, &mut self.sequences), (OFFSET, &mut self.offsets)] {
            let mut all: Vec<_> = map.drain().collect();
            all.sort_unstable();
            all.iter().for_each(|(name, value)| write_change(kind, name, *value, out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_what_its_bytes_make_of_an_empty_one() {
        let mut table = Tracking::default();
        table.set_sequence(b"p", 5);
        table.set_offset(b"c", 7);
        table.set_sequence(b"p", 9);
        table.set_offset(b"", 1);
        let mut read = Tracking::default();
        assert!(read.apply(&table.encode()));
        assert_eq!((read.sequence(b"p"), read.offset(b"c"), read.offset(b"")), (Some(9), Some(7), Some(1)));
        assert_eq!(read.encode(), table.encode());
    }

    #[test]
    fn the_reference_that_was_used_longest_ago_goes_first() {
        let mut table = Tracking::default();
        for nth in 0..PUBLISHERS_MAX as u64 {
            table.set_sequence(&nth.to_be_bytes(), nth);
        }
        table.set_sequence(&0_u64.to_be_bytes(), 100);
        table.set_sequence(b"one more", 1);
        assert_eq!(table.sequence(&0_u64.to_be_bytes()), Some(100));
        assert_eq!((table.sequence(&1_u64.to_be_bytes()), table.dropped), (None, 1));
    }

    #[test]
    fn malformed_changes_are_refused() {
        let mut table = Tracking::default();
        for bytes in [&[0][..], &[0, 5, 1], &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 1, 9, 0]] {
            assert!(!table.apply(bytes), "{bytes:?}");
        }
    }
}
