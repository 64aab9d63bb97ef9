//! Turns on a thread that serves connections. Knows nothing of what a connection does in its turn.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

/// The latest turns of a thread in which something was read that are remembered.
const REMEMBERED: usize = 8;

/// So many connections among them are a crowd. A publisher and its consumer, or two of each, take turns however busy they are, and gain
/// nothing by waiting for each other. A connection that only listens does not count: messages that wait for the consumers of one publisher
/// only leave the caches.
const CROWD: usize = 5;

thread_local! {
    /// The connections that had the latest turns on this thread, and where the next is noted.
    static LATEST: Cell<([usize; REMEMBERED], usize)> = const { Cell::new(([0; REMEMBERED], 0)) };
}

/// Something was read from this connection in its turn; 0 is none.
pub(crate) fn note_reader(connection: usize) {
    let (mut latest, at) = LATEST.get();
    latest[at % REMEMBERED] = connection;
    LATEST.set((latest, at.wrapping_add(1)));
}

/// Whether many connections brought something in the latest turns of this thread since it last slept.
pub(crate) fn is_crowded() -> bool {
    let (latest, _) = LATEST.get();
    let is_first = |nth: &usize| latest[*nth] != 0 && !latest[..*nth].contains(&latest[*nth]);
    (0..REMEMBERED).filter(is_first).count() >= CROWD
}

/// The runtime is to call this on each of its threads before it sleeps: the next connection has the thread to itself.
pub fn thread_sleeps() {
    LATEST.set(([0; REMEMBERED], 0));
}

/// The task gets another turn when all others that are ready had theirs and the thread has looked for what has arrived. Waking it at
/// once would also wake another thread, which finds nothing else to do.
pub(crate) fn again(cx: &mut Context<'_>) {
    let is_ready = pin!(tokio::task::yield_now()).poll(cx).is_ready();
    debug_assert!(!is_ready, "it waits for its next turn");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_connections_are_no_crowd_however_often_they_come() {
        for turn in 0..100 {
            note_reader(1 + turn % (CROWD - 1));
            assert!(!is_crowded(), "after {turn} turns");
        }
        note_reader(CROWD);
        assert!(is_crowded());
        thread_sleeps();
        assert!(!is_crowded(), "nobody is left");
        (1..CROWD).for_each(note_reader);
        assert!(!is_crowded());
    }
}
