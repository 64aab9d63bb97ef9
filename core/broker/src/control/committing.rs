//! Answers that wait until a change of metadata is durable: declare-ok and its like.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use commitlog::{DurableListener, IoFailure, LogError, Position};
use parking_lot::Mutex;

use crate::alarms::Alarms;
use crate::refused::Refused;

/// Told whether a change is durable, or why it never will be.
type Done = Box<dyn FnOnce(Result<(), Refused>) + Send>;

/// Callbacks by log position.
pub(crate) struct Committing {
    state: Mutex<State>,
    alarms: Arc<Alarms>,
}

#[derive(Default)]
struct State {
    durable: u64,
    waiting: BTreeMap<Reverse<u64>, Vec<Done>>,
    /// Why nothing becomes durable any more.
    failure: Option<Refused>,
}

impl Committing {
    /// Nothing waits yet.
    pub(crate) fn new(alarms: Arc<Alarms>) -> Committing {
        Committing { state: Mutex::default(), alarms }
    }

    /// Calls `done` when `position` is durable, or will never be: at once, or on the log's thread.
    pub(crate) fn when_durable(&self, position: u64, done: Done) {
        let known = {
            let mut state = self.state.lock();
            if position <= state.durable {
                Ok(())
            } else if let Some(failure) = &state.failure {
                Err(failure.clone())
            } else {
                state.waiting.entry(Reverse(position)).or_default().push(done);
                return;
            }
        };
        done(known);
    }

    /// Changes of a cluster up to this position are in the tables of all its nodes.
    pub(crate) fn reached(&self, position: u64) {
        self.advance(position);
    }

    fn advance(&self, durable: u64) {
        let ready = {
            let mut state = self.state.lock();
            state.durable = state.durable.max(durable);
            state.waiting.split_off(&Reverse(durable))
        };
        // Oldest first: replies keep their order.
        ready.into_values().rev().flatten().for_each(|done| done(Ok(())));
    }
}

impl DurableListener for Committing {
    fn durable(&self, up_to: Position) {
        self.advance(up_to.0);
    }

    fn file_sealed(&self, _up_to: Position) {}

    fn waits_for_room(&self, failure: &IoFailure) {
        tracing::error!(%failure, "the disk is full: changes of metadata wait for room");
        self.alarms.log_waits();
    }

    fn makes_room(&self) -> bool {
        self.alarms.make_room()
    }

    fn goes_on(&self) {
        tracing::info!("there was room for the metadata log again");
        self.alarms.log_goes_on();
    }

    fn failed(&self, error: &LogError) {
        if matches!(error, LogError::Io(failure) if failure.is_out_of_room()) {
            tracing::warn!(%error, "stopped while the disk was full; changes that waited for room were not answered and are gone");
            return;
        }
        tracing::error!(%error, "the metadata log has failed; nothing durable can be declared until the node is restarted");
        self.alarms.storage_failed(&error.to_string());
        let refused = self.alarms.refusal();
        let waiting = {
            let mut state = self.state.lock();
            state.failure = Some(refused.clone());
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().rev().flatten().for_each(|done| done(Err(refused.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(committing: &Committing, positions: &[u64]) -> Arc<Mutex<Vec<(u64, bool)>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        for &position in positions {
            let seen = seen.clone();
            let note = move |done: Result<(), Refused>| seen.lock().push((position, done.is_ok()));
            committing.when_durable(position, Box::new(note));
        }
        seen
    }

    #[test]
    fn callbacks_run_in_order_of_position_once_durable() {
        let committing = Committing::new(Alarms::without_sources());
        let seen = notes(&committing, &[30, 10, 20]);
        committing.durable(Position(20));
        assert_eq!(*seen.lock(), [(10, true), (20, true)]);
        committing.durable(Position(30));
        assert_eq!(*seen.lock(), [(10, true), (20, true), (30, true)]);
    }

    #[test]
    fn what_waits_when_the_log_fails_is_told_so_and_what_comes_later_too() {
        let committing = Committing::new(Alarms::without_sources());
        let seen = notes(&committing, &[10, 20]);
        committing.durable(Position(10));
        committing.failed(&LogError::Closed);
        assert_eq!(*seen.lock(), [(10, true), (20, false)]);
        assert_eq!(*notes(&committing, &[5, u64::MAX]).lock(), [(5, true), (u64::MAX, false)]);
        assert!(committing.alarms.storage_failure().is_some());
    }
}
