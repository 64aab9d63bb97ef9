//! Which chunks may hold messages with a filter value: a Bloom filter per chunk. False hits are allowed, misses are not.
//!
//! Bit 0 says that there are messages without a value. The bits of a value come from the two halves of FNV-1a 64. The filter never leaves the
//! node, so its hash is nobody else's.

/// Bytes of a chunk's filter unless the stream says otherwise.
pub const FILTER_BYTES_DEFAULT: u8 = 16;

/// The filter values that an open chunk gathers.
#[derive(Clone, Debug)]
pub(crate) struct Bloom {
    bits: [u8; 255],
    bytes: u8,
    has_values: bool,
}

impl Bloom {
    pub(crate) fn new(bytes: u8) -> Self {
        Self { bits: [0; 255], bytes, has_values: false }
    }

    /// Adds a message; `None` and the empty value are those without one.
    #[inline]
    pub(crate) fn add(&mut self, value: Option<&[u8]>) {
        match value.filter(|value| !value.is_empty()) {
            None => self.bits[0] |= 1,
            Some(value) => {
                self.has_values = true;
                for bit in bits_of(value, self.bytes) {
                    self.bits[bit / 8] |= 1 << (bit % 8);
                }
            }
        }
    }

    /// The filter's bytes: none when no message had a value.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.has_values { &self.bits[..usize::from(self.bytes)] } else { &[] }
    }

    pub(crate) fn clear(&mut self, bytes: u8) {
        *self = Self::new(bytes);
    }
}

/// The two bits of a value in a filter of so many bytes.
fn bits_of(value: &[u8], bytes: u8) -> [usize; 2] {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let places = usize::from(bytes) * 8 - 1;
    let (high, low) = ((hash >> 32) as usize, (hash & 0xffff_ffff) as usize);
    [1 + high % places, 1 + low % places]
}

/// The filter of a reader on chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkFilter {
    /// Messages with one of these values.
    pub values: Vec<Box<[u8]>>,
    /// And those without any.
    pub match_unfiltered: bool,
}

impl ChunkFilter {
    /// Whether a chunk with this filter may hold something for the reader. A chunk without a filter has only messages without a value.
    #[must_use]
    pub(crate) fn may_match(&self, filter: &[u8]) -> bool {
        let Ok(bytes) = u8::try_from(filter.len()) else { return true };
        if bytes == 0 {
            return self.match_unfiltered || self.values.is_empty();
        }
        let has = |bit: usize| filter[bit / 8] & 1 << (bit % 8) != 0;
        (self.match_unfiltered && has(0))
            || self.values.is_empty()
            || self.values.iter().any(|value| bits_of(value, bytes).into_iter().all(has))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(values: &[Option<&[u8]>], bytes: u8) -> Vec<u8> {
        let mut bloom = Bloom::new(bytes);
        values.iter().for_each(|value| bloom.add(*value));
        bloom.bytes().to_vec()
    }

    fn asks(values: &[&[u8]], match_unfiltered: bool) -> ChunkFilter {
        ChunkFilter { values: values.iter().map(|value| (*value).into()).collect(), match_unfiltered }
    }

    #[test]
    fn a_value_that_is_in_a_chunk_is_always_found() {
        for bytes in [16, 32, 255] {
            for number in 0..500_u32 {
                let value = format!("value-{number}");
                let filter = filter_of(&[Some(b"other"), Some(value.as_bytes())], bytes);
                assert!(asks(&[value.as_bytes()], false).may_match(&filter));
            }
        }
    }

    #[test]
    fn most_chunks_without_a_value_are_passed_over() {
        let filter = filter_of(&[Some(b"in"), Some(b"also in")], 16);
        let hits =
            (0..1000).filter(|n| asks(&[format!("v{n}").as_bytes()], false).may_match(&filter)).count();
        assert!(hits < 20, "{hits} false hits of 1000");
    }

    #[test]
    fn messages_without_a_value_are_asked_for_by_name() {
        let (mixed, none, valued) =
            (filter_of(&[None, Some(b"a")], 16), filter_of(&[None], 16), filter_of(&[Some(b"a")], 16));
        assert!(asks(&[b"zz"], true).may_match(&mixed));
        assert!(!asks(&[b"zz"], true).may_match(&valued));
        assert!(none.is_empty() && asks(&[b"zz"], true).may_match(&none));
        assert!(!asks(&[b"zz"], false).may_match(&none));
    }
}
