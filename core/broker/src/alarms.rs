//! Resource alarms: memory, disk space, and storage that has failed. Measures, compares, tells connections.
//!
//! Refuses to know what a connection does about it (sessions stop those who publish, B27), and never touches a queue.
//!
//! An alarm goes on when a threshold is crossed and off when it is no longer, at the next look; thresholds are looked at
//! every [`LOOK_INTERVAL`], and at once when one is moved or a write finds the disk full.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::{Clock, Disk, Memory, Monotonic, profile};
use release::MemoryRelease;
use reserve::Reserve;

use crate::announcements::events::Announcer;
use crate::checkpointer::notes::Checkpointer;
use crate::memory_shares::MemoryShares;
use crate::refused::Refused;

mod limits;
mod raised;
mod release;
mod reserve;

pub use limits::{DiskLimit, MemoryLimit, size_bytes};
pub use raised::Raised;

/// How often memory and disk are looked at.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often memory is looked at between those looks while more than half of it is used: publishers fill a small node in less than a second.
const NEAR_INTERVAL: Duration = Duration::from_millis(100);

/// Memory is near its threshold from this part on that is missing: 1 / this.
const NEAR_PART: u64 = 4;

/// So long the disk counts as full after a write that can wait found no room: where it has free bytes but takes no more files nobody could tell
/// otherwise.
const FOUND_FULL: Duration = Duration::from_secs(10);

/// The figures of the latest look, and their limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Memory this process occupies, bytes; `None` when it could not be read.
    pub memory_used_bytes: Option<u64>,
    /// Memory there is, bytes; 0 when it could not be read.
    pub memory_total_bytes: u64,
    /// The threshold as it was set.
    pub memory_limit: MemoryLimit,
    /// Space free for the data directory, bytes, with the reserve on it; `None` when it could not be read.
    pub disk_free_bytes: Option<u64>,
    /// The threshold as it was set.
    pub disk_limit: DiskLimit,
}

impl Levels {
    /// The memory threshold in bytes.
    #[must_use]
    pub fn memory_limit_bytes(&self) -> u64 {
        self.memory_limit.bytes(self.memory_total_bytes)
    }

    /// The disk threshold in bytes.
    #[must_use]
    pub fn disk_limit_bytes(&self) -> u64 {
        self.disk_limit.bytes(self.memory_total_bytes)
    }
}

/// Where the figures come from.
pub(crate) struct Sources {
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) data_dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    /// See [`crate::FileSizes::reserve_bytes_max`].
    pub(crate) reserve_bytes_max: u64,
}

/// Listeners that are told when an alarm goes on or off.
pub(crate) trait Woken: Send + Sync {
    /// All of them look at the alarms; returns at once.
    fn wake_all(&self);
}

/// For tests: nobody to wake.
#[cfg(test)]
pub(crate) struct Nobody;

#[cfg(test)]
impl Woken for Nobody {
    fn wake_all(&self) {}
}

/// The alarms of a node.
pub struct Alarms {
    raised: AtomicU8,
    state: Mutex<State>,
    wake: Condvar,
    sources: Sources,
    reserve: Reserve,
    connections: Arc<dyn Woken>,
    announcer: Arc<Announcer>,
    checkpointer: Checkpointer,
    /// Follow the memory threshold.
    pub(crate) shares: Arc<MemoryShares>,
    follower: OnceLock<Follower>,
}

/// The work of the looking thread after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Look,
    Stop,
}

/// Hears the memory threshold, bytes, at every look.
type Follower = Box<dyn Fn(u64) + Send + Sync>;

struct State {
    levels: Levels,
    /// A write found no room since the disk was last seen with enough.
    is_full: bool,
    /// That was in the life before; in this one no write has failed for it.
    is_full_from_before: bool,
    /// Logs that hold back writes until there is room.
    logs_waiting: u32,
    /// Until then the disk counts as full because a write found it so.
    found_full_until: Monotonic,
    /// Why storage has failed, the first time it did.
    failure: Option<String>,
    /// Alarms of other nodes of the cluster.
    elsewhere: Raised,
    stopping: bool,
}

impl Alarms {
    /// Where memory is read.
    pub(crate) fn memory(&self) -> &dyn Memory {
        &*self.sources.memory
    }

    /// Nothing measured yet.
    pub(crate) fn new(
        limits: (MemoryLimit, DiskLimit),
        sources: Sources,
        (connections, announcer): (Arc<dyn Woken>, Arc<Announcer>),
        checkpointer: Checkpointer,
    ) -> Alarms {
        let levels = Levels {
            memory_used_bytes: None,
            memory_total_bytes: 0,
            memory_limit: limits.0,
            disk_free_bytes: None,
            disk_limit: limits.1,
        };
        let state = State {
            levels,
            is_full: false,
            is_full_from_before: false,
            logs_waiting: 0,
            found_full_until: Monotonic::default(),
            failure: None,
            elsewhere: Raised::default(),
            stopping: false,
        };
        Alarms {
            raised: AtomicU8::new(0),
            state: Mutex::new(state),
            wake: Condvar::new(),
            reserve: Reserve::new(sources.disk.clone(), &sources.data_dir, sources.reserve_bytes_max),
            sources,
            connections,
            announcer,
            checkpointer,
            shares: Arc::default(),
            follower: OnceLock::new(),
        }
    }

    /// For tests of others: no memory, no disk.
    #[cfg(test)]
    pub(crate) fn without_sources() -> Arc<Alarms> {
        let memory = Arc::new(platform::SimMemory::new(0));
        let disk = Arc::new(platform::SimDisk::new());
        let clock = Arc::new(platform::SimClock::new(0));
        let sources = Sources { memory, disk, data_dir: "/".into(), clock, reserve_bytes_max: 64 << 20 };
        let limits = (MemoryLimit::Bytes(0), DiskLimit::Bytes(0));
        let told: (Arc<dyn Woken>, _) = (Arc::new(Nobody), Announcer::silent());
        Arc::new(Alarms::new(limits, sources, told, Checkpointer::default()))
    }

    /// Which alarms are on now.
    #[inline]
    #[must_use]
    pub fn raised(&self) -> Raised {
        Raised(self.raised.load(Ordering::Acquire))
    }

    /// The latest figures.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.state.lock().levels
    }

    /// Why storage has failed, for people; `None` while it works.
    #[must_use]
    pub fn storage_failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    /// Whether something new may be promised to be durable.
    ///
    /// # Errors
    /// [`Refused::Storage`] when storage has failed, or when the disk is full: what is left is for what makes room. A disk that was full in
    /// the life before is none as long as writes find room: what is declared with the start must not be in its way.
    #[inline]
    pub fn check_durable(&self) -> Result<(), Refused> {
        let raised = self.raised();
        let is_full = raised.has(Raised::DISK_FULL) && !self.state.lock().is_full_from_before;
        if raised.has(Raised::STORAGE_FAILED) || is_full {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// Why nothing durable is promised now.
    #[cold]
    pub(crate) fn refusal(&self) -> Refused {
        let text = match self.storage_failure() {
            Some(why) => {
                format!("storage has failed, nothing durable is accepted until the node is restarted: {why}")
            }
            None => "the disk is full, nothing durable is accepted until there is room".into(),
        };
        Refused::Storage(text.into())
    }

    /// Gives memory that was freed and is kept for later back to the system. Takes a while.
    pub fn release_memory(&self) {
        self.sources.memory.release();
    }

    /// Has `follower` told the memory threshold, in bytes, now and at every look; not while it cannot be known. It must be quick. One in
    /// the life of a node: a second one is not heard.
    pub fn follow_memory_limit(&self, follower: impl Fn(u64) + Send + Sync + 'static) {
        let is_first = self.follower.set(Box::new(follower)).is_ok();
        debug_assert!(is_first, "there is one");
        self.look();
    }

    /// Moves the memory threshold; the alarm follows before this returns.
    pub fn set_memory_limit(&self, limit: MemoryLimit) {
        self.state.lock().levels.memory_limit = limit;
        self.look();
        tracing::info!("Memory high watermark set to {} bytes", self.levels().memory_limit_bytes());
    }

    /// Moves the disk threshold; the alarm follows before this returns.
    pub fn set_disk_limit(&self, limit: DiskLimit) {
        self.state.lock().levels.disk_limit = limit;
        self.look();
        tracing::info!("Disk free limit set to {} bytes", self.levels().disk_limit_bytes());
    }

    /// Whether what is larger than may wait to be written, a message or several that come together, finds room in the log, in which so much waits. One that does not
    /// would keep everybody waiting, those too who could make room.
    ///
    /// # Errors
    /// [`Refused::Storage`] with both sizes.
    #[cold]
    pub(crate) fn check_room(&self, what: &str, size: u64, pending_bytes: u64) -> Result<(), Refused> {
        let free = self.free_disk_bytes().unwrap_or(u64::MAX);
        let needed = size.saturating_add(pending_bytes).saturating_add(self.waiting_bytes_max());
        if free >= needed {
            return Ok(());
        }
        let text =
            format!("the disk is nearly full: {free} bytes are free, too few for {what} of {size} bytes");
        Err(Refused::Storage(text.into()))
    }

    /// So much may wait to be written, bytes: where the disk is nearly full it must find room when it is.
    #[inline]
    pub(crate) fn waiting_bytes_max(&self) -> u64 {
        self.reserve.waiting_bytes_max()
    }

    /// As many bytes a file of the log may have.
    pub(crate) fn log_file_bytes_max(&self) -> u64 {
        self.reserve.log_file_bytes_max()
    }

    /// Whether there is a reserve, because little is free.
    #[inline]
    pub(crate) fn is_near_full(&self) -> bool {
        self.waiting_bytes_max() < u64::MAX
    }

    /// So much may be written to move what files of the log hold, while so much waits to be written: half of what is free now, which also has
    /// to take what consumers settle.
    pub(crate) fn room_to_move(&self, waiting_bytes: u64) -> u64 {
        self.free_disk_bytes().map_or(u64::MAX, |free| free.saturating_sub(waiting_bytes) / 2)
    }

    /// Whether so many bytes may be written to empty the oldest file of the log: half of what is free and in reserve, of which parts are given
    /// up for it. Records that are moved out of a file make room for themselves, and for the dead ones beside them.
    pub(crate) fn takes_place(&self, bytes: u64, waiting_bytes: u64) -> bool {
        loop {
            let lacking_bytes = bytes.saturating_sub(self.room_to_move(waiting_bytes));
            if lacking_bytes == 0 {
                return true;
            }
            if lacking_bytes > self.reserve.given_bytes_max() / 2 || !self.make_room() {
                return false;
            }
        }
    }

    /// Something has made room: a disk that is nearly full is looked at now.
    pub(crate) fn room_was_made(&self) {
        if self.is_near_full() {
            self.wake.notify_one();
        }
    }

    /// Before the files of a start are begun: a disk may be too full for that.
    pub(crate) fn make_room_to_start(&self) {
        if let Ok(free_bytes) = self.free_disk_bytes()
            && self.reserve.give_way_to_start(free_bytes)
        {
            self.change(|state| (state.is_full, state.is_full_from_before) = (true, true));
        }
    }

    fn free_disk_bytes(&self) -> std::io::Result<u64> {
        self.sources.disk.free_bytes(&self.sources.data_dir)
    }

    /// Space that is free for the data directory, with the reserve, after that was made as it should be; `None` when it cannot be read.
    fn look_at_disk(&self, limit_bytes: u64) -> Option<u64> {
        let free_bytes = self.free_disk_bytes().ok()?;
        let raised = self.raised();
        self.reserve.follow(free_bytes, limit_bytes, raised.has(Raised::DISK_FULL), || {
            self.raised().has(Raised::LOG_WAITS)
        });
        Some(self.free_disk_bytes().ok()?.saturating_add(self.reserve.bytes()))
    }

    /// Measures and lets the alarms follow.
    pub(crate) fn look(&self) {
        let memory = &self.sources.memory;
        let total = memory.total_bytes().unwrap_or(0);
        let free = self.look_at_disk(self.levels().disk_limit.bytes(total));
        let enough_bytes = self.reserve.enough_bytes();
        let limit = self.levels().memory_limit.bytes(total);
        let mut used = memory.used_bytes().ok();
        if used.is_some_and(|used| used > limit) {
            // Freed memory must not keep publishers waiting.
            memory.release();
            used = memory.used_bytes().ok();
        }
        if total > 0 {
            self.shares.set_limit(limit);
            used.into_iter().for_each(|used| self.shares.note_used(used, limit));
            self.follower.get().into_iter().for_each(|follower| follower(limit));
        }
        self.change(|state| {
            state.levels.memory_used_bytes = used;
            state.levels.memory_total_bytes = total;
            state.levels.disk_free_bytes = free;
            let enough = state.levels.disk_limit_bytes().max(enough_bytes);
            let has_room = free.is_some_and(|free| free >= enough);
            if state.logs_waiting == 0 && has_room && self.sources.clock.now() >= state.found_full_until {
                (state.is_full, state.is_full_from_before) = (false, false);
            }
        });
    }

    /// A write that can wait found no room: the disk alarm goes on at once, for [`FOUND_FULL`], until there is as much as after any full disk.
    pub(crate) fn disk_full(&self) {
        let until = self.sources.clock.now().plus(FOUND_FULL);
        self.change(|state| {
            Self::became_full(state);
            state.found_full_until = until;
        });
    }

    fn became_full(state: &mut State) {
        state.is_full_from_before = false;
        state.is_full = true;
    }

    /// A log holds back what it has to write until there is room.
    pub(crate) fn log_waits(&self) {
        self.change(|state| {
            Self::became_full(state);
            state.logs_waiting += 1;
        });
    }

    /// A log found no room for a write: true when some of the reserve was given up for it. The disk alarm goes on at once.
    pub(crate) fn make_room(&self) -> bool {
        let bytes = self.reserve.give_part();
        if bytes > 0 {
            tracing::warn!(
                bytes,
                "the disk is full: a part of the reserve on it is given up, so that consumers can make room"
            );
            self.change(Self::became_full);
        }
        bytes > 0
    }

    /// A log that waited has written; whether the alarm goes off is for the next look.
    pub(crate) fn log_goes_on(&self) {
        self.change(|state| state.logs_waiting -= 1);
        self.wake.notify_one();
    }

    /// A sync failed: until a restart nothing durable is promised any more. Only the first reason is kept.
    pub(crate) fn storage_failed(&self, why: &str) {
        self.change(|state| {
            state.failure.get_or_insert_with(|| why.to_owned());
        });
    }

    /// Changes the state, and tells whoever must know when that turns an alarm on or off.
    /// Whether any other node of the cluster is short of memory, or of disk: publishers are blocked on all nodes.
    pub(crate) fn others_are(&self, short_of_memory: bool, short_of_disk: bool) {
        let when = |is_on: bool, alarm| if is_on { alarm } else { Raised::default() };
        let elsewhere =
            when(short_of_memory, Raised::MEMORY_ELSEWHERE).with(when(short_of_disk, Raised::DISK_ELSEWHERE));
        self.change(|state| state.elsewhere = elsewhere);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let (before, after) = {
            let mut state = self.state.lock();
            change(&mut state);
            let after = state.raised();
            (Raised(self.raised.swap(after.0, Ordering::AcqRel)), after)
        };
        if before == after {
            return;
        }
        self.log(before, after);
        self.announcer.alarm_changed(before, after);
        self.checkpointer.spare_disk(after.has(Raised::DISK));
        self.connections.wake_all();
    }

    fn log(&self, before: Raised, after: Raised) {
        let levels = self.levels();
        for (alarm, name) in [(Raised::MEMORY, "memory"), (Raised::DISK, "disk")] {
            match (before.has(alarm), after.has(alarm)) {
                (false, true) => tracing::warn!(
                    memory_used = levels.memory_used_bytes,
                    memory_limit = levels.memory_limit_bytes(),
                    disk_free = levels.disk_free_bytes,
                    disk_limit = levels.disk_limit_bytes(),
                    "{name} resource limit alarm set: connections that publish are blocked until it clears"
                ),
                (true, false) => {
                    tracing::warn!("{name} resource limit alarm cleared: connections may publish again");
                }
                _ => {}
            }
        }
    }

    /// The life of the thread that looks: until [`Self::stop`]. After each look it calls `looked`.
    pub(crate) fn run(&self, clock: &dyn Clock, looked: impl Fn()) {
        let mut release = MemoryRelease::default();
        loop {
            self.look();
            looked();
            self.release_unused(&mut release, clock);
            if self.rest() == Next::Stop {
                return;
            }
        }
    }

    /// Until the next look; where memory comes near its threshold meanwhile, what is free of it goes back, and crossing it ends the rest.
    fn rest(&self) -> Next {
        let levels = self.levels();
        let is_half_used =
            levels.memory_used_bytes.is_some_and(|used| used > levels.memory_limit_bytes() / 2);
        let interval = if is_half_used { NEAR_INTERVAL } else { LOOK_INTERVAL };
        let mut is_in_vain = false;
        for _ in 0..LOOK_INTERVAL.as_millis() / interval.as_millis() {
            let mut state = self.state.lock();
            let is_woken = !state.stopping && !self.wake.wait_for(&mut state, interval).timed_out();
            if state.stopping {
                return Next::Stop;
            }
            drop(state);
            if is_woken || self.is_crossed(&mut is_in_vain) {
                break;
            }
        }
        Next::Look
    }

    /// Whether memory is above its threshold, though what was free was given back as soon as it came near. `is_in_vain` once that was no
    /// help: it takes a while.
    fn is_crossed(&self, is_in_vain: &mut bool) -> bool {
        let levels = self.levels();
        let (memory, limit) = (&self.sources.memory, levels.memory_limit_bytes());
        let near = limit - limit / NEAR_PART;
        if levels.memory_total_bytes == 0 || self.raised().has(Raised::MEMORY) {
            return false;
        }
        let is_above = |bytes: u64| memory.used_bytes().is_ok_and(|used| used > bytes);
        if !*is_in_vain && is_above(near) {
            memory.release();
            *is_in_vain = is_above(near);
        }
        is_above(limit)
    }

    /// Gives memory back that was freed and is not used, if it is worth it and time for it.
    fn release_unused(&self, release: &mut MemoryRelease, clock: &dyn Clock) {
        let memory = self.memory();
        let Some(used) = self.levels().memory_used_bytes else { return };
        if self.raised().has(Raised::MEMORY) {
            let now = clock.now();
            if memory.heap().is_some_and(|heap| release.is_needed(now, used, heap)) {
                memory.release();
                release.helped(now, used, memory.used_bytes().unwrap_or(used));
            }
            return;
        }
        if !release.is_due(clock.now(), profile::cpu_time_ns(), used) {
            return;
        }
        if !memory.heap().is_some_and(|heap| release.is_worth_it(used, heap)) {
            return;
        }
        memory.release();
        if let (Ok(left), Some(heap)) = (memory.used_bytes(), memory.heap()) {
            tracing::debug!(before = used, left, "memory that was freed went back to the system");
            release.given_back(left, heap);
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake.notify_one();
    }
}

impl State {
    fn raised(&self) -> Raised {
        let levels = &self.levels;
        let low_memory = levels.memory_total_bytes > 0
            && levels.memory_used_bytes.is_some_and(|used| used > levels.memory_limit_bytes());
        let low_disk = levels.disk_free_bytes.is_some_and(|free| free < levels.disk_limit_bytes());
        [
            (low_memory, Raised::MEMORY),
            (low_disk || self.is_full, Raised::DISK),
            (self.failure.is_some(), Raised::STORAGE_FAILED),
            (self.logs_waiting > 0, Raised::LOG_WAITS),
            (self.is_full, Raised::DISK_FULL),
        ]
        .into_iter()
        .filter(|(is_on, _)| *is_on)
        .fold(self.elsewhere, |all, (_, alarm)| all.with(alarm))
    }
}

#[cfg(test)]
mod tests;
