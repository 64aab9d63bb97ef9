//! A connection as management sees it: its facts, and how to ask it to close. Shared with other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use broker::{
    ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionMemory, ConnectionTotals,
};
use parking_lot::Mutex;

use super::deliver::{ChannelOutput, Deliveries};
use super::errors::{Failure, ReplyCode};
use crate::moved::Moved;
use crate::outbox::{Outbox, OutputBytes};

/// The shared part of a connection.
pub(crate) struct Control {
    pub(crate) outbox: Arc<Outbox<Deliveries>>,
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

    /// Whether what it has published cannot be taken as fast. Told by the connection's task after each read, and when it may go on, with the time of
    /// the latest read.
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
        info.channels = self.outbox.lock().state().channels().count();
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
        let channels = output.state().channels();
        channels
            .map(|(number, channel)| ChannelInfo {
                connection: connection.clone(),
                user: user.clone(),
                vhost: vhost.clone(),
                ..channel_info(number, channel)
            })
            .collect()
    }

    fn memory(&self) -> ConnectionMemory {
        let strings = {
            let info = self.info.lock();
            let texts = [&info.name, &info.peer_host, &info.host, &info.user];
            let texts: usize = texts.iter().map(|text| text.capacity()).sum();
            texts + info.vhost.capacity() + info.client_properties.capacity()
        };
        let mut output = self.outbox.lock();
        let outgoing = output.held_bytes();
        let channels = output.state().heap_bytes() + output.state().unfinished_bytes;
        let count = output.state().channels().count();
        ConnectionMemory {
            connection: (super::session::FIXED_BYTES + strings) as u64,
            channels: (channels + count * size_of::<super::channel::Channel>()) as u64,
            outgoing: outgoing as u64,
        }
    }

    fn totals(&self) -> ConnectionTotals {
        let (received_bytes, received_count) = self.received.now();
        let (sent_bytes, sent_count) = self.sent.now();
        let traffic = self.outbox.lock().state().totals();
        ConnectionTotals { received_bytes, received_count, sent_bytes, sent_count, traffic }
    }
}

fn channel_info(number: u16, channel: &ChannelOutput) -> ChannelInfo {
    let facts = &channel.facts;
    let unconfirmed =
        facts.published_latest.load(Ordering::Relaxed).saturating_sub(channel.confirms.settled_count());
    ChannelInfo {
        number,
        transactional: facts.transactional,
        confirm: facts.confirm,
        consumer_count: facts.consumer_count,
        messages_unacknowledged: channel.unacked.len(),
        messages_unconfirmed: usize::try_from(unconfirmed).unwrap_or(usize::MAX),
        messages_uncommitted: facts.messages_uncommitted,
        acks_uncommitted: facts.acks_uncommitted,
        prefetch_count: facts.prefetch,
        global_prefetch_count: facts.global_prefetch,
        traffic: channel.totals(),
        used_ms: channel.used_ms(),
        ..ChannelInfo::default()
    }
}

/// The error that the client gets when the broker closes its connection (B28, B191).
pub(crate) fn forced(reason: CloseReason) -> Failure {
    let text = match reason {
        CloseReason::Shutdown => "broker forced connection closure with reason 'shutdown'".into(),
        CloseReason::Operator(reason) => reason,
        CloseReason::VhostDeleted(vhost) => format!("vhost '{vhost}' is deleted"),
        CloseReason::UserDeleted(user) => format!("user '{user}' is deleted"),
        CloseReason::TakenOver => "another connection has taken its name".into(),
    };
    Failure::new(ReplyCode::ConnectionForced, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_close_counts_and_is_told_once() {
        let control = Control::new(Arc::new(Outbox::new(Deliveries::new())), ConnectionInfo::default());
        assert_eq!(control.take_close(), None);
        control.close(CloseReason::Shutdown);
        control.close(CloseReason::Operator("x".into()));
        assert_eq!(control.take_close(), Some(CloseReason::Shutdown));
        assert_eq!(control.take_close(), None);
    }

    #[test]
    fn forced_closes_have_rabbitmqs_texts() {
        for (reason, text) in [
            (CloseReason::Shutdown, "broker forced connection closure with reason 'shutdown'"),
            (CloseReason::Operator("Closed via management plugin".into()), "Closed via management plugin"),
            (CloseReason::VhostDeleted("v".into()), "vhost 'v' is deleted"),
            (CloseReason::UserDeleted("u".into()), "user 'u' is deleted"),
        ] {
            assert_eq!(forced(reason).reply_text(), format!("CONNECTION_FORCED - {text}"));
        }
    }
}
