//! Clocks of this machine. `std`'s `Instant` hides its number, and stamps have to travel inside messages, possibly to
//! another process.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the monotonic clock, which all processes of one machine share.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// User and system CPU time of this process so far, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).expect("monotonic and CPU clocks start at zero");
    let nanoseconds = u64::try_from(time.tv_nsec).expect("nanoseconds of a second are never negative");
    seconds * 1_000_000_000 + nanoseconds
}
