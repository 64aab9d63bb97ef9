//! Numbers that look random, for delays, keys and bodies. Not for secrets.

/// A generator of the xorshift family (Marsaglia 2003, xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub(crate) const fn new(seed: u64) -> Self {
        // The state must not be zero; spreading the seed keeps neighbours apart.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, or 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { (self.next() >> 11) % bound }
    }

    /// A word of lower-case letters.
    pub(crate) fn word(&mut self, letters: usize) -> String {
        (0..letters).map(|_| char::from(b'a' + (self.next() >> 33) as u8 % 26)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_below_their_bound() {
        let (mut one, mut two) = (Random::new(1), Random::new(2));
        let numbers: Vec<u64> = (0..100).map(|_| one.below(1000)).collect();
        assert!(numbers.iter().all(|number| *number < 1000));
        assert_ne!(numbers, (0..100).map(|_| two.below(1000)).collect::<Vec<_>>());
        assert_eq!(one.below(0), 0);
        assert_eq!(one.word(8).len(), 8);
    }
}
