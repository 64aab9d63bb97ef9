//! What waits until a change of metadata is durable: declare-ok and its like.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use commitlog::{DurableListener, LogError, Position};
use parking_lot::Mutex;

type Done = Box<dyn FnOnce() + Send>;

/// Callbacks by log position.
#[derive(Default)]
pub(crate) struct Committing {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    durable: u64,
    waiting: BTreeMap<Reverse<u64>, Vec<Done>>,
}

impl Committing {
    /// Calls `done` when `position` is durable: at once, or on the log's thread.
    pub(crate) fn when_durable(&self, position: u64, done: Done) {
        {
            let mut state = self.state.lock();
            if position > state.durable {
                state.waiting.entry(Reverse(position)).or_default().push(done);
                return;
            }
        }
        done();
    }

    fn advance(&self, durable: u64) {
        let ready = {
            let mut state = self.state.lock();
            state.durable = state.durable.max(durable);
            state.waiting.split_off(&Reverse(durable))
        };
        // Oldest first: replies keep their order.
        ready.into_values().rev().flatten().for_each(|done| done());
    }
}

impl DurableListener for Committing {
    fn durable(&self, up_to: Position) {
        self.advance(up_to.0);
    }

    fn file_sealed(&self, _up_to: Position) {}

    fn failed(&self, error: &LogError) {
        tracing::error!(%error, "the metadata log has failed; nothing can be declared any more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn callbacks_run_in_order_of_position_once_durable() {
        let committing = Committing::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for position in [30, 10, 20] {
            let seen = seen.clone();
            committing.when_durable(position, Box::new(move || seen.lock().push(position)));
        }
        committing.durable(Position(20));
        assert_eq!(*seen.lock(), [10, 20]);
        committing.durable(Position(30));
        assert_eq!(*seen.lock(), [10, 20, 30]);
    }
}
