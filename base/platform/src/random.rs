//! Randomness: the operating system's, or a seeded sequence for tests. Knows nothing of what the bytes are for.

use parking_lot::Mutex;

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills the whole buffer.
    fn fill(&self, buffer: &mut [u8]);

    /// Eight random bytes as a number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_be_bytes(bytes)
    }
}

/// The operating system's cryptographically secure generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealRandom;

impl Random for RealRandom {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system has a working random generator");
    }
}

/// A reproducible sequence (SplitMix64). For tests and simulation only: it is predictable.
#[derive(Debug)]
pub struct SeededRandom {
    state: Mutex<u64>,
}

impl SeededRandom {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }

    /// A number below `bound` (slightly biased for bounds near 2^64, which does not matter in tests).
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random member");
        self.next_u64() % bound
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

/// One step of SplitMix64.
const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut state = self.state.lock();
        for chunk in buffer.chunks_mut(8) {
            let bytes = split_mix(&mut state).to_be_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_again() {
        let (first, second) = (SeededRandom::new(7), SeededRandom::new(7));
        let (mut a, mut b) = ([0; 37], [0; 37]);
        first.fill(&mut a);
        second.fill(&mut b);
        assert_eq!(a, b);
        assert_ne!(SeededRandom::new(8).next_u64(), SeededRandom::new(7).next_u64());
    }

    #[test]
    fn the_real_generator_does_not_repeat_itself() {
        assert_ne!(RealRandom.next_u64(), RealRandom.next_u64());
    }

    #[test]
    fn bounded_numbers_stay_below_their_bound() {
        let random = SeededRandom::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert!(!random.chance(0, 5) && random.chance(5, 5));
    }
}
