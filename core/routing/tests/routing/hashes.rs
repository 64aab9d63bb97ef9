//! The hashes and random numbers of RabbitMQ, written down once more in the plainest way and without looking at the
//! other one. Knows neither messages nor exchanges.

use std::collections::VecDeque;

/// The numbers that are added before a binary and before a float.
const FOR_BINARY: u32 = 0x08d1_2e65;
const FOR_FLOAT: u32 = 0x6a99_b4ac;
/// Hashes have 27 bits.
const HASHES: u32 = 1 << 27;

/// Words of the generator's state.
const WORDS: usize = 16;

fn mix(words: &mut [u32; 3]) {
    let shifts = [13_i32, -8, 13, 12, -16, 5, 3, -10, 15];
    for (step, shift) in shifts.into_iter().enumerate() {
        let [this, next, last] = [step % 3, (step + 1) % 3, (step + 2) % 3];
        let moved = if shift > 0 { words[last] >> shift } else { words[last] << -shift };
        words[this] = words[this].wrapping_sub(words[next]).wrapping_sub(words[last]) ^ moved;
    }
}

fn binary(hash: u32, bytes: &[u8]) -> u32 {
    let hash = hash.wrapping_add(FOR_BINARY);
    if bytes.is_empty() {
        return hash;
    }
    let mut words = [0x9e37_79b9, 0x9e37_79b9, hash];
    let len = bytes.len();
    for (at, byte) in bytes.iter().enumerate() {
        let in_tail = at >= len - len % 12;
        // The last word of the tail begins with its second byte: the first one is the length's.
        let shift = at % 12 % 4 + usize::from(in_tail && at % 12 >= 8);
        let word = &mut words[at % 12 / 4];
        *word = word.wrapping_add(u32::from(*byte) << (8 * shift));
        if at % 12 == 11 {
            mix(&mut words);
        }
    }
    words[2] = words[2].wrapping_add(len as u32);
    mix(&mut words);
    words[2]
}

/// `erlang:phash2/1` of a list of binaries.
pub(crate) fn of_list(keys: &[String]) -> u32 {
    let hash = keys.iter().fold(0, |hash, key| binary(hash, key.as_bytes()));
    let mut end = [0x3c6e_f374, 0x3c6e_f372, hash];
    mix(&mut end);
    end[2] % HASHES
}

/// `erlang:phash2/1` of a binary.
pub(crate) fn of_binary(bytes: &[u8]) -> u32 {
    binary(0, bytes) % HASHES
}

/// `erlang:phash2/1` of a float that is not zero.
pub(crate) fn of_float(number: f64) -> u32 {
    let [high, low] = [(number.to_bits() >> 32) as u32, number.to_bits() as u32];
    let mut words = [FOR_FLOAT.wrapping_add(high), FOR_FLOAT.wrapping_add(low), 0];
    mix(&mut words);
    words[2] % HASHES
}

/// The bucket, below `count`, to which the jump comes that draws from Erlang's `exs1024`; 0 if there are none.
pub(crate) fn jump(seed: u64, count: usize) -> usize {
    let mut words = seeded(seed);
    let (mut bucket, mut next) = (0, 0);
    while next < count {
        bucket = next;
        next = ((bucket + 1) as f64 / draw(&mut words)) as usize;
    }
    bucket
}

/// The state, of which the first two words make the next draw.
fn seeded(seed: u64) -> VecDeque<u64> {
    let below = 1 << 21;
    let part = |factor: u64| (seed % below + 1) * factor % below;
    let mut state = (part(2_097_131) << 43) + (part(2_097_133) << 22) + (part(2_097_143) << 1) + 1;
    let mut words = VecDeque::new();
    for _ in 0..WORDS {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        words.push_front(state.wrapping_mul(0x2545_f491_4f6c_dd1d));
    }
    words
}

fn draw(words: &mut VecDeque<u64>) -> f64 {
    let first = words.pop_front().expect("there are sixteen");
    let second = words.pop_front().expect("there are sixteen");
    let moved = second ^ (second << 31);
    let new = moved ^ (moved >> 11) ^ first ^ (first >> 30);
    words.push_front(new);
    words.push_back(first);
    new.wrapping_mul(0x1066_89d4_5497_fdb5) as f64 / 2_f64.powi(64)
}

/// As RabbitMQ 4.3.6 on Erlang/OTP 27 answered.
#[test]
fn the_model_hashes_and_draws_as_erlang() {
    assert_eq!([of_binary(b""), of_binary(b"a")], [13_708_901, 112_802_447]);
    assert_eq!(of_binary(b"0123456789abcdef0123456789abcdef!"), 83_831_622);
    assert_eq!(of_float(1.5), 10_380_315);
    let mut words = seeded(12345);
    assert_eq!([draw(&mut words), draw(&mut words)], [0.037_522_836_103_473_42, 0.850_707_804_988_891]);
}
