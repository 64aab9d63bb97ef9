//! Waiters for the message log: confirms for their position to become durable, publishers for room. Refuses to know queues.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use commitlog::{DurableListener, IoFailure, Log, LogError, Position, WriteTimes};
use parking_lot::Mutex;

use crate::alarms::Alarms;
use crate::checkpointer::notes::Checkpointer;
use crate::data::batch::BatchConfirms;
use crate::log_texts::{Line, Pace, Room};
use crate::stages::{Stage, Stages};

/// A sync of the disk that takes this long is worth a line of the log.
const SLOW_SYNC_NS: u64 = 500_000_000;

/// Lines about such syncs: five at once, then one in ten seconds.
const SLOW_SYNC_PACE: Pace = Pace { lines_max: 5, line_ms: 10_000 };

/// The waiters for positions of the message log to become durable.
pub(crate) struct LogWaiters {
    confirms: Mutex<BinaryHeap<Reverse<ByPosition>>>,
    /// Publishers that wait for the log or the segments to take more.
    pressed: Mutex<Vec<Waker>>,
    /// Queues whose dead letters wait until the disk alarm clears.
    letters: Mutex<Vec<Waker>>,
    failed: AtomicBool,
    /// Threads that are telling the waiters.
    telling: AtomicUsize,
    checkpointer: Checkpointer,
    alarms: Arc<Alarms>,
    stages: Arc<Stages>,
    slow_syncs: Mutex<Room>,
}

struct ByPosition {
    position: u64,
    confirms: Arc<BatchConfirms>,
}

impl PartialEq for ByPosition {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position
    }
}

impl Eq for ByPosition {}

impl PartialOrd for ByPosition {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByPosition {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.position.cmp(&other.position)
    }
}

impl LogWaiters {
    /// Nothing waits yet.
    pub(crate) fn new(checkpointer: Checkpointer, alarms: Arc<Alarms>, stages: Arc<Stages>) -> LogWaiters {
        LogWaiters {
            confirms: Mutex::default(),
            pressed: Mutex::default(),
            letters: Mutex::default(),
            failed: AtomicBool::new(false),
            telling: AtomicUsize::new(0),
            checkpointer,
            alarms,
            stages,
            slow_syncs: Mutex::default(),
        }
    }

    /// Completes the confirms as soon as their position is durable, or fails them when it never will be.
    pub(super) fn add(&self, log: &Log, confirms: &Arc<BatchConfirms>) {
        let position = confirms.position();
        self.confirms.lock().push(Reverse(ByPosition { position, confirms: confirms.clone() }));
        // The writer may have passed the position, or failed, between the caller's look and the push.
        self.settle(log.durable().0);
        self.fail_if_failed();
    }

    /// Wakes a publisher when log or segments have stored something.
    pub(super) fn add_publisher(&self, waker: Waker) {
        self.pressed.lock().push(waker);
    }

    /// Wakes a queue when the disk alarm has cleared.
    pub(super) fn add_letters(&self, waker: Waker) {
        self.letters.lock().push(waker);
    }

    /// Completes everything up to a durable position; others who are at it have ended, too, when this returns.
    pub(super) fn settle_and_wait(&self, durable: u64) {
        self.settle(durable);
        while self.telling.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
    }

    /// Completes everything up to a durable position.
    fn settle(&self, durable: u64) {
        let mut done = Vec::new();
        self.telling.fetch_add(1, Ordering::AcqRel);
        {
            let mut waiting = self.confirms.lock();
            while waiting.peek().is_some_and(|Reverse(first)| first.position <= durable) {
                done.extend(waiting.pop());
            }
        }
        for Reverse(entry) in done {
            entry.confirms.complete(&self.stages);
        }
        self.telling.fetch_sub(1, Ordering::AcqRel);
    }

    /// After a failure nobody answers for what waits: the channels are told so.
    fn fail_if_failed(&self) {
        if !self.failed.load(Ordering::Acquire) {
            return;
        }
        let waiting = std::mem::take(&mut *self.confirms.lock());
        waiting.into_iter().for_each(|Reverse(entry)| entry.confirms.fail());
    }

    /// Forgets who waits: dead letters on their way hold the services, which lead here.
    pub(super) fn abandon(&self) {
        let left = (std::mem::take(&mut *self.confirms.lock()), std::mem::take(&mut *self.pressed.lock()));
        drop((left, std::mem::take(&mut *self.letters.lock())));
    }

    #[cold]
    fn log_slow_sync(&self, sync_ns: u64) {
        let (now_ms, ms) = (self.stages.now_ns() / 1_000_000, sync_ns / 1_000_000);
        let line = self.slow_syncs.lock().take(now_ms, SLOW_SYNC_PACE);
        let more = match line {
            Line::Written { unwritten: 0 } => String::new(),
            Line::Written { unwritten } => {
                format!("; so did {unwritten} before it that are not written here")
            }
            Line::LastForNow | Line::Unwritten => return,
        };
        tracing::warn!(
            "a sync of the message log took {ms} ms: the disk is slow, and confirms wait for it{more}"
        );
    }

    pub(super) fn wake_letters(&self) {
        let letters = std::mem::take(&mut *self.letters.lock());
        letters.into_iter().for_each(Waker::wake);
    }

    pub(super) fn wake_pressed(&self) {
        let pressed = std::mem::take(&mut *self.pressed.lock());
        pressed.into_iter().for_each(Waker::wake);
    }
}

impl DurableListener for LogWaiters {
    fn durable(&self, up_to: Position) {
        self.settle(up_to.0);
        self.wake_pressed();
    }

    fn now_ns(&self) -> u64 {
        self.stages.now_ns()
    }

    fn wrote(&self, took: WriteTimes) {
        self.stages.record(Stage::Log, took.write_ns);
        if let Some(sync_ns) = took.sync_ns {
            self.stages.record(Stage::Fsync, sync_ns);
            if sync_ns >= SLOW_SYNC_NS {
                self.log_slow_sync(sync_ns);
            }
        }
    }

    fn file_sealed(&self, up_to: Position) {
        self.checkpointer.sealed(up_to.0);
    }

    fn waits_for_room(&self, failure: &IoFailure) {
        tracing::error!(%failure, "the disk is full: persistent messages and their confirms wait for room");
        self.alarms.log_waits();
    }

    fn makes_room(&self) -> bool {
        self.alarms.make_room()
    }

    fn goes_on(&self) {
        tracing::info!("there was room for the message log again");
        self.alarms.log_goes_on();
    }

    fn waits_for_names(&self, waited: Duration) {
        tracing::error!(
            seconds = waited.as_secs(),
            "a sync of the metadata log does not end: persistent messages for queues that were declared just before, and their confirms, \
             wait for it"
        );
    }

    fn failed(&self, error: &LogError) {
        if matches!(error, LogError::Io(failure) if failure.is_out_of_room()) {
            tracing::warn!(%error, "stopped while the disk was full; messages that waited for room were not confirmed and are gone");
            return;
        }
        tracing::error!(%error, "the message log has failed; nothing persistent is accepted any more, restart the node once the disk is healthy");
        self.alarms.storage_failed(&error.to_string());
        self.failed.store(true, Ordering::Release);
        self.fail_if_failed();
        self.wake_pressed();
    }
}
