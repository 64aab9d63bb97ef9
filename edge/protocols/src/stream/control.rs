//! A connection as management and groups see it. Shared with other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::streams::{GroupMember, GroupNews};
use broker::{
    ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionMemory, ConnectionTotals,
    DeliveryTotals, StreamConsumer, StreamPublisher, TrafficTotals,
};
use parking_lot::Mutex;

use super::counted::{ConsumerCount, Counter, PublisherCount};
use crate::moved::Moved;
use crate::outbox::{Outbox, OutputBytes};

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces.
const TASK_BYTES: usize = 3400;

/// The shared part of a connection.
pub(crate) struct Control {
    pub(crate) outbox: Arc<Outbox<()>>,
    /// Everything but the counters.
    pub(crate) info: Mutex<ConnectionInfo>,
    pub(crate) publishers: Mutex<Vec<Arc<PublisherCount>>>,
    pub(crate) consumers: Mutex<Vec<Arc<ConsumerCount>>>,
    pub(crate) published: Counter,
    pub(crate) confirmed: Counter,
    pub(crate) delivered: Counter,
    pub(crate) received: Moved,
    pub(crate) sent: Moved,
    /// The wanted states of subscriptions.
    news: Mutex<Vec<(u8, GroupNews)>>,
    has_news: AtomicBool,
    close_wanted: AtomicBool,
    close_reason: Mutex<Option<CloseReason>>,
}

impl Control {
    pub(crate) fn new(outbox: Arc<Outbox<()>>, info: ConnectionInfo) -> Control {
        Control {
            outbox,
            info: Mutex::new(info),
            publishers: Mutex::default(),
            consumers: Mutex::default(),
            published: Counter::default(),
            confirmed: Counter::default(),
            delivered: Counter::default(),
            received: Moved::default(),
            sent: Moved::default(),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            close_wanted: AtomicBool::new(false),
            close_reason: Mutex::new(None),
        }
    }

    /// Why the connection is to close, the first time this is asked after somebody wanted it.
    pub(crate) fn take_close(&self) -> Option<CloseReason> {
        if !self.close_wanted.load(Ordering::Acquire) {
            return None;
        }
        self.close_wanted.store(false, Ordering::Release);
        self.close_reason.lock().take()
    }

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

    pub(crate) fn set_state(&self, state: &'static str) {
        self.info.lock().state = state;
    }
}

impl GroupMember for Control {
    fn told(&self, subscription: u8, news: GroupNews) {
        self.news.lock().push((subscription, news));
        self.has_news.store(true, Ordering::Release);
        self.outbox.wake();
    }
}

impl ConnectionControl for Control {
    fn close(&self, reason: CloseReason) {
        self.close_reason.lock().get_or_insert(reason);
        self.close_wanted.store(true, Ordering::Release);
        self.outbox.wake();
    }

    fn wake(&self) {
        self.outbox.wake();
    }

    fn info(&self) -> ConnectionInfo {
        let mut info = self.info.lock().clone();
        info.send_pending_bytes = self.outbox.pending_bytes() as u64;
        info.totals = self.totals();
        info
    }

    fn channels(&self) -> Vec<ChannelInfo> {
        Vec::new()
    }

    fn stream_publishers(&self) -> Vec<StreamPublisher> {
        self.publishers.lock().iter().map(|count| count.shown()).collect()
    }

    fn stream_consumers(&self) -> Vec<StreamConsumer> {
        self.consumers.lock().iter().map(|count| count.shown()).collect()
    }

    fn memory(&self) -> ConnectionMemory {
        let texts = {
            let info = self.info.lock();
            info.name.capacity() + info.user.capacity() + info.client_properties.capacity()
        };
        let uses = self.publishers.lock().len() + self.consumers.lock().len();
        ConnectionMemory {
            connection: (TASK_BYTES + texts) as u64,
            channels: (uses * (size_of::<ConsumerCount>() + 300)) as u64,
            outgoing: self.outbox.lock().held_bytes() as u64,
        }
    }

    fn totals(&self) -> ConnectionTotals {
        let (received_bytes, received_count) = self.received.now();
        let (sent_bytes, sent_count) = self.sent.now();
        let published = self.published.now();
        let traffic = TrafficTotals {
            published,
            published_for_confirm: published,
            confirmed: self.confirmed.now(),
            deliveries: DeliveryTotals { delivered: self.delivered.now(), ..DeliveryTotals::NONE },
            ..TrafficTotals::default()
        };
        ConnectionTotals { received_bytes, received_count, sent_bytes, sent_count, traffic }
    }
}
