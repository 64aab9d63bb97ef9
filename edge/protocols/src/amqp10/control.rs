//! A connection as management sees it: its facts, and how to ask it to close. Shared with other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use broker::{
    ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionMemory, ConnectionTotals,
    SessionInfo,
};
use parking_lot::Mutex;

use super::deliver::Deliveries;
use super::listed::session_info;
use crate::moved::Moved;
use crate::outbox::{Outbox, OutputBytes};

/// The shared part of a connection.
pub(crate) struct Control {
    outbox: Arc<Outbox<Deliveries>>,
    /// Everything but the counters.
    pub(crate) info: Mutex<ConnectionInfo>,
    pub(crate) received: Moved,
    pub(crate) sent: Moved,
    /// See [`ConnectionInfo::held_back_ms`].
    held_back_ms: AtomicU64,
    close_wanted: AtomicBool,
    close_reason: Mutex<Option<CloseReason>>,
}

impl Control {
    pub(crate) fn new(outbox: Arc<Outbox<Deliveries>>, info: ConnectionInfo) -> Control {
        Control {
            outbox,
            info: Mutex::new(info),
            received: Moved::default(),
            sent: Moved::default(),
            held_back_ms: AtomicU64::new(0),
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

    /// Whether what it has published cannot be taken as fast.
    pub(crate) fn held_back(&self, is_held: bool, now_ms: u64) {
        let since_ms = self.held_back_ms.load(Ordering::Relaxed);
        if is_held != (since_ms == u64::MAX) {
            self.held_back_ms.store(if is_held { u64::MAX } else { now_ms }, Ordering::Relaxed);
        }
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
        info.channels = self.outbox.lock().state().sessions().count();
        info.totals = self.totals();
        info.held_back_ms = self.held_back_ms.load(Ordering::Relaxed);
        info
    }

    fn channels(&self) -> Vec<ChannelInfo> {
        let (connection, user, vhost) = {
            let info = self.info.lock();
            (info.name.clone(), info.user.clone(), info.vhost.clone())
        };
        let mut output = self.outbox.lock();
        let side = output.state();
        side.sessions()
            .map(|(number, session)| ChannelInfo {
                connection: connection.clone(),
                user: user.clone(),
                vhost: vhost.clone(),
                number,
                confirm: true,
                consumer_count: session.consumer_count,
                messages_unacknowledged: session.unacked.len(),
                messages_unconfirmed: side.unconfirmed(number),
                traffic: side.totals_of(number, session),
                ..ChannelInfo::default()
            })
            .collect()
    }

    fn sessions(&self) -> Option<Vec<SessionInfo>> {
        let mut output = self.outbox.lock();
        let side: &Deliveries = output.state();
        Some(side.sessions().map(|(channel, session)| session_info(channel, session, side)).collect())
    }

    fn totals(&self) -> ConnectionTotals {
        let (received_bytes, received_count) = self.received.now();
        let (sent_bytes, sent_count) = self.sent.now();
        let traffic = self.outbox.lock().state().totals();
        ConnectionTotals { received_bytes, received_count, sent_bytes, sent_count, traffic }
    }

    fn memory(&self) -> ConnectionMemory {
        let mut output = self.outbox.lock();
        let outgoing = output.held_bytes();
        let side = output.state();
        ConnectionMemory {
            connection: super::session::FIXED_BYTES as u64,
            channels: (side.heap_bytes() + side.unfinished_bytes) as u64,
            outgoing: outgoing as u64,
        }
    }
}
