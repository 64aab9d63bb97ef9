//! Fixtures that several of these tests need.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use commitlog::{
    DurableListener, IoFailure, LentBytes, Log, LogError, LogOptions, LogWriter, Position, Recovered, Step,
};
use parking_lot::{Condvar, Mutex};
use platform::SimDisk;

pub(crate) const DIR: &str = "/data/log";

/// A record with its own memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) position: Position,
    pub(crate) stream: u64,
    pub(crate) kind: u8,
    pub(crate) payload: Vec<u8>,
}

/// Small files without filling, so that a few records make several of them.
pub(crate) fn small_files() -> LogOptions {
    LogOptions { file_bytes_max: 400, prefill_bytes: 0, ..LogOptions::default() }
}

pub(crate) fn open(disk: &SimDisk, options: &LogOptions) -> Result<(Log, LogWriter, Recovered), LogError> {
    Log::open_driven(Arc::new(disk.clone()), Path::new(DIR), *options)
}

pub(crate) fn read_all(mut recovered: Recovered) -> Result<Vec<Owned>, LogError> {
    let mut records = Vec::new();
    while let Some(record) = recovered.next_record()? {
        records.push(Owned {
            position: record.position,
            stream: record.stream,
            kind: record.kind,
            payload: record.payload.to_vec(),
        });
    }
    Ok(records)
}

/// Everything in the log, after opening it again.
pub(crate) fn reopen(disk: &SimDisk, options: &LogOptions) -> Result<Vec<Owned>, LogError> {
    read_all(open(disk, options)?.2)
}

/// A payload from so many bytes on is not copied to the log but for its first ones.
const LENT_BYTES_MIN: usize = 64;

/// Kept by the log only.
struct Tail(Vec<u8>);

impl LentBytes for Tail {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn own_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Appends without writing.
pub(crate) fn append(log: &Log, stream: u64, kind: u8, payload: &[u8]) -> Owned {
    let position = if payload.len() < LENT_BYTES_MIN {
        log.append(stream, kind, |out| out.extend_from_slice(payload))
    } else {
        let (head, tail) = payload.split_at(payload.len() / 3);
        log.append_lent(stream, kind, |out| out.extend_from_slice(head), Arc::new(Tail(tail.to_vec())))
    };
    Owned { position, stream, kind, payload: payload.to_vec() }
}

/// Lets the writer do all there is to do.
pub(crate) fn drain(writer: &mut LogWriter) {
    while writer.step() == Step::Worked {}
}

/// The log's files, oldest first.
pub(crate) fn files(disk: &SimDisk) -> Vec<PathBuf> {
    let names = platform::Disk::list(disk, Path::new(DIR)).unwrap();
    names.into_iter().map(|name| Path::new(DIR).join(name)).collect()
}

/// Remembers what it is told.
#[derive(Default)]
pub(crate) struct Witness {
    pub(crate) told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) durable: Vec<Position>,
    pub(crate) sealed: Vec<Position>,
    pub(crate) failures: Vec<String>,
    /// Of waiting for room and of going on.
    pub(crate) room: Vec<String>,
}

impl Witness {
    /// Waits until something told satisfies the condition.
    pub(crate) fn wait(&self, mut until: impl FnMut(&Told) -> bool) {
        self.changed.wait_while(&mut self.told.lock(), |told| !until(told));
    }
}

impl DurableListener for Witness {
    fn durable(&self, up_to: Position) {
        self.told.lock().durable.push(up_to);
        self.changed.notify_all();
    }

    fn file_sealed(&self, up_to: Position) {
        self.told.lock().sealed.push(up_to);
        self.changed.notify_all();
    }

    fn waits_for_room(&self, failure: &IoFailure) {
        self.told.lock().room.push(failure.to_string());
        self.changed.notify_all();
    }

    fn goes_on(&self) {
        self.told.lock().room.push("goes on".into());
        self.changed.notify_all();
    }

    fn failed(&self, error: &LogError) {
        self.told.lock().failures.push(error.to_string());
        self.changed.notify_all();
    }
}
