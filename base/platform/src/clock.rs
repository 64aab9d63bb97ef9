//! Time: a monotonic clock for durations and a wall clock for timestamps. Knows nothing of timers or time-outs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A point on the monotonic clock, in nanoseconds since an arbitrary start (584 years fit).
///
/// Comparable only with values of the same [`Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `duration` later, saturating at the end of the clock.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Whole milliseconds since the clock's start.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000_000
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// The monotonic clock: never goes back, not related to the calendar.
    fn now(&self) -> Monotonic;

    /// Milliseconds since 1970-01-01 UTC. May jump in both directions when an administrator or NTP sets the clock; a
    /// date before 1970 reads as 0.
    fn wall_ms(&self) -> u64;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct RealClock {
    start_ns: u64,
}

/// Nanoseconds of the system's monotonic clock, which begins near the start of the machine. `Instant` takes five times as many instructions.
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl RealClock {
    /// A clock whose monotonic zero is this call.
    pub fn new() -> Self {
        Self { start_ns: monotonic_ns() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Monotonic {
        Monotonic(monotonic_ns().saturating_sub(self.start_ns))
    }

    fn wall_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct SimClock {
    now_ns: AtomicU64,
    wall_ms: AtomicU64,
}

impl SimClock {
    /// Monotonic time 0, wall time `wall_ms`.
    pub const fn new(wall_ms: u64) -> Self {
        Self { now_ns: AtomicU64::new(0), wall_ms: AtomicU64::new(wall_ms) }
    }

    /// Lets `duration` pass on both clocks; the wall clock moves by whole milliseconds of the monotonic one.
    pub fn advance(&self, duration: Duration) {
        let step_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let before_ns = self.now_ns.fetch_add(step_ns, Ordering::SeqCst);
        let passed_ms = (before_ns.wrapping_add(step_ns)) / 1_000_000 - before_ns / 1_000_000;
        self.wall_ms.fetch_add(passed_ms, Ordering::SeqCst);
    }

    /// Sets the wall clock, forwards or backwards, as an administrator would.
    pub fn set_wall_ms(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Monotonic {
        Monotonic(self.now_ns.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_monotonic_clock_does_not_go_back() {
        let clock = RealClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert!(clock.wall_ms() > 1_600_000_000_000);
    }

    #[test]
    fn the_simulated_clock_moves_only_when_told() {
        let clock = SimClock::new(1_000);
        clock.advance(Duration::from_micros(600));
        assert_eq!((clock.now(), clock.wall_ms()), (Monotonic(600_000), 1_000));
        clock.advance(Duration::from_micros(600));
        assert_eq!((clock.now(), clock.wall_ms()), (Monotonic(1_200_000), 1_001));
        clock.set_wall_ms(5);
        assert_eq!((clock.now().as_ms(), clock.wall_ms()), (1, 5));
    }

    #[test]
    fn durations_between_points_saturate() {
        let later = Monotonic(5).plus(Duration::from_nanos(10));
        assert_eq!(later.since(Monotonic(5)), Duration::from_nanos(10));
        assert_eq!(Monotonic(5).since(later), Duration::ZERO);
        assert_eq!(Monotonic(5).plus(Duration::MAX), Monotonic(u64::MAX));
    }
}
