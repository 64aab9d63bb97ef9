//! The writer: takes what has gathered, one write, one sync, tells of it, starts again. Knows nothing of appenders.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::Disk;

use super::SyncPolicy;
use super::file::{ActiveFile, FileRules};
use super::format::seal_batch;
use super::shared::{Mode, Shared};
use crate::bytes::offset_of;
use crate::{IoFailure, Position};

/// What one step of a writer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wrote what had gathered, or made a sync that was asked for.
    Worked,
    /// There was nothing to do.
    Idle,
    /// The log is closed or has failed; no step will do anything again.
    Ended,
}

/// What the writer has to do next.
enum Task {
    Write { first: Position, sync: SyncPolicy },
    Close,
    Wait,
    End,
}

/// The writing side of a log. [`crate::Log::open`] runs it on a thread; [`crate::Log::open_driven`] leaves it to the caller,
/// so that a simulation decides when which write happens.
pub struct LogWriter {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: ActiveFile,
    /// What is being written; swapped with the appenders' buffer.
    batch: Vec<u8>,
}

impl LogWriter {
    pub(super) fn new(shared: Arc<Shared>, disk: Arc<dyn Disk>, dir: PathBuf, file: ActiveFile) -> Self {
        Self { shared, disk, dir, file, batch: Vec::new() }
    }

    /// Does what there is to do now, without waiting.
    pub fn step(&mut self) -> Step {
        let task = self.next_task();
        self.perform(&task)
    }

    /// Works until the log is closed or fails.
    pub(super) fn run(&mut self) {
        loop {
            let task = self.next_task();
            match self.perform(&task) {
                Step::Worked => {}
                Step::Idle => self.sleep(),
                Step::Ended => return,
            }
        }
    }

    /// Waits until there may be something to do.
    fn sleep(&self) {
        let mut pending = self.shared.pending.lock();
        while pending.bytes.is_empty() && !pending.sync_wanted && matches!(pending.mode, Mode::Open) {
            pending.writer_idle = true;
            self.shared.work.wait(&mut pending);
        }
        pending.writer_idle = false;
    }

    fn next_task(&mut self) -> Task {
        let mut pending = self.shared.pending.lock();
        if matches!(pending.mode, Mode::Closed | Mode::Failed(_)) {
            return Task::End;
        }
        if pending.bytes.is_empty() && !pending.sync_wanted {
            return if matches!(pending.mode, Mode::Closing) { Task::Close } else { Task::Wait };
        }
        let asked = std::mem::take(&mut pending.sync_wanted);
        let sync = if asked { SyncPolicy::Fsync } else { self.shared.options.sync };
        Task::Write { first: pending.swap(&mut self.batch), sync }
    }

    fn perform(&mut self, task: &Task) -> Step {
        let result = match task {
            Task::Wait => return Step::Idle,
            Task::End => return Step::Ended,
            Task::Write { first, sync } => self.write(*first, *sync),
            Task::Close => self.close(),
        };
        match (result, task) {
            (Ok(()), Task::Close) => Step::Ended,
            (Ok(()), _) => Step::Worked,
            (Err(failure), _) => {
                self.shared.fail(failure);
                Step::Ended
            }
        }
    }

    /// One write and, as `sync` says, one sync.
    fn write(&mut self, first: Position, sync: SyncPolicy) -> Result<(), IoFailure> {
        let bytes = offset_of(self.batch.len());
        let end = first.plus(bytes);
        if bytes > 0 {
            seal_batch(&mut self.batch, first);
            if self.file.is_full_for(bytes) {
                self.roll(first)?;
            }
            self.file.write(&self.batch)?;
        }
        if sync == SyncPolicy::Fsync {
            self.file.sync()?;
        }
        self.publish(end, sync);
        Ok(())
    }

    /// Seals the file and begins the next at `first`.
    fn roll(&mut self, first: Position) -> Result<(), IoFailure> {
        self.file.seal()?;
        let sealed = self.file.listed();
        assert_eq!(sealed.end, first, "a file ends where the next begins");
        let rules = FileRules::of(&self.shared.options);
        self.file = ActiveFile::create(&*self.disk, &self.dir, first, rules)?;
        {
            let mut files = self.shared.files.lock();
            let last = files.back_mut().expect("the file being written is listed");
            assert_eq!(last.first, sealed.first, "the file being written is the last one");
            *last = sealed;
            files.push_back(self.file.listed());
        }
        self.shared.listener.tell(|listener| listener.file_sealed(first));
        Ok(())
    }

    fn close(&mut self) -> Result<(), IoFailure> {
        self.file.seal()?;
        let end = self.file.listed().end;
        self.publish(end, SyncPolicy::Fsync);
        self.shared.pending.lock().mode = Mode::Closed;
        self.shared.settled.notify_all();
        Ok(())
    }

    /// Tells everyone that all up to `end` is durable.
    fn publish(&self, end: Position, sync: SyncPolicy) {
        let before = self.shared.durable.swap(end.0, Ordering::AcqRel);
        assert!(before <= end.0, "the durable position never goes back");
        if sync == SyncPolicy::Fsync {
            self.shared.synced.store(end.0, Ordering::Release);
        }
        if before < end.0 {
            self.shared.listener.tell(|listener| listener.durable(end));
        }
        // Taking the lock between the stores and the wake-up lets no barrier fall asleep after having seen the old values.
        drop(self.shared.pending.lock());
        self.shared.settled.notify_all();
    }
}
