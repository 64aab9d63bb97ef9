//! `erlang:phash2/1` for the terms that exchanges hash: binaries, lists of binaries, floats, a few constants.
//!
//! The function is Bob Jenkins's lookup2 over a term's parts; results are masked to 27 bits, as `phash2/1` does. Checked
//! against vectors from RabbitMQ 4.3.6 on Erlang/OTP 27.

/// `phash2` gives numbers below 2^27.
const MASK: u32 = (1 << 27) - 1;

/// The golden ratio of lookup2; the other constants are its multiples, one per kind of term.
const GOLDEN: u32 = 0x9e37_79b9;
const FOR_NIL: u32 = GOLDEN.wrapping_mul(2);
const FOR_FLOAT: u32 = GOLDEN.wrapping_mul(12);
const FOR_BINARY: u32 = GOLDEN.wrapping_mul(13);
/// The hash of the empty list before mixing.
const NIL: u32 = 3_468_870_702;
/// The number that it adds behind elements.
const NIL_TYPE: u32 = 2;

/// `phash2(undefined)`: the hash of a message without the header or property.
pub(crate) const UNDEFINED_HASH: u32 = 45_914_356;
/// `phash2(true)`.
pub(crate) const TRUE_HASH: u32 = 506_293;
/// `phash2(false)`.
pub(crate) const FALSE_HASH: u32 = 7_111_573;
/// `phash2([])`.
pub(crate) const NIL_HASH: u32 = NIL & MASK;

/// `phash2` of a binary; below 2^27.
pub(crate) fn hash_binary(bytes: &[u8]) -> u32 {
    binary(bytes, 0) & MASK
}

/// `phash2` of a list of binaries; below 2^27.
pub(crate) fn hash_binaries(list: &[&[u8]]) -> u32 {
    if list.is_empty() {
        return NIL_HASH;
    }
    let hash = list.iter().fold(0, |hash, bytes| binary(bytes, hash));
    // An end of a list that something came before counts as its type's number.
    pair(NIL_TYPE, 0, FOR_NIL, hash) & MASK
}

/// `phash2` of a float; below 2^27. Both zeros hash alike.
pub(crate) fn hash_float(number: f64) -> u32 {
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    pair((bits >> 32) as u32, bits as u32, FOR_FLOAT, 0) & MASK
}

/// Mixes a binary into the hash of what came before.
fn binary(bytes: &[u8], before: u32) -> u32 {
    let start = FOR_BINARY.wrapping_add(before);
    if bytes.is_empty() { start } else { block(bytes, start) }
}

/// Mixes two words into a hash.
fn pair(one: u32, other: u32, constant: u32, hash: u32) -> u32 {
    mix(constant.wrapping_add(one), constant.wrapping_add(other), hash).2
}

/// lookup2 over bytes.
fn block(bytes: &[u8], start: u32) -> u32 {
    let (mut a, mut b, mut c) = (GOLDEN, GOLDEN, start);
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        (a, b, c) = mix(
            a.wrapping_add(word(&block[..4])),
            b.wrapping_add(word(&block[4..8])),
            c.wrapping_add(word(&block[8..])),
        );
    }
    let rest = blocks.remainder();
    let piece = |from: usize, to: usize| word(&rest[from.min(rest.len())..to.min(rest.len())]);
    // The lowest byte of the third word belongs to the length.
    c = c.wrapping_add(bytes.len() as u32).wrapping_add(piece(8, 12) << 8);
    mix(a.wrapping_add(piece(0, 4)), b.wrapping_add(piece(4, 8)), c).2
}

/// Up to four bytes, the first one lowest.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for (first, second, third) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    (a, b, c)
}

#[cfg(test)]
mod tests {
    use super::super::phash2_vectors::VECTORS;
    use super::*;

    #[test]
    fn binaries_hash_as_in_erlang() {
        for (bytes, hash) in [
            (&b""[..], 13_708_901),
            (b"a", 112_802_447),
            (b"hello world", 33_550_279),
            (b"0123456789abcdef0123456789abcdef!", 83_831_622),
        ] {
            assert_eq!(hash_binary(bytes), hash, "{bytes:?}");
        }
    }

    #[test]
    fn lists_of_binaries_hash_as_in_erlang() {
        assert_eq!(hash_binaries(&[]), 113_427_502);
        assert_eq!(hash_binaries(&[b"a"]), 53_691_870);
        assert_eq!(hash_binaries(&[b""]), 38_220_213);
        assert_eq!(hash_binaries(&[b"a", b"b", b"c"]), 109_904_979);
        assert_eq!(hash_binaries(&[b"abcdefghijkl"]), 89_208_944);
    }

    #[test]
    fn floats_hash_as_in_erlang() {
        for (number, hash) in [
            (1.5, 10_380_315),
            (0.0, 20_875_736),
            (-0.0, 20_875_736),
            (1.0e300, 119_088_650),
            (-2.25, 106_798_634),
        ] {
            assert_eq!(hash_float(number), hash, "{number}");
        }
    }

    #[test]
    fn many_keys_hash_as_in_erlang() {
        for (seed, hash) in VECTORS {
            assert_eq!(hash_binaries(&[&key_of(seed)]), hash, "{seed}");
        }
    }

    /// A key of 0 to 40 bytes made from a number, as the script that asked RabbitMQ makes it.
    fn key_of(seed: u32) -> Vec<u8> {
        (0..seed % 41).map(|at| ((seed * 31 + at * 17) % 251) as u8).collect()
    }
}
