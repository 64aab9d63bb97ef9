//! The handle that callers hold: append, ask, wait, drop old files, close. Knows nothing of what records mean.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use platform::{Disk, thread};

use super::file::{ActiveFile, FileRules, SealedFile};
use super::kept::{Afterlife, find_kept, kept_path};
use super::manifest::{Held, Manifest};
use super::names::{NAMED_STREAMS_END, Names};
use super::records::{LentBytes, Records};
use super::recovery::recover;
use super::shared::{Mode, Pending, Shared};
use super::{DurableListener, LogError, LogOptions, LogWriter, Recovered, SyncPolicy};
use crate::bytes::offset_of;
use crate::{IoFailure, Position};

/// The waiter for a record to be durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Somebody,
    Nobody,
}

/// One append-only log: a directory and a writer thread. Share it between threads; every method takes `&self`.
pub struct Log {
    pub(super) shared: Arc<Shared>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// One caller at a time drops files, and nobody after a failure: which removals are durable is unknown then, and
    /// removing more could leave an older file behind a gap.
    pub(super) dropping: Mutex<Result<(), IoFailure>>,
}

impl Log {
    /// Opens or creates the log in `dir` and starts its writer thread. The end of an unfinished write is cut off the newest
    /// file. New records go to a new file; [`Recovered`] reads the old ones.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Gap`], [`LogError::BeginningMissing`], [`LogError::EndMissing`], [`LogError::Manifest`] and
    /// [`LogError::Version`] when the bytes there cannot be the written ones, [`LogError::Io`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<(Self, Recovered), LogError> {
        let (log, writer, recovered) = Self::open_driven(disk, dir, options)?;
        log.start(writer)?;
        Ok((log, recovered))
    }

    /// Starts the thread that runs the writer which [`Self::open_driven`] returned with this log.
    ///
    /// # Errors
    /// [`LogError::Io`] when the operating system refuses a thread.
    pub fn start(&self, mut writer: LogWriter) -> Result<(), LogError> {
        let name = self.dir.file_name().and_then(|name| name.to_str()).unwrap_or("log");
        let handle = thread::spawn_or_abort(&format!("log-{name}"), move || writer.run())
            .map_err(IoFailure::of("start the writer of", &self.dir))?;
        *self.writer.lock() = Some(handle);
        Ok(())
    }

    /// As [`Self::open`], but nothing is written until the caller calls [`LogWriter::step`]. [`Self::sync_barrier`] and
    /// [`Self::close`] then wait for steps made by another thread.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_driven(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
    ) -> Result<(Self, LogWriter, Recovered), LogError> {
        disk.create_dir_all(dir).map_err(IoFailure::of("create", dir))?;
        let (recovered, mut files) = recover(&disk, dir)?;
        let end = recovered.end();
        let file = ActiveFile::create(&*disk, dir, end, FileRules::of(&options))?;
        // A newest file without records has just been replaced.
        if files.last().is_some_and(|last| last.first == end) {
            files.pop();
        }
        files.push(file.listed());
        let held = Held { oldest: files[0].first, newest: end, end };
        let manifest = Manifest::create(&*disk, dir, held)?;
        let kept = find_kept(&*disk, dir)?;
        let shared = Arc::new(Shared::new(options, end, files, kept, manifest));
        let writer = LogWriter::new(shared.clone(), disk.clone(), dir.to_owned(), file);
        let dir = dir.to_owned();
        let log = Self { shared, disk, dir, writer: Mutex::new(None), dropping: Mutex::new(Ok(())) };
        Ok((log, writer, recovered))
    }

    /// Sets the listener that is told of progress, in place of the former one. Earlier progress is not told again: read
    /// [`Self::durable`] after this call. A listener set after the failure is told of it at once.
    pub fn set_listener(&self, listener: Arc<dyn DurableListener>) {
        self.shared.listener.set(Some(listener));
    }

    /// The streams that records of this log name, for [`Self::write_after`] of another. All below `streams_end` are named by what is
    /// synced now.
    pub fn names(&self, streams_end: u64) -> Arc<Names> {
        Arc::new(Names::new(self.shared.clone(), streams_end))
    }

    /// From now on a record of a stream below [`NAMED_STREAMS_END`] is not written, not even to the operating system, before the record
    /// that names the stream is synced. The policy of this log does not matter. If that fails, this log fails, too. The first call counts.
    pub fn write_after(&self, names: Arc<Names>) {
        let _is_first = self.shared.names.set(names);
    }

    /// Appends a record whose payload `write` appends to the buffer it is given, at most
    /// [`crate::PAYLOAD_BYTES_MAX`] bytes. Never waits for the disk: the record is durable once [`Self::durable`] has
    /// reached the position returned. Records are ordered as the calls are.
    ///
    /// `write` runs under the log's lock: it must be short and must not call the log.
    ///
    /// When the log has failed or is closed, `write` is not called and [`Position::NEVER`] is returned.
    ///
    /// # Panics
    /// When `write` removes bytes that were there before, or writes too many.
    pub fn append(&self, stream: u64, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Position {
        self.append_as(Waiting::Somebody, stream, |records| records.push(stream, kind, write))
    }

    /// As [`Self::append`], for a record whose durability nobody waits for: it is written with the next record that somebody
    /// waits for, at the latest after [`UNAWAITED_DELAY_MAX`](super::UNAWAITED_DELAY_MAX). So it costs no sync of its own, and
    /// nobody has to wait until such a sync is over.
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn append_unawaited(&self, stream: u64, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Position {
        self.append_as(Waiting::Nobody, stream, |records| records.push(stream, kind, write))
    }

    /// As [`Self::append`], of a payload that ends with bytes that are not copied: the log keeps them until they are written.
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn append_lent(
        &self,
        stream: u64,
        kind: u8,
        write: impl FnOnce(&mut Vec<u8>),
        bytes: Arc<dyn LentBytes>,
    ) -> Position {
        self.append_as(Waiting::Somebody, stream, |records| records.push_lent(stream, kind, write, bytes))
    }

    fn append_as(&self, waiting: Waiting, stream: u64, push: impl FnOnce(&mut Records)) -> Position {
        let mut pending = self.shared.pending.lock();
        if !matches!(pending.mode, Mode::Open) {
            return Position::NEVER;
        }
        push(&mut pending.records);
        if stream < NAMED_STREAMS_END {
            pending.newest_stream = pending.newest_stream.max(stream);
        }
        pending.awaited |= waiting == Waiting::Somebody;
        let end = pending.end();
        self.shared.end.store(end.0, Ordering::Release);
        self.release_and_wake(pending);
        end
    }

    /// Unlocks, and wakes the writer if it sleeps.
    fn release_and_wake(&self, mut pending: parking_lot::MutexGuard<'_, Pending>) {
        let wake = pending.must_wake();
        drop(pending);
        if wake {
            self.shared.work.notify_one();
        }
    }

    /// Everything up to here is durable, as the sync policy understands it. Never goes back.
    pub fn durable(&self) -> Position {
        self.shared.durable()
    }

    /// The end of the last record appended; after a failure, of the last durable one.
    pub fn end(&self) -> Position {
        Position(self.shared.end.load(Ordering::Acquire))
    }

    /// Once this is durable, everything appended so far is: [`Position::NEVER`] when the log has failed or is closed, because
    /// what was appended last, or was to be, may be lost then.
    pub fn goal(&self) -> Position {
        let pending = self.shared.pending.lock();
        if matches!(pending.mode, Mode::Open | Mode::Closing) { pending.end() } else { Position::NEVER }
    }

    /// As many bytes a file may have before the next is begun.
    pub fn file_bytes_max(&self) -> u64 {
        self.shared.file_bytes_max.load(Ordering::Relaxed)
    }

    /// From now on files have no more bytes than this, nor more than [`super::LogOptions::file_bytes_max`]. Where room is scarce, small ones can
    /// go sooner.
    pub fn limit_files(&self, bytes_max: u64) {
        let bytes_max = bytes_max.min(self.shared.options.file_bytes_max);
        self.shared.file_bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes appended but not yet durable.
    pub fn pending_bytes(&self) -> u64 {
        let durable = self.durable();
        self.end().0.saturating_sub(durable.0)
    }

    /// Bytes of memory that records gather in, and that are kept for it.
    pub fn buffer_bytes(&self) -> u64 {
        offset_of(self.shared.pending.lock().buffer_bytes())
    }

    /// Whether more is pending than `LogOptions::pending_bytes_max`: callers should stop taking work in until it is not.
    pub fn over_bound(&self) -> bool {
        self.pending_bytes() > self.shared.options.pending_bytes_max
    }

    /// Why the log has failed; `None` while it works.
    pub fn failure(&self) -> Option<IoFailure> {
        match &self.shared.pending.lock().mode {
            Mode::Failed(failure) => Some(failure.clone()),
            _ => None,
        }
    }

    /// Why the latest write has to be tried again; `None` while there is room.
    pub fn waits_for_room(&self) -> Option<IoFailure> {
        self.shared.pending.lock().no_room.clone()
    }

    /// Waits until everything appended before this call is synced to the disk, whatever the policy, and returns up to where.
    /// Not to be called on the writer thread (from a listener).
    ///
    /// # Errors
    /// [`LogError::WaitsForRoom`] when that may take until somebody makes room, [`LogError::Poisoned`] when the log fails before that, [`LogError::Closed`] when it is closed.
    pub fn sync_barrier(&self) -> Result<Position, LogError> {
        let mut pending = self.shared.pending.lock();
        let goal = self.want_sync(&mut pending);
        while !self.has_synced(&pending, goal)? {
            self.shared.settled.wait(&mut pending);
        }
        Ok(goal)
    }

    /// Asks for what [`Self::sync_barrier`] waits for: it has happened when [`Self::is_synced`] says so of the position
    /// returned.
    pub fn begin_sync(&self) -> Position {
        self.want_sync(&mut self.shared.pending.lock())
    }

    /// Whether everything up to a position is synced to the disk, whatever the policy.
    ///
    /// # Errors
    /// As [`Self::sync_barrier`].
    pub fn is_synced(&self, goal: Position) -> Result<bool, LogError> {
        self.has_synced(&self.shared.pending.lock(), goal)
    }

    /// Asks for the newest file to be sealed although it is not full, so that it can go like the others: soon, unless it has no record or
    /// there is no room for another.
    pub fn seal_soon(&self) {
        let mut pending = self.shared.pending.lock();
        pending.seal_wanted = matches!(pending.mode, Mode::Open);
        self.release_and_wake(pending);
    }

    fn want_sync(&self, pending: &mut Pending) -> Position {
        let goal = pending.end();
        if matches!(pending.mode, Mode::Open) && self.shared.synced() < goal {
            pending.sync_wanted |= self.shared.options.sync != SyncPolicy::Fsync;
            pending.awaited |= !pending.records.is_empty();
            if pending.must_wake() {
                self.shared.work.notify_one();
            }
        }
        goal
    }

    fn has_synced(&self, pending: &Pending, goal: Position) -> Result<bool, LogError> {
        match &pending.mode {
            Mode::Failed(failure) => Err(LogError::Poisoned(failure.clone())),
            _ if self.shared.synced() >= goal => Ok(true),
            Mode::Closed => Err(LogError::Closed),
            Mode::Open | Mode::Closing => match &pending.no_room {
                Some(failure) => Err(LogError::WaitsForRoom(failure.clone())),
                None => Ok(false),
            },
        }
    }

    /// Everything appended before this call, from the file on that holds the record ending at `from`, read from the disk while
    /// the log goes on. Waits for the disk as [`Self::sync_barrier`] does. No file of it may be dropped meanwhile: the caller
    /// still needs them.
    ///
    /// # Errors
    /// As [`Self::sync_barrier`].
    pub fn read_back(&self, from: Position) -> Result<Recovered, LogError> {
        let end = self.sync_barrier()?;
        let listed: Vec<SealedFile> = self.shared.files.lock().iter().cloned().collect();
        let next_first = listed.iter().skip(1).map(|next| next.first).chain([end]);
        let clipped = listed.iter().zip(next_first).map(|(file, next_first)| {
            // The end of the newest file is not kept up to date.
            SealedFile { end: next_first.min(end), ..file.clone() }
        });
        let unread = clipped.filter(|file| file.end > file.first && file.end >= from).collect();
        Ok(Recovered::of_files(self.disk.clone(), unread, end))
    }

    /// Removes the files all of whose records end at or before `position`, oldest first, and returns how many. The newest
    /// file always stays. Waits for the disk: not for hot paths. After a power cut right afterwards removed files may be there
    /// again.
    ///
    /// # Errors
    /// [`LogError::Io`], and the same from then on: files pile up until the log is opened anew.
    pub fn drop_files_below(&self, position: Position) -> Result<usize, LogError> {
        self.retire_files_below(position, |_| Afterlife::None)
    }

    /// As [`Self::drop_files_below`], but a file goes only if `afterlife` of its positions says so; otherwise it becomes a kept file,
    /// which is no part of the log. Returns how many files are no part of it any more.
    ///
    /// # Errors
    /// As [`Self::drop_files_below`].
    pub fn retire_files_below(
        &self,
        position: Position,
        afterlife: impl Fn(Range<u64>) -> Afterlife,
    ) -> Result<usize, LogError> {
        let mut usable = self.dropping.lock();
        usable.clone()?;
        let mut dropped = 0;
        loop {
            let oldest = {
                let files = self.shared.files.lock();
                files.front().filter(|file| files.len() > 1 && file.end <= position).cloned()
            };
            let Some(oldest) = oldest else { return Ok(dropped) };
            // First what says that the file must be there, then the file.
            let told = self.shared.manifest.lock().update(|held| held.oldest = oldest.end);
            let afterlife = afterlife(oldest.first.0..oldest.end.0);
            if let Err(failure) = told.and_then(|()| self.retire_durably(&oldest, afterlife)) {
                *usable = Err(failure.clone());
                return Err(failure.into());
            }
            self.shared.files.lock().pop_front();
            dropped += 1;
        }
    }

    /// Removes or renames one file and syncs that, so that a power cut cannot bring back a file older than one that stays gone.
    fn retire_durably(&self, file: &SealedFile, afterlife: Afterlife) -> Result<(), IoFailure> {
        match afterlife {
            Afterlife::None => self.disk.remove(&file.path).map_err(IoFailure::of("remove", &file.path))?,
            Afterlife::Kept => {
                let path = kept_path(&self.dir, file.first);
                self.disk.rename(&file.path, &path).map_err(IoFailure::of("rename", &file.path))?;
                let mut kept = self.shared.kept.lock();
                kept.retain(|known| known.first != file.first);
                let at = kept.partition_point(|known| known.first < file.first);
                kept.insert(at, SealedFile { path, ..file.clone() });
            }
        }
        self.disk.sync_dir(&self.dir).map_err(IoFailure::of("sync", &self.dir))
    }

    /// Where the oldest kept file begins, and how many files there are.
    pub fn kept(&self) -> (Position, usize) {
        let files = self.shared.files.lock();
        (files.front().map_or(Position(0), |file| file.first), files.len())
    }

    /// Writes and syncs what was appended, ends the writer and lets go of the listener. A write that finds no room is tried
    /// once more and then given up. Later appends return [`Position::NEVER`]. Calling it again does nothing. Dropping the log closes it too, without a word on errors.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when not everything could be made durable.
    pub fn close(&self) -> Result<(), LogError> {
        {
            let mut pending = self.shared.pending.lock();
            if matches!(pending.mode, Mode::Open) {
                pending.mode = Mode::Closing;
            }
            drop(pending);
            // Whatever it does: it may also wait for room.
            self.shared.work.notify_one();
        }
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            if writer.thread().id() == std::thread::current().id() {
                // A listener held the last handle: the writer closes the log as soon as it is back in its loop.
                return Ok(());
            }
            let joined = writer.join();
            assert!(joined.is_ok(), "a panic of the writer ends the process");
        }
        let mut pending = self.shared.pending.lock();
        while matches!(pending.mode, Mode::Closing) {
            self.shared.settled.wait(&mut pending);
        }
        let failure = match &pending.mode {
            Mode::Failed(failure) => Some(failure.clone()),
            _ => None,
        };
        drop(pending);
        self.shared.listener.set(None);
        failure.map_or(Ok(()), |failure| Err(LogError::Poisoned(failure)))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A driven log has nobody left to make the steps that `close` would wait for.
        if self.writer.lock().is_some() {
            let _already_told_to_the_listener = self.close();
        }
        // Another log may know this one, and the listener may know that log.
        self.shared.listener.set(None);
    }
}
