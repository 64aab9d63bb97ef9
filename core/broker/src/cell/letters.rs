//! When messages of a queue may die, and the memory and time that their letters take until they are sent.
//!
//! Refuses to know where letters go; see `data::dead_letter`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use queues::Machine;

use super::machine::AnyMachine;
use super::waiting::{Hold, Waiting};
use super::{Event, Queue};
use crate::data::dead_letter;
use crate::data::letter::DeadLetter;

/// Tells a queue whose messages wait to die that their obstacle is gone.
struct MayDie {
    queue: Weak<Queue>,
    /// The call that tells the waiting messages.
    is_there: fn(&Waiting),
}

impl MayDie {
    fn waker(queue: &Arc<Queue>, is_there: fn(&Waiting)) -> Waker {
        Waker::from(Arc::new(MayDie { queue: Arc::downgrade(queue), is_there }))
    }
}

impl Wake for MayDie {
    fn wake(self: Arc<Self>) {
        if let Some(queue) = self.queue.upgrade() {
            (self.is_there)(&queue.waiting);
            queue.submit_later(Event::Tick);
        }
    }
}

impl Queue {
    /// Tells the machine whether messages that leave a dead letter may die. [`Event::Tick`] comes when those that wait may go on.
    pub(super) fn hold_letters(self: &Arc<Self>, machine: &mut AnyMachine) {
        let services = self.services();
        let is_disk_short = machine.config().dead_letters && services.holds_dead_letters();
        if is_disk_short && self.waiting.hold_for_disk() {
            services.await_disk_for_letters(MayDie::waker(self, Waiting::disk_is_well));
        }
        machine.let_disk_be_short(is_disk_short);
        machine.let_letters_wait(machine.config().dead_letters && !is_disk_short && self.letters_wait());
    }

    /// Whether no more messages should die for now, because so many letters wait or so much is to be stored.
    fn letters_wait(self: &Arc<Self>) -> bool {
        if self.is_inbox_full() && self.waiting.hold_for_letters() {
            return true;
        }
        let services = self.services();
        match self.waiting.hold_for_storage(services.storage_load()) {
            Hold::Off => false,
            Hold::On => true,
            Hold::Begin => services.poll_light(MayDie::waker(self, Waiting::stored)).is_pending(),
        }
    }

    pub(super) fn post_letters(&self, letters: Vec<DeadLetter>) {
        if letters.is_empty() {
            return;
        }
        self.inbox_bytes.fetch_add(dead_letter::bytes(&letters), Ordering::Relaxed);
        if self.waiting.post(letters) {
            self.services().letters_out.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sends the letters of one turn, the first that wait, unless another thread is at it: it looks again when it has done so.
    pub(super) fn send_letters(self: &Arc<Self>) -> bool {
        let Some(letters) = self.waiting.take_letters() else { return false };
        self.contained(|| dead_letter::send(self, &letters));
        self.inbox_bytes.fetch_sub(dead_letter::bytes(&letters), Ordering::Relaxed);
        let is_last = self.waiting.sent();
        if is_last {
            self.services().letters_out.fetch_sub(1, Ordering::AcqRel);
        }
        if (is_last || !self.is_inbox_full()) && self.waiting.let_go() {
            self.inbox.lock().push(Event::Tick);
        }
        true
    }

    /// The number of its messages, if some of them would leave with a dead letter now.
    pub(crate) fn messages_waiting_for_disk(self: &Arc<Self>) -> Option<u64> {
        let waiting = |machine: &AnyMachine, now_ms: u64| {
            let stats = machine.stats(now_ms);
            let does_wait = machine.config().dead_letters && machine.has_dying(now_ms);
            does_wait.then_some(stats.ready + stats.unacked)
        };
        self.read_used(waiting).flatten()
    }

    /// Bytes that a checkpoint of the queue would write now, about: looks at all of its blocks.
    pub(crate) fn checkpoint_bytes(self: &Arc<Self>) -> u64 {
        if self.oldest_log_position() == 0 {
            return 0;
        }
        let bytes = self.read_used(|machine, _| machine.store().map(|store| store.checkpoint_bytes()));
        bytes.flatten().unwrap_or(0)
    }

    /// Bytes that wait to be taken by it, or by the queues that its dead letters go to.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.inbox_bytes.load(Ordering::Relaxed) as u64
    }
}
