//! Erlang's `rand` algorithm `exs1024`: xorshift1024*, seeded through xorshift64*. RabbitMQ's consistent hashing draws
//! from it, seeded with the hash of the message's key, so that equal keys draw equal numbers.
//!
//! Checked against vectors from RabbitMQ 4.3.6 on Erlang/OTP 27.

/// Words of state.
const WORDS: usize = 16;
const MASK_21: u64 = (1 << 21) - 1;

/// The generator.
pub(crate) struct Exs1024 {
    words: [u64; WORDS],
    at: usize,
}

impl Exs1024 {
    /// As `rand:seed_s(exs1024, {Key, Key, Key})`; only the lowest 21 bits of the key count.
    pub(crate) fn seeded(key: u64) -> Self {
        let part = |factor| (key & MASK_21).wrapping_add(1).wrapping_mul(factor) & MASK_21;
        let mut state = part(2_097_131) << 43 | part(2_097_133) << 22 | part(2_097_143) << 1 | 1;
        let mut words = [0; WORDS];
        // The word drawn last is used first.
        for word in words.iter_mut().rev() {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            *word = state.wrapping_mul(2_685_821_657_736_338_717);
        }
        Self { words, at: 0 }
    }

    /// As `rand:uniform_s/1`: from 0 to 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        let first = self.words[self.at];
        self.at = (self.at + 1) % WORDS;
        let mut second = self.words[self.at];
        second ^= second << 31;
        second ^= second >> 11;
        let next = first ^ (first >> 30) ^ second;
        self.words[self.at] = next;
        next.wrapping_mul(1_181_783_497_276_652_981) as f64 / 18_446_744_073_709_551_616.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_erlang() {
        for (key, draws) in [
            (0, [0.294_232_217_744_804_2, 0.989_309_343_681_186_5]),
            (1, [0.359_998_330_015_724_73, 0.921_588_541_205_717]),
            (12345, [0.037_522_836_103_473_42, 0.850_707_804_988_891]),
            (134_217_727, [0.403_937_041_687_543_9, 0.496_948_452_807_902_84]),
            (-5_i64 as u64, [0.446_414_605_190_663_4, 0.043_174_191_074_100_52]),
        ] {
            let mut generator = Exs1024::seeded(key);
            assert_eq!([generator.uniform(), generator.uniform()], draws, "{key}");
        }
    }
}
