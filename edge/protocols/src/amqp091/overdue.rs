//! Deliveries that stay unacked for too long (B135). A quorum queue takes back what its consumer holds and cancels it, if the client
//! understands that (B119). In all other cases the channel is closed, as in RabbitMQ until 3.12.

use broker::{ConsumerId, ConsumerSink as _, Kind, MessageSeq, SettleHow};

use super::deliver::Deliveries;
use super::errors::{Failure, ReplyCode};
use super::running::Running;

/// A delivery that has been unacked for longer than its source allows.
pub(super) struct OverdueDelivery {
    pub(super) channel: u16,
    pub(super) source: u32,
    pub(super) timeout_ms: u64,
}

impl Deliveries {
    /// The first channel on which a delivery is unacked for longer than its consumer may take, with that time in
    /// milliseconds (B135).
    fn overdue(&self, now_ds: u32) -> Option<OverdueDelivery> {
        self.channels().find_map(|(channel, output)| {
            output.unacked.iter().find_map(|entry| {
                let timeout_ms = self.sources[entry.source as usize].as_ref()?.timeout_ms;
                let age_ms = u64::from(now_ds.saturating_sub(entry.delivered_ds)) * 100;
                let is_overdue = timeout_ms != 0 && age_ms >= timeout_ms;
                is_overdue.then_some(OverdueDelivery { channel, source: entry.source, timeout_ms })
            })
        })
    }

    /// Deliveries of a source on a channel that nobody has settled.
    fn unacked_from(&self, channel: u16, source: u32) -> Vec<MessageSeq> {
        let output = self.channels().find(|(number, _)| *number == channel);
        let entries = output.into_iter().flat_map(|(_, output)| output.unacked.iter());
        entries.filter(|entry| entry.source == source).map(|entry| entry.seq).collect()
    }
}

impl Running {
    /// Sets how long deliveries from a source may stay unacked, milliseconds; 0 is for ever.
    pub(crate) fn set_timeout(&mut self, source: u32, timeout_ms: u64) {
        let delivered_ds = self.overdue.add_timeout(timeout_ms);
        let mut output = self.sink.outbox.lock();
        output.state().set_timeout(source, timeout_ms);
        output.state().set_delivered(delivered_ds);
    }

    /// A look, if one is due.
    pub(crate) fn close_overdue(&mut self, now_ds: u32) {
        let Some(delivered_ds) = self.overdue.look(now_ds) else { return };
        loop {
            let mut output = self.sink.outbox.lock();
            output.state().set_delivered(delivered_ds);
            let overdue = output.state().overdue(now_ds);
            drop(output);
            let Some(overdue) = overdue else { break };
            if !self.take_back(&overdue) {
                self.fail_channel(overdue.channel, &timed_out(overdue.channel, overdue.timeout_ms));
            }
        }
        self.forget_cancelled();
    }

    /// Gives what the consumer of a quorum queue holds back to the queue, and cancels the consumer. The tags stay known: acks that come
    /// later change nothing. `false` if the channel has to be closed.
    fn take_back(&mut self, overdue: &OverdueDelivery) -> bool {
        let OverdueDelivery { channel, source, .. } = *overdue;
        let is_understood = self.sink.outbox.lock().state().cancel_notify;
        let queue = self.settlements.queue(source).filter(|queue| queue.queue_kind() == Kind::Quorum);
        let Some(queue) = queue.filter(|_| is_understood).cloned() else { return false };
        let consumers = self.channel(channel).consumers.values();
        let consumer =
            consumers.filter(|consumer| consumer.source == source).map(|consumer| consumer.token).next();
        let Some(token) = consumer else { return false };
        // No delivery follows the cancel, so returned messages go to others.
        self.sink.cancelled(token);
        drop(queue.cancel(ConsumerId { connection: self.principal.connection, token }));
        let held = self.sink.outbox.lock().state().unacked_from(channel, source);
        self.settle_as(SettleHow::Requeue);
        held.into_iter().for_each(|seq| self.settlements.add(source, seq));
        self.submit();
        self.settlements.give_up(source);
        self.sink.outbox.lock().state().set_timeout(source, 0);
        true
    }
}

fn timed_out(channel: u16, timeout_ms: u64) -> Failure {
    let text = format!(
        "delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout_ms} ms. This timeout \
         value can be configured, see consumers doc guide to learn more"
    );
    Failure::new(ReplyCode::PreconditionFailed, text)
}
