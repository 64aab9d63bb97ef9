//! How a queue is looked at by people who ask why it delivers nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use queues::{DeliveryView, Machine, Standing};

use crate::cell::condition::Condition;
use crate::cell::examine::{ConsumerHold, Examined, Intake};
use crate::cell::{CellState, Queue};
use crate::data::consume::SessionHold;

impl Queue {
    /// Looks at it. Only by the one who runs the machine.
    pub(super) fn examined(self: &Arc<Self>, state: &CellState, now_ms: u64) -> Examined {
        let condition = self.condition();
        let view = match condition {
            Condition::Running => state.machine.delivery_view(now_ms),
            Condition::Deleted | Condition::Crashed => DeliveryView::default(),
        };
        Examined {
            condition,
            holds: self.holds(state, &view),
            view,
            intake: Intake {
                inbox_bytes: self.inbox_bytes.load(Ordering::Relaxed) as u64,
                is_inbox_full: self.is_inbox_full(),
                is_paced: self.hold.is_on(|| self.services().clock.now().0),
            },
            disk_requests: self.reloads.disk_requests(),
            stalled_ms: state.watch.stalled_ms(now_ms),
            still_ms: state.watch.still_ms(now_ms),
        }
    }

    /// The reason that holds each consumer of a view.
    pub(super) fn holds(&self, state: &CellState, view: &DeliveryView) -> Vec<ConsumerHold> {
        let consumers = view.stats.consumers.iter().zip(&view.standings);
        let hold = |(consumer, standing): (&queues::ConsumerStats, &Standing)| ConsumerHold {
            standing: *standing,
            session: state
                .sinks
                .get(&consumer.spec.id)
                .map_or(SessionHold::Gone, |attached| attached.sink.hold(consumer.spec.id.token)),
        };
        consumers.map(hold).collect()
    }
}
