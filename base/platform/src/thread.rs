//! Threads whose panic ends the process. Knows nothing of what runs on them.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Aborts the process if it is dropped while its thread unwinds.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic hook has already written the message and the place.
            std::process::abort();
        }
    }
}

/// Starts a named thread for storage work: a panic on it aborts the process, because nobody can say which bytes are on disk
/// after a bug in the code that writes them (architecture: "storage code aborts").
///
/// # Errors
/// When the operating system refuses another thread.
pub fn spawn_or_abort(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = AbortOnPanic;
        crate::profile::register_thread();
        body();
    })
}

/// How often the calling thread has waited for something so far: for a disk, a lock, another thread. A processor that was taken from it is no
/// wait. 0 where the operating system does not tell.
#[must_use]
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "asks the kernel what this thread has used"))]
pub fn wait_count() -> u64 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: zero is a value of every field of this plain structure.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `used` is valid for a write of the structure that the call fills.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut used) } == 0 {
            return used.ru_nvcsw.cast_unsigned();
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_runs_under_its_name() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let handle = spawn_or_abort("wal-0", move || {
            sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
        });
        handle.unwrap().join().unwrap();
        assert_eq!(receiver.recv().unwrap().as_deref(), Some("wal-0"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_sleeps_has_waited() {
        let before = wait_count();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(wait_count() > before);
    }
}
