//! The send time inside a message, and the latency read from it.
//!
//! ```text
//!  body of 12 bytes or more  number of the message u32, time u64, big endian, then filler: as PerfTest has it
//!  body of 8 to 11 bytes     time u64, then filler
//!  body of 4 to 7 bytes      low 32 bits of microseconds, u32, then filler (wraps after 71 minutes)
//!  shorter                   none
//!  body that is not ours     none; the time is in the header "timestamp", a signed 64-bit number
//! ```
//!
//! The time is nanoseconds of the monotonic clock, which all processes of a machine share (Java's `nanoTime` is the same),
//! or milliseconds since 1970 where publishers and consumers run on different machines.

use super::pairs::TIMESTAMP_HEADER;
use crate::io::wall_ahead_ns;
use wire::amqp091::{Properties, Value};

/// Latencies above this are not ours: somebody else's message, or one from before a reboot.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The meaning of times in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Nanoseconds of the monotonic clock.
    Monotonic,
    /// Milliseconds since 1970; the wall clock is so many nanoseconds ahead of the monotonic one.
    Wall {
        /// Nanoseconds.
        ahead_ns: u64,
    },
}

impl Clock {
    /// The wall clock, as far ahead as it is now.
    pub(crate) fn wall() -> Self {
        Self::Wall { ahead_ns: wall_ahead_ns() }
    }

    /// The time as it travels.
    #[inline]
    const fn written(self, at_ns: u64) -> u64 {
        match self {
            Self::Monotonic => at_ns,
            Self::Wall { ahead_ns } => (at_ns + ahead_ns) / 1_000_000,
        }
    }

    /// Nanoseconds from a time that travelled to `now_ns`; `None` if they make no sense. Wall clocks of two machines may
    /// differ, so that a little less than nothing is nothing.
    #[inline]
    fn since(self, written: u64, now_ns: u64) -> Option<u64> {
        let latency_ns = match self {
            Self::Monotonic => now_ns.checked_sub(written)?,
            Self::Wall { .. } => self.written(now_ns).saturating_sub(written).checked_mul(1_000_000)?,
        };
        (latency_ns <= LATENCY_NS_MAX).then_some(latency_ns)
    }
}

/// How the send time is written, by the size of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// There is no room.
    None,
    /// Low 32 bits of microseconds.
    LowMicroseconds,
    /// The time alone.
    Time,
    /// The message's number, then the time.
    NumberAndTime,
}

impl Stamp {
    /// The stamp of a body of this size in bytes.
    #[inline]
    pub(crate) const fn for_body(bytes: u64) -> Self {
        match bytes {
            0..4 => Self::None,
            4..8 => Self::LowMicroseconds,
            8..12 => Self::Time,
            _ => Self::NumberAndTime,
        }
    }

    /// Writes the send time, in monotonic nanoseconds, to the front of a body of the right size.
    #[inline]
    pub(crate) fn write(self, body: &mut [u8], clock: Clock, sent_ns: u64, number: u64) {
        match self {
            Self::None => {}
            Self::LowMicroseconds => body[..4].copy_from_slice(&low_microseconds(sent_ns).to_be_bytes()),
            Self::Time => body[..8].copy_from_slice(&clock.written(sent_ns).to_be_bytes()),
            Self::NumberAndTime => {
                let stamp = (u128::from(number) << 64 | u128::from(clock.written(sent_ns))).to_be_bytes();
                body[..12].copy_from_slice(&stamp[4..]);
            }
        }
    }

    /// Nanoseconds from the send time to `now_ns`; `None` if there is no stamp or it makes no sense.
    #[inline]
    pub(crate) fn latency_ns(self, body: &[u8], clock: Clock, now_ns: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::LowMicroseconds => {
                let sent = u32::from_be_bytes(*body.first_chunk::<4>()?);
                let latency_ns = u64::from(low_microseconds(now_ns).wrapping_sub(sent)) * 1000;
                (latency_ns <= LATENCY_NS_MAX).then_some(latency_ns)
            }
            Self::Time => clock.since(u64::from_be_bytes(*body.first_chunk()?), now_ns),
            Self::NumberAndTime => {
                let (_, rest) = body.split_at_checked(4)?;
                clock.since(u64::from_be_bytes(*rest.first_chunk()?), now_ns)
            }
        }
    }
}

/// Writes the send time over the header's value, as [`header_latency_ns`] reads it.
#[inline]
pub(crate) fn write_header(value: &mut [u8], clock: Clock, sent_ns: u64) {
    value[..8].copy_from_slice(&clock.written(sent_ns).to_be_bytes());
}

/// Nanoseconds from the send time in a message's header to `now_ns`, if there is one.
pub(crate) fn header_latency_ns(properties: &[u8], clock: Clock, now_ns: u64) -> Option<u64> {
    match Properties::new(properties).headers()?.get(TIMESTAMP_HEADER)? {
        Value::I64(written) => clock.since(u64::try_from(written).ok()?, now_ns),
        _ => None,
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
        for (bytes, exact) in
            [(4, false), (5, false), (7, false), (8, true), (11, true), (12, true), (100, true)]
        {
            let stamp = Stamp::for_body(bytes);
            let mut body = vec![0; usize::try_from(bytes).unwrap()];
            // Close to the place where 32 bits of microseconds wrap.
            let sent_ns = (1_u64 << 32) * 1000 - 500;
            stamp.write(&mut body, Clock::Monotonic, sent_ns, 7);
            let latency_ns = stamp.latency_ns(&body, Clock::Monotonic, sent_ns + 2_000_000).unwrap();
            assert!(latency_ns == 2_000_000 || (!exact && latency_ns.abs_diff(2_000_000) <= 1000), "{bytes}");
        }
    }

    #[test]
    fn a_body_of_twelve_bytes_is_perf_tests() {
        let mut body = [0; 12];
        Stamp::for_body(12).write(&mut body, Clock::Monotonic, 0x0102_0304_0506_0708, 0xAA_BBCC_DDEE);
        assert_eq!(body, [0xBB, 0xCC, 0xDD, 0xEE, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn bodies_without_a_sensible_time_have_no_latency() {
        let clock = Clock::Monotonic;
        assert_eq!(Stamp::for_body(3).latency_ns(b"abc", clock, 1), None);
        assert_eq!(Stamp::Time.latency_ns(b"short", clock, 1), None);
        assert_eq!(Stamp::NumberAndTime.latency_ns(b"abc", clock, 1), None);
        assert_eq!(Stamp::Time.latency_ns(&[0xFF; 8], clock, 1), None);
        assert_eq!(Stamp::Time.latency_ns(&[0; 8], clock, LATENCY_NS_MAX + 1), None);
    }

    #[test]
    fn the_wall_clock_counts_milliseconds_and_never_below_nothing() {
        let clock = Clock::Wall { ahead_ns: 1_000_000_000_000_000 };
        let mut body = [0; 12];
        Stamp::NumberAndTime.write(&mut body, clock, 5_000_000, 0);
        assert_eq!(Stamp::NumberAndTime.latency_ns(&body, clock, 8_000_000), Some(3_000_000));
        assert_eq!(Stamp::NumberAndTime.latency_ns(&body, clock, 1_000_000), Some(0));
    }
}
