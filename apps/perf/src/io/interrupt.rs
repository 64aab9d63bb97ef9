//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.
//!
//! Refuses to know what an orderly end is.

use anyhow::{Context, Result};
use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of a program that a signal ended, as shells have it for SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static WATCHED: Once = Once::new();

/// A signal that follows another so soon is the same wish: `timeout` sends one to the process and one to its group, and so may a shell.
const SAME_WISH: Duration = Duration::from_millis(200);

/// The wish that a signal expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// An orderly end.
    Orderly,
    /// An end at once.
    AtOnce,
}

/// The wish of a signal that comes at `now`, after the first of them, if it is not that.
fn wish(first: Option<Instant>, now: Instant) -> Wish {
    match first {
        Some(first) if now.saturating_duration_since(first) >= SAME_WISH => Wish::AtOnce,
        _ => Wish::Orderly,
    }
}

/// Begins to notice signals; further calls do nothing.
///
/// # Errors
/// The process can have no further thread.
pub(crate) fn watch_interrupts() -> Result<()> {
    let mut outcome = Ok(());
    WATCHED.call_once(|| {
        let thread = std::thread::Builder::new().name("signals".to_owned());
        // Without signals a run still ends by its own terms.
        outcome = thread.spawn(|| drop(notice())).map(drop).context("noticing signals");
    });
    outcome
}

/// Whether an end was asked for.
pub(crate) fn is_interrupted() -> bool {
    ASKED.load(Relaxed)
}

fn notice() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut first = None;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        loop {
            // Either of them; each is polled until one has come.
            std::future::poll_fn(|context| {
                let came = interrupt.poll_recv(context).is_ready() | terminate.poll_recv(context).is_ready();
                if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            let now = Instant::now();
            ASKED.store(true, Relaxed);
            if wish(first, now) == Wish::AtOnce {
                // Nobody is left to tell when the terminal is gone.
                let _ =
                    writeln!(std::io::stderr(), "stopped at once: queues and exchanges may be left behind");
                std::process::exit(INTERRUPTED.into());
            }
            first.get_or_insert(now);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_at_once_is_one_and_a_later_one_is_the_second() {
        let first = Instant::now();
        assert_eq!(wish(None, first), Wish::Orderly);
        assert_eq!(wish(Some(first), first), Wish::Orderly);
        assert_eq!(wish(Some(first), first + SAME_WISH / 2), Wish::Orderly);
        assert_eq!(wish(Some(first), first + SAME_WISH), Wish::AtOnce);
    }
}
