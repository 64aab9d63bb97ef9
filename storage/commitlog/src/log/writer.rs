//! The writer: takes what has gathered, one write, one sync, tells of it, starts again. Knows nothing of appenders.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use platform::Disk;

use super::SyncPolicy;
use super::file::{ActiveFile, FileRules};
use super::listener::WriteTimes;
use super::names::{Names, Naming};
use super::records::Records;
use super::shared::{Mode, Pending, Shared, WriterIs};
use crate::bytes::offset_of;
use crate::{IoFailure, Position};

/// How long the thread waits before it tries a write again that found no room.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How long a record that nobody waits for may wait for one that somebody waits for, to be written with it.
pub const UNAWAITED_DELAY_MAX: Duration = Duration::from_millis(10);
/// For how long a write waits for another log before somebody is told.
const NAMES_PATIENCE: Duration = Duration::from_secs(5);
/// After so long without work the writer gives up large buffers.
const REST_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of one step of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wrote what had gathered, or made a sync that was asked for.
    Worked,
    /// There was nothing to do.
    Idle,
    /// There was no room for what has gathered, or for what another log has to write first; the next step tries again. Worked
    /// is said instead when the listener has made room: it tries again, too.
    WaitsForRoom,
    /// Another log has to sync something first, see [`crate::Log::write_after`]; the next step looks again.
    WaitsForNames,
    /// The log is closed or has failed; no step will do anything again.
    Ended,
}

/// The next task of the writer.
enum Task {
    Write(Write),
    Close,
    Wait,
    End,
}

/// One write.
#[derive(Clone, Copy)]
struct Write {
    first: Position,
    sync: SyncPolicy,
    /// It begins a file, if there is room for one.
    seals: bool,
    /// The highest stream in it that needs a name.
    newest_stream: u64,
}

/// The writing side of a log. [`crate::Log::open`] runs it on a thread; [`crate::Log::open_driven`] leaves it to the caller,
/// so that a simulation decides when which write happens.
pub struct LogWriter {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: ActiveFile,
    /// The records that are being written; swapped with the appenders' buffer.
    batch: Records,
    /// The batch has still to be written: there was no room, or another log is not so far.
    unwritten: Option<Write>,
}

impl LogWriter {
    pub(super) fn new(shared: Arc<Shared>, disk: Arc<dyn Disk>, dir: PathBuf, file: ActiveFile) -> Self {
        Self { shared, disk, dir, file, batch: Records::default(), unwritten: None }
    }

    /// Does what there is to do now, without waiting.
    pub fn step(&mut self) -> Step {
        let task = self.next_task();
        self.perform(&task)
    }

    /// Works until the log is closed or fails.
    pub(super) fn run(&mut self) {
        loop {
            self.await_work();
            let task = self.next_task();
            match self.perform(&task) {
                Step::Worked | Step::Idle => {}
                Step::WaitsForRoom => self.pause(),
                Step::WaitsForNames => self.await_names(),
                Step::Ended => return,
            }
        }
    }

    /// Waits until there is something to do: at once if somebody waits for it, and a moment after it came if nobody does.
    fn await_work(&mut self) {
        if self.unwritten.is_some() {
            return;
        }
        let work = &self.shared.work;
        let mut pending = self.shared.pending.lock();
        if !pending.is_urgent() {
            // With something there or not: records that come in this time need not wake anybody.
            pending.writer = WriterIs::Resting;
            work.wait_while_for(&mut pending, |pending| !pending.is_urgent(), UNAWAITED_DELAY_MAX);
        }
        if !pending.is_urgent() && pending.records.is_empty() {
            pending.writer = WriterIs::Asleep;
            let is_idle = |pending: &mut Pending| !pending.is_urgent() && pending.records.is_empty();
            let is_rush_over = pending.keeps_much(&self.batch)
                && work.wait_while_for(&mut pending, is_idle, REST_INTERVAL).timed_out();
            if is_rush_over && is_idle(&mut pending) {
                let old = pending.begin_small(&mut self.batch);
                parking_lot::MutexGuard::unlocked(&mut pending, || drop(old));
            }
            work.wait_while(&mut pending, is_idle);
            pending.writer = WriterIs::Resting;
            work.wait_while_for(&mut pending, |pending| !pending.is_urgent(), UNAWAITED_DELAY_MAX);
        }
        pending.writer = WriterIs::Busy;
    }

    /// Waits before a write is tried again, unless the log is to be closed.
    fn pause(&self) {
        let mut pending = self.shared.pending.lock();
        if matches!(pending.mode, Mode::Open) {
            // The appenders need not wake it: their records have to wait too.
            self.shared.work.wait_for(&mut pending, ROOM_RETRY_INTERVAL);
        }
    }

    /// Waits until the other log has named what is to be written, or never will.
    fn await_names(&self) {
        let Some((names, position)) = self.unwritten.as_ref().and_then(|write| self.names_before(write))
        else {
            return;
        };
        if !names.wait(position, NAMES_PATIENCE) {
            self.shared.listener.tell(|listener| listener.waits_for_names(NAMES_PATIENCE));
            while !names.wait(position, NAMES_PATIENCE) {}
        }
    }

    /// The position that another log must have synced before a write.
    fn names_before(&self, write: &Write) -> Option<(&Arc<Names>, Position)> {
        let names = self.shared.names.get()?;
        Some((names, names.awaited(write.newest_stream)?))
    }

    fn next_task(&mut self) -> Task {
        let mut pending = self.shared.pending.lock();
        if matches!(pending.mode, Mode::Closed | Mode::Failed(_)) {
            return Task::End;
        }
        if let Some(write) = self.unwritten {
            return Task::Write(write);
        }
        if pending.records.is_empty() && !pending.sync_wanted && !pending.seal_wanted {
            return if matches!(pending.mode, Mode::Closing) { Task::Close } else { Task::Wait };
        }
        let asked = std::mem::take(&mut pending.sync_wanted);
        let sync = if asked { SyncPolicy::Fsync } else { self.shared.options.sync };
        let seals = std::mem::take(&mut pending.seal_wanted);
        let (first, newest_stream) = pending.swap(&mut self.batch);
        drop(pending);
        self.batch.seal(first);
        Task::Write(Write { first, sync, seals, newest_stream })
    }

    fn perform(&mut self, task: &Task) -> Step {
        let result = match task {
            Task::Wait => return Step::Idle,
            Task::End => return Step::Ended,
            Task::Write(write) => match self.naming(write) {
                Naming::Synced => self.write(write),
                Naming::Waits => {
                    self.unwritten = Some(*write);
                    return Step::WaitsForNames;
                }
                Naming::NoRoom(failure) | Naming::Never(failure) => Err(failure),
            },
            Task::Close => self.close(),
        };
        match (result, task) {
            (Ok(()), Task::Close) => Step::Ended,
            (Ok(()), _) => {
                if self.unwritten.take().is_some() {
                    self.shared.go_on();
                }
                self.shared.give_up_huge(&mut self.batch);
                Step::Worked
            }
            (Err(failure), Task::Write(write)) if self.may_wait(&failure) => {
                self.unwritten = Some(*write);
                if self.shared.wait_for_room(&failure) { Step::Worked } else { Step::WaitsForRoom }
            }
            (Err(failure), _) => {
                if failure.is_out_of_room() {
                    self.cut_unwritten();
                }
                self.shared.fail(failure);
                Step::Ended
            }
        }
    }

    /// Whether all streams in a write are named.
    fn naming(&self, write: &Write) -> Naming {
        self.names_before(write).map_or(Naming::Synced, |(names, position)| names.look(position))
    }

    /// Whether a failed write is tried again: nothing of it counts yet, and the same bytes go to the same place. Not when the
    /// log is being closed, or that would last until somebody makes room.
    fn may_wait(&self, failure: &IoFailure) -> bool {
        failure.is_out_of_room() && matches!(self.shared.pending.lock().mode, Mode::Open)
    }

    /// One write and, as `sync` says, one sync.
    fn write(&mut self, &Write { first, sync, seals, .. }: &Write) -> Result<(), IoFailure> {
        let bytes = offset_of(self.batch.len());
        let end = first.plus(bytes);
        let began_ns = self.shared.listener.now_ns();
        let file_bytes_max = self.shared.file_bytes_max.load(Ordering::Relaxed);
        if bytes > 0 && self.file.is_full_for(bytes, file_bytes_max) {
            self.roll(first)?;
        } else if seals && self.file.has_records() {
            // Nobody needs it: the next records may fit where there is no room for a file.
            self.roll(first)
                .or_else(|failure| if failure.is_out_of_room() { Ok(()) } else { Err(failure) })?;
        }
        if bytes > 0 {
            self.file.write(&self.batch)?;
        }
        let written_ns = self.shared.listener.now_ns();
        let mut took = WriteTimes { write_ns: written_ns.saturating_sub(began_ns), sync_ns: None };
        if sync == SyncPolicy::Fsync {
            self.file.sync()?;
            took.sync_ns = Some(self.shared.listener.now_ns().saturating_sub(written_ns));
        }
        self.shared.listener.tell(|listener| listener.wrote(took));
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
        self.note_end(first, first)
    }

    /// Writes down what from now on must be there. Without room for it the manifest goes on saying less.
    fn note_end(&self, newest: Position, end: Position) -> Result<(), IoFailure> {
        let told = self.shared.manifest.lock().update(|held| (held.newest, held.end) = (newest, end));
        told.or_else(|failure| if failure.is_out_of_room() { Ok(()) } else { Err(failure) })
    }

    fn close(&mut self) -> Result<(), IoFailure> {
        self.file.seal()?;
        let last = self.file.listed();
        let end = last.end;
        self.note_end(last.first, end)?;
        self.publish(end, SyncPolicy::Fsync);
        self.shared.pending.lock().mode = Mode::Closed;
        self.shared.settled.notify_all();
        Ok(())
    }

    /// Cuts off the bytes at the end of the file of a write that found no room: nobody was told of them, and a later reader of the log cannot
    /// know that. It is as after a crash if this fails, too.
    fn cut_unwritten(&mut self) {
        let sealed = self.file.seal();
        let _as_after_a_crash = sealed.and_then(|()| {
            let last = self.file.listed();
            self.note_end(last.first, last.end)
        });
    }

    /// Tells everyone that all up to `end` is durable.
    fn publish(&self, end: Position, sync: SyncPolicy) {
        let before = self.shared.durable.swap(end.0, Ordering::AcqRel);
        assert!(before <= end.0, "the durable position never goes back");
        if sync == SyncPolicy::Fsync {
            self.shared.synced.store(end.0, Ordering::Release);
        }
        // Taking the lock between the stores and the wake-up lets no barrier fall asleep after having seen the old values. Another log
        // may wait: it need not wait for all who are told here.
        drop(self.shared.pending.lock());
        self.shared.settled.notify_all();
        if before < end.0 {
            self.shared.listener.tell(|listener| listener.durable(end));
        }
    }
}
