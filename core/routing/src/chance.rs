//! Chance, as routing uses it: a small generator (splitmix64) that its owner seeds. Good for spreading messages, not for
//! secrets. Refuses to know where seeds come from.

/// A generator; equal seeds give equal numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below `bound`, each as likely as the others to one part in 2^32 for bounds below 2^32.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_and_follow_the_seed() {
        let mut chance = Chance::seeded(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[chance.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let draw = |seed| Chance::seeded(seed).below(u64::MAX);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
