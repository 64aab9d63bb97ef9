//! Consumers of which one of a group is active: the client is told, and says where to go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker::streams::{GroupJoin, GroupNews, GroupSeat};
use wire::stream::requests::ConsumerUpdate;
use wire::stream::{Request, ResponseCode, responses};

use super::consume::seek_of;
use super::running::{Running, Used};
use crate::Now;

/// A consumer update that the client has not answered.
pub(crate) struct Asked {
    correlation_id: u32,
    subscription: u8,
    steps_down: bool,
    asked: Now,
}

impl Running {
    /// A subscription becomes a member of its group.
    pub(crate) fn join(
        &self,
        used: &Arc<Used>,
        subscription: u8,
        name: &str,
        super_stream: Option<&str>,
    ) -> Result<GroupSeat, ResponseCode> {
        let index = |super_stream: &str| {
            let vhost = &self.principal.vhost;
            self.broker.partition_index(vhost, super_stream.as_bytes(), used.name.as_bytes())
        };
        let join = GroupJoin {
            stream: used.log.id(),
            named: (self.principal.vhost.name(), used.name.as_bytes()),
            name,
            partition: super_stream.and_then(index),
            connection: self.principal.connection,
            connection_name: self.principal.connection_name.clone(),
            subscription,
            member: self.control.clone(),
        };
        self.broker.stream_groups().join(join).map_err(|_| ResponseCode::PRECONDITION_FAILED)
    }

    /// A subscription leaves its group.
    pub(crate) fn leave(&mut self, seat: &GroupSeat, subscription: u8) {
        self.broker.stream_groups().leave(seat);
        self.control.own.forget_news(subscription);
        self.asked.retain(|asked| asked.subscription != subscription);
    }

    /// Passes on what subscriptions are to become.
    pub(crate) fn heed_groups(&mut self, now: Now) {
        for (subscription, news) in self.control.own.take_news() {
            let found = self.consumers.get_mut(usize::from(subscription)).and_then(Option::as_mut);
            let Some(consumer) = found else { continue };
            consumer.is_active = news == GroupNews::Activate;
            consumer.counted.is_active.store(consumer.is_active, Ordering::Relaxed);
            if !consumer.is_active {
                consumer.reader = None;
            }
            let update = ConsumerUpdate { subscription_id: subscription, active: consumer.is_active };
            let correlation_id = self.next_asked;
            self.next_asked = correlation_id.wrapping_add(1);
            Request::from(update).encode(correlation_id, self.outbox.lock().bytes());
            let steps_down = news == GroupNews::StepDown;
            self.asked.push(Asked { correlation_id, subscription, steps_down, asked: now });
        }
    }

    /// The client has answered a consumer update.
    pub(crate) fn updated(&mut self, correlation_id: u32, answer: &responses::ConsumerUpdate) {
        let Some(at) = self.asked.iter().position(|asked| asked.correlation_id == correlation_id) else {
            return tracing::warn!(correlation_id, "an answer to a consumer update that nobody has asked");
        };
        if answer.code != ResponseCode::OK {
            tracing::info!(code = answer.code.0, "a client does not accept a consumer update");
        }
        let Asked { subscription, steps_down, .. } = self.asked.remove(at);
        let found = self.consumers.get_mut(usize::from(subscription)).and_then(Option::as_mut);
        let Some(consumer) = found else { return };
        if consumer.is_active {
            consumer.begin_at(seek_of(answer.offset).unwrap_or(consumer.seek));
        } else if let Some(seat) = consumer.seat.clone().filter(|_| steps_down) {
            self.broker.stream_groups().stepped_down(&seat);
        }
    }

    /// Whether the client has left an update without an answer for too long.
    pub(crate) fn is_unanswered(&self, now: Now) -> bool {
        self.asked.iter().any(|asked| now.since_ms(asked.asked) > self.settings.request_timeout_ms)
    }

    /// When that is to be looked at, milliseconds of [`Now::monotonic_ms`].
    pub(crate) fn answer_due_ms(&self) -> u64 {
        let due =
            |asked: &Asked| asked.asked.monotonic_ms.saturating_add(self.settings.request_timeout_ms + 1);
        self.asked.iter().map(due).min().unwrap_or(u64::MAX)
    }
}
