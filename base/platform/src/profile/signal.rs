//! The signal that comes with CPU time used (SIGPROF), and its timer. Knows nothing of what becomes of samples.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::names::{FAULT, NameId};
use super::ring::{DEPTH_MAX, Ring, Sample};
use super::stack::{self, Registers};
use super::waiting::{self, Waiting};
use super::{labels, register_thread};

/// Samples in a second of CPU time at most. Kernels look at timers 100 to 1000 times a second, so more would bring nothing.
pub const HZ_MAX: u32 = 999;

static RING: OnceLock<Ring> = OnceLock::new();
/// Whether the handler is there.
static INSTALLED: Mutex<bool> = Mutex::new(false);
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Codes of signals that come from a file, which an event of page faults is: `POLL_IN` to `POLL_HUP`.
const CODES_OF_FILES: std::ops::RangeInclusive<libc::c_int> = 1..=6;

thread_local! {
    /// Number of this thread in the operating system; 0 until it is asked for.
    static THREAD: AtomicU32 = const { AtomicU32::new(0) };
}

/// Takes a sample for each `1 / hz` seconds of CPU time that the process uses, all threads together; 0 stops it. The first call
/// installs the handler, which stays.
///
/// # Errors
/// The operating system's refusal of the handler or the timer.
pub fn set_rate(hz: u32) -> io::Result<()> {
    if hz == 0 {
        IS_ON.store(false, Ordering::Release);
        return arm(0);
    }
    prepare()?;
    IS_ON.store(true, Ordering::Release);
    arm(1_000_000 / hz.min(HZ_MAX))
}

/// Lets a thread that waits leave a sample. Such samples bear their reason, those of the timer do not.
///
/// # Errors
/// There is no such thread any more, or what [`set_rate`] says.
pub fn probe(thread: Waiting) -> io::Result<()> {
    prepare()?;
    waiting::signal(thread)
}

/// Installs what takes samples, once: without it the signal would end the process.
pub(super) fn prepare() -> io::Result<()> {
    let mut is_installed = INSTALLED.lock();
    if !*is_installed {
        register_thread();
        stack::learn_code();
        let _ring = RING.get_or_init(Ring::new);
        install()?;
        *is_installed = true;
    }
    Ok(())
}

/// Takes out the samples taken since the last call. At [`HZ_MAX`] and with many processors, call it ten times a second.
pub fn drain(each: impl FnMut(Sample)) {
    if let Some(ring) = RING.get() {
        ring.drain(each);
    }
}

/// Samples that were lost because nobody took them out in time, since start.
pub fn dropped() -> u64 {
    RING.get().map_or(0, Ring::dropped)
}

/// CPU time that all threads of the process have used together, nanoseconds.
pub fn cpu_time_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(used.tv_nsec).unwrap_or(0)
}

/// Installs the handler. It is never removed: a signal on its way would end the process.
#[expect(unsafe_code, reason = "installs a signal handler")]
fn install() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
    // SAFETY: `action` is a plain struct that is valid when zeroed and then filled; `on_signal` has the signature that SA_SIGINFO
    // asks for and does only what a signal handler may (it neither allocates nor locks nor calls the C library, see there).
    // SA_RESTART keeps interrupted system calls from failing.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the signal come after each so many microseconds of CPU time; 0 for never.
#[expect(unsafe_code, reason = "sets a timer of the process")]
fn arm(interval_us: u32) -> io::Result<()> {
    let every =
        libc::timeval { tv_sec: (interval_us / 1_000_000).into(), tv_usec: (interval_us % 1_000_000).into() };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the struct is complete and outlives the call; no old value is asked for.
    let set = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Only touches memory of this thread that needs no set-up, its own stack, and the ring's atomics.
extern "C" fn on_signal(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let waits = waits_of(info);
    if waits == NameId::default() && !IS_ON.load(Ordering::Acquire) {
        return;
    }
    let (Some(ring), Some(registers)) = (RING.get(), registers_of(context)) else { return };
    let mut addresses = [0; DEPTH_MAX];
    let depth = stack::walk(registers, &mut addresses);
    ring.put((thread_number(), waits), labels::current(), &addresses[..depth]);
}

/// The reason that came with a signal of [`probe`], [`FAULT`] with one after page faults, and none with those of the timer.
#[expect(unsafe_code, reason = "reads what came with the signal")]
fn waits_of(info: *mut libc::siginfo_t) -> NameId {
    // SAFETY: the kernel passes a handler with SA_SIGINFO a valid `siginfo_t`, or, were somebody to call it otherwise, null, which
    // `as_ref` catches; a signal with SI_QUEUE has a value.
    unsafe {
        match info.as_ref() {
            Some(info) if info.si_code == libc::SI_QUEUE => {
                NameId(info.si_value().sival_ptr.expose_provenance() as u32)
            }
            Some(info) if CODES_OF_FILES.contains(&info.si_code) => FAULT,
            _ => NameId::default(),
        }
    }
}

/// The registers of the interrupted thread.
#[expect(unsafe_code, reason = "reads what the kernel saved of the interrupted thread")]
fn registers_of(context: *mut libc::c_void) -> Option<Registers> {
    // SAFETY: the kernel passes a handler with SA_SIGINFO a valid `ucontext_t` that lives as long as the handler runs, or, were
    // somebody to call it otherwise, null, which `as_ref` catches.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() }?;
    #[cfg(target_arch = "x86_64")]
    {
        let saved = |index: libc::c_int| context.uc_mcontext.gregs[index as usize] as usize;
        Some(Registers {
            instruction: saved(libc::REG_RIP),
            stack: saved(libc::REG_RSP),
            frame: saved(libc::REG_RBP),
        })
    }
    #[cfg(target_arch = "aarch64")]
    {
        let saved = &context.uc_mcontext;
        Some(Registers {
            instruction: saved.pc as usize,
            stack: saved.sp as usize,
            frame: saved.regs[29] as usize,
        })
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _unknown = context;
        None
    }
}

/// This thread's number, asked for once.
#[expect(unsafe_code, reason = "asks the kernel for the number of a thread")]
fn thread_number() -> u32 {
    let known = THREAD.try_with(|thread| thread.load(Ordering::Relaxed)).unwrap_or(0);
    if known != 0 {
        return known;
    }
    // SAFETY: gettid takes nothing, cannot fail and leaves errno alone; a system call without the C library's locks.
    let number = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let _kept = THREAD.try_with(|thread| thread.store(number, Ordering::Relaxed));
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{enter_queue, enter_session, intern};
    use std::time::{Duration, Instant};

    #[inline(never)]
    fn burn(until: Instant) -> u64 {
        let mut sum = 1u64;
        while Instant::now() < until {
            for step in 0..1000u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(step));
            }
        }
        sum
    }

    #[test]
    fn a_busy_thread_is_found_with_its_labels_and_its_callers() {
        register_thread();
        let protocol = intern("a protocol of a test");
        set_rate(HZ_MAX).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        while seen.len() < 5 && Instant::now() < until {
            let _session = enter_session(protocol, intern("v"), 77);
            let _queue = enter_queue(5);
            burn(Instant::now() + Duration::from_millis(20));
            drain(|sample| seen.extend((sample.labels.protocol == protocol).then_some(sample)));
        }
        set_rate(0).unwrap();
        assert!(seen.len() >= 5, "a second of work brings samples");
        for sample in &seen {
            assert_eq!((sample.labels.connection, sample.labels.queue), (77, 5));
            assert!(sample.stack.len() > 3, "callers are known: {:x?}", sample.stack);
        }
    }
}
