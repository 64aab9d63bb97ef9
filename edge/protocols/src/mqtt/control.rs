//! A connection as management sees it. Shared with other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{
    ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionMemory, ConnectionTotals,
    PublishCounters, TrafficTotals,
};
use parking_lot::Mutex;

use super::deliver::Side;
use crate::moved::Moved;
use crate::outbox::{Outbox, OutputBytes};

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces.
const TASK_BYTES: usize = 3400;

/// The shared part of a connection.
pub(crate) struct Control {
    pub(crate) outbox: Arc<Outbox<Side>>,
    /// Everything but the counters.
    pub(crate) info: Mutex<ConnectionInfo>,
    /// The counts of published messages, by publishes with and without acknowledgement.
    pub(crate) published: Mutex<Vec<Arc<PublishCounters>>>,
    pub(crate) received: Moved,
    pub(crate) sent: Moved,
    close_wanted: AtomicBool,
    close_reason: Mutex<Option<CloseReason>>,
}

impl Control {
    pub(crate) fn new(outbox: Arc<Outbox<Side>>, info: ConnectionInfo) -> Control {
        Control {
            outbox,
            info: Mutex::new(info),
            published: Mutex::default(),
            received: Moved::default(),
            sent: Moved::default(),
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

    pub(crate) fn set_state(&self, state: &'static str) {
        self.info.lock().state = state;
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

    fn protocol(&self) -> &'static str {
        self.info.lock().protocol
    }

    fn info(&self) -> ConnectionInfo {
        let mut info = self.info.lock().clone();
        info.send_pending_bytes = self.outbox.pending_bytes() as u64;
        info.totals = self.totals();
        if let Some(mqtt) = &mut info.mqtt {
            let mut output = self.outbox.lock();
            let side = output.state();
            mqtt.exchange = String::from_utf8_lossy(&side.exchange).into_owned();
            mqtt.prefetch = side.receive_max;
            (mqtt.unacknowledged, mqtt.unconfirmed) = (side.inflight.len(), side.acks.len());
        }
        info
    }

    fn channels(&self) -> Vec<ChannelInfo> {
        Vec::new()
    }

    fn memory(&self) -> ConnectionMemory {
        let texts = {
            let info = self.info.lock();
            info.name.capacity() + info.user.capacity() + info.client_properties.capacity()
        };
        let mut output = self.outbox.lock();
        let outgoing = output.held_bytes() as u64;
        let connection = (TASK_BYTES + size_of::<Side>() + output.state().heap_bytes() + texts) as u64;
        ConnectionMemory { connection, channels: 0, outgoing }
    }

    fn totals(&self) -> ConnectionTotals {
        let (received_bytes, received_count) = self.received.now();
        let (sent_bytes, sent_count) = self.sent.now();
        let mut traffic = TrafficTotals::default();
        self.published.lock().iter().for_each(|counters| traffic += &counters.now());
        let mut output = self.outbox.lock();
        let side = output.state();
        traffic.confirmed = side.acks.confirmed;
        traffic.deliveries = side.counted;
        ConnectionTotals { received_bytes, received_count, sent_bytes, sent_count, traffic }
    }
}
