//! Clocks of this machine. `std`'s `Instant` hides its number, and stamps have to travel inside messages, possibly to
//! another process.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the monotonic clock, which all processes of one machine share.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// How many nanoseconds the wall clock (since 1970) is ahead of the monotonic one, now; 0 if it is set before it.
pub(crate) fn wall_ahead_ns() -> u64 {
    let wall = clock_gettime(ClockId::Realtime);
    let wall_ns = u64::try_from(wall.tv_sec).map_or(0, |_| nanoseconds(wall));
    wall_ns.saturating_sub(monotonic_ns())
}

/// User and system CPU time of this process so far, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).expect("these clocks are not negative");
    let nanoseconds = u64::try_from(time.tv_nsec).expect("nanoseconds of a second are never negative");
    seconds * 1_000_000_000 + nanoseconds
}
