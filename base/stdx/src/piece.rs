//! Memory that a piece takes, with the allocator's own bytes. Knows nothing of its holder.

/// Bytes that the allocator takes for a piece of so many: glibc puts 8 before each, and cuts in steps of 16, 32 at least.
/// Nothing is taken for nothing.
#[must_use]
pub const fn piece_bytes(bytes: usize) -> usize {
    const OWN: usize = 8;
    const STEP: usize = 16;
    const LEAST: usize = 32;
    match bytes {
        0 => 0,
        1..=24 => LEAST,
        _ => (bytes + OWN).next_multiple_of(STEP),
    }
}

#[cfg(test)]
mod tests {
    use super::piece_bytes;

    #[test]
    fn pieces_come_in_steps_of_sixteen_behind_eight_bytes() {
        assert_eq!([0, 1, 24, 25, 40, 41, 1000].map(piece_bytes), [0, 32, 32, 48, 48, 64, 1008]);
    }
}
