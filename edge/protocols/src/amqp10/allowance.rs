//! How many frames or messages a client may send before it is given more: few large ones, many small ones.
//!
//! Refuses to know links, sessions and flow frames.

/// Messages of a link that is new.
pub(crate) const LINK_CREDIT_FIRST: u32 = 170;

/// Frames of a session that is new.
pub(crate) const WINDOW_FIRST: u32 = 400;

/// Bytes that allowed messages may have, as long as more are allowed than at first. Earlier messages tell how large the next ones are.
const BYTES: u64 = 1 << 20;

/// How much more than at first is allowed when all are small.
const FACTOR_MAX: u32 = 16;

/// An allowance that is renewed at half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    first: u32,
    now: u32,
    bytes_seen: u64,
}

impl Allowance {
    /// The first allowance, which is also the least: at least 1.
    pub(crate) const fn new(first: u32) -> Allowance {
        Allowance { first, now: first, bytes_seen: 0 }
    }

    /// The latest allowance.
    pub(crate) const fn now(&self) -> u32 {
        self.now
    }

    /// Something of so many bytes came.
    pub(crate) const fn count(&mut self, bytes: usize) {
        self.bytes_seen += bytes as u64;
    }

    /// Renews it when so much of it is left: as many as fit, if the next ones are as large as those that were counted.
    pub(crate) fn renew(&mut self, left: u32) -> u32 {
        let used = u64::from(self.now.saturating_sub(left));
        let (least, most) = (u64::from(self.first), u64::from(self.first * FACTOR_MAX));
        if used > 0 {
            let fitting = BYTES.saturating_mul(used) / self.bytes_seen.max(1);
            self.now = u32::try_from(fitting.clamp(least, most)).unwrap_or(self.first);
        }
        self.bytes_seen = 0;
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bytes_each: usize) -> u32 {
        let mut allowance = Allowance::new(100);
        (0..50).for_each(|_| allowance.count(bytes_each));
        allowance.renew(50)
    }

    #[test]
    fn small_ones_are_allowed_in_thousands_and_large_ones_as_at_first() {
        assert_eq!(after(0), 1600);
        assert_eq!(after(60), 1600);
        assert_eq!(after(2048), 512);
        assert_eq!(after(100_000), 100);
    }

    #[test]
    fn one_large_message_makes_the_next_allowance_small_again() {
        let mut allowance = Allowance::new(100);
        (0..50).for_each(|_| allowance.count(10));
        assert_eq!(allowance.renew(50), 1600);
        allowance.count(1 << 30);
        assert_eq!(allowance.renew(800), 100);
        assert_eq!(allowance.renew(100), 100, "nothing came, nothing is known");
    }
}
