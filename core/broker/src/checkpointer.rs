//! Keeps the message log short: when files are sealed, queues write anew what they still need from the oldest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use commitlog::{LogError, Position};
use parking_lot::{Condvar, Mutex};

use crate::call::Call;
use crate::cell::{Event, Queue};
use crate::services::Services;

/// Sealed files left alone: most messages in them are consumed before their turn comes. None while the disk is short of room.
/// Beyond them, files are emptied only when that makes room, see [`Room`].
const FILES_KEPT: usize = 3;

/// How long to wait before a checkpoint is tried again that could not be finished.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The same while the disk is full.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How often to look for the answer of a queue. Nobody waits for a checkpoint.
const ANSWER_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How often to look again whether emptying files would make room, while there are more than are kept.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
struct State {
    sealed: VecDeque<u64>,
    disk_is_short: bool,
    stopping: bool,
}

/// What sealed files hold, and how much of it queues still need. Emptying a file of which nothing is dead fills another one: with
/// no bound on what is alive, that would go on for ever, with nobody publishing.
struct Room {
    sealed_bytes: u64,
    alive_bytes: u64,
}

/// How far the work on one position is.
#[derive(Default)]
enum Phase {
    #[default]
    Resting,
    /// Queues write anew what they need of the log up to the position.
    Asked { position: u64, answers: Vec<Call<()>> },
    /// What they wrote becomes durable: the log up to the goal.
    Syncing { position: u64, goal: Position },
}

/// Where the checkpointer is in its work; each [`Checkpointer::step`] goes on from there.
#[derive(Default)]
pub(crate) struct Progress(Phase);

/// What one step did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Worked,
    /// No file is to go.
    Idle,
    /// Nothing can be done before this has passed, or others have done their part.
    Later(Duration),
    Stopped,
}

/// Told of sealed files; works on its own thread.
#[derive(Clone, Default)]
pub(crate) struct Checkpointer(Arc<(Mutex<State>, Condvar)>);

impl Checkpointer {
    /// A log file ended at this position.
    pub(crate) fn sealed(&self, position: u64) {
        self.0.0.lock().sealed.push_back(position);
        self.0.1.notify_one();
    }

    /// Whether room on the disk is worth more than the work of moving messages.
    pub(crate) fn spare_disk(&self, disk_is_short: bool) {
        self.0.0.lock().disk_is_short = disk_is_short;
        self.0.1.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.0.0.lock().stopping = true;
        self.0.1.notify_one();
    }

    /// The thread's life.
    pub(crate) fn run(&self, services: &Services) {
        let mut progress = Progress::default();
        loop {
            match self.step(services, &mut progress) {
                Turn::Worked => {}
                Turn::Idle => self.rest(),
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
        let (phase, turn) = match std::mem::take(&mut progress.0) {
            Phase::Resting => {
                let next = self.next(services);
                next.map_or((Phase::Resting, Turn::Idle), |position| self.begin(services, position))
            }
            Phase::Asked { position, answers } => asked(services, position, answers),
            Phase::Syncing { position, goal } => self.synced(services, position, goal),
        };
        progress.0 = phase;
        turn
    }

    /// The end of the oldest file, when emptying it makes room. Queues are looked at without a lock: there may be many.
    fn next(&self, services: &Services) -> Option<u64> {
        let newest = self.0.0.lock().newest_of_too_many()?;
        let room = Room {
            sealed_bytes: newest.saturating_sub(services.log.kept().0.0),
            alive_bytes: services.all_queues().iter().map(|queue| queue.alive_log_bytes()).sum(),
        };
        let mut state = self.0.0.lock();
        if room.is_to_be_had(state.disk_is_short) { state.sealed.pop_front() } else { None }
    }

    /// Lets queues write anew what they need of the log up to `position`.
    fn begin(&self, services: &Services, position: u64) -> (Phase, Turn) {
        if services.log.waits_for_room().is_some() {
            return (Phase::Resting, self.finish(position, drop_settled(services, position)));
        }
        let needing = services.all_queues().into_iter().filter(|queue| is_needed(queue, position));
        let answers = needing
            .map(|queue| {
                let (reply, call) = Call::pair();
                queue.submit(Event::Checkpoint(position, reply));
                call
            })
            .collect();
        (Phase::Asked { position, answers }, Turn::Worked)
    }

    /// What the queues wrote anew must be durable before the old goes.
    fn synced(&self, services: &Services, position: u64, goal: Position) -> (Phase, Turn) {
        let done = match services.log.is_synced(goal) {
            Ok(false) => return (Phase::Syncing { position, goal }, Turn::Later(ANSWER_LOOK_INTERVAL)),
            Ok(true) if services.all_queues().iter().any(|queue| is_needed(queue, position)) => {
                tracing::warn!(position, "old log files are kept: not every queue could move its messages");
                Err(RETRY_INTERVAL)
            }
            Ok(true) => drop_files(services, position),
            Err(error) => {
                tracing::warn!(%error, "old log files are kept");
                Err(ROOM_RETRY_INTERVAL)
            }
        };
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
                self.0.0.lock().sealed.push_front(position);
                Turn::Later(wait)
            }
        }
    }

    /// Waits until there are more files than are kept, or, when there are, until it makes sense to look again.
    fn rest(&self) {
        let mut state = self.0.0.lock();
        if !state.stopping && state.newest_of_too_many().is_some() {
            let wait = if state.disk_is_short { ROOM_RETRY_INTERVAL } else { LOOK_INTERVAL };
            self.0.1.wait_for(&mut state, wait);
        }
        while !state.stopping && state.newest_of_too_many().is_none() {
            self.0.1.wait(&mut state);
        }
    }

    fn pause(&self, wait: Duration) {
        let mut state = self.0.0.lock();
        if !state.stopping {
            self.0.1.wait_for(&mut state, wait);
        }
    }
}

impl State {
    fn files_kept(&self) -> usize {
        if self.disk_is_short { 0 } else { FILES_KEPT }
    }

    /// Where the newest sealed file ends, when there are more than are kept.
    fn newest_of_too_many(&self) -> Option<u64> {
        if self.sealed.len() > self.files_kept() { self.sealed.back().copied() } else { None }
    }
}

impl Room {
    /// Whether enough of what is sealed is dead: half of it, or a fifth when room on the disk is worth more than work.
    fn is_to_be_had(&self, disk_is_short: bool) -> bool {
        let alive = self.alive_bytes;
        self.sealed_bytes > if disk_is_short { alive + alive / 4 } else { 2 * alive }
    }
}

/// Looks for the answers of the queues. One whose segments cannot be synced never answers.
fn asked(services: &Services, position: u64, mut answers: Vec<Call<()>>) -> (Phase, Turn) {
    answers.retain_mut(|answer| answer.try_take().is_none());
    if answers.is_empty() {
        (Phase::Syncing { position, goal: services.log.begin_sync() }, Turn::Worked)
    } else {
        (Phase::Asked { position, answers }, Turn::Later(ANSWER_LOOK_INTERVAL))
    }
}

/// While the log waits for room nothing can be written anew, but files may go that hold only what is settled: consumers make
/// room that way. A queue needs nothing of them when it has no persistent message, or none before a record that is durable.
fn drop_settled(services: &Services, position: u64) -> Result<usize, Duration> {
    let durable = services.log.durable().0;
    let is_free = |queue: &Arc<Queue>| match queue.oldest_log_position() {
        0 => true,
        oldest => oldest > position && oldest <= durable,
    };
    if services.all_queues().iter().all(is_free) {
        return drop_files(services, position);
    }
    Err(ROOM_RETRY_INTERVAL)
}

fn drop_files(services: &Services, position: u64) -> Result<usize, Duration> {
    services.log.drop_files_below(Position(position)).map_err(|error| {
        tracing::warn!(%error, "old log files cannot be removed");
        if let LogError::Io(failure) = &error
            && failure.is_failed_sync()
        {
            services.alarms.storage_failed(&error.to_string());
        }
        RETRY_INTERVAL
    })
}

/// Whether a queue, a crashed one perhaps, still needs what the log holds up to `position`.
fn is_needed(queue: &Arc<Queue>, position: u64) -> bool {
    (1..=position).contains(&queue.oldest_log_position())
}
