//! How much memory all connections together may fill with what is not finished: bodies of which parts are missing,
//! transactions that are not committed. One number for the node, because it has one memory.
//!
//! A connection may hold as much as is left of it. So one alone gets half, N greedy ones a part of 1/(N+1) each, the sum never
//! exceeds it by more than one step of growth, and honest clients keep room while others hoard.
//!
//! Refuses to know: what is held, and what becomes of a connection that may hold no more.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that all connections share for what is not finished.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    held_bytes: AtomicUsize,
}

impl Budget {
    /// A budget of this many bytes, of which nothing is held.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Budget> {
        Arc::new(Budget { bytes_max, held_bytes: AtomicUsize::new(0) })
    }

    /// Bytes held by all connections now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }
}

/// What one connection holds of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    held_bytes: usize,
}

/// A connection holds more than is left for others. It still counts: the memory is there until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdrawn {
    held_bytes: usize,
    budget_bytes: usize,
}

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overdrawn { held_bytes, budget_bytes } = self;
        write!(
            f,
            "incomplete messages and open transactions of this connection hold {held_bytes} bytes, more than is left of \
             {budget_bytes} for all connections"
        )
    }
}

impl Share {
    pub(crate) fn new(budget: Arc<Budget>) -> Share {
        Share { budget, held_bytes: 0 }
    }

    /// Something that the connection holds has changed its size.
    ///
    /// # Errors
    /// It has grown, and the connection now holds more than is left.
    #[inline]
    pub(crate) fn resized(&mut self, before_bytes: usize, after_bytes: usize) -> Result<(), Overdrawn> {
        if after_bytes == before_bytes {
            return Ok(());
        }
        if after_bytes < before_bytes {
            self.give_back(before_bytes - after_bytes);
            return Ok(());
        }
        let grown_bytes = after_bytes - before_bytes;
        self.held_bytes += grown_bytes;
        let all_bytes = self.budget.held_bytes.fetch_add(grown_bytes, Ordering::Relaxed) + grown_bytes;
        let budget_bytes = self.budget.bytes_max;
        if self.held_bytes <= budget_bytes.saturating_sub(all_bytes) {
            return Ok(());
        }
        Err(Overdrawn { held_bytes: self.held_bytes, budget_bytes })
    }

    /// Something of this size is gone.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held_bytes, "only what is held can be given back");
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.budget.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.held_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_gets_half_and_what_is_gone_is_there_again() {
        let budget = Budget::new(1000);
        let mut share = Share::new(budget.clone());
        assert_eq!(share.resized(0, 500), Ok(()));
        assert_eq!(share.resized(500, 501), Err(Overdrawn { held_bytes: 501, budget_bytes: 1000 }));
        assert_eq!(budget.held_bytes(), 501);
        assert_eq!(share.resized(501, 400), Ok(()));
        assert_eq!(share.resized(0, 100), Ok(()));
        drop(share);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn many_greedy_ones_never_exceed_the_budget_and_leave_room() {
        let budget = Budget::new(1000);
        let mut greedy: Vec<_> = (0..50).map(|_| Share::new(budget.clone())).collect();
        let mut held = [0; 50];
        for _ in 0..1000 {
            for (share, held) in greedy.iter_mut().zip(&mut held) {
                if share.resized(*held, *held + 1).is_ok() {
                    *held += 1;
                } else {
                    share.give_back(1);
                }
            }
        }
        assert!(budget.held_bytes() <= 1000);
        assert_eq!(Share::new(budget.clone()).resized(0, 9), Ok(()));
    }
}
