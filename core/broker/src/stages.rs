//! Where the time of messages goes: how long each stage of their way takes, for each kind of queue. Knows nothing of what
//! happens in a stage.
//!
//! One observation is one batch (a read, a handover to a queue, a write, a sync), never one message: a message in a batch of a
//! thousand has waited as long as the batch. Route and dispatch, which happen message by message, are observed once per batch.
//! Stages lie within each other: parse holds route, enqueue holds dispatch, confirm holds enqueue, log and fsync.

use std::sync::Arc;

use platform::Clock;
use stdx::Histogram;
use stdx::histogram::Snapshot;

/// A part of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// From bytes read to publishes routed and gathered: one read.
    Parse,
    /// Finding the queues of one message, the first of a batch.
    Route,
    /// From handing a batch to a queue until the queue has it, other work of the queue included.
    Enqueue,
    /// Writing to the message log what had gathered, or to the file of a stream.
    Log,
    /// Syncing the message log, or the file of a stream.
    Fsync,
    /// Encoding deliveries for one consumer, the first of a turn of its queue.
    Dispatch,
    /// One write to a client's socket.
    Write,
    /// From handing settlements to a queue until the queue has forgotten the messages.
    Ack,
    /// From handing over a batch of a confirming publisher until it is confirmed.
    Confirm,
}

impl Stage {
    /// All of them, in the order of a message's way.
    pub const ALL: [Stage; 9] = [
        Stage::Parse,
        Stage::Route,
        Stage::Enqueue,
        Stage::Log,
        Stage::Fsync,
        Stage::Dispatch,
        Stage::Write,
        Stage::Ack,
        Stage::Confirm,
    ];

    /// Its name in listings and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Parse => "parse",
            Stage::Route => "route",
            Stage::Enqueue => "enqueue",
            Stage::Log => "log",
            Stage::Fsync => "fsync",
            Stage::Dispatch => "dispatch",
            Stage::Write => "write",
            Stage::Ack => "ack",
            Stage::Confirm => "confirm",
        }
    }

    /// Whether it is told apart by the kind of queue. Of the others, streams have what is theirs alone: files, and confirms of their protocol.
    #[must_use]
    pub const fn is_of_queues(self) -> bool {
        matches!(self, Stage::Enqueue | Stage::Dispatch | Stage::Ack)
    }
}

/// The kind of queue that a stage was spent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// A classic queue.
    Classic,
    /// A quorum queue.
    Quorum,
    /// A stream.
    Stream,
    /// The store of an exchange that delays messages.
    Delayed,
}

impl QueueKind {
    /// All of them.
    pub const ALL: [QueueKind; 4] =
        [QueueKind::Classic, QueueKind::Quorum, QueueKind::Stream, QueueKind::Delayed];

    /// Its name in listings and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            QueueKind::Classic => "classic",
            QueueKind::Quorum => "quorum",
            QueueKind::Stream => "stream",
            QueueKind::Delayed => "delayed",
        }
    }
}

/// One stage, as measured so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTimes {
    /// Which stage.
    pub stage: Stage,
    /// In which kind of queue; `None` for what lies outside queues.
    pub kind: Option<QueueKind>,
    /// Nanoseconds.
    pub times: Snapshot,
}

/// The point on the clock at which something began, nanoseconds. 0 stands for one that nobody measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Began(u64);

/// Whether stages are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageTiming {
    /// Always, as a server does.
    #[default]
    On,
    /// Never: to see what measuring costs.
    Off,
}

/// All stages of a node.
pub struct Stages {
    clock: Arc<dyn Clock>,
    timing: StageTiming,
    of_node: [Histogram; Stage::ALL.len()],
    of_queues: [[Histogram; Stage::ALL.len()]; QueueKind::ALL.len()],
}

impl Stages {
    /// Nothing measured yet.
    pub(crate) fn new(clock: Arc<dyn Clock>, timing: StageTiming) -> Stages {
        Stages { clock, timing, of_node: Default::default(), of_queues: Default::default() }
    }

    /// Something begins now.
    #[inline]
    #[must_use]
    pub fn begin(&self) -> Began {
        match self.timing {
            StageTiming::On => Began(self.clock.now().0),
            StageTiming::Off => Began::default(),
        }
    }

    /// A stage outside queues ends now. Nothing is recorded of what nobody began to measure.
    #[inline]
    pub fn end(&self, stage: Stage, began: Began) {
        if began != Began::default() {
            self.record(stage, self.elapsed_ns(began));
        }
    }

    /// A stage outside queues has taken this long, nanoseconds.
    #[inline]
    pub fn record(&self, stage: Stage, ns: u64) {
        if self.timing == StageTiming::On {
            self.of_node[stage as usize].record(ns);
        }
    }

    /// A stage in a queue ends now. Nothing is recorded of what nobody began to measure.
    #[inline]
    pub fn end_in(&self, kind: QueueKind, stage: Stage, began: Began) {
        if began != Began::default() {
            self.record_in(kind, stage, self.elapsed_ns(began));
        }
    }

    /// A stage in a queue has taken this long, nanoseconds.
    #[inline]
    pub(crate) fn record_in(&self, kind: QueueKind, stage: Stage, ns: u64) {
        if self.timing == StageTiming::On {
            self.of_queues[kind as usize][stage as usize].record(ns);
        }
    }

    /// The clock that everything is measured with, nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now().0
    }

    #[inline]
    fn elapsed_ns(&self, began: Began) -> u64 {
        self.clock.now().0.saturating_sub(began.0)
    }

    /// Everything measured so far, in the order of a message's way. Kinds of queues without any measurement are left out.
    #[must_use]
    pub fn snapshot(&self) -> Vec<StageTimes> {
        let mut all = Vec::new();
        for stage in Stage::ALL {
            if !stage.is_of_queues() {
                all.push(StageTimes { stage, kind: None, times: self.of_node[stage as usize].snapshot() });
            }
            for kind in QueueKind::ALL {
                let times = self.of_queues[kind as usize][stage as usize].snapshot();
                let is_always = kind == QueueKind::Classic && stage.is_of_queues();
                if is_always || times.count() > 0 {
                    all.push(StageTimes { stage, kind: Some(kind), times });
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::SimClock;
    use std::time::Duration;

    #[test]
    fn stages_are_measured_by_kind_of_queue_and_what_nobody_began_is_not() {
        let clock = Arc::new(SimClock::new(0));
        clock.advance(Duration::from_micros(1));
        let stages = Stages::new(clock.clone(), StageTiming::On);
        let began = stages.begin();
        clock.advance(Duration::from_micros(10));
        stages.end(Stage::Parse, began);
        stages.end_in(QueueKind::Delayed, Stage::Ack, began);
        stages.end_in(QueueKind::Classic, Stage::Ack, Began::default());
        let seen = stages.snapshot();
        let find = |stage, kind| {
            let found = seen.iter().find(|it| it.stage == stage && it.kind == kind);
            found.map(|it| (it.times.count(), it.times.sum()))
        };
        assert_eq!(find(Stage::Parse, None), Some((1, 10_000)));
        assert_eq!(find(Stage::Ack, Some(QueueKind::Delayed)), Some((1, 10_000)));
        assert_eq!(find(Stage::Ack, Some(QueueKind::Classic)), Some((0, 0)));
        assert_eq!(find(Stage::Enqueue, Some(QueueKind::Delayed)), None);
        assert_eq!(find(Stage::Fsync, Some(QueueKind::Stream)), None);
        stages.record_in(QueueKind::Stream, Stage::Fsync, 7);
        let seen = stages.snapshot();
        let syncs = seen.iter().filter(|it| it.stage == Stage::Fsync).map(|it| (it.kind, it.times.sum()));
        assert_eq!(syncs.collect::<Vec<_>>(), [(None, 0), (Some(QueueKind::Stream), 7)]);
    }

    #[test]
    fn stages_that_are_off_ask_no_clock_and_record_nothing() {
        struct NoClock;
        impl Clock for NoClock {
            fn now(&self) -> platform::Monotonic {
                unreachable!("nobody measures")
            }
            fn wall_ms(&self) -> u64 {
                unreachable!("nobody measures")
            }
        }
        let stages = Stages::new(Arc::new(NoClock), StageTiming::Off);
        stages.end(Stage::Parse, stages.begin());
        stages.end_in(QueueKind::Classic, Stage::Ack, stages.begin());
        stages.record(Stage::Write, 1);
        assert!(stages.snapshot().iter().all(|it| it.times.count() == 0));
    }
}
