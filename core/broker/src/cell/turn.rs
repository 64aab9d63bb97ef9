//! Turns of a cell: which thread runs the machine, for how long, and what follows when the cell is released.
//!
//! Refuses to know what events mean; see `events`.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use platform::profile;
use queues::Machine;

use super::events::Progress;
use super::{CellState, Event, Queue, crash};
use crate::cell::condition::Condition;
use crate::cell::rest::Kept;
use crate::effects::{Aftermath, Ending};
use crate::pacing;

/// For how long a visitor runs the machine beyond the first round before the rest goes to the background: the visitor is a thread that
/// others wait for.
const TURN_NS_MAX: u64 = 2_000_000;

/// For how long the machine is run with what had come, beyond the first event, before letters leave and others see what it did.
const ROUND_NS_MAX: u64 = 1_000_000;

/// Events of one round, however quick they are.
const ROUND_EVENTS_MAX: usize = 64;

/// Rounds one visitor drains before the rest goes to the background: no publisher is captured.
const ROUNDS_MAX: usize = 16;

/// Queues that run each other by dead letters before the rest goes to the background: chains of queues do not grow the
/// stack.
const NESTED_MAX: u32 = 4;

thread_local! {
    /// Queues whose aftermath this thread is in.
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// One level of [`NESTED`] while it lives.
struct Nested;

impl Nested {
    fn enter() -> Nested {
        NESTED.set(NESTED.get() + 1);
        Nested
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// The outcome of an attempt to run the machine.
pub(super) enum Turn {
    /// Nothing had come.
    Idle,
    /// Something was done. The end of the queue leaves work for now, when the cell is released.
    Worked(Option<Box<Ending>>),
}

impl Queue {
    /// Brings events to the cell of this node.
    pub(crate) fn submit_here(self: &Arc<Self>, events: impl Iterator<Item = Event>) {
        self.inbox.lock().extend(events);
        self.run_now_or_later();
    }

    /// Brings an event to the cell of this node.
    pub(crate) fn submit_here_one(self: &Arc<Self>, event: Event) {
        self.inbox.lock().push(event);
        self.run_now_or_later();
    }

    fn run_now_or_later(self: &Arc<Self>) {
        if NESTED.get() < NESTED_MAX {
            self.run();
        } else {
            self.services().run_later(self.clone());
        }
    }

    /// Runs the machine until the inbox is empty, somebody else runs it, or enough is done.
    pub(crate) fn run(self: &Arc<Self>) {
        let _profiled = profile::enter_queue(self.id.0);
        let mut end_ns = u64::MAX;
        for round in 0..ROUNDS_MAX {
            if round > 0 && self.is_time_over(&mut end_ns, TURN_NS_MAX) {
                break;
            }
            let Some(turn) = self.turn() else { return };
            let has_sent = self.send_letters();
            match turn {
                Turn::Worked(Some(ending)) => self.contained(|| ending.tell(self)),
                Turn::Worked(None) => {}
                // An event may have come after the look and before the unlock, its bringer finding the lock taken.
                Turn::Idle if !has_sent && self.inbox.lock().is_empty() => return,
                Turn::Idle => {}
            }
            if !self.is_over_bound() {
                self.waiting.take_publishers().into_iter().for_each(Waker::wake);
            }
        }
        self.services().run_later(self.clone());
    }

    /// Runs the machine once with what has come, as far as the time of a round goes; `None` when somebody else has the lock, who looks
    /// again afterwards.
    pub(super) fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut held = self.state.try_lock()?;
        let mut events = self.take_events(&mut held);
        if events.len() == 0 {
            return Some(Turn::Idle);
        }
        let mut aftermath = Aftermath::default();
        let now_ms = self.services().now_ms();
        let state = held.wake(self, now_ms);
        if let Some(store) = state.machine.store_mut() {
            store.share_memory(self.services().memory_shares().bytes());
        }
        self.hold_letters(&mut state.machine);
        let first_left = events.len().saturating_sub(ROUND_EVENTS_MAX);
        let mut end_ns = u64::MAX;
        while let Some(event) = events.as_mut_slice().first_mut() {
            let progress = self.handle_contained(state, event, now_ms, &mut aftermath);
            if progress == Progress::Part {
                break;
            }
            drop(events.next());
            let is_last = events.len() == first_left || progress == Progress::Enough;
            if is_last || self.is_time_over(&mut end_ns, ROUND_NS_MAX) {
                break;
            }
        }
        state.left = events;
        if self.is_replicated() {
            self.ship(&mut state.machine, std::mem::take(&mut aftermath.shipped));
        }
        if self.condition() == Condition::Running {
            self.oldest_log.store(state.machine.oldest_log_position(), Ordering::Release);
            if let Some(store) = state.machine.store_mut() {
                self.state_bytes.store(store.state_bytes(), Ordering::Relaxed);
                if store.take_may_be_sparse() {
                    self.services().checkpointer.may_be_sparse(self.id);
                }
            }
        }
        let letters = aftermath.take_letters();
        self.note_held_bytes(state);
        self.count_segment_room(state);
        self.pace(state);
        self.watch(state, now_ms);
        self.let_rest(&mut held);
        // While nobody else can run the machine: letters leave in the order in which they died.
        self.post_letters(letters);
        Some(Turn::Worked(aftermath.take_ending()))
    }

    /// Runs the requests of a turn, on the way to other queues: a panic there is not the machine's.
    pub(super) fn contained(&self, aftermath: impl FnOnce()) {
        let _nested = Nested::enter();
        if let Err(why) = crash::contained(aftermath) {
            tracing::error!(queue = %String::from_utf8_lossy(self.name()), why, "a request of a queue was not done");
        }
    }

    /// Whether enough was done; the first question sets the end.
    fn is_time_over(&self, end_ns: &mut u64, time_ns: u64) -> bool {
        let now_ns = self.services().clock.now().0;
        if *end_ns == u64::MAX {
            *end_ns = now_ns + time_ns;
        }
        now_ns >= *end_ns
    }

    /// The events that there was no time for the last time; when they are done, the events that have come meanwhile.
    fn take_events(&self, held: &mut Kept) -> std::vec::IntoIter<Event> {
        let left = held.used_mut().map(|state| std::mem::take(&mut state.left));
        match left.filter(|left| left.len() > 0) {
            Some(left) => left,
            None => std::mem::take(&mut *self.inbox.lock()).into_iter(),
        }
    }

    /// Holds publishers back while they outrun consumers that are at work.
    fn pace(self: &Arc<Self>, state: &mut CellState) {
        let until_ns = state.pacing.turn(&state.machine.flow(), || self.services().clock.now().0);
        self.hold.set(until_ns);
        let now_ms = if until_ns == 0 { return } else { self.services().now_ms() };
        // While anybody may wait, a tick is due: publishers go on then, whatever consumers do.
        if now_ms >= state.held_tick_ms {
            state.held_tick_ms = now_ms + 1 + pacing::WINDOW_NS / 1_000_000;
            self.services().wake_at(self, state.held_tick_ms);
        }
    }
}
