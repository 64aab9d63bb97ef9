//! A connection as management sees it. Shared with other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{
    ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionMemory, ConnectionTotals,
    MqttInfo, PublishCounters, TrafficTotals,
};
use parking_lot::Mutex;

use super::connect::client_properties;
use super::deliver::Side;
use crate::Peer;
use crate::moved::Moved;
use crate::outbox::{Outbox, OutputBytes};

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces.
const TASK_BYTES: usize = 2600;

/// The facts of a connection that change, as small as they can be: there may be millions.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) protocol: &'static str,
    pub(crate) state: &'static str,
    /// Empty before the login, like the vhost.
    pub(crate) user: Box<str>,
    pub(crate) vhost: Box<str>,
    /// `None` before CONNECT.
    pub(crate) client: Option<ClientFacts>,
}

/// The facts that CONNECT tells.
pub(crate) struct ClientFacts {
    pub(crate) id: Box<str>,
    pub(crate) keep_alive_s: u16,
    pub(crate) is_clean: bool,
}

/// The shared part of a connection.
pub(crate) struct Control {
    pub(crate) outbox: Arc<Outbox<Side>>,
    peer: Arc<Peer>,
    /// When it was accepted, milliseconds since 1970.
    connected_at_ms: u64,
    pub(crate) facts: Mutex<Facts>,
    /// The counts of published messages, by publishes with and without acknowledgement.
    pub(crate) published: Mutex<Vec<Arc<PublishCounters>>>,
    pub(crate) received: Moved,
    pub(crate) sent: Moved,
    close_wanted: AtomicBool,
    close_reason: Mutex<Option<CloseReason>>,
}

impl Control {
    pub(crate) fn new(
        outbox: Arc<Outbox<Side>>,
        peer: Arc<Peer>,
        connected_at_ms: u64,
        facts: Facts,
    ) -> Control {
        Control {
            outbox,
            peer,
            connected_at_ms,
            facts: Mutex::new(facts),
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

    /// The facts without counters.
    fn known(&self) -> ConnectionInfo {
        let (peer, facts) = (&self.peer, self.facts.lock());
        let mut info = ConnectionInfo {
            name: peer.connection_name(),
            peer_host: peer.remote.ip().to_string(),
            peer_port: peer.remote.port(),
            host: peer.local.ip().to_string(),
            port: peer.local.port(),
            protocol: facts.protocol,
            state: facts.state,
            connected_at_ms: self.connected_at_ms,
            tls: peer.tls.clone(),
            user: facts.user.to_string(),
            vhost: facts.vhost.to_string(),
            ..ConnectionInfo::default()
        };
        if let Some(client) = &facts.client {
            info.client_properties = client_properties(&client.id);
            info.heartbeat_s = client.keep_alive_s;
            info.auth_mechanism = "none".into();
            info.mqtt = Some(MqttInfo { is_clean: client.is_clean, ..MqttInfo::default() });
        }
        info
    }

    pub(crate) fn set_state(&self, state: &'static str) {
        self.facts.lock().state = state;
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
        self.facts.lock().protocol
    }

    fn info(&self) -> ConnectionInfo {
        let mut info = self.known();
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
            let facts = self.facts.lock();
            let id_bytes = facts.client.as_ref().map_or(0, |client| client.id.len());
            facts.user.len() + facts.vhost.len() + id_bytes + size_of::<Peer>()
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
