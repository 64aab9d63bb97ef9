//! Keeps a flood of publishes from outrunning consumers that are at work. Moving published messages to disk at once and
//! back costs several times as much as a direct handover, and starves the very consumers that could take it.
//!
//! Only a queue whose backlog has grown out of memory and that has consumers at full speed ([`FAST_MIN`]) is looked at. Publishers
//! may then bring an eighth less than these take, so the backlog shrinks until it fits into memory; beyond that they wait, until
//! consumers have caught up or the window of [`WINDOW_NS`] ends. Slower consumers are not waited for: a queue that just fills is not
//! slowed down, and nobody is held below seven eighths of [`FAST_MIN`]. A backlog that would take long to shrink ([`SHORT_WINDOWS`]) goes
//! through the disk whatever publishers do: they need only not bring it much faster than it is taken ([`GROWTH_MAX`]).
//!
//! Refuses to know queues, tasks and clocks.

use std::sync::atomic::{AtomicU64, Ordering};

use queues::Flow;

/// One window, nanoseconds.
pub(crate) const WINDOW_NS: u64 = 10_000_000;

/// Consumers that take so many messages in a window, on average of late, are at full speed: 64,000 a second.
const FAST_MIN: u64 = 640;

/// Publishers may bring less than consumers take by 1 / this.
const SHRINKING_PART: u64 = 8;

/// A backlog is short when consumers take it in so many windows: two seconds.
const SHORT_WINDOWS: u64 = 200;

/// Messages by which a longer one may grow in a window: 200,000 a second.
const GROWTH_MAX: u64 = 2048;

/// Deliveries that consumers are credited with in windows of [`FAST_MIN`], before anything is known of them: some 20 windows
/// without a delivery, and they are slow.
const TRUST: u64 = 4;

/// Windows over which deliveries are averaged: on a busy machine a fast consumer gets no turn for several of them.
const WINDOWS_RECENT: u64 = 16;

/// Until when publishers wait, for them to look at without the queue's lock. Nanoseconds of the broker's clock; 0 is now.
#[derive(Debug, Default)]
pub(crate) struct Hold(AtomicU64);

impl Hold {
    /// Publishers that bring more wait until then.
    pub(crate) fn set(&self, until_ns: u64) {
        if self.0.load(Ordering::Relaxed) != until_ns {
            self.0.store(until_ns, Ordering::Release);
        }
    }

    /// Whether publishers wait; the clock is asked only when they might.
    pub(crate) fn is_on(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let until_ns = self.0.load(Ordering::Acquire);
        until_ns != 0 && now_ns() < until_ns
    }
}

/// The knowledge that the thread that runs a queue has of its pace.
#[derive(Debug)]
pub(crate) struct Pacing {
    since_ns: u64,
    published: u64,
    delivered: u64,
    /// Deliveries of a window on average of late, times [`WINDOWS_RECENT`].
    recent: u64,
    is_lagging: bool,
}

impl Default for Pacing {
    fn default() -> Pacing {
        let recent = TRUST * FAST_MIN * WINDOWS_RECENT;
        Pacing { since_ns: 0, published: 0, delivered: 0, recent, is_lagging: false }
    }
}

impl Pacing {
    /// Looks at the queue after it ran. Returns until when publishers wait, 0 when they need not.
    pub(crate) fn turn(&mut self, flow: &Flow, now_ns: impl FnOnce() -> u64) -> u64 {
        if !flow.is_lagging {
            if self.is_lagging {
                let recent = self.recent.max(Pacing::default().recent);
                *self = Pacing { recent, ..Pacing::default() };
            }
            return 0;
        }
        let now_ns = now_ns();
        let published = flow.published - self.published.min(flow.published);
        let delivered = flow.delivered - self.delivered.min(flow.delivered);
        let end_ns = self.since_ns + WINDOW_NS;
        if self.is_lagging && now_ns < end_ns {
            return if published > self.allowance(flow, delivered) { end_ns } else { 0 };
        }
        let mut surplus = 0;
        if self.is_lagging {
            // Surplus deliveries count in this window, but no more than a window can make good.
            let surplus_max = self.recent / WINDOWS_RECENT;
            surplus = published.saturating_sub(self.allowance(flow, delivered)).min(surplus_max);
            self.recent = self.recent - self.recent.div_ceil(WINDOWS_RECENT) + delivered;
        }
        self.is_lagging = true;
        (self.since_ns, self.published, self.delivered) = (now_ns, flow.published - surplus, flow.delivered);
        0
    }

    /// Messages that publishers may bring in a window in which so many were delivered. Deliveries come in bursts, when a
    /// connection has room again: a window of late counts, if that is more.
    fn allowance(&self, flow: &Flow, delivered: u64) -> u64 {
        if self.recent < FAST_MIN * WINDOWS_RECENT {
            return u64::MAX;
        }
        let taken = delivered.max(self.recent / WINDOWS_RECENT);
        let is_short = flow.ready <= taken.saturating_mul(SHORT_WINDOWS);
        if is_short { taken - taken / SHRINKING_PART } else { taken + GROWTH_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(published: u64, delivered: u64) -> Flow {
        Flow { published, delivered, ready: 1000, is_lagging: true }
    }

    #[test]
    fn a_backlog_that_does_not_shrink_holds_publishers_until_consumers_catch_up() {
        let mut pacing = Pacing::default();
        let allowed = TRUST * FAST_MIN / 8 * 7;
        assert_eq!(pacing.turn(&flow(100, 0), || 1), 0);
        assert_eq!(pacing.turn(&flow(100 + allowed, 0), || 2), 0);
        assert_eq!(pacing.turn(&flow(101 + allowed, 0), || 3), 1 + WINDOW_NS);
        assert_eq!(
            pacing.turn(&flow(10_000, 8_000), || 4),
            1 + WINDOW_NS,
            "of 8,000 taken 7,000 are replaced"
        );
        assert_eq!(pacing.turn(&flow(10_000, 11_400), || 5), 0);
    }

    #[test]
    fn a_long_backlog_may_stay_and_even_grow() {
        let mut pacing = Pacing::default();
        let long = |published| Flow { ready: 1 << 20, ..flow(published, 0) };
        assert_eq!(pacing.turn(&long(0), || 1), 0);
        assert_eq!(pacing.turn(&long(TRUST * FAST_MIN + GROWTH_MAX), || 2), 0);
        assert_ne!(pacing.turn(&long(TRUST * FAST_MIN + GROWTH_MAX + 1), || 3), 0);
    }

    #[test]
    fn what_came_too_much_counts_in_the_next_window() {
        let mut pacing = Pacing::default();
        let allowed = TRUST * FAST_MIN / 8 * 7;
        assert_eq!(pacing.turn(&flow(0, 0), || 1), 0);
        assert_ne!(pacing.turn(&flow(allowed + 100, 0), || 2), 0);
        assert_eq!(pacing.turn(&flow(allowed + 100, 2560), || 1 + WINDOW_NS), 0, "a window begins free");
        assert_eq!(pacing.turn(&flow(allowed + allowed, 2560), || 2 + WINDOW_NS), 0);
        assert_ne!(pacing.turn(&flow(allowed + allowed + 1, 2560), || 3 + WINDOW_NS), 0);
    }

    #[test]
    fn consumers_are_known_when_a_backlog_comes_back() {
        let mut pacing = Pacing::default();
        windows_held(&mut pacing, 0, 100, 20_000);
        let known = pacing.recent;
        assert_eq!(pacing.turn(&Flow { is_lagging: false, ..flow(0, 0) }, || unreachable!("no need")), 0);
        assert_eq!(pacing.recent, known);
    }

    /// Windows in which so many are delivered and one more is published; tells how many of them held publishers.
    fn windows_held(pacing: &mut Pacing, from: u64, windows: u64, delivered: u64) -> u64 {
        let mut held = 0;
        let (mut published, mut taken) = (pacing.published, pacing.delivered);
        for window in from..from + windows {
            let start_ns = 1 + window * WINDOW_NS;
            assert_eq!(pacing.turn(&flow(published, taken), || start_ns), 0, "a window begins free");
            published += delivered.max(pacing.recent / WINDOWS_RECENT) + 1;
            taken += delivered;
            held += u64::from(pacing.turn(&flow(published, taken), || start_ns + 1) != 0);
        }
        held
    }

    #[test]
    fn consumers_that_take_little_are_soon_not_waited_for() {
        let mut pacing = Pacing::default();
        assert!(windows_held(&mut pacing, 0, 24, 10) < 24);
        assert_eq!(windows_held(&mut pacing, 24, 100, 10), 0);
        assert_eq!(windows_held(&mut pacing, 124, 100, FAST_MIN / 2), 0);
    }

    #[test]
    fn fast_consumers_are_waited_for_though_they_miss_some_windows() {
        let mut pacing = Pacing::default();
        for round in 0..20 {
            let from = round * 10;
            assert_eq!(windows_held(&mut pacing, from, 5, 20_000), 5);
            assert_eq!(windows_held(&mut pacing, from + 5, 5, 0), 5);
        }
    }

    #[test]
    fn a_queue_without_a_backlog_is_never_held() {
        let mut pacing = Pacing::default();
        let idle = Flow { published: 1 << 30, delivered: 0, ready: 1 << 30, is_lagging: false };
        assert_eq!(pacing.turn(&idle, || unreachable!("no need to know the time")), 0);
    }

    #[test]
    fn a_hold_ends_by_itself() {
        let hold = Hold::default();
        assert!(!hold.is_on(|| 5));
        hold.set(10);
        assert!(hold.is_on(|| 9) && !hold.is_on(|| 10));
    }
}
