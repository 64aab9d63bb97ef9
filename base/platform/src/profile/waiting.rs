//! Threads that do not run: which there are, what the kernel lets them wait for, and a signal to one of them so that it leaves its
//! stack in the ring. Knows nothing of what becomes of that.

use std::io;

use super::names::{NameId, intern};

/// A thread that slept when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The thread's number in the operating system.
    pub thread: u32,
    /// Name of what it waits for, such as `(sleeps in futex)` or `(disk, in fdatasync)`.
    pub reason: NameId,
}

/// System calls in which threads of a broker wait, and what that is.
const CALLS: [(libc::c_long, &str); 18] = [
    (libc::SYS_epoll_pwait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(not(target_arch = "x86_64"))]
    (libc::SYS_epoll_pwait2, "epoll_wait"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_pwrite64, "pwrite"),
    (libc::SYS_pread64, "pread"),
    (libc::SYS_read, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_recvfrom, "recv"),
    (libc::SYS_sendto, "send"),
    (libc::SYS_sendmsg, "send"),
    (libc::SYS_ppoll, "poll"),
    (libc::SYS_accept4, "accept"),
    (libc::SYS_clock_nanosleep, "sleep"),
    (libc::SYS_nanosleep, "sleep"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_munmap, "munmap"),
];

/// All threads of this process that sleep now, the caller's left out.
///
/// # Errors
/// `/proc` cannot be read.
pub fn waiting_threads() -> io::Result<Vec<Waiting>> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let Some(thread) = task.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // One that has ended meanwhile waits for nothing.
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        if i64::from(thread) == i64::from(own) {
            continue;
        }
        let call = std::fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
        if let Some(reason) = reason_of(&stat, &call) {
            all.push(Waiting { thread, reason: intern(&reason) });
        }
    }
    Ok(all)
}

/// The reason why a thread waits, from `/proc/self/task/N/stat` (proc_pid_stat(5), field 3) and `syscall`; `None` when it runs.
fn reason_of(stat: &str, call: &str) -> Option<String> {
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    let number = call.split_whitespace().next().and_then(|word| word.parse::<libc::c_long>().ok());
    let name = number.and_then(|number| CALLS.iter().find(|call| call.0 == number)).map(|call| call.1);
    let name = name.map_or_else(
        || number.map_or_else(|| "the kernel".to_owned(), |number| format!("system call {number}")),
        str::to_owned,
    );
    match state {
        'S' => Some(format!("(sleeps in {name})")),
        'D' => Some(format!("(disk or memory, in {name})")),
        _ => None,
    }
}

/// The structure that the kernel hands to the handler: `siginfo_t` as the system call wants it for a signal with a value.
#[repr(C)]
struct Told {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    #[cfg(target_pointer_width = "64")]
    padding: libc::c_int,
    process: libc::pid_t,
    user: libc::uid_t,
    value: usize,
    rest: [u64; 12],
}

/// Lets a thread leave its stack in the ring, with the reason, as soon as it is back from the kernel; waiting calls go on
/// afterwards.
///
/// # Errors
/// There is no such thread any more.
#[expect(unsafe_code, reason = "sends a signal with a value to a thread")]
pub(super) fn signal(waiting: Waiting) -> io::Result<()> {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let told = Told {
        signal: libc::SIGPROF,
        errno: 0,
        code: libc::SI_QUEUE,
        #[cfg(target_pointer_width = "64")]
        padding: 0,
        process,
        user: 0,
        value: waiting.reason.0 as usize,
        rest: [0; 12],
    };
    // SAFETY: `told` is as long as a `siginfo_t` at least and laid out as rt_sigqueueinfo(2) says; the kernel only reads it. The
    // handler of the signal is installed: the caller has seen to that.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process,
            waiting.thread,
            libc::SIGPROF,
            std::ptr::from_ref(&told),
        )
    };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{drain, name_of, probe, register_thread};
    use std::sync::mpsc;

    #[test]
    fn the_kernels_words_for_a_waiting_thread_are_understood() {
        let futex = format!("{} 0x1 0x2", libc::SYS_futex);
        assert_eq!(reason_of("7 (a) b) S 1", &futex).as_deref(), Some("(sleeps in futex)"));
        let sync = format!("{} 0x1", libc::SYS_fdatasync);
        assert_eq!(reason_of("7 (a) D 1", &sync).as_deref(), Some("(disk or memory, in fdatasync)"));
        assert_eq!(reason_of("7 (a) S 1", "").as_deref(), Some("(sleeps in the kernel)"));
        assert_eq!((reason_of("7 (a) R 1", "running"), reason_of("", "")), (None, None));
    }

    #[test]
    fn a_sleeping_thread_leaves_its_stack_and_goes_on_sleeping() {
        assert!(size_of::<Told>() >= size_of::<libc::siginfo_t>());
        let (end, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            register_thread();
            tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
            wait.recv()
        });
        let thread = told.recv().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut seen = None;
        while seen.is_none() && std::time::Instant::now() < until {
            let asleep = waiting_threads().unwrap().into_iter().find(|it| it.thread == thread);
            asleep.into_iter().for_each(|it| probe(it).unwrap());
            drain(|sample| {
                if sample.thread == thread && name_of(sample.waits).is_some() {
                    seen = Some(sample);
                }
            });
        }
        let sample = seen.expect("a thread that sleeps is found within seconds");
        assert!(name_of(sample.waits).unwrap().starts_with("(sleeps in"));
        assert!(sample.stack.len() > 3, "callers are known: {:x?}", sample.stack);
        assert!(!sleeper.is_finished());
        end.send(()).unwrap();
        assert!(sleeper.join().unwrap().is_ok());
    }
}
