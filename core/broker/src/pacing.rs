//! Keeps a flood of publishes from outrunning consumers that are at work: what is published and at once moved to disk and
//! back costs several times what a direct handover costs, and starves the very consumers that could take it.
//!
//! Only a queue whose backlog has grown out of memory and that has consumers is looked at. Within a window of
//! [`WINDOW_NS`] its backlog may grow by an allowance; beyond that, publishers wait until consumers have caught up or the
//! window ends. Consumers that take little are not waited for: the allowance doubles with each window while they have not
//! taken half of it on average of late. So nobody is held below about 200,000 messages a second of growth, and a queue
//! that just fills is not slowed down.
//!
//! Refuses to know queues, tasks and clocks.

use std::sync::atomic::{AtomicU64, Ordering};

use queues::Flow;

/// One window, nanoseconds.
pub(crate) const WINDOW_NS: u64 = 10_000_000;

/// Messages a backlog may grow by in one window while consumers take part.
const ALLOWANCE_MIN: u64 = 2048;

/// No queue takes so many in one window.
const ALLOWANCE_MAX: u64 = 1 << 20;

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

/// What one who runs a queue knows of its pace.
#[derive(Debug)]
pub(crate) struct Pacing {
    since_ns: u64,
    published: u64,
    delivered: u64,
    allowance: u64,
    /// Deliveries of a window on average of late, times [`WINDOWS_RECENT`].
    recent: u64,
    is_lagging: bool,
}

impl Default for Pacing {
    fn default() -> Pacing {
        let (allowance, recent) = (ALLOWANCE_MIN, ALLOWANCE_MIN * WINDOWS_RECENT);
        Pacing { since_ns: 0, published: 0, delivered: 0, allowance, recent, is_lagging: false }
    }
}

impl Pacing {
    /// Looks at the queue after it ran. Returns until when publishers wait, 0 when they need not.
    pub(crate) fn turn(&mut self, flow: &Flow, now_ns: impl FnOnce() -> u64) -> u64 {
        if !flow.is_lagging {
            if self.is_lagging {
                *self = Pacing::default();
            }
            return 0;
        }
        let now_ns = now_ns();
        let published = flow.published - self.published.min(flow.published);
        let delivered = flow.delivered - self.delivered.min(flow.delivered);
        let end_ns = self.since_ns + WINDOW_NS;
        if self.is_lagging && now_ns < end_ns {
            return if published > delivered + self.allowance { end_ns } else { 0 };
        }
        if self.is_lagging {
            self.recent = self.recent - self.recent.div_ceil(WINDOWS_RECENT) + delivered;
            self.allowance = match self.recent / WINDOWS_RECENT * 2 < self.allowance {
                true => (self.allowance * 2).min(ALLOWANCE_MAX),
                false => (self.allowance / 2).max(ALLOWANCE_MIN),
            };
        }
        self.is_lagging = true;
        (self.since_ns, self.published, self.delivered) = (now_ns, flow.published, flow.delivered);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(published: u64, delivered: u64) -> Flow {
        Flow { published, delivered, is_lagging: true }
    }

    #[test]
    fn a_backlog_that_grows_too_fast_holds_publishers_until_consumers_catch_up() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.turn(&flow(100, 0), || 1), 0);
        assert_eq!(pacing.turn(&flow(100 + ALLOWANCE_MIN, 0), || 2), 0);
        assert_eq!(pacing.turn(&flow(200 + ALLOWANCE_MIN, 0), || 3), 1 + WINDOW_NS);
        assert_eq!(pacing.turn(&flow(200 + ALLOWANCE_MIN, 100), || 4), 0);
    }

    /// Windows in which so many are delivered and one more than the allowance is published beyond them; tells how many
    /// of them held publishers.
    fn windows_held(pacing: &mut Pacing, from: u64, windows: u64, delivered: u64) -> u64 {
        let mut held = 0;
        let (mut published, mut taken) = (pacing.published, pacing.delivered);
        for window in from..from + windows {
            let start_ns = 1 + window * WINDOW_NS;
            assert_eq!(pacing.turn(&flow(published, taken), || start_ns), 0, "a window begins free");
            published += ALLOWANCE_MIN + 1 + delivered;
            taken += delivered;
            held += u64::from(pacing.turn(&flow(published, taken), || start_ns + 1) != 0);
        }
        held
    }

    #[test]
    fn consumers_that_take_little_are_soon_not_waited_for() {
        let mut pacing = Pacing::default();
        assert!(windows_held(&mut pacing, 0, 16, 10) < 16);
        assert_eq!(windows_held(&mut pacing, 16, 100, 10), 0);
        let slow = pacing.allowance;
        assert_eq!(slow, ALLOWANCE_MAX);
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
        let idle = Flow { published: 1 << 30, delivered: 0, is_lagging: false };
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
