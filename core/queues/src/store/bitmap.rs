//! A growable set of small numbers: one bit a message of a block.

/// Bits of the messages of one block. Empty costs nothing on the heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// Nothing is in it.
    pub(crate) const EMPTY: Bitmap = Bitmap { words: Vec::new() };

    /// Whether `index` is in the set.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.words.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Adds `index`; tells whether it was new.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        let word = index as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (index % 64);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Members of either.
    pub(crate) fn union(&self, other: &Bitmap) -> Bitmap {
        let words = self.words.len().max(other.words.len());
        let word = |set: &Bitmap, at| set.words.get(at).copied().unwrap_or(0);
        Bitmap { words: (0..words).map(|at| word(self, at) | word(other, at)).collect() }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// The words, least significant bit first, for the state record.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// A set from words.
    pub(crate) fn from_words(words: Vec<u64>) -> Bitmap {
        Bitmap { words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inserted_is_contained() {
        let mut set = Bitmap::default();
        assert!(set.insert(130));
        assert!(!set.insert(130));
        assert!(set.contains(130) && !set.contains(129));
    }
}
