//! One thread for what nobody should wait for: timers of queues, overlong inboxes, queues that delete themselves.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use commitlog::SegmentIo;
use parking_lot::{Condvar, Mutex};
use platform::{Clock, Monotonic};
use queues::Gone;
use stdx::QueueId;

use crate::bodies::BodyNode;
use crate::call::Reply;
use crate::cell::{Event, Queue};

/// Work for the background thread.
pub(crate) enum Job {
    /// Drain this queue's inbox.
    Run(Arc<Queue>),
    /// This queue deletes itself.
    /// Answered when nobody finds the queue any more.
    Gone(Arc<Queue>, Gone, Option<Reply<()>>),
    /// This segment of a queue can be deleted.
    DeleteSegment(QueueId, u64),
    /// All that a deleted queue has on disk can be deleted.
    DeleteSegments(Arc<Queue>),
    /// Segments of shared bodies may hold nothing any more.
    FreeBodySegments(Weak<dyn BodyNode>),
    /// Read this crashed queue back; where there are threads, one of its own does that.
    Reload(Arc<Queue>),
    /// All jobs before this one are done.
    Pass(Reply<()>),
    /// Stop.
    Stop,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    timers: BinaryHeap<Reverse<Timer>>,
    /// Queues that are looked at after the same time each, so the first is due first, whatever becomes of the wall clock.
    resting: VecDeque<(Monotonic, Weak<Queue>)>,
    /// The node stops: work that is due from now on is due in its next life.
    timers_stopped: bool,
    sequence: u64,
    /// The latest work was a job: due work comes before the next job.
    job_was_last: bool,
}

struct Timer {
    at_ms: u64,
    sequence: u64,
    queue: Weak<Queue>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ms, self.sequence) == (other.at_ms, other.sequence)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ms, self.sequence).cmp(&(other.at_ms, other.sequence))
    }
}

/// Hands work to the thread.
#[derive(Clone, Default)]
pub(crate) struct Background(Arc<Shared>);

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    wake: Condvar,
}

impl Background {
    /// Adds a job.
    pub(crate) fn submit(&self, job: Job) {
        self.0.work.lock().jobs.push_back(job);
        self.0.wake.notify_one();
    }

    /// No queue is ticked any more.
    pub(crate) fn stop_timers(&self) {
        self.0.work.lock().timers_stopped = true;
    }

    /// Forgets what is left: jobs hold queues, and queues lead here.
    pub(crate) fn abandon(&self) {
        let left = std::mem::take(&mut *self.0.work.lock());
        drop(left);
    }

    /// Ticks a queue at a time (milliseconds since the epoch).
    pub(crate) fn at(&self, at_ms: u64, queue: Weak<Queue>) {
        let mut work = self.0.work.lock();
        let sequence = work.sequence;
        work.sequence += 1;
        let is_first = work.timers.peek().is_none_or(|Reverse(first)| at_ms < first.at_ms);
        work.timers.push(Reverse(Timer { at_ms, sequence, queue }));
        if is_first {
            self.0.wake.notify_one();
        }
    }

    /// Sees at a time, which is not before that of the previous call, whether a queue can go to rest. Not to the millisecond: nobody is
    /// woken for it.
    pub(crate) fn rest_at(&self, at: Monotonic, queue: Weak<Queue>) {
        let mut work = self.0.work.lock();
        work.resting.push_back((at, queue));
        if work.resting.len() == 1 {
            self.0.wake.notify_one();
        }
    }

    /// The thread's life: until [`Job::Stop`].
    pub(crate) fn run(
        &self,
        clock: &dyn Clock,
        gone: impl Fn(Arc<Queue>, Option<Reply<()>>),
        segments: &SegmentIo,
    ) {
        while perform(self.next(clock), &gone, segments) {}
    }

    /// Does what is due first, on the caller's thread; false when nothing is.
    pub(crate) fn step(
        &self,
        clock: &dyn Clock,
        gone: impl Fn(Arc<Queue>, Option<Reply<()>>),
        segments: &SegmentIo,
    ) -> bool {
        let due = self.0.work.lock().due(clock.wall_ms(), clock.now());
        due.is_ok_and(|next| perform(next, &gone, segments))
    }

    /// Whether the first job is to read a queue back: that waits for the message log.
    pub(crate) fn reads_back_next(&self) -> bool {
        matches!(self.0.work.lock().jobs.front(), Some(Job::Reload(_)))
    }

    /// The first job is done after the others.
    pub(crate) fn put_off(&self) {
        let mut work = self.0.work.lock();
        work.jobs.rotate_left(1);
    }

    fn next(&self, clock: &dyn Clock) -> Next {
        let mut work = self.0.work.lock();
        loop {
            match work.due(clock.wall_ms(), clock.now()) {
                Ok(next) => return next,
                Err(Some(wait)) => {
                    self.0.wake.wait_for(&mut work, wait);
                }
                Err(None) => self.0.wake.wait(&mut work),
            }
        }
    }
}

impl Work {
    /// The work to do now; otherwise for how long to wait, if not until there is a job.
    fn due(&mut self, now_ms: u64, now: Monotonic) -> Result<Next, Option<Duration>> {
        let is_due = |Reverse(first): &Reverse<Timer>| first.at_ms <= now_ms;
        let has_due = !self.timers_stopped && self.timers.peek().is_some_and(is_due);
        // Queues that always have more to do hold up no timer.
        if !(has_due && self.job_was_last)
            && let Some(job) = self.jobs.pop_front()
        {
            self.job_was_last = true;
            return Ok(Next::Job(job));
        }
        self.job_was_last = false;
        if self.timers_stopped {
            return Err(None);
        }
        if has_due {
            let Reverse(timer) = self.timers.pop().expect("just seen");
            return Ok(Next::Tick(timer.queue));
        }
        if let Some((_, queue)) = self.resting.pop_front_if(|(at, _)| *at <= now) {
            return Ok(Next::Rest(queue));
        }
        // Wall time may jump: look again at least once a second.
        let until = |Reverse(first): &Reverse<Timer>| Duration::from_millis((first.at_ms - now_ms).min(1000));
        let timer = self.timers.peek().map(until);
        let resting = self.resting.front().map(|(at, _)| at.since(now));
        Err(timer.into_iter().chain(resting).min())
    }
}

/// Does one thing; false when it is to stop.
fn perform(next: Next, gone: &impl Fn(Arc<Queue>, Option<Reply<()>>), segments: &SegmentIo) -> bool {
    match next {
        Next::Job(Job::Run(queue)) => queue.run(),
        Next::Job(Job::Gone(queue, why, reply)) => {
            tracing::debug!(queue = %String::from_utf8_lossy(queue.name()), ?why, "queue deletes itself");
            gone(queue, reply);
        }
        Next::Job(Job::DeleteSegment(queue, segment)) => segments.submit_delete_segment(queue.0, segment),
        Next::Job(Job::DeleteSegments(queue)) => {
            queue.let_bodies_go();
            segments.submit_delete_stream(queue.id().0);
            queue.remove_stream();
        }
        Next::Job(Job::FreeBodySegments(node)) => {
            if let Some(node) = node.upgrade() {
                node.free_segments();
            }
        }
        Next::Job(Job::Reload(queue)) => queue.reload(),
        Next::Job(Job::Pass(reply)) => reply.send(()),
        Next::Job(Job::Stop) => return false,
        Next::Tick(queue) => {
            if let Some(queue) = queue.upgrade() {
                queue.submit(Event::Tick);
            }
        }
        Next::Rest(queue) => {
            if let Some(queue) = queue.upgrade() {
                queue.submit(Event::Rest);
            }
        }
    }
    true
}

enum Next {
    Job(Job),
    Tick(Weak<Queue>),
    Rest(Weak<Queue>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(work: &mut Work, now_ms: u64, now_s: u64) -> Result<usize, Option<Duration>> {
        let now = Monotonic(now_s * 1_000_000_000);
        let mut count = 0;
        loop {
            match work.due(now_ms, now) {
                Ok(Next::Rest(_)) => count += 1,
                Ok(_) => unreachable!("nothing else is to be done"),
                Err(wait) if count == 0 => return Err(wait),
                Err(_) => return Ok(count),
            }
        }
    }

    #[test]
    fn a_wall_clock_set_back_keeps_no_queue_from_its_rest() {
        let background = Background::default();
        (5..8).for_each(|at_s| background.rest_at(Monotonic(at_s * 1_000_000_000), Weak::new()));
        let mut work = background.0.work.lock();
        assert_eq!(rests(&mut work, 1_000_000, 4), Err(Some(Duration::from_secs(1))));
        assert_eq!(rests(&mut work, 1, 6), Ok(2), "an hour earlier than a moment ago");
        assert_eq!(rests(&mut work, u64::MAX, 6), Err(Some(Duration::from_secs(1))), "and far ahead");
        assert_eq!(rests(&mut work, 1, 7), Ok(1));
    }

    #[test]
    fn queues_that_always_have_more_to_do_hold_up_no_timer() {
        let background = Background::default();
        (0..4).for_each(|_| background.submit(Job::DeleteSegment(QueueId(1), 1)));
        (0..2).for_each(|_| background.at(5, Weak::new()));
        let mut work = background.0.work.lock();
        let mut order = Vec::new();
        while let Ok(next) = work.due(5, Monotonic(0)) {
            order.push(matches!(next, Next::Tick(_)));
        }
        assert_eq!(order, [false, true, false, true, false, false]);
    }
}
