//! One thread for what nobody should wait for: timers of queues, overlong inboxes, queues that delete themselves.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use commitlog::SegmentIo;
use parking_lot::{Condvar, Mutex};
use platform::Clock;
use queues::Gone;
use stdx::QueueId;

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
    /// All segments of a deleted queue can be deleted.
    DeleteSegments(QueueId),
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
    /// Queues that are looked at after the same time each, so the first is due first.
    resting: VecDeque<(u64, Weak<Queue>)>,
    /// The node stops: what is due from now on is due in its next life.
    timers_stopped: bool,
    sequence: u64,
    /// What was done last was a job: what is due comes before the next one.
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
    pub(crate) fn rest_at(&self, at_ms: u64, queue: Weak<Queue>) {
        let mut work = self.0.work.lock();
        work.resting.push_back((at_ms, queue));
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
        let due = self.0.work.lock().due(clock.wall_ms());
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
            match work.due(clock.wall_ms()) {
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
    /// What is to be done now; otherwise for how long to wait, if not until there is a job.
    fn due(&mut self, now_ms: u64) -> Result<Next, Option<Duration>> {
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
        if let Some((_, queue)) = self.resting.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            return Ok(Next::Rest(queue));
        }
        let timer_ms = self.timers.peek().map(|Reverse(first)| first.at_ms);
        let first_ms = timer_ms.into_iter().chain(self.resting.front().map(|(at_ms, _)| *at_ms)).min();
        // Wall time may jump: look again at least once a second.
        Err(first_ms.map(|at_ms| Duration::from_millis((at_ms - now_ms).min(1000))))
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
        Next::Job(Job::DeleteSegments(queue)) => segments.submit_delete_stream(queue.0),
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
