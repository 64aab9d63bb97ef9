//! Keeps the message log short: when files are sealed, queues write anew what they still need from the oldest.

use std::collections::VecDeque;
use std::sync::Arc;

use commitlog::Position;
use parking_lot::{Condvar, Mutex};

use crate::call::Call;
use crate::cell::Event;
use crate::services::Services;

/// Sealed files left alone: most messages in them are consumed before their turn comes.
const FILES_KEPT: usize = 3;

#[derive(Default)]
struct State {
    sealed: VecDeque<u64>,
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
            for call in asked {
                call.wait();
            }
            // What the queues wrote anew must be durable before the old goes.
            let durable = services.log.sync_barrier();
            if is_needed(services, position) {
                tracing::warn!(position, "old log files are kept: not every queue could move its messages");
                continue;
            }
            let dropped = durable.and_then(|_| services.log.drop_files_below(Position(position)));
            match dropped {
                Ok(files) => tracing::debug!(files, position, "log files dropped"),
                Err(error) => tracing::error!(%error, "old log files are kept"),
            }
        }
    }

    fn next(&self) -> Option<u64> {
        let mut state = self.0.0.lock();
        loop {
            if state.stopping {
                return None;
            }
            if state.sealed.len() > FILES_KEPT {
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
