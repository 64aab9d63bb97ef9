//! Keeps the message log short: when files are sealed, queues write anew what they still need from the oldest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use commitlog::Position;
use parking_lot::{Condvar, Mutex};

use crate::call::Call;
use crate::cell::Event;
use crate::services::Services;

/// Sealed files left alone: most messages in them are consumed before their turn comes. None while the disk is short of room.
const FILES_KEPT: usize = 3;

/// How long to wait before a checkpoint is tried again that could not be finished.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often to look for the answer of a queue. Nobody waits for a checkpoint.
const ANSWER_LOOK_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Default)]
struct State {
    sealed: VecDeque<u64>,
    disk_is_short: bool,
    stopping: bool,
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
            let asked: Vec<Call<()>> = services
                .all_queues()
                .into_iter()
                .filter(|queue| (1..=position).contains(&queue.oldest_log_position()))
                .map(|queue| {
                    let (reply, call) = Call::pair();
                    queue.submit(Event::Checkpoint(position, reply));
                    call
                })
                .collect();
            if !self.answered(asked) {
                return;
            }
            // What the queues wrote anew must be durable before the old goes.
            let durable = services.log.sync_barrier();
            if durable.is_ok() && is_needed(services, position) {
                tracing::warn!(position, "old log files are kept: not every queue could move its messages");
                self.put_off(position);
                continue;
            }
            match durable.and_then(|_| services.log.drop_files_below(Position(position))) {
                Ok(files) => tracing::debug!(files, position, "log files dropped"),
                Err(error) => {
                    tracing::warn!(%error, "old log files are kept");
                    self.put_off(position);
                }
            }
        }
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
    fn put_off(&self, position: u64) {
        let mut state = self.0.0.lock();
        state.sealed.push_front(position);
        if !state.stopping {
            self.0.1.wait_for(&mut state, RETRY_INTERVAL);
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

/// Whether a queue, a crashed one perhaps, still needs what the log holds up to `position`.
fn is_needed(services: &Services, position: u64) -> bool {
    services.all_queues().iter().any(|queue| (1..=position).contains(&queue.oldest_log_position()))
}
