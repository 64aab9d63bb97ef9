//! Streams on a simulated disk: each committed entry is there once, in order, under its offset, whatever happens to the power.

#![expect(
    clippy::unwrap_used,
    reason = "tests; clippy exempts only functions marked #[test], not their helpers"
)]

mod damage;
mod golden;
mod limits;
mod model;
mod readers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use platform::{Disk, SimClock, SimDisk};
use streamlog::{
    Limits, OpenedStream, Reader, RoundTook, Seek, StreamError, StreamListener, StreamLog, StreamLogs,
    StreamOptions,
};
use wire::stream::{Chunk, Entry};

/// Remembers what it was told.
#[derive(Default)]
struct Listener {
    committed: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl StreamListener for Listener {
    fn may_write(&self) -> bool {
        true
    }

    fn committed(&self, next_offset: u64) {
        self.committed.store(next_offset, Ordering::SeqCst);
    }

    fn wrote(&self, _: RoundTook) {}

    fn failed(&self, error: &StreamError) {
        self.failures.lock().push(error.to_string());
    }
}

/// A node without threads.
struct Bench {
    disk: SimDisk,
    clock: Arc<SimClock>,
    logs: StreamLogs,
    listener: Arc<Listener>,
}

const DIR: &str = "/data/streams";

impl Bench {
    fn new() -> Bench {
        Bench::on(SimDisk::new(), Arc::new(SimClock::new(1_700_000_000_000)), true)
    }

    fn on(disk: SimDisk, clock: Arc<SimClock>, syncs: bool) -> Bench {
        let options = StreamOptions { syncs, writers: 0, readers: 0, tail_bytes: 4096 };
        let on_disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let logs = StreamLogs::start(on_disk, Path::new(DIR), clock.clone(), options).unwrap();
        Bench { disk, clock, logs, listener: Arc::default() }
    }

    fn open(&self, id: u64, limits: Limits) -> Arc<StreamLog> {
        let opened = self.logs.open(id, limits, self.listener.clone()).unwrap();
        assert!(opened.damages.is_empty(), "{:?}", opened.damages);
        opened.log
    }

    /// As [`Self::open`], with what is damaged.
    fn look(&self, id: u64) -> OpenedStream {
        self.logs.open(id, Limits::default(), self.listener.clone()).unwrap()
    }

    fn settle(&self) {
        while self.logs.step() {}
    }

    /// Nobody writes for some seconds.
    fn rest(&self) {
        for _ in 0..3 {
            self.clock.advance(Duration::from_secs(1));
            self.settle();
        }
    }

    /// The next start on the same disk.
    fn again(self) -> Bench {
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        drop(self);
        Bench::on(disk, clock, true)
    }
}

fn append(log: &Arc<StreamLog>, messages: &[&[u8]]) -> u64 {
    let mut appender = log.append().unwrap();
    messages.iter().for_each(|message| {
        appender.message(&[message], None);
    });
    appender.next_offset()
}

/// Everything that a reader gets until it would have to wait for an append.
fn read_on(bench: &Bench, reader: &mut Reader) -> Result<Vec<(u64, Vec<u8>)>, StreamError> {
    let mut read = Vec::new();
    loop {
        match reader.poll_next(Waker::noop()) {
            Poll::Ready(chunk) => {
                let chunk = chunk?;
                let parsed = Chunk::parse(chunk.wire_bytes()).unwrap();
                parsed.check_crc().unwrap();
                parsed.check_entries().unwrap();
                read.extend(parsed.entries().map(|(offset, entry)| match entry {
                    Entry::Message(body) => (offset, body.to_vec()),
                    Entry::SubBatch(batch) => (offset, batch.data.to_vec()),
                }));
            }
            Poll::Pending if bench.logs.step() => {}
            Poll::Pending => return Ok(read),
        }
    }
}

fn read_from(bench: &Bench, log: &Arc<StreamLog>, seek: Seek) -> Vec<(u64, Vec<u8>)> {
    read_on(bench, &mut log.reader(seek, None)).unwrap()
}

fn paths(disk: &SimDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.starts_with(Path::new(DIR))).collect()
}
