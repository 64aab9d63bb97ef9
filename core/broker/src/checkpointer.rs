//! Keeps the message log short: when files are sealed, queues write anew what they still need from the oldest. Blocks that lie together
//! in it stay there, in kept files; those go when nothing in them is needed, and are emptied when little is.

#[cfg(test)]
mod deletion_tests;
pub(crate) mod notes;
mod pace;
mod segments;
mod sparse;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use commitlog::{Afterlife, LogError, Position};
use notes::{Checkpointer, FILES_KEPT, QUIET_INTERVAL};
use pace::ns;
use segments::Looks;

use crate::alarms::Raised;
use crate::bodies::Moved;
use crate::call::Call;
use crate::cell::condition::Condition;
use crate::cell::{Event, Queue};
use crate::log_places::pins::{FileNeed, Pins};
use crate::services::Services;
use crate::services::motion::Motion;

/// How long to wait before a checkpoint is tried again that could not be finished.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The same while the disk is full.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The same after not every queue could move its messages, while the disk is short of room: each attempt writes something.
const SHORT_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// How often to look for the answer of a queue. Nobody waits for a checkpoint.
const ANSWER_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Kept files emptied at once, at most.
const EMPTIED_MAX: usize = 8;

/// Bytes that are written for that at once while the disk is short of room, unless a single file has more.
const EMPTIED_BYTES_MAX: u64 = 32 << 20;

/// A file of less than this part of what it may have is small: 1 / this.
const SMALL_FILE_PART: u64 = 4;

/// A newest file of less than this part of what it may have is not sealed early: 1 / this.
const SEALED_PART_MIN: u64 = 64;

/// How often to look again whether emptying files would make room, while there are more than are left alone, and which kept files are
/// still needed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of sealed files, and how much of them queues still need. Emptying a file of which nothing is dead fills another one: with
/// no bound on what is alive, that would go on for ever, with nobody publishing.
struct Room {
    sealed_bytes: u64,
    alive_bytes: u64,
    /// So many files have fewer bytes than these, on average: each life begins one, however little it has to write.
    small_files_bytes: u64,
}

/// How far the work on one position is.
#[derive(Default)]
enum Phase {
    #[default]
    Resting,
    /// Queues write anew what they need of the log up to the position.
    Asked { position: u64, answers: Vec<Call<()>>, bodies: Moved },
    /// Their new records become durable: the log up to the goal. Then those files go of which nothing was needed before that.
    Syncing { position: u64, goal: Position, free: Free },
}

/// Files and queues that can go once all that was appended before is durable.
struct Free {
    pins: Pins,
    /// Deleted queues that need the log until their deletion is durable.
    departing: Vec<Arc<Queue>>,
    /// Nobody needs the log up to the position but for the pins.
    is_log_free: bool,
}

/// Where the checkpointer is in its work; each [`Checkpointer::step`] goes on from there.
#[derive(Default)]
pub(crate) struct Progress {
    phase: Phase,
    /// When to look at the kept files next.
    look_ns: u64,
    /// When to look next whether the newest file is worth sealing.
    newest_look_ns: u64,
    segment_looks: Looks,
    /// Kept files that queues were asked to leave, and until when they are not asked again.
    emptied: BTreeMap<u64, u64>,
}

/// The outcome of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Worked,
    /// No file is to go.
    Idle,
    /// Nothing can be done before this has passed, or others have done their part.
    Later(Duration),
    Stopped,
}

impl Checkpointer {
    /// The thread's life.
    pub(crate) fn run(&self, services: &Services) {
        let mut progress = Progress::default();
        loop {
            match self.step(services, &mut progress) {
                Turn::Worked => {}
                Turn::Idle => self.rest(services, &progress),
                Turn::Later(wait) => self.pause(wait),
                Turn::Stopped => return,
            }
        }
    }

    /// Does what can be done now, without waiting.
    pub(crate) fn step(&self, services: &Services, progress: &mut Progress) -> Turn {
        if self.0.0.lock().stopping {
            return Turn::Stopped;
        }
        let (phase, turn) = match std::mem::take(&mut progress.phase) {
            Phase::Resting => match self.next(services) {
                Some(position) => self.begin(services, position),
                None => {
                    let looked = self.look_at_kept(services, progress);
                    let looked = looked.or_else(|| self.look_at_segments(services, progress));
                    let looked = looked.or_else(|| self.look_at_newest(services, progress));
                    looked.unwrap_or((Phase::Resting, Turn::Idle))
                }
            },
            Phase::Asked { position, answers, bodies } => asked(services, position, answers, bodies),
            Phase::Syncing { position, goal, free } => self.synced(services, position, goal, free),
        };
        progress.phase = phase;
        turn
    }

    /// Begins with kept files that are not needed, or of which less than half lives, or less than four fifths while the disk is short of
    /// room: queues write what they have in those to segments.
    fn look_at_kept(&self, services: &Services, progress: &mut Progress) -> Option<(Phase, Turn)> {
        let (log, now_ns) = (&services.log, services.clock.now().0);
        let is_too_early = services.motion == Motion::Threads && now_ns < progress.look_ns;
        if is_too_early || !log.has_kept_files() || log.waits_for_room().is_some() {
            return None;
        }
        let is_urgent = services.alarms.raised().has(Raised::DISK);
        progress.look_ns = now_ns + ns(if is_urgent { ROOM_RETRY_INTERVAL } else { LOOK_INTERVAL });
        let pins = services.pins_of(log.kept_files());
        if pins.is_partial() {
            return None;
        }
        let disk_is_short = self.0.0.lock().disk_is_short;
        progress.emptied.retain(|_, until_ns| *until_ns > now_ns);
        let place_bytes = disk_is_short.then(|| place_to_empty(services));
        let may_go = |file: &Range<u64>| !progress.emptied.contains_key(&file.start);
        let mut sparse = sparse_files(&pins, place_bytes, may_go);
        if sparse.is_empty() && disk_is_short {
            sparse = sparsest_into_reserve(services, &pins, may_go);
        }
        if !sparse.is_empty() {
            let again_ns = now_ns + ns(if disk_is_short { SHORT_RETRY_INTERVAL } else { RETRY_INTERVAL });
            tracing::debug!(files = sparse.len(), "kept log files are emptied");
            progress.emptied.extend(sparse.iter().map(|file| (file.start, again_ns)));
            let queues = services.queues_in_log().into_iter().flatten();
            let answers = queues.map(|queue| ask(&queue, 0, &sparse)).collect();
            return Some((Phase::Asked { position: 0, answers, bodies: Moved::Done }, Turn::Worked));
        }
        let has_free = pins.files().any(|(_, need)| need.bytes == 0);
        let free = Free { pins, departing: Vec::new(), is_log_free: true };
        has_free.then(|| (Phase::Syncing { position: 0, goal: log.begin_sync(), free }, Turn::Worked))
    }

    /// Begins with queues that have much in segments that nobody needs.
    fn look_at_segments(&self, services: &Services, progress: &mut Progress) -> Option<(Phase, Turn)> {
        let answers = self.compact_segments(services, &mut progress.segment_looks);
        if answers.is_empty() {
            return None;
        }
        tracing::debug!(queues = answers.len(), "segments are compacted");
        Some((Phase::Asked { position: 0, answers, bodies: Moved::Done }, Turn::Worked))
    }

    /// While the disk is short of room, has the newest file sealed when it is the only one and nearly all of it is dead: as large as it may
    /// become it can be most of a small disk.
    fn look_at_newest(&self, services: &Services, progress: &mut Progress) -> Option<(Phase, Turn)> {
        let (log, now_ns) = (&services.log, services.clock.now().0);
        let is_only_one = {
            let state = self.0.0.lock();
            state.disk_is_short && state.sealed.is_empty()
        };
        let newest_bytes = log.end().0.saturating_sub(log.kept().0.0);
        let is_too_early =
            now_ns < progress.newest_look_ns || newest_bytes < log.file_bytes_max() / SEALED_PART_MIN;
        if !is_only_one || is_too_early || log.waits_for_room().is_some() {
            return None;
        }
        progress.newest_look_ns = now_ns + ns(LOOK_INTERVAL);
        let alive_bytes = alive_log_bytes(services);
        let room = Room { sealed_bytes: newest_bytes, alive_bytes, small_files_bytes: 0 };
        if room.is_to_be_had(true) {
            tracing::debug!(newest_bytes, "the newest log file is sealed early");
            log.seal_soon();
        }
        None
    }

    /// The end of the oldest file, when emptying it makes room. Queues are looked at without a lock: there may be many.
    fn next(&self, services: &Services) -> Option<u64> {
        let now_ns = services.clock.now().0;
        let (oldest, newest, files) = {
            let mut state = self.0.0.lock();
            state.note_quiet(now_ns);
            (state.sealed.front().copied()?, state.newest_of_too_many()?, state.sealed.len())
        };
        let files = if files > FILES_KEPT { files as u64 } else { 0 };
        let room = Room {
            sealed_bytes: newest.saturating_sub(services.log.kept().0.0),
            alive_bytes: alive_log_bytes(services),
            small_files_bytes: files * (services.log.file_bytes_max() / SMALL_FILE_PART),
        };
        let mut state = self.0.0.lock();
        let is_short = state.disk_is_short;
        let has_place = |state: &mut _| {
            parking_lot::MutexGuard::unlocked(state, || has_place_for_oldest(services, oldest, is_short))
        };
        if room.is_to_be_had(is_short) && has_place(&mut state) {
            return state.sealed.pop_front();
        }
        // Nothing changes soon where nothing happens.
        (state.newest.1, state.is_quiet) = (now_ns, false);
        None
    }

    /// Lets queues write anew what they need of the log up to `position`.
    fn begin(&self, services: &Services, position: u64) -> (Phase, Turn) {
        if services.log.waits_for_room().is_some() {
            return (Phase::Resting, self.finish(position, drop_settled(services, position)));
        }
        let needing = services.all_queues().into_iter().filter(|queue| is_needed(queue, position));
        let nothing = Arc::default();
        let answers = needing.map(|queue| ask(&queue, position, &nothing)).collect();
        (Phase::Asked { position, answers, bodies: Moved::Worked }, Turn::Worked)
    }

    /// The records that the queues wrote anew must be durable before the old ones go.
    fn synced(&self, services: &Services, position: u64, goal: Position, free: Free) -> (Phase, Turn) {
        let do_deleted_need = free.departing.iter().any(|queue| is_needed(queue, position));
        let later = Turn::Later(ANSWER_LOOK_INTERVAL);
        let done = match services.log.is_synced(goal) {
            Ok(false) => return (Phase::Syncing { position, goal, free }, later),
            // A power cut would bring them back.
            Ok(true) if do_deleted_need && services.alarms.storage_failure().is_some() => Err(RETRY_INTERVAL),
            Ok(true) if do_deleted_need => return (Phase::Syncing { position, goal, free }, later),
            Ok(true) if !free.is_log_free => {
                tracing::warn!(position, "old log files are kept: not every queue could move its messages");
                // Consumers settle the messages that hold them, and letters follow, which make the room that all wait for.
                Err(if self.0.0.lock().disk_is_short { SHORT_RETRY_INTERVAL } else { RETRY_INTERVAL })
            }
            Ok(true) => retire_files(services, position, |file| free.pins.afterlife(file))
                .and_then(|files| Ok(files + remove_kept(services, &free.pins)?)),
            Err(error) => {
                tracing::warn!(%error, "old log files are kept");
                Err(ROOM_RETRY_INTERVAL)
            }
        };
        if matches!(done, Ok(files) if files > 0) {
            services.alarms.room_was_made();
        }
        (Phase::Resting, self.finish(position, done))
    }

    /// Files went, or the position is kept for later.
    fn finish(&self, position: u64, done: Result<usize, Duration>) -> Turn {
        match done {
            Ok(files) => {
                tracing::debug!(files, position, "log files dropped");
                Turn::Worked
            }
            Err(wait) => {
                if position > 0 {
                    self.0.0.lock().sealed.push_front(position);
                }
                Turn::Later(wait)
            }
        }
    }

    /// Waits until there are more files than are left alone, or, when there are, or kept ones, until it makes sense to look again.
    fn rest(&self, services: &Services, progress: &Progress) {
        let mut state = self.0.0.lock();
        let mut has_more = state.has_more() || progress.segment_looks.are_due();
        if !state.stopping && (has_more || state.disk_is_short || services.log.has_kept_files()) {
            let wait = if state.disk_is_short { ROOM_RETRY_INTERVAL } else { LOOK_INTERVAL };
            self.0.1.wait_for(&mut state, wait);
            return;
        }
        while !state.stopping && !has_more && !state.disk_is_short {
            if state.sealed.is_empty() {
                self.0.1.wait(&mut state);
            } else if self.0.1.wait_for(&mut state, QUIET_INTERVAL).timed_out() {
                return;
            }
            has_more = state.has_more();
        }
    }

    fn pause(&self, wait: Duration) {
        let mut state = self.0.0.lock();
        if !state.stopping {
            self.0.1.wait_for(&mut state, wait);
        }
    }
}

impl Room {
    /// Whether enough of what is sealed is dead: half of it, or a fifth when room on the disk is worth more than work. Of small files it
    /// does not matter: they become fewer.
    fn is_to_be_had(&self, disk_is_short: bool) -> bool {
        let alive = self.alive_bytes;
        let is_dead_enough = self.sealed_bytes > if disk_is_short { alive + alive / 4 } else { 2 * alive };
        is_dead_enough || (!disk_is_short && self.sealed_bytes < self.small_files_bytes)
    }
}

/// Whether there is room for what would be written so that the oldest file can go, which ends here; while the disk is short of it, it is taken
/// then. A state record is of all that a queue has, not only of what the file holds. A record that did not fit would have filled the disk in
/// vain.
fn has_place_for_oldest(services: &Services, end: u64, disk_is_short: bool) -> bool {
    let alarms = &services.alarms;
    if !disk_is_short {
        return true;
    }
    let mut needing = services.all_queues();
    needing.retain(|queue| is_needed(queue, end));
    let of_queues: u64 = needing.iter().map(|queue| queue.checkpoint_bytes()).sum();
    let (bytes, waiting) = (services.bodies.bytes_to_move(end) + of_queues, services.waiting_bytes());
    let has_place = alarms.takes_place(bytes, waiting);
    if !has_place {
        let (queues, room) = (needing.len(), alarms.room_to_move(waiting));
        tracing::debug!(end, bytes, room, queues, "no room to empty the oldest log file");
    }
    has_place
}

/// Looks for the answers of the queues, and has shared bodies moved meanwhile. A queue whose segments cannot be synced never answers.
fn asked(services: &Services, position: u64, mut answers: Vec<Call<()>>, mut bodies: Moved) -> (Phase, Turn) {
    answers.retain_mut(|answer| answer.try_take().is_none());
    if bodies != Moved::Done {
        bodies = services.bodies.move_out(&services.log, &services.segments, position);
    }
    if bodies != Moved::Done || !answers.is_empty() {
        let turn = if bodies == Moved::Worked { Turn::Worked } else { Turn::Later(ANSWER_LOOK_INTERVAL) };
        return (Phase::Asked { position, answers, bodies }, turn);
    }
    // In this order: records that are appended by now tell the positions that are not needed now.
    let needing = queues_needing(services, position);
    let (departing, staying): (Vec<_>, Vec<_>) =
        needing.into_iter().partition(|queue| queue.condition() == Condition::Deleted);
    let do_queues_need = !staying.is_empty();
    let do_bodies_need = services.bodies.need_log(position, services.log.durable().0);
    let free = Free {
        is_log_free: !do_queues_need && !do_bodies_need,
        departing,
        pins: services.pins_of(files_below(services, position)),
    };
    (Phase::Syncing { position, goal: services.log.begin_sync(), free }, Turn::Worked)
}

/// Files that are to be emptied: those that give the most room for what is written come first. While the disk is short there is only so
/// much place, and no more are emptied at once than are soon done.
fn sparse_files(
    pins: &Pins,
    place_bytes: Option<u64>,
    may_go: impl Fn(&Range<u64>) -> bool,
) -> Arc<[Range<u64>]> {
    let length = |file: &Range<u64>| u128::from(file.end - file.start);
    let is_sparse = |(file, need): &(&Range<u64>, FileNeed)| {
        let kept = u128::from(need.kept_bytes);
        match place_bytes {
            Some(place_bytes) => need.written_bytes <= place_bytes && kept * 5 < length(file) * 4,
            None => kept * 2 < length(file),
        }
    };
    let needed = pins.files().filter(|(file, need)| need.bytes > 0 && may_go(file));
    let mut sparse: Vec<(&Range<u64>, FileNeed)> = needed.filter(is_sparse).collect();
    sparse.sort_by(|(a, of_a), (b, of_b)| {
        (u128::from(of_a.kept_bytes) * length(b)).cmp(&(u128::from(of_b.kept_bytes) * length(a)))
    });
    let bytes_max = place_bytes.map_or(u64::MAX, |place_bytes| place_bytes.min(EMPTIED_BYTES_MAX));
    let mut bytes = 0;
    let fitting = sparse.into_iter().take(EMPTIED_MAX).take_while(|(_, need)| {
        let is_first = bytes == 0;
        bytes += need.written_bytes.max(1);
        is_first || bytes <= bytes_max
    });
    fitting.map(|(file, _)| file.clone()).collect()
}

/// So much may be written to empty files while the disk is short of room.
fn place_bytes(services: &Services) -> u64 {
    services.alarms.room_to_move(services.waiting_bytes())
}

/// The same of kept files. The queues that leave them write a state record besides, and what goes with it.
fn place_to_empty(services: &Services) -> u64 {
    place_bytes(services).saturating_sub(records_bytes(services))
}

/// Bytes that the queues with blocks in kept files write when they leave one, besides their blocks there.
fn records_bytes(services: &Services) -> u64 {
    let queues = services.queues_in_log();
    queues.iter().flatten().map(|queue| queue.checkpoint_bytes()).sum()
}

/// The kept file that gives the most room, if a part of the reserve is enough for what is written for that: with less room than there is nothing else may
/// ever make any.
fn sparsest_into_reserve(
    services: &Services,
    pins: &Pins,
    may_go: impl Fn(&Range<u64>) -> bool,
) -> Arc<[Range<u64>]> {
    let Some(file) = sparse_files(pins, Some(u64::MAX), may_go).first().cloned() else {
        return Arc::default();
    };
    let file: Arc<[Range<u64>]> = [file].into();
    let bytes = written_bytes_of(pins, &file) + records_bytes(services);
    if services.alarms.takes_place(bytes, services.waiting_bytes()) { file } else { Arc::default() }
}

/// Bytes that are written to empty these files, at most.
fn written_bytes_of(pins: &Pins, files: &[Range<u64>]) -> u64 {
    pins.files().filter(|(file, _)| files.contains(file)).map(|(_, need)| need.written_bytes).sum()
}

/// Bytes of the log that queues need.
fn alive_log_bytes(services: &Services) -> u64 {
    let queues = services.all_queues();
    services.bodies.alive_log_bytes() + queues.iter().map(|queue| queue.alive_log_bytes()).sum::<u64>()
}

fn ask(queue: &Arc<Queue>, position: u64, vacate: &Arc<[Range<u64>]>) -> Call<()> {
    let (reply, call) = Call::pair();
    queue.submit(Event::Checkpoint(position, vacate.clone(), reply));
    call
}

/// The sealed files up to a position, and all kept ones.
fn files_below(services: &Services, position: u64) -> Vec<Range<u64>> {
    let mut files = services.log.sealed_files();
    files.retain(|file| file.end <= position);
    files.extend(services.log.kept_files());
    files
}

/// While the log waits for room nothing can be written anew, but files may go that hold only what is settled: consumers make
/// room that way. A queue needs nothing of them when it has no persistent message, or none before a record that is durable.
fn drop_settled(services: &Services, position: u64) -> Result<usize, Duration> {
    let durable = services.log.durable().0;
    let is_free = |oldest: u64| oldest == 0 || (oldest > position && oldest <= durable);
    let is_queue_free = |queue: &Arc<Queue>| is_free(queue.oldest_log_position());
    // In this order: a queue that is deleted meanwhile is among the second.
    let is_every_queue_free =
        services.all_queues().iter().all(is_queue_free) && services.departing().iter().all(is_queue_free);
    if !services.bodies.is_free_of(position, durable) || !is_every_queue_free {
        return Err(ROOM_RETRY_INTERVAL);
    }
    let pins = services.pins_of(files_below(services, position));
    // The latest settlements are not durable: after a crash a state record that refers to a file would still count.
    let stated_end = services.log_places.stated_end();
    let afterlife = |file: &Range<u64>| {
        if file.start < stated_end { Afterlife::Kept } else { pins.afterlife(file) }
    };
    retire_files(services, position, afterlife)
}

/// Files below the position are no part of the log any more.
fn retire_files(
    services: &Services,
    position: u64,
    afterlife: impl Fn(&Range<u64>) -> Afterlife,
) -> Result<usize, Duration> {
    let retired = services.log.retire_files_below(Position(position), |file| afterlife(&file));
    retired.map_err(|error| not_removed(services, &error))
}

/// Removes the kept files of which nothing was needed.
fn remove_kept(services: &Services, pins: &Pins) -> Result<usize, Duration> {
    let kept = services.log.kept_files().into_iter().filter(|file| pins.afterlife(file) == Afterlife::None);
    let removed = kept.map(|file| services.log.remove_kept(file.start).map(|()| 1));
    removed.sum::<Result<usize, _>>().map_err(|error| not_removed(services, &error))
}

fn not_removed(services: &Services, error: &LogError) -> Duration {
    tracing::warn!(%error, "old log files cannot be removed");
    if let LogError::Io(failure) = error
        && failure.is_failed_sync()
    {
        services.alarms.storage_failed(&error.to_string());
    }
    RETRY_INTERVAL
}

/// Queues that need what the log holds up to `position`, deleted ones too as long as their deletion is not durable.
fn queues_needing(services: &Services, position: u64) -> Vec<Arc<Queue>> {
    let mut needing = services.all_queues();
    // After the others: a queue that is deleted meanwhile is here.
    needing.extend(services.departing());
    needing.retain(|queue| is_needed(queue, position));
    needing
}

/// Whether a queue, a crashed one perhaps, still needs what the log holds up to `position`.
fn is_needed(queue: &Arc<Queue>, position: u64) -> bool {
    (1..=position).contains(&queue.oldest_log_position())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpointer::notes::State;
    use queues::LogRange;

    /// Files of 100 MB, all of whose bytes are needed, of which so many MB live.
    fn pins(live_mb: &[u64]) -> Pins {
        const MB: u64 = 1_000_000;
        let file = |nth: usize| nth as u64 * 100 * MB..(nth as u64 + 1) * 100 * MB;
        let mut pins = Pins::of((0..live_mb.len()).map(file).collect());
        for (nth, live_mb) in live_mb.iter().enumerate() {
            pins.add(file(nth));
            let range = LogRange { position: file(nth).start, bytes: 100_000_000 };
            pins.add_kept(range, live_mb * MB);
        }
        pins
    }

    fn emptied(live_mb: &[u64], place_mb: Option<u64>) -> Vec<u64> {
        let place_bytes = place_mb.map(|mb| mb * 1_000_000);
        let files = sparse_files(&pins(live_mb), place_bytes, |file| file.start != 300_000_000);
        files.iter().map(|file| file.start / 100_000_000).collect()
    }

    #[test]
    fn files_of_which_less_than_half_lives_are_emptied_the_sparsest_first() {
        assert_eq!(emptied(&[50, 49, 100, 0, 0, 10], None), [4, 5, 1], "the fourth was asked for before");
        assert_eq!(emptied(&[1; 20], None).len(), EMPTIED_MAX);
        let without = Pins::of(std::iter::once(0..100).collect());
        assert_eq!(sparse_files(&without, None, |_| true).len(), 0, "nothing is needed of it");
    }

    #[test]
    fn while_the_disk_is_short_more_files_are_worth_it_and_few_are_emptied_at_once() {
        assert_eq!(emptied(&[80, 79, 100, 0], Some(80)), [1], "one at least");
        assert_eq!(emptied(&[80, 79, 100, 0], Some(78)), [0; 0], "it would not fit");
        assert_eq!(emptied(&[30, 79, 10, 0, 3, 0], Some(1000)), [5, 4, 2], "no more than are soon done");
        assert_eq!(emptied(&[30, 79, 10, 0, 3, 0], Some(12)), [5, 4], "as many as find room");
    }

    #[test]
    fn what_other_files_have_of_a_block_is_written_too_when_it_leaves_one() {
        const MB: u64 = 1_000_000;
        let mut pins = pins(&[10, 10]);
        pins.add_kept(LogRange { position: 50 * MB, bytes: 100_000_000 }, 40 * MB);
        let first = |place_mb: Option<u64>| {
            sparse_files(&pins, place_mb.map(|mb| mb * MB), |file| file.start == 0).len()
        };
        assert_eq!([first(Some(49)), first(Some(50)), first(None)], [0, 1, 1]);
        let all = [0..100 * MB, 100 * MB..200 * MB];
        assert_eq!((written_bytes_of(&pins, &all[..1]), written_bytes_of(&pins, &all)), (50 * MB, 100 * MB));
    }

    #[test]
    fn files_go_when_much_of_them_is_dead_or_when_they_are_small() {
        let is_to_be_had = |sealed_bytes, disk_is_short| {
            Room { sealed_bytes, alive_bytes: 100, small_files_bytes: 50 }.is_to_be_had(disk_is_short)
        };
        assert_eq!([49, 50, 200, 201].map(|sealed| is_to_be_had(sealed, false)), [true, false, false, true]);
        assert_eq!([49, 50, 125, 126].map(|sealed| is_to_be_had(sealed, true)), [false, false, false, true]);
    }

    #[test]
    fn files_are_left_alone_while_others_are_sealed() {
        let s = |seconds: u64| seconds * 1_000_000_000;
        let mut state = State { sealed: [10, 20].into(), ..State::default() };
        let newest_at = |state: &mut State, now_s| {
            state.note_quiet(s(now_s));
            state.newest_of_too_many()
        };
        assert_eq!([100, 119, 120].map(|now_s| newest_at(&mut state, now_s)), [None, None, Some(20)]);
        state.sealed.pop_front();
        assert_eq!(newest_at(&mut state, 121), Some(20), "the others follow");
        state.sealed.push_back(30);
        assert_eq!([122, 141, 142].map(|now_s| newest_at(&mut state, now_s)), [None, None, Some(30)]);
        state.sealed.clear();
        assert_eq!(newest_at(&mut state, 200), None);
    }
}
