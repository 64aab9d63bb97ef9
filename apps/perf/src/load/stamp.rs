//! The send time inside a message's body, and the latency read from it.
//!
//! ```text
//!  body of 8 bytes or more   nanoseconds of the monotonic clock, u64 big endian, then filler
//!  body of 4 to 7 bytes      low 32 bits of its microseconds, u32 big endian, then filler (wraps after 71 minutes)
//!  shorter                   none
//! ```
//!
//! All processes of a machine share that clock, so publisher and consumer may be two processes.

/// Latencies above this are not ours: somebody else's message, or one from before a reboot.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// How the send time is written, by the size of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// There is no room.
    None,
    /// Low 32 bits of microseconds.
    LowMicroseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl Stamp {
    /// The stamp of a body of this size in bytes.
    #[inline]
    pub(crate) const fn for_body(bytes: u64) -> Self {
        match bytes {
            0..4 => Self::None,
            4..8 => Self::LowMicroseconds,
            _ => Self::Nanoseconds,
        }
    }

    /// Writes the send time, in nanoseconds, to the front of a body of the right size.
    #[inline]
    pub(crate) fn write(self, body: &mut [u8], sent_ns: u64) {
        match self {
            Self::None => {}
            Self::LowMicroseconds => body[..4].copy_from_slice(&low_microseconds(sent_ns).to_be_bytes()),
            Self::Nanoseconds => body[..8].copy_from_slice(&sent_ns.to_be_bytes()),
        }
    }

    /// Nanoseconds from the send time to `now_ns`; `None` if there is no stamp or it makes no sense.
    #[inline]
    pub(crate) fn latency_ns(self, body: &[u8], now_ns: u64) -> Option<u64> {
        let latency_ns = match self {
            Self::None => return None,
            Self::LowMicroseconds => {
                let sent = u32::from_be_bytes(*body.first_chunk::<4>()?);
                u64::from(low_microseconds(now_ns).wrapping_sub(sent)) * 1000
            }
            Self::Nanoseconds => now_ns.checked_sub(u64::from_be_bytes(*body.first_chunk::<8>()?))?,
        };
        (latency_ns <= LATENCY_NS_MAX).then_some(latency_ns)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
const fn low_microseconds(ns: u64) -> u32 {
    (ns / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_survives_in_large_and_small_bodies() {
        for (bytes, exact) in [(4, false), (5, false), (7, false), (8, true), (100, true)] {
            let stamp = Stamp::for_body(bytes);
            let mut body = vec![0; usize::try_from(bytes).unwrap()];
            // Close to the place where 32 bits of microseconds wrap.
            let sent_ns = (1_u64 << 32) * 1000 - 500;
            stamp.write(&mut body, sent_ns);
            let latency_ns = stamp.latency_ns(&body, sent_ns + 2_000_000).unwrap();
            assert!(latency_ns == 2_000_000 || (!exact && latency_ns.abs_diff(2_000_000) <= 1000), "{bytes}");
        }
    }

    #[test]
    fn bodies_without_a_sensible_time_have_no_latency() {
        assert_eq!(Stamp::for_body(3).latency_ns(b"abc", 1), None);
        assert_eq!(Stamp::Nanoseconds.latency_ns(b"short", 1), None);
        assert_eq!(Stamp::Nanoseconds.latency_ns(&[0xFF; 8], 1), None);
        assert_eq!(Stamp::Nanoseconds.latency_ns(&[0; 8], LATENCY_NS_MAX + 1), None);
    }
}
