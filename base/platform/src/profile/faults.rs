//! Page faults: pages that a thread touched for the first time, or that had to come from disk. The kernel counts them for each thread
//! and sends the signal of samples after each so many; the handler finds who it was. Knows nothing of what becomes of that.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::signal;

/// Page faults between two samples of a thread at most.
pub const FAULTS_EVERY_MAX: u32 = 10_000;

/// Threads watched at most; each takes a file descriptor.
const THREADS_MAX: usize = 1024;

/// Bytes of the first version of `struct perf_event_attr`, which every kernel knows (perf_event_open(2)).
const ATTRIBUTES_BYTES: u32 = 64;

/// `PERF_TYPE_SOFTWARE`: events that the kernel counts itself, without the processor's counters, which virtual machines often lack.
const TYPE_SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_PAGE_FAULTS`.
const PAGE_FAULTS: u64 = 2;
/// `disabled`, `exclude_kernel` and `exclude_hv` in the bits of `struct perf_event_attr`.
const DISABLED: u64 = 1;
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// `PERF_EVENT_IOC_ENABLE`.
const ENABLE: libc::c_ulong = 0x2400;
/// `F_SETOWN_EX`, and `F_OWNER_TID`: the signal goes to the thread that had the fault.
const SET_OWNER: libc::c_int = 15;
const OWNER_IS_THREAD: libc::c_int = 0;
/// `F_SETSIG`.
const SET_SIGNAL: libc::c_int = 10;

/// `struct perf_event_attr`, as far as every kernel knows it.
#[repr(C)]
struct Attributes {
    kind: u32,
    bytes: u32,
    event: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    more: u64,
}

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    thread: libc::pid_t,
}

/// Page faults of this process are watched as long as this lives.
#[derive(Debug)]
pub struct FaultWatch {
    every: u32,
    /// Whether faults in the kernel (a buffer that `read` fills) count; not everybody may see those.
    scope: Scope,
    threads: HashMap<u32, OwnedFd>,
    /// Faults of threads that have ended, and the samples that were due of them.
    ended: (u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Everywhere,
    UserOnly,
}

impl FaultWatch {
    /// Takes a sample of each `every`th page fault of each thread (1 to [`FAULTS_EVERY_MAX`]). Such samples have the cause
    /// [`super::FAULT`].
    ///
    /// # Errors
    /// The error of the operating system: containers and `kernel.perf_event_paranoid` above 2 mostly forbid it.
    pub fn start(every: u32) -> io::Result<FaultWatch> {
        signal::prepare()?;
        let every = every.clamp(1, FAULTS_EVERY_MAX);
        let mut watch =
            FaultWatch { every, scope: Scope::Everywhere, threads: HashMap::new(), ended: (0, 0) };
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        if watch.open(own).is_err() {
            watch.scope = Scope::UserOnly;
            watch.open(own)?;
        }
        watch.renew()?;
        Ok(watch)
    }

    /// Watches threads that have come since, and forgets those that have ended. Call it now and then.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn renew(&mut self) -> io::Result<()> {
        let mut alive = Vec::new();
        for task in std::fs::read_dir("/proc/self/task")? {
            alive.extend(task?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        let every = u64::from(self.every);
        let ended = self.threads.extract_if(|thread, _| !alive.contains(thread));
        let faults: Vec<u64> = ended.map(|(_, event)| count_of(&event)).collect();
        self.ended.0 += faults.iter().sum::<u64>();
        self.ended.1 += faults.iter().map(|faults| faults / every).sum::<u64>();
        for thread in alive {
            if !self.threads.contains_key(&thread) && self.threads.len() < THREADS_MAX {
                // One that has ended meanwhile has no faults.
                let _ended = self.open(thread);
            }
        }
        Ok(())
    }

    /// Page faults that the kernel has counted since the start, and samples that were due of them; signals that come while one is
    /// handled are lost.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        let faults: Vec<u64> = self.threads.values().map(count_of).collect();
        let due: u64 = faults.iter().map(|faults| faults / u64::from(self.every)).sum();
        (self.ended.0 + faults.iter().sum::<u64>(), self.ended.1 + due)
    }

    fn open(&mut self, thread: u32) -> io::Result<()> {
        let user_only = if self.scope == Scope::UserOnly { USER_ONLY } else { 0 };
        let attributes = Attributes {
            kind: TYPE_SOFTWARE,
            bytes: ATTRIBUTES_BYTES,
            event: PAGE_FAULTS,
            period: self.every.into(),
            sample_type: 0,
            read_format: 0,
            flags: DISABLED | user_only,
            wakeup_events: 1,
            breakpoint: 0,
            more: 0,
        };
        let event = open_event(&attributes, thread)?;
        send_to(&event, thread)?;
        self.threads.insert(thread, event);
        Ok(())
    }
}

/// The count of an event.
fn count_of(event: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    let is_read = rustix::io::read(event, &mut count).is_ok_and(|bytes| bytes == count.len());
    if is_read { u64::from_ne_bytes(count) } else { 0 }
}

/// An event of one thread, on whatever processor it runs.
#[expect(unsafe_code, reason = "perf_event_open has no safe wrapper")]
fn open_event(attributes: &Attributes, thread: u32) -> io::Result<OwnedFd> {
    const ANY_PROCESSOR: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: `attributes` is as long as it says and laid out as perf_event_open(2) has it; the kernel only reads it. A result
    // that is not negative is a new file descriptor that nobody else has.
    unsafe {
        let event = libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread as libc::pid_t,
            ANY_PROCESSOR,
            NO_GROUP,
            CLOSE_ON_EXEC,
        );
        let event = libc::c_int::try_from(event).unwrap_or(-1);
        if event < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(event)) }
    }
}

/// Lets the event send the signal of samples to its thread, and begins to count.
#[expect(unsafe_code, reason = "fcntl for signals and the ioctl of events have no safe wrappers")]
fn send_to(event: &OwnedFd, thread: u32) -> io::Result<()> {
    let owner = Owner { kind: OWNER_IS_THREAD, thread: thread as libc::pid_t };
    let event = event.as_raw_fd();
    // SAFETY: the descriptor is open; `owner` is laid out as fcntl(2) has it and outlives the call; the other calls take numbers.
    // The handler of the signal is installed: `signal::prepare` has seen to that.
    let done = unsafe {
        libc::fcntl(event, SET_OWNER, std::ptr::from_ref(&owner)) == 0
            && libc::fcntl(event, SET_SIGNAL, libc::SIGPROF) == 0
            && libc::fcntl(event, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) == 0
            && libc::ioctl(event, ENABLE as _, 0) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{FAULT, Sample, drain, enter_queue};
    use std::time::{Duration, Instant};

    /// Touches so many pages that nobody has touched.
    #[inline(never)]
    fn touch(pages: usize) -> u64 {
        let mut memory = vec![0u8; pages * 4096];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(memory).iter().step_by(4096).map(|byte| u64::from(*byte)).sum()
    }

    #[test]
    fn pages_that_are_touched_first_are_found_with_labels_and_callers() {
        assert_eq!(size_of::<Attributes>(), ATTRIBUTES_BYTES as usize);
        let watch = match FaultWatch::start(4) {
            Ok(watch) => watch,
            Err(error) => {
                // Containers forbid it; then there is nothing to find.
                let refused = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported];
                assert!(
                    refused.contains(&error.kind()) || error.raw_os_error() == Some(libc::ENOSYS),
                    "{error}"
                );
                return;
            }
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let is_mine = |sample: &Sample| sample.waits == FAULT && sample.thread == own;
        let _queue = enter_queue(9);
        let until = Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        // Tests beside this one may take samples out, too.
        while seen.len() < 100 && Instant::now() < until {
            // 36 MB: the allocator keeps no pieces above 32 MB.
            assert_eq!(touch(9000), 9000);
            drain(|sample| seen.extend(is_mine(&sample).then_some(sample)));
        }
        drop(watch);
        // Samples that it took after the last look.
        drain(|_| ());
        assert!(seen.len() >= 100, "{} samples", seen.len());
        assert!(seen.iter().any(|sample| sample.labels.queue == 9 && sample.stack.len() > 3));
        touch(9000);
        drain(|sample| assert!(!is_mine(&sample), "nobody watches any more"));
    }
}
