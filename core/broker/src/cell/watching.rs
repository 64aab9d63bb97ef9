//! How a queue notices that it delivers nothing though it could.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use queues::Machine;

use crate::announcements::stalls::Stall;
use crate::cell::condition::Condition;
use crate::cell::examine::ConsumerHold;
use crate::cell::watch::Look;
use crate::cell::{CellState, Queue};

impl Queue {
    /// Looks, after a turn, whether it delivers what it should.
    pub(super) fn watch(self: &Arc<Self>, state: &mut CellState, now_ms: u64) {
        let stall_ms = self.services().stalls.after_ms;
        match state.watch.turn(state.machine.wanted_deliveries(), now_ms, stall_ms) {
            Look::Nothing => {}
            Look::Closer => self.look_closer(state, now_ms),
            Look::Resumed(stalled_ms) => self.tell_delivery_resumed(stalled_ms),
        }
        if let Some(due_ms) = state.watch.next_tick(now_ms, stall_ms) {
            self.services().wake_at(self, due_ms);
        }
    }

    /// Nothing has moved for long: tells of it if something could have.
    #[cold]
    fn look_closer(self: &Arc<Self>, state: &mut CellState, now_ms: u64) {
        let view = state.machine.delivery_view(now_ms);
        let able =
            self.holds(state, &view).into_iter().filter(|hold| ConsumerHold::could_be_served(*hold)).count();
        if able == 0 || self.condition() != Condition::Running {
            // They wait for their clients. Look again later.
            state.watch.since_ms = now_ms;
            return;
        }
        state.watch.is_told = true;
        self.services().stalls.count.fetch_add(1, Ordering::Relaxed);
        let (queue, vhost) = (String::from_utf8_lossy(self.name()), self.vhost_name());
        tracing::warn!(
            %queue, vhost, ready = view.stats.ready, consumers = able, head = ?view.head, milliseconds = self.services().stalls.after_ms,
            "messages wait, consumers could take them, and nothing was delivered; `warren ctl explain_delivery` shows what the queue waits for"
        );
        let stall = Stall {
            ready: view.stats.ready,
            consumers: able,
            stalled_ms: now_ms.saturating_sub(state.watch.since_ms),
        };
        self.tell_delivery_stalled(&stall);
    }
}
