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
const FILES_KEPT: usize = 3;

/// How long to wait before a checkpoint is tried again that could not be finished.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The same while the disk is full.
const ROOM_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How often to look for the answer of a queue. Nobody waits for a checkpoint.
const ANSWER_LOOK_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Default)]
struct State {
    sealed: VecDeque<u64>,
    disk_is_short: bool,
    stopping: bool,
}

/// What became of a position.
enum Done {
    Dropped(usize),
    /// To be tried again after this.
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
        while let Some(position) = self.next() {
            let done = if services.log.waits_for_room().is_some() {
                drop_settled(services, position)
            } else {
                self.move_on(services, position)
            };
            match done {
                Done::Dropped(files) => tracing::debug!(files, position, "log files dropped"),
                Done::Later(wait) => self.put_off(position, wait),
                Done::Stopped => return,
            }
        }
    }

    /// Lets queues write anew what they need of the log up to `position`, and drops the files.
    fn move_on(&self, services: &Services, position: u64) -> Done {
        let asked: Vec<Call<()>> = services
            .all_queues()
            .into_iter()
            .filter(|queue| is_needed(queue, position))
            .map(|queue| {
                let (reply, call) = Call::pair();
                queue.submit(Event::Checkpoint(position, reply));
                call
            })
            .collect();
        if !self.answered(asked) {
            return Done::Stopped;
        }
        // What the queues wrote anew must be durable before the old goes.
        if let Err(error) = services.log.sync_barrier() {
            tracing::warn!(%error, "old log files are kept");
            return Done::Later(ROOM_RETRY_INTERVAL);
        }
        if services.all_queues().iter().any(|queue| is_needed(queue, position)) {
            tracing::warn!(position, "old log files are kept: not every queue could move its messages");
            return Done::Later(RETRY_INTERVAL);
        }
        drop_files(services, position)
    }

    /// Waits for the answers of the queues; false when the thread is to end first. A queue whose segments cannot be synced
    /// never answers.
    fn answered(&self, asked: Vec<Call<()>>) -> bool {
        for mut call in asked {
            while call.try_take().is_none() {
                let mut state = self.0.0.lock();
                if state.stopping {
                    return false;
                }
                self.0.1.wait_for(&mut state, ANSWER_LOOK_INTERVAL);
            }
        }
        true
    }

    /// Keeps a position for later.
    fn put_off(&self, position: u64, wait: Duration) {
        let mut state = self.0.0.lock();
        state.sealed.push_front(position);
        if !state.stopping {
            self.0.1.wait_for(&mut state, wait);
        }
    }

    fn next(&self) -> Option<u64> {
        let mut state = self.0.0.lock();
        loop {
            if state.stopping {
                return None;
            }
            let kept = if state.disk_is_short { 0 } else { FILES_KEPT };
            if state.sealed.len() > kept {
                return state.sealed.pop_front();
            }
            self.0.1.wait(&mut state);
        }
    }
}

/// While the log waits for room nothing can be written anew, but files may go that hold only what is settled: consumers make
/// room that way. A queue needs nothing of them when it has no persistent message, or none before a record that is durable.
fn drop_settled(services: &Services, position: u64) -> Done {
    let durable = services.log.durable().0;
    let is_free = |queue: &Arc<Queue>| match queue.oldest_log_position() {
        0 => true,
        oldest => oldest > position && oldest <= durable,
    };
    if services.all_queues().iter().all(is_free) {
        return drop_files(services, position);
    }
    Done::Later(ROOM_RETRY_INTERVAL)
}

fn drop_files(services: &Services, position: u64) -> Done {
    match services.log.drop_files_below(Position(position)) {
        Ok(files) => Done::Dropped(files),
        Err(error) => {
            tracing::warn!(%error, "old log files cannot be removed");
            if let LogError::Io(failure) = &error
                && failure.is_failed_sync()
            {
                services.alarms.storage_failed(&error.to_string());
            }
            Done::Later(RETRY_INTERVAL)
        }
    }
}

/// Whether a queue, a crashed one perhaps, still needs what the log holds up to `position`.
fn is_needed(queue: &Arc<Queue>, position: u64) -> bool {
    (1..=position).contains(&queue.oldest_log_position())
}
