//! Keeps the memory of exchanges over restarts: values that deduplicating ones with `x-cache-persistence` = `disk` have seen, and the
//! latest messages of durable ones of type `x-recent-history`. A snapshot of each, written when it has changed, about once a second, and at
//! a clean stop.
//!
//! A seen value must not outlive its message: a publisher whose message was lost in a crash sends it again, and that must not be taken
//! for a duplicate. So a copy is written only after another round and a sync of the message log: by then its messages are durable.
//! A crash forgets the values of the latest rounds, and their duplicates pass once more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use commitlog::{Log, Position, SnapshotError, read_latest_snapshot, write_snapshot};
use parking_lot::{Condvar, Mutex};
use platform::Disk;

/// How often changed memories are copied at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// A round that writes for long is followed by a pause so many times as long.
const PAUSE_FACTOR: u32 = 10;

/// The memory of an exchange.
pub(crate) trait Remembered: Send + Sync {
    /// Stands for the way in which it is encoded: a file of another build with another encoding is of no use here.
    fn fingerprint(&self) -> u64;

    /// How often it has changed.
    fn changes(&self) -> u64;

    /// All of it, with the number of changes that are in it.
    fn encode(&self) -> (u64, Vec<u8>);

    /// Remembers what was encoded, but for what is over or cannot be read.
    fn restore(&self, bytes: &[u8]);
}

/// A memory with a file.
struct Kept {
    memory: Arc<dyn Remembered>,
    /// Number of the latest snapshot.
    number: u64,
    /// Changes that are in the latest copy.
    copied: u64,
    /// A copy that waits for the messages whose values it holds.
    copy: Option<Vec<u8>>,
}

#[derive(Default)]
struct State {
    kept: HashMap<u64, Kept>,
    gone: Vec<u64>,
    stopping: bool,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// The files, and the thread that writes them.
#[derive(Clone)]
pub(crate) struct SeenFiles(Arc<Shared>);

fn file_name(exchange_id: u64) -> String {
    format!("seen_{exchange_id:016x}")
}

impl SeenFiles {
    /// Files in this folder.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> SeenFiles {
        SeenFiles(Arc::new(Shared { state: Mutex::default(), wake: Condvar::new(), disk, dir }))
    }

    /// From now on this memory of an exchange is kept; it is given what was kept of it.
    pub(crate) fn keep(&self, exchange_id: u64, memory: Arc<dyn Remembered>) {
        let number = match self.read(exchange_id, &*memory) {
            Ok(number) => number,
            Err(error) => {
                tracing::warn!(%error, exchange_id, "the memory of an exchange cannot be read; it begins anew");
                0
            }
        };
        let kept = Kept { number, copied: memory.changes(), copy: None, memory };
        self.0.state.lock().kept.insert(exchange_id, kept);
    }

    fn read(&self, exchange_id: u64, memory: &dyn Remembered) -> Result<u64, SnapshotError> {
        let name = file_name(exchange_id);
        let Some(snapshot) = read_latest_snapshot(&*self.0.disk, &self.0.dir, &name)? else { return Ok(0) };
        if let Some((known, bytes)) = snapshot.bytes.split_first_chunk()
            && u64::from_be_bytes(*known) == memory.fingerprint()
        {
            memory.restore(bytes);
        }
        Ok(snapshot.position.0)
    }

    /// The exchange is deleted.
    pub(crate) fn forget(&self, exchange_id: u64) {
        let mut state = self.0.state.lock();
        if state.kept.remove(&exchange_id).is_some() {
            state.gone.push(exchange_id);
            self.0.wake.notify_one();
        }
    }

    /// At start, when all exchanges are known: removes the files of those that are not.
    pub(crate) fn remove_unknown(&self) {
        let state = self.0.state.lock();
        self.remove_files(|id| !state.kept.contains_key(&id));
    }

    fn remove_files(&self, is_unneeded: impl Fn(u64) -> bool) {
        // No folder, no files.
        let Ok(names) = self.0.disk.list(&self.0.dir) else { return };
        for name in names {
            let id = name.strip_prefix("seen_").and_then(|rest| rest.get(..16));
            let id = id.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if id.is_some_and(&is_unneeded)
                && let Err(error) = self.0.disk.remove(&self.0.dir.join(&name))
            {
                tracing::warn!(%error, name, "a file of a deleted exchange cannot be removed");
            }
        }
    }

    /// Ends the thread, after it has written what is new.
    pub(crate) fn stop(&self) {
        self.0.state.lock().stopping = true;
        self.0.wake.notify_one();
    }

    /// The thread's life.
    pub(crate) fn run(&self, log: &Log) {
        let mut pause = INTERVAL;
        while !self.pause(pause) {
            let begin = Instant::now();
            self.write_copies(log);
            self.copy_changed();
            pause = INTERVAL.max(begin.elapsed() * PAUSE_FACTOR);
        }
        self.write_changed(log);
    }

    /// At the end, when no connection is left and all seen values were handed over: writes all that is new.
    pub(crate) fn write_changed(&self, log: &Log) {
        self.copy_changed();
        self.write_copies(log);
    }

    /// Waits, removing what belongs to deleted exchanges; true when the thread is to end.
    fn pause(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        let mut state = self.0.state.lock();
        loop {
            let gone = std::mem::take(&mut state.gone);
            if !gone.is_empty() {
                parking_lot::MutexGuard::unlocked(&mut state, || self.remove_files(|id| gone.contains(&id)));
            }
            if state.stopping || self.0.wake.wait_until(&mut state, end).timed_out() {
                return state.stopping;
            }
        }
    }

    fn copy_changed(&self) {
        for kept in self.0.state.lock().kept.values_mut() {
            if kept.memory.changes() != kept.copied {
                let (changes, bytes) = kept.memory.encode();
                kept.copied = changes;
                kept.copy = Some(bytes);
            }
        }
    }

    fn write_copies(&self, log: &Log) {
        let mut copies = Vec::new();
        for (id, kept) in &mut self.0.state.lock().kept {
            if let Some(copy) = kept.copy.take() {
                kept.number += 1;
                copies.push((*id, kept.number, kept.memory.fingerprint(), copy));
            }
        }
        if copies.is_empty() || log.sync_barrier().is_err() {
            return;
        }
        for (id, number, fingerprint, copy) in copies {
            let bytes = [&fingerprint.to_be_bytes()[..], &copy].concat();
            let written =
                write_snapshot(&*self.0.disk, &self.0.dir, &file_name(id), Position(number), &bytes);
            if let Err(error) = written {
                tracing::warn!(%error, exchange_id = id, "the memory of an exchange cannot be written");
            }
        }
    }
}

/// Where the files lie in a data directory.
pub(crate) fn dir_in(data_dir: &Path) -> PathBuf {
    data_dir.join("seen")
}
