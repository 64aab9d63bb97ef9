//! Connections of MQTT as management sees them.

use std::sync::Arc;

use broker::{ConnectionInfo, ConnectionMemory, MqttInfo, TrafficTotals};

use super::connect::client_properties;
use super::deliver::Side;
use crate::Peer;
use crate::control::{Published, Shown};

/// Socket, timer and task of a connection, which live in `edge/net`, and what the allocator adds to its pieces.
const TASK_BYTES: usize = 2600;

/// The shared part of a connection.
pub(crate) type Control = crate::control::Control<Listed>;

/// The fields that only connections of MQTT have in it.
#[derive(Default)]
pub(crate) struct Listed {
    /// By publishes with and without acknowledgement.
    pub(crate) published: Published,
}

/// The facts of a connection, as small as they can be: there may be millions.
pub(crate) struct Facts {
    pub(crate) peer: Arc<Peer>,
    /// When it was accepted, milliseconds since 1970.
    pub(crate) connected_at_ms: u64,
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

impl crate::control::Facts for Facts {
    fn accepted(peer: &Arc<Peer>, protocol: &'static str, state: &'static str, connected_at_ms: u64) -> Self {
        let (peer, user, vhost) = (peer.clone(), Box::default(), Box::default());
        Facts { peer, connected_at_ms, protocol, state, user, vhost, client: None }
    }

    fn protocol(&self) -> &'static str {
        self.protocol
    }

    fn set_state(&mut self, state: &'static str) {
        self.state = state;
    }

    fn info(&self) -> ConnectionInfo {
        let mut info = self.peer.connection_info(self.protocol, self.state, self.connected_at_ms);
        info.user = self.user.to_string();
        info.vhost = self.vhost.to_string();
        if let Some(client) = &self.client {
            info.client_properties = client_properties(&client.id);
            info.heartbeat_s = client.keep_alive_s;
            info.auth_mechanism = "none".into();
            info.mqtt = Some(MqttInfo { is_clean: client.is_clean, ..MqttInfo::default() });
        }
        info
    }
}

impl Shown for Listed {
    type Side = Side;
    type Facts = Facts;

    fn complete(control: &Control, info: &mut ConnectionInfo) {
        if let Some(mqtt) = &mut info.mqtt {
            let mut output = control.outbox.lock();
            let side = output.state();
            mqtt.exchange = String::from_utf8_lossy(&side.exchange).into_owned();
            mqtt.prefetch = side.receive_max;
            (mqtt.unacknowledged, mqtt.unconfirmed) = (side.inflight.len(), side.acks.len());
        }
    }

    fn memory(control: &Control) -> ConnectionMemory {
        let texts = {
            let facts = control.info.lock();
            let id_bytes = facts.client.as_ref().map_or(0, |client| client.id.len());
            facts.user.len() + facts.vhost.len() + id_bytes + size_of::<Peer>()
        };
        let mut output = control.outbox.lock();
        let outgoing = output.held_bytes() as u64;
        let connection = (TASK_BYTES + size_of::<Side>() + output.state().heap_bytes() + texts) as u64;
        ConnectionMemory { connection, channels: 0, outgoing }
    }

    fn traffic(control: &Control) -> TrafficTotals {
        let published = control.own.published.traffic();
        let mut output = control.outbox.lock();
        let side = output.state();
        TrafficTotals { confirmed: side.acks.confirmed, deliveries: side.counted, ..published }
    }
}
