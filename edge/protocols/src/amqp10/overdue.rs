//! Deliveries from quorum queues that stay unsettled for too long: the queue gets them back, and the client is told that they are released.
//!
//! The client settles them in answer (AMQP 1.0 part 2, section 2.6.12). Until it has, its link gets nothing more. Refuses to know queues.

use broker::SettleHow;
use wire::amqp10::{DeliveryState, Disposition, Released, Role};

use super::running::Running;

impl Running {
    /// Sets how long deliveries of a link may stay unsettled, milliseconds; 0 is for ever.
    pub(crate) fn set_timeout(&mut self, outlet: u32, timeout_ms: u64) {
        let delivered_ds = self.overdue.add_timeout(timeout_ms);
        let mut output = self.sink.outbox.lock();
        output.state().set_delivered(delivered_ds);
        if let Some(outlet) = output.state().outlet(outlet) {
            outlet.timeout_ms = timeout_ms;
        }
    }

    /// A look, if one is due: overdue deliveries go back to their queues.
    pub(crate) fn release_overdue(&mut self, now_ds: u32) {
        let Some(delivered_ds) = self.overdue.look(now_ds) else { return };
        self.settle_as(SettleHow::Requeue);
        let mut told = Vec::new();
        {
            let mut output = self.sink.outbox.lock();
            let (bytes, side, _) = output.parts();
            side.set_delivered(delivered_ds);
            let (settlements, taken_back) = (&mut self.settlements, &mut self.taken_back);
            side.take_overdue(now_ds, |channel, entry| {
                settlements.add_run(entry.source, entry.seq, 1);
                *taken_back += 1;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the low half is what goes over the wire"
                )]
                let first = entry.tag as u32;
                let state = Some(DeliveryState::Released(Released {}));
                let released = Disposition {
                    role: Role::Sender,
                    first,
                    last: None,
                    settled: false,
                    state,
                    batchable: false,
                };
                released.encode_frame(channel, bytes);
                if told.last() != Some(&entry.source) {
                    told.push(entry.source);
                }
            });
        }
        for outlet in told {
            let queue = self.settlements.queue(outlet).map(|queue| queue.name().to_vec()).unwrap_or_default();
            tracing::warn!(
                connection = %self.principal.connection,
                "released unsettled messages of queue '{}': the consumer timeout is over",
                String::from_utf8_lossy(&queue)
            );
        }
        self.submit();
    }

    /// The client has settled what was taken back: its links get messages again. Returns how many deliveries those were.
    pub(crate) fn confirm_taken_back(&mut self, channel: u16, range: (u32, u32)) -> u64 {
        if self.taken_back == 0 {
            return 0;
        }
        let mut resumed = Vec::new();
        let count = self.sink.outbox.lock().state().confirm_taken_back(channel, range, &mut resumed);
        self.taken_back -= count;
        for (outlet, token) in resumed {
            if let Some(queue) = self.settlements.queue(outlet) {
                queue.resume(self.consumer(token));
            }
        }
        count
    }
}
