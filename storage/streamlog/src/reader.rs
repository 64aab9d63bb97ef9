//! Readers: a position, and a piece of the file that was read ahead. They wait for nobody: a missing piece is asked for, and a waker told.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use platform::DiskFile;

use crate::chunk::{ChunkFault, StoredChunk, peek};
use crate::filter::ChunkFilter;
use crate::format::file_path;
use crate::node::Job;
use crate::seek::{Found, Seek, Spot};
use crate::{StreamError, StreamLog};

/// Bytes that are read ahead at first, and at most.
const AHEAD_BYTES: (usize, usize) = (64 << 10, 256 << 10);
/// Chunks that one call passes over before it lets others have a turn.
const PASSED_MAX: u32 = 64;

/// A reader of a stream. Belongs to one consumer.
pub struct Reader {
    log: Arc<StreamLog>,
    /// Not looked for yet.
    seek: Option<Seek>,
    next: u64,
    spot: Option<Spot>,
    ahead: Option<Box<Ahead>>,
    ahead_bytes: usize,
    filter: Option<Arc<ChunkFilter>>,
    asked: Option<Arc<Asked>>,
    skipped: u64,
}

/// A piece of a file in memory.
struct Ahead {
    block: Arc<Vec<u8>>,
    position: u32,
    /// The file, open as long as it is read piece by piece.
    handle: Arc<dyn DiskFile>,
}

impl Ahead {
    fn new(block: Vec<u8>, position: u32, handle: Arc<dyn DiskFile>) -> Box<Self> {
        Box::new(Self { block: Arc::new(block), position, handle })
    }
}

/// The request of a reader to an I/O thread.
pub(crate) struct Asked {
    state: Mutex<(Option<Answer>, Option<Waker>)>,
}

/// The answer.
pub(crate) enum Answer {
    Found(Result<Found, StreamError>),
    /// The bytes, and the file that they are of.
    Read(Result<(Vec<u8>, Arc<dyn DiskFile>), StreamError>),
}

impl Asked {
    pub(crate) fn answer(&self, answer: Answer) {
        let mut state = self.state.lock();
        state.0 = Some(answer);
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl StreamLog {
    /// A reader that begins there.
    #[must_use]
    pub fn reader(self: &Arc<Self>, seek: Seek, filter: Option<Arc<ChunkFilter>>) -> Reader {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Reader {
            log: self.clone(),
            seek: Some(seek),
            next: 0,
            spot: None,
            ahead: None,
            ahead_bytes: AHEAD_BYTES.0,
            filter,
            asked: None,
            skipped: 0,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reader {
    /// The stream it reads.
    #[must_use]
    pub fn log(&self) -> &Arc<StreamLog> {
        &self.log
    }

    /// Offset of the first record that it has not given out; `None` before it is known where it begins.
    #[must_use]
    pub fn next_offset(&self) -> Option<u64> {
        self.seek.is_none().then_some(self.next)
    }

    /// Records that retention took before it came to them.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Goes on from elsewhere.
    pub fn seek(&mut self, seek: Seek) {
        (self.seek, self.spot, self.ahead, self.asked) = (Some(seek), None, None, None);
    }

    /// Gives back what it read ahead: it waits for its client.
    pub fn rest(&mut self) {
        self.ahead = None;
    }

    /// The next chunk with records. The first one may begin before the offset that was asked for: a caller that wants no earlier record
    /// passes over them. Pending: `waker` is woken when it is worth asking again.
    ///
    /// # Errors
    /// [`StreamError::Deleted`]; a file cannot be read or is damaged. Asked again it says the same.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Result<StoredChunk, StreamError>> {
        let mut passed = 0;
        loop {
            match self.step(waker) {
                Ok(ControlFlow::Break(Some(chunk))) => {
                    self.next = chunk.next_offset();
                    let is_wanted = chunk.header().record_count > 0
                        && self.filter.as_ref().is_none_or(|filter| filter.may_match(chunk.filter()));
                    if is_wanted {
                        return Poll::Ready(Ok(chunk));
                    }
                    passed += 1;
                    if passed == PASSED_MAX {
                        waker.wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Ok(ControlFlow::Break(None)) => return Poll::Pending,
                Ok(ControlFlow::Continue(())) => {}
                // Retention was faster: it is looked for anew.
                Err(error) if error.is_missing() => (self.spot, self.ahead) = (None, None),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// A step nearer to the next chunk.
    fn step(&mut self, waker: &Waker) -> Result<ControlFlow<Option<StoredChunk>>, StreamError> {
        if let Err(StreamError::Deleted) = self.log.check() {
            return Err(StreamError::Deleted);
        }
        if let Some(asked) = &self.asked {
            let mut state = asked.state.lock();
            let Some(answer) = state.0.take() else {
                state.1 = Some(waker.clone());
                return Ok(ControlFlow::Break(None));
            };
            drop(state);
            self.asked = None;
            self.take(answer)?;
        }
        if let Some(seek) = self.seek {
            match self.log.seek_now(seek) {
                Some(found) => self.found(found),
                None => return Ok(self.ask_for(waker, |log, asked| Job::Seek { log, seek, asked })),
            }
        }
        if self.next >= self.log.committed_next() {
            (self.spot, self.ahead) = (None, None);
            self.log.wake_at_commit(waker);
            if self.next >= self.log.committed_next() {
                return Ok(ControlFlow::Break(None));
            }
        }
        {
            let readable = self.log.readable.lock();
            if let Some(chunk) = readable.tail.find(self.next) {
                let chunk = chunk.clone();
                drop(readable);
                (self.spot, self.ahead) = (None, None);
                return Ok(ControlFlow::Break(Some(chunk)));
            }
            let first = readable.files[0].first;
            if self.next < first {
                self.skipped += first - self.next;
                (self.next, self.spot, self.ahead) = (first, None, None);
            }
        }
        let Some(spot) = self.spot.clone() else {
            let seek = Seek::Offset(self.next);
            return Ok(self.ask_for(waker, |log, asked| Job::Seek { log, seek, asked }));
        };
        let extent = spot.file.extent();
        if spot.position >= extent.end {
            return self.next_file(&spot);
        }
        self.read(&spot, extent.end, waker)
    }

    /// At the end of a file: the one after it. Offsets that are missing between them are passed over.
    fn next_file(&mut self, spot: &Spot) -> Result<ControlFlow<Option<StoredChunk>>, StreamError> {
        self.ahead = None;
        if let Some(what) = spot.file.damage() {
            let path = file_path(&self.log.node.place.dir, self.log.id, spot.file.first);
            return Err(StreamError::Damaged { path, position: u64::from(spot.position), what });
        }
        let after = {
            let readable = self.log.readable.lock();
            readable.files.iter().find(|file| file.first > spot.file.first).cloned()
        };
        match after {
            Some(file) => {
                self.skipped += file.first.saturating_sub(self.next);
                self.next = self.next.max(file.first);
                self.spot = Some(Spot { position: file.head_bytes, file });
            }
            // More was committed into this file meanwhile.
            None => self.spot = None,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The chunk at a place, from what was read ahead, or what can be read without waiting.
    fn read(
        &mut self,
        spot: &Spot,
        end: u32,
        waker: &Waker,
    ) -> Result<ControlFlow<Option<StoredChunk>>, StreamError> {
        let mut wanted = self.ahead_bytes;
        if let Some(ahead) = &self.ahead
            && spot.position >= ahead.position
            && ((spot.position - ahead.position) as usize) < ahead.block.len()
        {
            let start = (spot.position - ahead.position) as usize;
            match StoredChunk::read(self.log.id, spot.position, &ahead.block, start) {
                Ok((chunk, _)) => {
                    let bytes = u32::try_from(chunk.stored_bytes()).expect("chunks are far below 4 GiB");
                    self.spot = Some(Spot { file: spot.file.clone(), position: spot.position + bytes });
                    return Ok(ControlFlow::Break(Some(chunk)));
                }
                Err(ChunkFault::Short(len)) if spot.position as usize + len <= end as usize => {
                    wanted = wanted.max(len);
                }
                Err(ChunkFault::NoHeader) if ahead.block.len() - start < 48 && start > 0 => {}
                Err(fault) => {
                    let path = file_path(&self.log.node.place.dir, self.log.id, spot.file.first);
                    let position = u64::from(spot.position);
                    return Err(StreamError::Damaged { path, position, what: fault.what() });
                }
            }
            self.ahead_bytes = (self.ahead_bytes * 2).min(AHEAD_BYTES.1);
        }
        // The block before has no reader but this one once its chunks are handed out: its memory is used again.
        let (mut block, handle) = match self.ahead.take().map(|ahead| *ahead) {
            Some(Ahead { block, handle, .. }) => (Arc::try_unwrap(block).unwrap_or_default(), handle),
            None => (Vec::new(), spot.file.handle(&self.log.node.place, self.log.id)?),
        };
        block.resize(wanted.min((end - spot.position) as usize), 0);
        let path = || file_path(&self.log.node.place.dir, self.log.id, spot.file.first);
        let read = handle
            .read_now_at(u64::from(spot.position), &mut block)
            .map_err(|error| StreamError::io("read", &path())(error))?;
        // A part of it is as good, if it has a whole chunk.
        let is_enough = peek(&block[..read]).is_some_and(|(_, len)| len <= read);
        if is_enough {
            block.truncate(read);
            self.ahead = Some(Ahead::new(block, spot.position, handle));
            return Ok(ControlFlow::Continue(()));
        }
        let position = u64::from(spot.position);
        let path = path();
        Ok(self.ask_for(waker, |_, asked| Job::Read { handle, path, position, block, asked }))
    }

    fn ask_for(
        &mut self,
        waker: &Waker,
        job: impl FnOnce(Arc<StreamLog>, Arc<Asked>) -> Job,
    ) -> ControlFlow<Option<StoredChunk>> {
        let asked = Arc::new(Asked { state: Mutex::new((None, Some(waker.clone()))) });
        self.asked = Some(asked.clone());
        self.log.node.ask(job(self.log.clone(), asked));
        ControlFlow::Break(None)
    }

    fn found(&mut self, found: Found) {
        (self.seek, self.next, self.spot, self.ahead) = (None, found.next, found.spot, None);
    }

    fn take(&mut self, answer: Answer) -> Result<(), StreamError> {
        match answer {
            Answer::Found(found) => self.found(found?),
            Answer::Read(block) => {
                let position = self.spot.as_ref().map_or(0, |spot| spot.position);
                let (block, handle) = block?;
                self.ahead = Some(Ahead::new(block, position, handle));
            }
        }
        Ok(())
    }
}

/// Does what a reader asked for.
pub(crate) fn perform(job: Job) {
    match job {
        Job::Seek { log, seek, asked } => asked.answer(Answer::Found(log.look_up(seek))),
        Job::Read { handle, path, position, mut block, asked } => {
            let read = read_block(&*handle, position, &mut block).map_err(StreamError::io("read", &path));
            asked.answer(Answer::Read(read.map(|()| (block, handle))));
        }
    }
}

fn read_block(handle: &dyn DiskFile, position: u64, block: &mut [u8]) -> std::io::Result<()> {
    handle.read_exact_at(position, block)?;
    handle.pass_cached(position..position + block.len() as u64);
    Ok(())
}
