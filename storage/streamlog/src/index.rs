//! Where chunks lie in a file: some of them. The index never has more than 512 entries: when it is full, every other one goes.

use crate::format::{u32_at, u64_at};

/// Most entries of an index.
const ENTRIES_MAX: usize = 512;
/// Bytes between entries at first.
const STRIDE_BYTES: u32 = 64 << 10;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 20;

/// A chunk that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) chunk_id: u64,
    /// The latest time of all chunks of the file up to this one, milliseconds since 1970.
    pub(crate) highest_ms: i64,
    pub(crate) position: u32,
}

/// A sparse index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SparseIndex {
    entries: Vec<Entry>,
    stride_bytes: u32,
}

impl Default for SparseIndex {
    fn default() -> Self {
        Self { entries: Vec::new(), stride_bytes: STRIDE_BYTES }
    }
}

impl SparseIndex {
    /// A chunk follows all before.
    pub(crate) fn add(&mut self, entry: Entry) {
        if let Some(last) = self.entries.last()
            && entry.position - last.position < self.stride_bytes
        {
            return;
        }
        if self.entries.len() == ENTRIES_MAX {
            let mut nth = 0;
            self.entries.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.stride_bytes = self.stride_bytes.saturating_mul(2);
        }
        self.entries.push(entry);
    }

    /// The last entry at or before an offset.
    pub(crate) fn before_offset(&self, offset: u64) -> Option<Entry> {
        let after = self.entries.partition_point(|entry| entry.chunk_id <= offset);
        self.entries[..after].last().copied()
    }

    /// The last entry such that all chunks up to it are older than a time.
    pub(crate) fn before_time(&self, ms: i64) -> Option<Entry> {
        let after = self.entries.partition_point(|entry| entry.highest_ms < ms);
        self.entries[..after].last().copied()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for entry in &self.entries {
            out.extend_from_slice(&entry.chunk_id.to_be_bytes());
            out.extend_from_slice(&entry.highest_ms.to_be_bytes());
            out.extend_from_slice(&entry.position.to_be_bytes());
        }
    }

    /// From the bytes of all entries.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let entries: Vec<Entry> = bytes
            .chunks_exact(ENTRY_BYTES)
            .map(|bytes| Entry {
                chunk_id: u64_at(bytes, 0),
                highest_ms: u64_at(bytes, 8).cast_signed(),
                position: u32_at(bytes, 16),
            })
            .collect();
        // Wide enough for what follows: the distance of the last two.
        let stride = entries.last_chunk::<2>().map_or(0, |[a, b]| b.position.saturating_sub(a.position));
        Self { entries, stride_bytes: stride.max(STRIDE_BYTES) }
    }

    /// Bytes that [`Self::encode`] writes.
    pub(crate) fn encoded_bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(chunks: u32, bytes: u32) -> SparseIndex {
        let mut index = SparseIndex::default();
        for nth in 0..chunks {
            index.add(Entry {
                chunk_id: u64::from(nth) * 10,
                highest_ms: i64::from(nth),
                position: nth * bytes,
            });
        }
        index
    }

    #[test]
    fn it_stays_small_and_finds_a_place_that_is_near() {
        for (chunks, bytes) in [(1, 100), (100, 100), (40_000, 100), (40_000, 70_000), (5000, 600_000)] {
            let index = filled(chunks, bytes);
            assert!(index.entries.len() <= ENTRIES_MAX);
            let file = u64::from(chunks) * u64::from(bytes);
            for wanted in [0, 1, chunks / 3, chunks - 1] {
                let found = index.before_offset(u64::from(wanted) * 10 + 3).unwrap();
                assert!(found.position <= wanted * bytes);
                let distance = u64::from(wanted * bytes - found.position);
                assert!(distance <= (file / 128).max(u64::from(STRIDE_BYTES)), "{chunks} {wanted}");
            }
        }
    }

    #[test]
    fn it_is_read_back_as_it_was_written() {
        let index = filled(40_000, 700);
        let mut bytes = Vec::new();
        index.encode(&mut bytes);
        assert_eq!(bytes.len(), index.encoded_bytes());
        let read = SparseIndex::decode(&bytes);
        assert_eq!(read.entries, index.entries);
        assert_eq!(read.before_offset(9), index.before_offset(9));
    }

    #[test]
    fn a_time_is_looked_for_before_the_first_chunk_that_is_not_older() {
        let index = filled(10, 100_000);
        assert_eq!(index.before_time(0), None);
        assert_eq!(index.before_time(5).unwrap().chunk_id, 40);
        assert_eq!(index.before_time(99).unwrap().chunk_id, 90);
    }
}
