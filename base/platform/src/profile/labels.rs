//! Labels of the work that each thread does at the moment: a few numbers in a place of the thread's own, written where a session or a queue
//! is entered, read by the signal handler of the same thread. Knows nothing of what the numbers mean.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::names::NameId;

/// The work of a thread; 0 everywhere is nothing in particular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// Name of the protocol.
    pub protocol: NameId,
    /// Name of the vhost of the session.
    pub vhost: NameId,
    /// The connection.
    pub connection: u64,
    /// The exchange that was published to last.
    pub exchange: u64,
    /// The queue whose machine runs.
    pub queue: u64,
}

/// Atomics because a signal may come between two writes; no other thread ever looks.
struct Registers {
    protocol: AtomicU32,
    vhost: AtomicU32,
    connection: AtomicU64,
    exchange: AtomicU64,
    queue: AtomicU64,
}

thread_local! {
    static REGISTERS: Registers = const {
        Registers {
            protocol: AtomicU32::new(0),
            vhost: AtomicU32::new(0),
            connection: AtomicU64::new(0),
            exchange: AtomicU64::new(0),
            queue: AtomicU64::new(0),
        }
    };
}

/// While it lives the thread works for a session.
#[derive(Debug)]
#[must_use = "labels are taken off when it is dropped"]
pub struct SessionScope(());

/// While it lives the thread works for a queue.
#[derive(Debug)]
#[must_use = "the label is taken off when it is dropped"]
pub struct QueueScope {
    before: u64,
}

/// The thread works for a session from now on, and for no exchange yet. Sessions are not entered within each other.
#[inline]
pub fn enter_session(protocol: NameId, vhost: NameId, connection: u64) -> SessionScope {
    REGISTERS.with(|registers| {
        registers.protocol.store(protocol.0, Ordering::Relaxed);
        registers.vhost.store(vhost.0, Ordering::Relaxed);
        registers.connection.store(connection, Ordering::Relaxed);
        registers.exchange.store(0, Ordering::Relaxed);
    });
    SessionScope(())
}

impl Drop for SessionScope {
    #[inline]
    fn drop(&mut self) {
        let none = enter_session(NameId::default(), NameId::default(), 0);
        std::mem::forget(none);
    }
}

/// The thread works for a queue from now on.
#[inline]
pub fn enter_queue(queue: u64) -> QueueScope {
    let before = REGISTERS.with(|registers| registers.queue.swap(queue, Ordering::Relaxed));
    QueueScope { before }
}

impl Drop for QueueScope {
    #[inline]
    fn drop(&mut self) {
        REGISTERS.with(|registers| registers.queue.store(self.before, Ordering::Relaxed));
    }
}

/// The session publishes to an exchange.
#[inline]
pub fn set_exchange(exchange: u64) {
    REGISTERS.with(|registers| registers.exchange.store(exchange, Ordering::Relaxed));
}

/// The work of this thread. Safe in a signal handler: the place needs neither set-up nor clean-up.
#[inline]
pub(super) fn current() -> Labels {
    let read = |registers: &Registers| Labels {
        protocol: NameId(registers.protocol.load(Ordering::Relaxed)),
        vhost: NameId(registers.vhost.load(Ordering::Relaxed)),
        connection: registers.connection.load(Ordering::Relaxed),
        exchange: registers.exchange.load(Ordering::Relaxed),
        queue: registers.queue.load(Ordering::Relaxed),
    };
    REGISTERS.try_with(read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_last_as_long_as_their_scopes_and_queues_nest() {
        {
            let _session = enter_session(NameId(1), NameId(2), 3);
            set_exchange(4);
            let _outer = enter_queue(5);
            {
                let _inner = enter_queue(6);
                let expected =
                    Labels { protocol: NameId(1), vhost: NameId(2), connection: 3, exchange: 4, queue: 6 };
                assert_eq!(current(), expected);
            }
            assert_eq!(current().queue, 5);
        }
        assert_eq!(current(), Labels::default());
    }
}
