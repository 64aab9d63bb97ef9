//! The shared bodies of a node: it is asked for their bytes, and told when they are needed no more.
//!
//! One lock, a leaf but for the log's and those of the I/O threads' queues; no handle is dropped under it, because that comes back here.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use commitlog::{BlockLocation, LentBytes, Log, Position, SegmentIo};
use parking_lot::Mutex;
use queues::{BodyBuffer, BodyBytes, BodyKeeper, HeldBody, LARGE_BODY_BYTES, SharedBody, WeakBody};
use stdx::QueueId;

use super::found::{BodiesFound, Found, FoundAt, LoggedBody};
use super::from_log::FromLog;
use super::moving::{MOVER, Move};
use super::node::BodyNode;
use super::record::{BODY, write_body};
use super::segments::SegmentUses;
use crate::foundation::SharedBodySizes;
use crate::memory_shares::MemoryShares;

/// The stream of records and segments of bodies. No queue has this number.
pub(crate) const STREAM: u64 = u64::MAX;

/// Bodies kept in memory after they were read, at most: small ones are in no danger of being read for each queue anew.
const RECENT_COUNT_MAX: usize = 4096;

/// The known state of a body.
#[derive(Debug, Default)]
pub(super) struct Entry {
    handle: WeakBody,
    /// In memory because it is nowhere else, or only in the log, or on its way to another place.
    pub(super) kept: Option<BodyBytes>,
    /// In memory because it was read a moment ago.
    recent: Option<BodyBytes>,
    /// In memory because some queue has it.
    cached: Weak<BodyBuffer>,
    pub(super) place: Option<BlockLocation>,
    /// Where the log has it that was found at the start, until its place is told.
    pub(super) logged: Option<LoggedBody>,
    /// Where it is moved to; the log does not know.
    pub(super) next_place: Option<BlockLocation>,
    /// A write is under way.
    pub(super) writing: bool,
    /// Position of the record that the log needs of it; 0 when it has none.
    pub(super) told_at: u64,
}

impl Entry {
    pub(super) fn bytes(&self) -> Option<BodyBytes> {
        self.kept.clone().or_else(|| self.cached.upgrade())
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) by_id: HashMap<u64, Entry, foldhash::fast::RandomState>,
    /// Positions of the records that the log needs, with the bodies' numbers.
    pub(super) told: BTreeSet<(u64, u64)>,
    /// Positions of records of bodies that are gone, with that up to which the log must be durable before they are not needed: a
    /// power cut before brings messages back that name these bodies.
    parting: BTreeMap<u64, u64>,
    /// Position of the latest record of places.
    pub(super) latest_move: u64,
    /// Bodies in memory only whose write is not under way.
    unwritten: BTreeSet<u64>,
    unwritten_bytes: usize,
    recent: VecDeque<u64>,
    recent_bytes: usize,
    /// Queues that wait for bodies that are being read.
    readers: HashMap<u64, Vec<QueueId>, foldhash::fast::RandomState>,
    pub(super) segments: SegmentUses,
    pub(super) moving: Move,
    /// Somebody is on the way to delete segments that are not needed.
    is_freeing: bool,
}

/// The outcome of asking for a body.
pub(crate) enum Fetched {
    /// It is in memory.
    Here(BodyBytes),
    /// It is being read: the answer is an event.
    Asked,
    /// It is nowhere.
    Missing,
}

/// The shared bodies of a node.
#[derive(Debug)]
pub(crate) struct Bodies {
    this: Weak<Bodies>,
    sizes: SharedBodySizes,
    memory_shares: Arc<MemoryShares>,
    next_id: AtomicU64,
    pub(super) state: Mutex<State>,
    node: OnceLock<WeakNode>,
    /// Bytes of bodies in memory, each once.
    held_bytes: Arc<AtomicU64>,
}

struct WeakNode(Weak<dyn BodyNode>);

impl std::fmt::Debug for WeakNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BodyNode")
    }
}

impl Bodies {
    /// With those that were found; their numbers are never used again.
    pub(crate) fn new(
        sizes: SharedBodySizes,
        memory_shares: Arc<MemoryShares>,
        found: BodiesFound,
    ) -> Arc<Bodies> {
        let mut state = State::default();
        let next_id = AtomicU64::new(found.id_max + 1);
        for (id, Found { at, told_at }) in found.by_id {
            let mut entry = Entry { told_at, ..Entry::default() };
            state.told.insert((told_at, id));
            match at {
                FoundAt::Log(logged) => entry.logged = Some(logged),
                FoundAt::Segment(place) => {
                    state.segments.add(place);
                    entry.place = Some(place);
                }
            }
            state.by_id.insert(id, entry);
        }
        Arc::new_cyclic(|this| Bodies {
            this: this.clone(),
            sizes,
            memory_shares,
            next_id,
            state: Mutex::new(state),
            node: OnceLock::new(),
            held_bytes: Arc::default(),
        })
    }

    /// Sets the node that deletes segments for the store.
    pub(crate) fn belong_to(&self, node: Weak<dyn BodyNode>) {
        let is_first = self.node.set(WeakNode(node)).is_ok();
        assert!(is_first, "bodies belong to one node");
    }

    fn handle(&self, id: u64, bytes: u32) -> SharedBody {
        let keeper: Weak<dyn BodyKeeper> = self.this.clone();
        SharedBody::new(id, bytes, keeper)
    }

    /// One body for `queues` queues, copied once; `None` when each may as well have its own.
    #[inline]
    pub(crate) fn share(&self, segments: &SegmentIo, body: &[u8], queues: usize) -> Option<HeldBody> {
        self.shares(body.len(), queues).then(|| self.enter(segments, self.hold(body.to_vec())))
    }

    /// As [`Self::share`], of a body that need not be copied.
    pub(crate) fn share_whole(
        &self,
        segments: &SegmentIo,
        body: &BodyBytes,
        queues: usize,
    ) -> Option<HeldBody> {
        self.shares(body.len(), queues).then(|| {
            body.count_in(self.held_bytes.clone());
            self.enter(segments, body.clone())
        })
    }

    /// Whether so many queues share a body.
    #[inline]
    pub(crate) fn shares(&self, body_bytes: usize, queues: usize) -> bool {
        queues > 1 && body_bytes >= self.sizes.bytes_min
    }

    /// Bytes of a body that are counted while they are in memory.
    pub(crate) fn hold(&self, bytes: Vec<u8>) -> BodyBytes {
        Arc::new(BodyBuffer::counted(bytes, self.held_bytes.clone()))
    }

    /// So much of that as the memory threshold allows.
    fn within_memory(&self, bytes: usize) -> usize {
        usize::try_from(self.memory_shares.buffer_bytes_max()).map_or(bytes, |most| bytes.min(most))
    }

    fn enter(&self, segments: &SegmentIo, bytes: BodyBytes) -> HeldBody {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = self.handle(id, u32::try_from(bytes.len()).expect("a message is below 4 GiB"));
        let mut state = self.state.lock();
        let entry = Entry { handle: body.downgrade(), kept: Some(bytes.clone()), ..Entry::default() };
        state.by_id.insert(id, entry);
        state.unwritten.insert(id);
        state.unwritten_bytes += bytes.len();
        state.write_oldest(segments, self.within_memory(self.sizes.unwritten_bytes_max));
        drop(state);
        HeldBody { body, bytes }
    }

    /// Appends a body to the log unless it holds it: records after this may name it. A failed log holds nothing.
    pub(crate) fn log_body(&self, log: &Log, held: &HeldBody) {
        let id = held.body.id();
        // Under the lock: the checkpointer finds the record among those that are needed before it drops log files.
        let mut state = self.state.lock();
        let Some(entry) = state.by_id.get_mut(&id).filter(|entry| entry.told_at == 0) else { return };
        let position = match held.bytes.len() < LARGE_BODY_BYTES {
            true => log.append(STREAM, BODY, |out| write_body(out, id, &held.bytes)),
            false => {
                let body = Arc::new(LentBody(held.bytes.clone()));
                log.append_lent(STREAM, BODY, |out| write_body(out, id, &[]), body)
            }
        };
        if position != Position::NEVER {
            entry.told_at = position.0;
            state.told.insert((position.0, id));
        }
    }

    /// A queue lets go of the bytes: they must be found in a segment when nobody has them in memory.
    pub(crate) fn let_go(&self, segments: &SegmentIo, body: &SharedBody) {
        self.state.lock().write(segments, body.id());
    }

    /// Asks for the bytes of a body on behalf of a queue.
    pub(crate) fn fetch(&self, segments: &SegmentIo, queue: QueueId, body: &SharedBody) -> Fetched {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(entry) = state.by_id.get(&body.id()) else { return Fetched::Missing };
        if let Some(bytes) = entry.bytes() {
            return Fetched::Here(bytes);
        }
        match (entry.place, entry.logged) {
            (Some(place), _) => state.ask(segments, queue, body.id(), place),
            (None, Some(logged)) => state.ask_log(segments, queue, self.log_source(body.id(), logged)),
            (None, None) => return Fetched::Missing,
        }
        Fetched::Asked
    }

    /// A body was read, or not: returns the queues that wait for it.
    pub(crate) fn was_read(&self, id: u64, bytes: Option<&BodyBytes>) -> Vec<QueueId> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let (Some(entry), Some(bytes)) = (state.by_id.get_mut(&id), bytes) {
            entry.cached = Arc::downgrade(bytes);
            if state.readers.get(&id).is_some_and(|readers| readers.contains(&MOVER)) {
                entry.kept = Some(bytes.clone());
            }
            if entry.recent.is_none() {
                entry.recent = Some(bytes.clone());
                state.recent.push_back(id);
                state.recent_bytes += bytes.len();
            }
        }
        state.forget_recent(self.within_memory(self.sizes.recent_bytes_max));
        let mut readers = state.readers.remove(&id).unwrap_or_default();
        readers.retain(|reader| *reader != MOVER);
        readers
    }

    /// A body was written, or not.
    pub(crate) fn was_written(&self, id: u64, place: Option<BlockLocation>) {
        let freed = self.state.lock().was_written(id, place);
        drop(freed);
        self.free_if_due();
    }

    /// A handle of a body that a record names. When it is nowhere, asking for its bytes says so.
    pub(crate) fn resolve(&self, name: &SharedBody) -> SharedBody {
        let mut state = self.state.lock();
        let entry = state.by_id.entry(name.id()).or_default();
        entry.handle.upgrade().unwrap_or_else(|| {
            let body = self.handle(name.id(), name.bytes());
            entry.handle = body.downgrade();
            body
        })
    }

    /// Segments that are not needed are given up: no later body goes there. The caller deletes them when the log is durable.
    pub(crate) fn take_dead_segments(&self, segments: &SegmentIo) -> Vec<u64> {
        let mut state = self.state.lock();
        state.is_freeing = false;
        let dead = state.segments.take_dead();
        // Under the lock, as writes are asked for: none that is asked for later overtakes it.
        dead.iter().for_each(|segment| segments.submit_seal(STREAM, *segment));
        dead
    }

    /// Whether some body needs what the log, which is durable up to `durable`, holds up to `position`, even when everything is durable
    /// that is in the log by now.
    pub(crate) fn need_log(&self, position: u64, durable: u64) -> bool {
        let mut state = self.state.lock();
        state.parting.retain(|_, until| *until > durable);
        state.told.first().is_some_and(|(told_at, _)| *told_at <= position)
    }

    /// Whether the log up to `position` is not needed even if nothing after `durable` becomes durable: what was told of a body that
    /// moved may be after it.
    pub(crate) fn is_free_of(&self, position: u64, durable: u64) -> bool {
        let mut state = self.state.lock();
        let oldest = state.oldest_told(durable);
        oldest == 0 || (oldest > position && state.latest_move <= durable)
    }

    /// Bytes that a checkpoint would write to the log.
    pub(crate) fn alive_log_bytes(&self) -> u64 {
        (self.state.lock().told.len() * super::record::PLACE_BYTES) as u64
    }

    /// Bytes that [`Bodies::move_out`] would write of what the log up to `position` tells of.
    pub(crate) fn bytes_to_move(&self, position: u64) -> u64 {
        let state = self.state.lock();
        let written = |(_, id): &(u64, u64)| {
            let entry = state.by_id.get(id).filter(|entry| entry.place.is_none());
            let body = entry.and_then(|entry| entry.handle.upgrade());
            super::record::PLACE_BYTES as u64 + body.map_or(0, |body| body.bytes().into())
        };
        state.told.range(..=(position, u64::MAX)).map(written).sum()
    }

    /// Bytes of memory: of what is known of bodies, and of bodies in memory, each once.
    pub(crate) fn memory_bytes(&self) -> (u64, u64) {
        const TOLD_BYTES: usize = 2 * size_of::<(u64, u64)>();
        let state = self.state.lock();
        let own = state.by_id.capacity() * size_of::<(u64, Entry)>() + state.told.len() * TOLD_BYTES;
        (own as u64, self.held_bytes.load(Ordering::Relaxed))
    }

    /// Has segments deleted that are not needed.
    pub(super) fn free_if_due(&self) {
        let is_due = self.state.lock().is_to_be_freed();
        if let Some(node) = self.node.get().filter(|_| is_due).and_then(|node| node.0.upgrade()) {
            node.free_segments_soon();
        }
    }

    /// How an I/O thread reads a body that the log has.
    pub(super) fn log_source(&self, id: u64, body: LoggedBody) -> FromLog {
        FromLog { node: self.node.get().map(|node| node.0.clone()), id, body }
    }

    /// Where the log ends now.
    fn log_goal(&self) -> u64 {
        let node = self.node.get().and_then(|node| node.0.upgrade());
        node.map_or(0, |node| node.log_goal())
    }

    /// After a recovery: bodies of which nobody took a handle are not needed.
    pub(crate) fn recovered(&self) {
        let goal = self.log_goal();
        let mut state = self.state.lock();
        let unheld = |(id, entry): (&u64, &Entry)| (!entry.handle.is_held()).then_some(*id);
        let unheld: Vec<u64> = state.by_id.iter().filter_map(unheld).collect();
        let forgotten: Vec<_> = unheld.into_iter().map(|id| state.forget(id, goal)).collect();
        drop(state);
        drop(forgotten);
        self.free_if_due();
    }
}

impl BodyKeeper for Bodies {
    fn released(&self, id: u64) {
        // The settlement of its last message is in the log before this.
        let goal = self.log_goal();
        let forgotten = self.state.lock().forget(id, goal);
        let was_placed = forgotten.as_ref().is_some_and(|entry| entry.place.is_some());
        drop(forgotten);
        if was_placed {
            self.free_if_due();
        }
    }
}

/// A body on its way to the log.
struct LentBody(BodyBytes);

impl LentBytes for LentBody {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bodies in memory are counted wherever they are.
    fn own_bytes(&self) -> usize {
        0
    }
}

/// Bytes that others keep until they are written.
struct SharedBytes(BodyBytes);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl State {
    /// Writes a body to a segment unless it is there or on its way.
    pub(super) fn write(&mut self, segments: &SegmentIo, id: u64) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        if entry.writing {
            return;
        }
        let Some(bytes) = entry.kept.clone() else { return };
        entry.writing = true;
        if self.unwritten.remove(&id) {
            self.unwritten_bytes -= bytes.len();
        }
        self.segments.writes += 1;
        segments.submit_write(STREAM, id, SharedBytes(bytes));
    }

    /// Copies a body from the log to a segment, unless it is in memory, or there, or on its way.
    pub(super) fn write_from_log(&mut self, segments: &SegmentIo, source: FromLog) {
        let Some(entry) = self.by_id.get_mut(&source.id) else { return };
        if entry.writing || entry.kept.is_some() || entry.place.is_some() {
            return;
        }
        entry.writing = true;
        self.segments.writes += 1;
        segments.submit_move(STREAM, source.id, Box::new(source));
    }

    fn write_oldest(&mut self, segments: &SegmentIo, bytes_max: usize) {
        while self.unwritten_bytes > bytes_max {
            let Some(id) = self.unwritten.first().copied() else { return };
            self.write(segments, id);
        }
    }

    /// Returns what has left memory, to be dropped later.
    fn was_written(&mut self, id: u64, place: Option<BlockLocation>) -> Option<BodyBytes> {
        self.segments.writes -= 1;
        if let Some(place) = place {
            self.segments.add(place);
        }
        let Some(entry) = self.by_id.get_mut(&id) else {
            if let Some(place) = place {
                self.segments.release(place);
            }
            return None;
        };
        entry.writing = false;
        match (place, entry.place) {
            (None, None) => {
                if let Some(kept) = &entry.kept {
                    self.unwritten_bytes += kept.len();
                    self.unwritten.insert(id);
                }
                return None;
            }
            (None, Some(_)) => {}
            (Some(place), None) => entry.place = Some(place),
            (Some(place), Some(_)) => entry.next_place = Some(place),
        }
        let kept = entry.kept.take();
        if let Some(kept) = &kept {
            entry.cached = Arc::downgrade(kept);
        }
        kept
    }

    /// Position of the oldest record that is needed, 0 when none is.
    fn oldest_told(&mut self, durable: u64) -> u64 {
        self.parting.retain(|_, until| *until > durable);
        let parting = self.parting.first_key_value().map(|(position, _)| *position);
        let told = self.told.first().map(|(position, _)| *position);
        parting.into_iter().chain(told).min().unwrap_or(0)
    }

    /// Nobody has a handle. Returns what has left memory.
    fn forget(&mut self, id: u64, goal: u64) -> Option<Entry> {
        if self.by_id.get(&id)?.handle.is_held() {
            return None;
        }
        let entry = self.by_id.remove(&id)?;
        if self.told.remove(&(entry.told_at, id)) {
            let until = self.parting.entry(entry.told_at).or_default();
            *until = goal.max(*until);
        }
        if let Some(kept) = entry.kept.as_ref().filter(|_| self.unwritten.remove(&id)) {
            self.unwritten_bytes -= kept.len();
        }
        self.recent_bytes -= entry.recent.as_ref().map_or(0, |recent| recent.len());
        let places = entry.place.into_iter().chain(entry.next_place);
        places.for_each(|place| self.segments.release(place));
        Some(entry)
    }

    /// Reads a body for somebody, once for all who ask meanwhile.
    pub(super) fn ask(&mut self, segments: &SegmentIo, reader: QueueId, id: u64, place: BlockLocation) {
        if self.is_first_to_ask(reader, id) {
            segments.submit_read(STREAM, id, place);
        }
    }

    /// The same with a body that only the log has.
    fn ask_log(&mut self, segments: &SegmentIo, reader: QueueId, source: FromLog) {
        if self.is_first_to_ask(reader, source.id) {
            segments.submit_fetch(STREAM, source.id, Box::new(source));
        }
    }

    fn is_first_to_ask(&mut self, reader: QueueId, id: u64) -> bool {
        let readers = self.readers.entry(id).or_default();
        readers.push(reader);
        readers.len() == 1
    }

    /// Whether somebody waits for a body that is being read.
    pub(super) fn is_asked(&self, reader: QueueId, id: u64) -> bool {
        self.readers.get(&id).is_some_and(|readers| readers.contains(&reader))
    }

    fn forget_recent(&mut self, bytes_max: usize) {
        while self.recent_bytes > bytes_max || self.recent.len() > RECENT_COUNT_MAX {
            let Some(id) = self.recent.pop_front() else { return };
            let bytes = self.by_id.get_mut(&id).and_then(|entry| entry.recent.take());
            self.recent_bytes -= bytes.map_or(0, |bytes| bytes.len());
        }
    }

    /// Whether segments are to be deleted, and nobody is on the way to do that.
    fn is_to_be_freed(&mut self) -> bool {
        let is_new = !self.is_freeing && self.segments.has_dead();
        self.is_freeing |= is_new;
        is_new
    }
}
