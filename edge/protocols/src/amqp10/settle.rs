//! Dispositions: the client's answers to deliveries.
//!
//! Refuses to know what queues do with them.

use std::sync::Arc;

use broker::{SettleHow, SettleRun};
use wire::amqp10::{DeliveryState, Disposition, Role, Value, conditions};

use super::errors::{Failure, Outcome};
use super::running::Running;

/// The queue's settlement for an outcome.
fn how_of(state: Option<&DeliveryState<'_>>) -> Outcome<SettleHow> {
    Ok(match state {
        Some(DeliveryState::Accepted(_)) => SettleHow::Ack,
        Some(DeliveryState::Rejected(_)) => SettleHow::Reject,
        // Without an outcome the default counts, which every source is told to be released. RabbitMQ ends the session.
        None | Some(DeliveryState::Released(_)) => SettleHow::Requeue,
        Some(DeliveryState::Modified(modified)) => {
            match (modified.undeliverable_here == Some(true), modified.delivery_failed == Some(true)) {
                (true, _) => SettleHow::Reject,
                (false, true) => SettleHow::Fail,
                (false, false) => SettleHow::Requeue,
            }
        }
        Some(other) => {
            let text = format!("Unrecognised state: {other:?} in DISPOSITION");
            return Err(Failure::session(conditions::INVALID_FIELD, text));
        }
    })
}

impl Running {
    /// A disposition of a receiver. Senders have nothing to say that is not said already.
    pub(crate) fn disposition(&mut self, channel: u16, disposition: &Disposition<'_>) -> Outcome {
        let says_nothing = match disposition.state {
            None => !disposition.settled,
            Some(DeliveryState::Received(_)) => true,
            Some(_) => false,
        };
        if disposition.role == Role::Sender || says_nothing {
            return Ok(());
        }
        let how = how_of(disposition.state.as_ref())?;
        self.annotate(channel, disposition)?;
        self.settle_as(how);
        let (first, last) = (disposition.first, disposition.last.unwrap_or(disposition.first));
        let taken_back = self.confirm_taken_back(channel, (first, last));
        let mut output = self.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        let Some(session) = side.session(channel) else { return Ok(()) };
        let (settlements, mut count) = (&mut self.settlements, 0);
        session.settle(first, last, |entry| {
            settlements.add_run(entry.source, entry.seq, 1);
            count += 1;
        });
        if how == SettleHow::Ack {
            session.count_acked(count);
        }
        if !disposition.settled && count + taken_back > 0 {
            let answer = Disposition { role: Role::Sender, settled: true, ..*disposition };
            answer.encode_frame(channel, bytes);
        }
        Ok(())
    }

    /// Deliveries that are modified with annotations: their queues are told of those first.
    fn annotate(&mut self, channel: u16, disposition: &Disposition<'_>) -> Outcome {
        let Some(DeliveryState::Modified(modified)) = &disposition.state else { return Ok(()) };
        if modified.message_annotations.is_empty() {
            return Ok(());
        }
        for (name, value) in modified.message_annotations.iter() {
            let is_free = matches!(name, Value::Symbol(name) if name.starts_with(b"x-"));
            if !is_free || value.validate().is_err() {
                let text = "annotations of a modified outcome have symbols that begin with x- as keys";
                return Err(Failure::session(conditions::INVALID_FIELD, text));
            }
        }
        let entries: Arc<[u8]> = modified.message_annotations.raw().into();
        let (first, last) = (disposition.first, disposition.last.unwrap_or(disposition.first));
        let all = {
            let mut output = self.sink.outbox.lock();
            let session = output.state().session(channel);
            session.map(|session| session.unsettled(first, last)).unwrap_or_default()
        };
        for entry in all {
            let Some(queue) = self.settlements.queue(entry.source).cloned() else { continue };
            let consumer = self.settlements.consumer(entry.source);
            queue.annotate(SettleRun { consumer, first: entry.seq, count: 1 }, entries.clone());
        }
        Ok(())
    }

    /// Settles deliveries that are added from now on this way; earlier ones go to their queues if the way differs.
    pub(crate) fn settle_as(&mut self, how: SettleHow) {
        if self.settlements.how() != how {
            self.submit();
            self.settlements.settle_as(how);
        }
    }

    /// Hands publishes and settlements to the queues, in this order.
    pub(crate) fn submit(&mut self) {
        self.publisher.flush();
        if !self.settlements.is_empty() {
            self.settlements.submit();
        }
    }

    /// Resumes links that were refused for want of room, if there is some now.
    pub(crate) fn resume_paused(&mut self) {
        let mut resumable = std::mem::take(&mut self.resumable);
        {
            let mut output = self.sink.outbox.lock();
            if output.state().has_paused() && output.pending_bytes() < crate::OUTPUT_BYTES_LOW {
                output.state().take_resumable(&mut resumable);
            }
        }
        for (outlet, token) in resumable.drain(..) {
            if let Some(queue) = self.settlements.queue(outlet) {
                queue.resume(self.consumer(token));
            }
        }
        self.resumable = resumable;
    }
}
