//! All streams of a node: which there are, the threads that write and read for them, and time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{Clock, Disk, DiskFile, profile, thread};

use crate::error::StreamError;
use crate::format::{FOLDER_COUNT, folder_at, parse_name};
use crate::log::{Limits, OpenedStream, StreamListener, StreamLog};
use crate::place::Place;
use crate::reader::{Asked, perform};
use crate::round::remove_file;
use crate::seek::Seek;
use crate::tail::TailBudget;

/// Between two looks at what is due without anybody asking.
const TICK_MS: u64 = 1000;
/// Between two looks at the age of files.
const RETENTION_MS: u64 = 5000;

/// Between two looks at whether a stream may be written.
const NAME_WAIT: Duration = Duration::from_micros(200);

/// Options of all streams of a node.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Whether a round is synced; else it is in the system's cache when it is committed.
    pub syncs: bool,
    /// Threads that write; 0: none, [`StreamLogs::step`] does it.
    pub writers: usize,
    /// Threads that read for readers; 0: none, [`StreamLogs::step`] does it.
    pub readers: usize,
    /// Bytes of the newest chunks in memory, of all streams.
    pub tail_bytes: usize,
}

/// State that all streams share.
pub(crate) struct Node {
    pub(crate) place: Place,
    clock: Arc<dyn Clock>,
    syncs: AtomicBool,
    pub(crate) tails: TailBudget,
    queue: Mutex<Queue>,
    work: Condvar,
    jobs: Mutex<VecDeque<Job>>,
    job: Condvar,
    is_closed: AtomicBool,
    ticked_ms: AtomicU64,
    /// Folders whose names were made durable since the start.
    settled: Mutex<HashSet<PathBuf>>,
    damages: AtomicU64,
    pub(crate) cut_tails: AtomicU64,
}

#[derive(Default)]
struct Queue {
    streams: VecDeque<Arc<StreamLog>>,
    /// To be looked at with the next tick: changes without a chunk, a disk that was full.
    later: Vec<Weak<StreamLog>>,
    /// Streams that were written and have no mark yet.
    unmarked: Vec<Weak<StreamLog>>,
    /// Streams whose limits changed, or whose age is limited.
    aging: Vec<Weak<StreamLog>>,
    retained_ms: u64,
}

/// The work that a reader needs a thread for.
pub(crate) enum Job {
    Seek { log: Arc<StreamLog>, seek: Seek, asked: Arc<Asked> },
    Read { handle: Arc<dyn DiskFile>, path: PathBuf, position: u64, block: Vec<u8>, asked: Arc<Asked> },
}

impl Node {
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// For how long something takes, nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now().0
    }

    pub(crate) fn syncs(&self) -> bool {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Makes the names durable that were in a folder at the start.
    pub(crate) fn settle_folder(&self, folder: PathBuf) -> Result<(), StreamError> {
        let mut settled = self.settled.lock();
        if !settled.contains(&folder) {
            self.place.disk.sync_dir(&folder).map_err(StreamError::io("sync", &folder))?;
            settled.insert(folder);
        }
        Ok(())
    }

    /// A stream has something to write.
    pub(crate) fn queue(&self, log: &Arc<StreamLog>) {
        if log.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        self.queue.lock().streams.push_back(log.clone());
        self.work.notify_one();
    }

    /// A stream has changes of its tracking table: written with the next tick, if not before.
    pub(crate) fn has_changes(&self, log: &Arc<StreamLog>) {
        let mut queue = self.queue.lock();
        if !queue.later.iter().any(|known| known.as_ptr() == Arc::as_ptr(log)) {
            queue.later.push(Arc::downgrade(log));
        }
    }

    /// A stream was written: a tick marks it once it rests.
    pub(crate) fn mark_later(&self, log: &Arc<StreamLog>) {
        if !log.is_to_mark.load(Ordering::Relaxed) && !log.is_to_mark.swap(true, Ordering::AcqRel) {
            self.queue.lock().unmarked.push(Arc::downgrade(log));
        }
    }

    /// Marks streams that were not written since the last tick.
    fn mark_rested(&self) {
        let unmarked = std::mem::take(&mut self.queue.lock().unmarked);
        for log in unmarked.iter().filter_map(Weak::upgrade) {
            log.is_to_mark.store(false, Ordering::Release);
            match log.mark() {
                Ok(true) | Err(StreamError::Deleted | StreamError::Failed(_)) => {}
                Ok(false) => self.mark_later(&log),
                Err(error) if error.is_full_disk() => self.mark_later(&log),
                Err(error) => self.fail(&log, &error),
            }
        }
    }

    pub(crate) fn retain_soon(&self, log: &Arc<StreamLog>) {
        let mut queue = self.queue.lock();
        if !queue.aging.iter().any(|known| known.as_ptr() == Arc::as_ptr(log)) {
            queue.aging.push(Arc::downgrade(log));
        }
        queue.retained_ms = 0;
        drop(queue);
        self.work.notify_one();
    }

    pub(crate) fn ask(&self, job: Job) {
        self.jobs.lock().push_back(job);
        self.job.notify_one();
    }

    /// A round of one stream, on a writer's thread. False: it has to wait for the owner of the stream to record it.
    fn write(&self, log: &Arc<StreamLog>) -> bool {
        let _profiled = profile::enter_queue(log.id());
        let written = log.round();
        log.is_queued.store(false, Ordering::Release);
        match written {
            // A producer that appended meanwhile found it in the queue.
            Ok(done) if log.has_work() => {
                self.queue(log);
                return done;
            }
            Ok(_) => {}
            Err(error) if error.is_full_disk() => self.has_changes(log),
            Err(error) => self.fail(log, &error),
        }
        true
    }

    fn fail(&self, log: &Arc<StreamLog>, error: &StreamError) {
        if matches!(error, StreamError::Deleted) || log.check().is_err() {
            return;
        }
        let told = StreamError::Failed(error.to_string().into());
        log.end_because(told);
        log.listener.failed(error);
    }

    /// Does the work that is due without anybody asking.
    fn tick(&self) {
        let now_ms = self.now_ms();
        let (later, aging) = {
            let mut queue = self.queue.lock();
            let later = std::mem::take(&mut queue.later);
            let is_due = now_ms.abs_diff(queue.retained_ms) >= RETENTION_MS;
            if is_due {
                queue.retained_ms = now_ms;
                queue.aging.retain(|log| log.strong_count() > 0);
            }
            (later, if is_due { queue.aging.clone() } else { Vec::new() })
        };
        later.iter().filter_map(Weak::upgrade).for_each(|log| self.queue(&log));
        self.mark_rested();
        for log in aging.iter().filter_map(Weak::upgrade) {
            match log.retain() {
                Ok(()) | Err(StreamError::Deleted | StreamError::Failed(_)) => {}
                // Room comes back, or it is tried again and again: nothing is lost.
                Err(error) if error.is_full_disk() => {}
                Err(error) => self.fail(&log, &error),
            }
        }
    }

    fn is_tick_due(&self) -> bool {
        let (now_ms, before) = (self.now_ms(), self.ticked_ms.load(Ordering::Relaxed));
        now_ms.abs_diff(before) >= TICK_MS
            && self.ticked_ms.compare_exchange(before, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn run_writer(&self) {
        loop {
            let mut queue = self.queue.lock();
            if queue.streams.is_empty() {
                if self.is_closed.load(Ordering::Acquire) {
                    return;
                }
                self.work.wait_for(&mut queue, Duration::from_millis(TICK_MS));
            }
            let next = queue.streams.pop_front();
            drop(queue);
            if next.is_some_and(|log| !self.write(&log)) {
                std::thread::sleep(NAME_WAIT);
            }
            if self.is_tick_due() {
                self.tick();
            }
        }
    }

    fn run_reader(&self) {
        loop {
            let mut jobs = self.jobs.lock();
            while jobs.is_empty() {
                if self.is_closed.load(Ordering::Acquire) {
                    return;
                }
                self.job.wait(&mut jobs);
            }
            let next = jobs.pop_front();
            drop(jobs);
            next.into_iter().for_each(perform);
        }
    }
}

/// Streams for which one more thread helps at the end.
const FINISHED_EACH: usize = 32;
/// Threads that help at the end, at most.
const FINISHERS: usize = 15;

/// The streams of a node.
pub struct StreamLogs {
    node: Arc<Node>,
    has_threads: bool,
    /// Files that were there at the start, by stream, until it is opened.
    found: Mutex<HashMap<u64, Vec<u64>>>,
    open: Mutex<HashMap<u64, Weak<StreamLog>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl StreamLogs {
    /// Lists the files in `dir`, which is created if needed, and starts the threads. Files that were begun and not finished go.
    ///
    /// # Errors
    /// The directory cannot be read, or the operating system refuses a thread.
    pub fn start(
        disk: Arc<dyn Disk>,
        dir: &Path,
        clock: Arc<dyn Clock>,
        options: StreamOptions,
    ) -> Result<Self, StreamError> {
        disk.create_dir_all(dir).map_err(StreamError::io("create", dir))?;
        let mut found: HashMap<u64, Vec<u64>> = HashMap::new();
        for folder in 0..FOLDER_COUNT {
            let folder = folder_at(dir, folder);
            let names = match disk.list(&folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                names => names.map_err(StreamError::io("list", &folder))?,
            };
            for name in names {
                if let Some((stream, first)) = parse_name(&name) {
                    found.entry(stream).or_default().push(first);
                } else if name.ends_with(".tmp") {
                    let path = folder.join(&name);
                    disk.remove(&path).map_err(StreamError::io("remove", &path))?;
                }
            }
        }
        let node = Arc::new(Node {
            place: Place { disk, dir: dir.to_owned() },
            clock,
            syncs: AtomicBool::new(options.syncs),
            tails: TailBudget::new(options.tail_bytes),
            queue: Mutex::default(),
            work: Condvar::new(),
            jobs: Mutex::default(),
            job: Condvar::new(),
            is_closed: AtomicBool::new(false),
            ticked_ms: AtomicU64::new(0),
            settled: Mutex::default(),
            damages: AtomicU64::new(0),
            cut_tails: AtomicU64::new(0),
        });
        let has_threads = options.writers > 0;
        let logs = Self {
            node,
            has_threads,
            found: Mutex::new(found),
            open: Mutex::default(),
            threads: Mutex::default(),
        };
        for nth in 0..options.writers {
            let node = logs.node.clone();
            let spawned = thread::spawn_or_abort(&format!("stream-write-{nth}"), move || node.run_writer());
            logs.threads.lock().push(spawned.map_err(StreamError::io("start a thread for", dir))?);
        }
        for nth in 0..options.readers {
            let node = logs.node.clone();
            let spawned = thread::spawn_or_abort(&format!("stream-read-{nth}"), move || node.run_reader());
            logs.threads.lock().push(spawned.map_err(StreamError::io("start a thread for", dir))?);
        }
        Ok(logs)
    }

    /// Streams that have files and are not open.
    #[must_use]
    pub fn unopened(&self) -> Vec<u64> {
        self.found.lock().keys().copied().collect()
    }

    /// Opens a stream, or begins it; waits for the disk. Damage in its files comes beside it, and nothing of that is changed.
    ///
    /// # Errors
    /// A file cannot be read or written, or has no head.
    pub fn open(
        &self,
        id: u64,
        limits: Limits,
        listener: Arc<dyn StreamListener>,
    ) -> Result<OpenedStream, StreamError> {
        let firsts = self.found.lock().remove(&id).unwrap_or_default();
        let opened = crate::open::open(&self.node, id, firsts.clone(), limits, listener);
        if opened.is_err() && !firsts.is_empty() {
            self.found.lock().insert(id, firsts);
        }
        let opened = opened?;
        let log = &opened.log;
        self.open.lock().insert(id, Arc::downgrade(log));
        self.node.damages.fetch_add(opened.damages.len() as u64, Ordering::Relaxed);
        self.node.mark_later(log);
        if limits.max_age_ms.is_some() || limits.max_bytes.is_some() {
            self.node.retain_soon(log);
        }
        Ok(opened)
    }

    /// Deletes a stream, open or not: readers and appenders learn it, and its files go.
    ///
    /// # Errors
    /// A file cannot be removed; it goes with the next start if nobody has the stream then.
    pub fn delete(&self, id: u64) -> Result<(), StreamError> {
        if let Some(log) = self.open.lock().remove(&id).and_then(|log| log.upgrade()) {
            log.end();
            return log.remove_files();
        }
        let firsts = self.found.lock().remove(&id).unwrap_or_default();
        firsts.into_iter().try_for_each(|first| remove_file(&self.node, id, first))
    }

    /// Without threads: does one piece of work; false when there is none.
    pub fn step(&self) -> bool {
        let written = self.node.queue.lock().streams.pop_front();
        if written.is_some_and(|log| self.node.write(&log)) {
            return true;
        }
        let job = self.node.jobs.lock().pop_front();
        if let Some(job) = job {
            perform(job);
            return true;
        }
        if self.node.is_tick_due() {
            self.node.tick();
            return !self.node.queue.lock().streams.is_empty();
        }
        false
    }

    /// Damaged places that were found, and tails that were cut, as streams were opened.
    #[must_use]
    pub fn damages_and_cut_tails(&self) -> (u64, u64) {
        (self.node.damages.load(Ordering::Relaxed), self.node.cut_tails.load(Ordering::Relaxed))
    }

    /// Whether rounds are synced from now on.
    pub fn set_syncs(&self, syncs: bool) {
        self.node.syncs.store(syncs, Ordering::Relaxed);
    }

    /// Bytes of chunks in memory for readers at the ends of streams.
    #[must_use]
    pub fn tail_bytes(&self) -> usize {
        self.node.tails.used()
    }

    /// The clean end: appended entries are written, files are closed, threads end.
    pub fn close(&self) {
        self.node.is_closed.store(true, Ordering::Release);
        self.node.work.notify_all();
        self.node.job.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() {
                assert!(thread.join().is_ok(), "a panic of a stream's thread ends the process");
            }
        }
        let open: Vec<Arc<StreamLog>> = self.open.lock().values().filter_map(Weak::upgrade).collect();
        self.finish_all(open);
    }

    /// Finishes streams, with several threads when they are many: each syncs a file.
    fn finish_all(&self, open: Vec<Arc<StreamLog>>) {
        let helpers = if self.has_threads { (open.len() / FINISHED_EACH).min(FINISHERS) } else { 0 };
        let (node, left) = (self.node.clone(), Arc::new(Mutex::new(open)));
        let finish = move || {
            loop {
                let Some(log) = left.lock().pop() else { return };
                if let Err(error) = log.finish() {
                    node.fail(&log, &error);
                }
            }
        };
        // Without a helper this thread does it all.
        let start = |nth| thread::spawn_or_abort(&format!("stream-close-{nth}"), finish.clone()).ok();
        let helpers: Vec<JoinHandle<()>> = (0..helpers).filter_map(start).collect();
        finish();
        for helper in helpers {
            assert!(helper.join().is_ok(), "a panic of a stream's thread ends the process");
        }
    }
}

impl Drop for StreamLogs {
    /// Waiting work is never done; streams and the queues that they wait in hold each other.
    fn drop(&mut self) {
        self.node.is_closed.store(true, Ordering::Release);
        self.node.work.notify_all();
        self.node.job.notify_all();
        let left = std::mem::take(&mut self.node.queue.lock().streams);
        let jobs = std::mem::take(&mut *self.node.jobs.lock());
        drop((left, jobs));
    }
}
