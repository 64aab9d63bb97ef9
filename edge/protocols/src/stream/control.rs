//! Connections of the stream protocol as management and groups see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::streams::{GroupMember, GroupNews};
use broker::{
    ConnectionInfo, ConnectionMemory, DeliveryTotals, StreamConsumer, StreamPublisher, TrafficTotals,
};
use parking_lot::Mutex;

use super::counted::{ConsumerCount, Counter, PublisherCount};
use crate::control::Shown;

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces.
const TASK_BYTES: usize = 3400;

/// The shared part of a connection.
pub(crate) type Control = crate::control::Control<Listed>;

/// The fields that only connections of the stream protocol have in it.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) publishers: Mutex<Vec<Arc<PublisherCount>>>,
    pub(crate) consumers: Mutex<Vec<Arc<ConsumerCount>>>,
    pub(crate) published: Counter,
    pub(crate) confirmed: Counter,
    pub(crate) delivered: Counter,
    /// The wanted states of subscriptions.
    news: Mutex<Vec<(u8, GroupNews)>>,
    has_news: AtomicBool,
}

impl Listed {
    /// The wanted states of subscriptions, in order.
    pub(crate) fn take_news(&self) -> Vec<(u8, GroupNews)> {
        if !self.has_news.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.news.lock())
    }

    /// A subscription is gone: its next state concerns nobody.
    pub(crate) fn forget_news(&self, subscription: u8) {
        self.news.lock().retain(|(other, _)| *other != subscription);
    }
}

impl GroupMember for Control {
    fn told(&self, subscription: u8, news: GroupNews) {
        self.own.news.lock().push((subscription, news));
        self.own.has_news.store(true, Ordering::Release);
        self.outbox.wake();
    }
}

impl Shown for Listed {
    type Side = ();
    type Facts = ConnectionInfo;

    fn stream_publishers(&self) -> Vec<StreamPublisher> {
        self.publishers.lock().iter().map(|count| count.shown()).collect()
    }

    fn stream_consumers(&self) -> Vec<StreamConsumer> {
        self.consumers.lock().iter().map(|count| count.shown()).collect()
    }

    fn memory(control: &Control) -> ConnectionMemory {
        let texts = {
            let info = control.info.lock();
            info.name.capacity() + info.user.capacity() + info.client_properties.capacity()
        };
        let uses = control.own.publishers.lock().len() + control.own.consumers.lock().len();
        ConnectionMemory {
            connection: (TASK_BYTES + texts) as u64,
            channels: (uses * (size_of::<ConsumerCount>() + 300)) as u64,
            outgoing: control.outbox.lock().held_bytes() as u64,
        }
    }

    fn traffic(control: &Control) -> TrafficTotals {
        let (own, published) = (&control.own, control.own.published.now());
        TrafficTotals {
            published,
            published_for_confirm: published,
            confirmed: own.confirmed.now(),
            deliveries: DeliveryTotals { delivered: own.delivered.now(), ..DeliveryTotals::NONE },
            ..TrafficTotals::default()
        }
    }
}
