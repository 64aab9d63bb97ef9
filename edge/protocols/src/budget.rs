//! How much memory all connections together may fill with one kind of thing that a client can leave lying: bodies of which
//! parts are missing and open transactions, or large deliveries that are not yet read. One number for the node and kind,
//! because it has one memory.
//!
//! A connection may hold as much as is left. So one alone gets half, N greedy ones a part of 1/(N+1) each, the sum never
//! exceeds the budget, and honest clients keep room while others hoard. A connection that wants more waits, except for one of them at a
//! time: it may hold so much beyond as lets it finish what it has begun. So something always gets finished, however much is hoarded, and no
//! waiting connection has to be given up.
//!
//! Refuses to know: the content of the bytes, and the fate of a connection that may hold no more.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// How long the favoured connection may take while others wait, milliseconds.
const FAVOUR_MS_MAX: u64 = 30_000;

/// Bytes per millisecond that it must move beyond that: 128 KiB/s, about.
const FAVOUR_BYTES_PER_MS: u64 = 131;

/// The memory that all connections share for one kind of thing.
#[derive(Debug)]
pub struct Budget {
    bytes_max: AtomicUsize,
    held_bytes: AtomicUsize,
    /// Somebody may hold more than is left.
    is_favour_taken: AtomicBool,
    /// Connections that were refused and have not got what they wanted since.
    waiting: AtomicUsize,
    line: Mutex<Line>,
}

/// Whom to wake when there may be room.
#[derive(Debug, Default)]
struct Line {
    /// How often all were woken.
    turn: u64,
    wakers: Vec<Waker>,
}

impl Budget {
    /// A budget of this many bytes, of which nothing is held.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Budget> {
        Arc::new(Budget {
            bytes_max: AtomicUsize::new(bytes_max),
            held_bytes: AtomicUsize::new(0),
            is_favour_taken: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
        })
    }

    /// From now on it is this many bytes. Nothing that is held is given up when they are fewer.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        if self.bytes_max.swap(bytes_max, Ordering::Relaxed) < bytes_max {
            self.wake_all();
        }
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes held by all connections now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Connections that wait for room now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn wake_all(&self) {
        let woken = {
            let mut line = self.line.lock();
            line.turn += 1;
            std::mem::take(&mut line.wakers)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// It wants nothing that it may not have.
    Free,
    /// It was refused. It is in line for this turn.
    Waiting(u64),
    /// It may hold so much more, whatever is left.
    Favoured { left_bytes: usize, since_ms: u64 },
}

/// The bytes that one connection holds of a budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    held_bytes: usize,
    stand: Stand,
}

/// Something that a connection wants to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// This much more.
    pub(crate) bytes: usize,
    /// So much may be needed to finish one thing, this included.
    pub(crate) finish_bytes: usize,
}

/// Whether a connection may hold what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It does, from now on.
    Granted,
    /// Not now. It will be woken when it should ask again.
    Waits,
}

/// A connection holds more than is left for others, or wants to. Its bytes still count: the memory is there until it is
/// given back.
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
        Share { budget, held_bytes: 0, stand: Stand::Free }
    }

    /// Bytes that the connection holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The connection holds this much more, whatever is left.
    pub(crate) fn add(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.held_bytes += bytes;
        self.budget.held_bytes.fetch_add(bytes, Ordering::Relaxed);
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
        self.add(after_bytes - before_bytes);
        if self.held_bytes <= self.left_bytes() { Ok(()) } else { Err(self.overdrawn()) }
    }

    fn left_bytes(&self) -> usize {
        self.budget.bytes_max().saturating_sub(self.budget.held_bytes())
    }

    fn overdrawn(&self) -> Overdrawn {
        Overdrawn { held_bytes: self.held_bytes, budget_bytes: self.budget.bytes_max() }
    }

    /// The connection wants to hold more. When it has to wait, `waker` is used once; asking again before that changes nothing.
    ///
    /// # Errors
    /// It was favoured, and did not finish anything with what it might hold: it must hold less.
    pub(crate) fn claim(&mut self, want: Want, waker: impl FnOnce() -> Waker) -> Result<Claim, Overdrawn> {
        if let Stand::Favoured { left_bytes, .. } = &mut self.stand {
            let Some(left) = left_bytes.checked_sub(want.bytes) else { return Err(self.overdrawn()) };
            *left_bytes = left;
            self.add(want.bytes);
            return Ok(Claim::Granted);
        }
        self.add(want.bytes);
        if self.held_bytes <= self.left_bytes() {
            self.stop_waiting();
            return Ok(Claim::Granted);
        }
        // A connection that has just finished something gets in line like the others.
        let may_be_favoured = matches!(self.stand, Stand::Waiting(_)) || self.budget.waiting() == 0;
        if may_be_favoured && !self.budget.is_favour_taken.swap(true, Ordering::AcqRel) {
            self.stop_waiting();
            let left_bytes = want.finish_bytes.saturating_sub(want.bytes);
            self.stand = Stand::Favoured { left_bytes, since_ms: 0 };
            return Ok(Claim::Granted);
        }
        self.held_bytes -= want.bytes;
        self.budget.held_bytes.fetch_sub(want.bytes, Ordering::Relaxed);
        self.wait(waker);
        Ok(Claim::Waits)
    }

    fn wait(&mut self, waker: impl FnOnce() -> Waker) {
        let seen = match self.stand {
            Stand::Waiting(turn) => Some(turn),
            _ => {
                self.budget.waiting.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        let turn = {
            let mut line = self.budget.line.lock();
            if seen != Some(line.turn) {
                line.wakers.push(waker());
            }
            line.turn
        };
        self.stand = Stand::Waiting(turn);
        // The favoured connection may have finished before this one was in line, and those that were there may want nothing any more.
        if !self.budget.is_favour_taken.load(Ordering::Acquire) {
            self.budget.wake_all();
        }
    }

    fn stop_waiting(&mut self) {
        if let Stand::Waiting(_) = self.stand {
            self.budget.waiting.fetch_sub(1, Ordering::Relaxed);
            self.stand = Stand::Free;
        }
    }

    /// Something of this size is gone: finished, or given up.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        debug_assert!(bytes <= self.held_bytes, "only what is held can be given back");
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.budget.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Stand::Favoured { .. } = self.stand {
            self.stand = Stand::Free;
            self.budget.is_favour_taken.store(false, Ordering::Release);
        }
        self.budget.wake_all();
    }

    /// Whether it may hold more than is left.
    pub(crate) fn is_favoured(&self) -> bool {
        matches!(self.stand, Stand::Favoured { .. })
    }

    /// Whether it was refused and has not got what it wanted.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stand, Stand::Waiting(_))
    }

    /// Whether the favoured connection takes so long that those who wait have the better claim. Its time begins with the first
    /// call, and again with each call of which it is not to blame.
    pub(crate) fn overstays(&mut self, now_ms: u64, blame: Blame) -> bool {
        let Stand::Favoured { since_ms, .. } = &mut self.stand else { return false };
        if *since_ms == 0 || blame == Blame::Broker {
            *since_ms = now_ms;
        }
        let allowed_ms = FAVOUR_MS_MAX + self.held_bytes as u64 / FAVOUR_BYTES_PER_MS;
        now_ms.saturating_sub(*since_ms) > allowed_ms && self.budget.waiting() > 0
    }
}

/// For whom the connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// For its client.
    Client,
    /// The broker does not read from it, or has nothing for it.
    Broker,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.held_bytes);
        if self.is_waiting() {
            self.stop_waiting();
            // Connections that were woken with it may have asked before.
            self.budget.wake_all();
        }
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

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl std::task::Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn claim(share: &mut Share, bytes: usize, bell: &Arc<Bell>) -> Result<Claim, Overdrawn> {
        share.claim(Want { bytes, finish_bytes: 200 }, || Waker::from(bell.clone()))
    }

    #[test]
    fn one_goes_on_beyond_the_budget_and_the_others_wait_until_it_has_finished() {
        let (budget, bell) = (Budget::new(1000), Arc::new(Bell::default()));
        let [mut hoarder, mut first, mut second] = [(); 3].map(|()| Share::new(budget.clone()));
        hoarder.add(950);
        assert_eq!(claim(&mut first, 100, &bell), Ok(Claim::Granted));
        for _ in 0..3 {
            assert_eq!(claim(&mut second, 100, &bell), Ok(Claim::Waits));
        }
        assert_eq!(claim(&mut first, 100, &bell), Ok(Claim::Granted), "as far as it needs");
        assert_eq!((budget.held_bytes(), budget.waiting()), (1150, 1));
        first.give_back(200);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1, "in line once, however often it asks");
        assert_eq!(claim(&mut first, 100, &bell), Ok(Claim::Waits), "others wait for longer");
        assert_eq!(claim(&mut second, 100, &bell), Ok(Claim::Granted));
        drop(second);
        assert_eq!(claim(&mut first, 100, &bell), Ok(Claim::Granted));
        assert_eq!((budget.held_bytes(), budget.waiting()), (1050, 0));
    }

    #[test]
    fn who_is_favoured_and_finishes_nothing_is_told_so() {
        let (budget, bell) = (Budget::new(1000), Arc::new(Bell::default()));
        let mut share = Share::new(budget.clone());
        share.add(600);
        assert_eq!(claim(&mut share, 150, &bell), Ok(Claim::Granted));
        assert_eq!(claim(&mut share, 51, &bell), Err(Overdrawn { held_bytes: 750, budget_bytes: 1000 }));
        drop(share);
        assert_eq!((budget.held_bytes(), budget.waiting()), (0, 0));
        assert!(!budget.is_favour_taken.load(Ordering::Relaxed));
    }

    #[test]
    fn who_waits_is_woken_when_there_is_more_and_nothing_is_taken_when_there_is_less() {
        let (budget, bell) = (Budget::new(1000), Arc::new(Bell::default()));
        let [mut hoarder, mut favoured, mut third] = [(); 3].map(|()| Share::new(budget.clone()));
        hoarder.add(500);
        budget.set_bytes_max(100);
        assert_eq!(budget.held_bytes(), 500);
        assert_eq!(claim(&mut favoured, 100, &bell), Ok(Claim::Granted));
        assert_eq!(claim(&mut third, 100, &bell), Ok(Claim::Waits));
        budget.set_bytes_max(100);
        assert_eq!(bell.0.load(Ordering::Relaxed), 0);
        budget.set_bytes_max(1000);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(claim(&mut third, 100, &bell), Ok(Claim::Granted));
    }

    #[test]
    fn those_who_want_nothing_any_more_hold_up_nobody() {
        let (budget, bells) = (Budget::new(1000), [(); 2].map(|()| Arc::new(Bell::default())));
        let [mut favoured, mut idle, mut late] = [(); 3].map(|()| Share::new(budget.clone()));
        favoured.add(900);
        assert_eq!(claim(&mut favoured, 100, &bells[0]), Ok(Claim::Granted));
        assert_eq!(claim(&mut idle, 600, &bells[0]), Ok(Claim::Waits));
        drop(favoured);
        assert_eq!(claim(&mut late, 600, &bells[1]), Ok(Claim::Waits), "the other may come first");
        assert_eq!(bells.map(|bell| bell.0.load(Ordering::Relaxed)), [1, 1], "but does not");
        assert_eq!(claim(&mut late, 600, &Arc::default()), Ok(Claim::Granted));
        assert!(idle.is_waiting());
    }

    #[test]
    fn the_favoured_has_a_limited_time_while_others_wait_and_it_is_to_blame() {
        let (budget, bell) = (Budget::new(0), Arc::new(Bell::default()));
        let [mut slow, mut other] = [(); 2].map(|()| Share::new(budget.clone()));
        assert_eq!(claim(&mut slow, 131, &bell), Ok(Claim::Granted));
        let late_ms = 5 + FAVOUR_MS_MAX + 2;
        assert!(!slow.overstays(5, Blame::Client) && !slow.overstays(late_ms, Blame::Client), "nobody waits");
        assert_eq!(claim(&mut other, 1, &bell), Ok(Claim::Waits));
        assert!(!slow.overstays(late_ms - 1, Blame::Client));
        assert!(slow.overstays(late_ms, Blame::Client));
        assert!(!slow.overstays(late_ms, Blame::Broker) && !slow.overstays(late_ms + 1, Blame::Client));
        assert!(!other.overstays(u64::MAX, Blame::Client));
    }
}
