//! Content of a cell: nothing while its queue is as new, a few bytes while it is empty after having been used, and all that a machine
//! needs while it is in use. A queue goes to rest when it has been empty for a moment: one that is used all the time does not
//! make and drop its state for each message.

use std::sync::Arc;
use std::time::Duration;

use queues::Machine;

use super::machine::AnyMachine;
use super::{CellState, Queue};

/// How long an empty queue keeps the state of one in use.
const AWAKE: Duration = Duration::from_secs(5);

/// The state of a queue now. One word while it is as new.
#[derive(Default)]
pub(crate) struct Kept(Option<Box<Slot>>);

enum Slot {
    /// The bytes that [`Machine::rest`] gave.
    Rest(Box<[u8]>),
    Used(Box<CellState>),
}

/// How far an empty queue is on its way to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// It was in use when it was looked at last.
    #[default]
    Awake,
    /// It was empty; it is looked at again when [`AWAKE`] has passed.
    Asked,
    /// It has.
    Due,
}

impl Kept {
    /// Of a machine that was read back from log and segments.
    pub(super) fn of(machine: Option<AnyMachine>) -> Kept {
        let slot = |machine: AnyMachine| match machine.rest() {
            Some(bytes) => Slot::Rest(bytes),
            None => Slot::Used(Box::new(CellState::new(machine))),
        };
        Kept(machine.map(slot).map(Box::new))
    }

    /// The state of a queue in use.
    pub(crate) fn used(&self) -> Option<&CellState> {
        match self.0.as_deref() {
            Some(Slot::Used(state)) => Some(state),
            _ => None,
        }
    }

    /// As [`Self::used`], to change it.
    pub(crate) fn used_mut(&mut self) -> Option<&mut CellState> {
        match self.0.as_deref_mut() {
            Some(Slot::Used(state)) => Some(state),
            _ => None,
        }
    }

    /// Whether nothing is known but how it was declared.
    pub(crate) fn is_untouched(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes on the heap of a queue at rest.
    pub(super) fn rest_bytes(&self) -> usize {
        match self.0.as_deref() {
            Some(Slot::Rest(bytes)) => size_of::<Slot>() + bytes.len(),
            _ => 0,
        }
    }

    /// Forgets all.
    pub(super) fn take(&mut self) -> Kept {
        std::mem::take(self)
    }

    /// The machine of a queue that is not in use, made for a question.
    pub(super) fn idle_machine(&self, queue: &Queue, now_ms: u64) -> AnyMachine {
        match self.0.as_deref() {
            Some(Slot::Rest(bytes)) => queue.machine_type.wake(queue.config(), bytes, now_ms),
            _ => queue.new_machine(now_ms),
        }
    }

    /// The queue is used: its state, made if it is not there.
    pub(super) fn wake(&mut self, queue: &Queue, now_ms: u64) -> &mut CellState {
        if self.used().is_none() {
            let mut state = CellState::new(self.idle_machine(queue, now_ms));
            // Earlier consumers have nothing to settle.
            state.since_reload = queue.has_crashed().then(Box::default);
            if let Some(Slot::Rest(bytes)) = self.0.take().map(|slot| *slot) {
                state.rested = Some(bytes);
            }
            self.0 = Some(Box::new(Slot::Used(Box::new(state))));
        }
        self.used_mut().expect("just made")
    }
}

impl Queue {
    /// After a turn: state that need not be kept goes.
    pub(super) fn let_rest(self: &Arc<Self>, kept: &mut Kept) {
        let Some(state) = kept.used_mut() else { return };
        if state.is_as_new() {
            *kept = Kept::default();
            return;
        }
        // A queue that was only asked something goes back to rest at once.
        if let Some(before) = state.rested.take()
            && state.rest().is_some_and(|now| now == before)
        {
            kept.0 = Some(Box::new(Slot::Rest(before)));
            return;
        }
        match state.rest {
            Rest::Asked => {}
            Rest::Awake if state.rest().is_some() => {
                state.rest = Rest::Asked;
                let services = self.services();
                services.background.rest_at(services.clock.now().plus(AWAKE), Arc::downgrade(self));
            }
            Rest::Awake => {}
            Rest::Due => {
                state.rest = Rest::Awake;
                if let Some(bytes) = state.rest() {
                    kept.0 = Some(Box::new(Slot::Rest(bytes)));
                }
            }
        }
    }
}

impl CellState {
    /// The bytes to keep, if nothing of the cell is needed and nothing of the machine but them.
    fn rest(&self) -> Option<Box<[u8]>> {
        let is_idle = self.left.len() == 0
            && self.sinks.is_empty()
            && self.gets.is_empty()
            && self.checkpoints.is_empty()
            && self.gathers.is_empty()
            && self.held_bodies.is_empty()
            && !self.is_holder
            && !self.is_reloading
            && self.held_letters.is_none();
        if is_idle { self.machine.rest() } else { None }
    }
}
