//! A connection as management sees it: its facts, and how to ask it to close. Shared with other threads.
//!
//! Refuses to know what a protocol alone counts and shows: its [`Shown`] says that.

use std::sync::Arc;

use broker::{
    ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionMemory, ConnectionTotals,
    PublishCounters, SessionInfo, StreamConsumer, StreamPublisher, TrafficTotals,
};
use parking_lot::Mutex;

use crate::Peer;
use crate::closing::Closing;
use crate::moved::{Moved, totals};
use crate::outbox::{Outbox, OutputBytes};

/// The facts of a connection without counters, as its session sets them.
pub(crate) trait Facts: Send + Sized + 'static {
    /// Of a connection that was accepted at this time, milliseconds since 1970.
    fn accepted(peer: &Arc<Peer>, protocol: &'static str, state: &'static str, connected_at_ms: u64) -> Self;

    /// The name of the protocol in listings.
    fn protocol(&self) -> &'static str;

    /// RabbitMQ's name for the state of the connection.
    fn set_state(&mut self, state: &'static str);

    /// All facts, for listings.
    fn info(&self) -> ConnectionInfo;
}

impl Facts for ConnectionInfo {
    fn accepted(peer: &Arc<Peer>, protocol: &'static str, state: &'static str, connected_at_ms: u64) -> Self {
        peer.connection_info(protocol, state, connected_at_ms)
    }

    fn protocol(&self) -> &'static str {
        self.protocol
    }

    fn set_state(&mut self, state: &'static str) {
        self.state = state;
    }

    fn info(&self) -> ConnectionInfo {
        self.clone()
    }
}

/// The part of [`Control`] that one protocol has alone, and how listings show it.
pub(crate) trait Shown: Default + Send + Sync + 'static {
    /// The state beside the output bytes.
    type Side: Send + 'static;

    /// The facts, as they are kept.
    type Facts: Facts;

    /// Adds facts that the session does not set.
    fn complete(_control: &Control<Self>, _info: &mut ConnectionInfo) {}

    /// The channels of the connection.
    fn channels(_control: &Control<Self>) -> Vec<ChannelInfo> {
        Vec::new()
    }

    /// The sessions of AMQP 1.0.
    fn sessions(_control: &Control<Self>) -> Option<Vec<SessionInfo>> {
        None
    }

    /// The publishers of the stream protocol.
    fn stream_publishers(&self) -> Vec<StreamPublisher> {
        Vec::new()
    }

    /// The consumers of the stream protocol.
    fn stream_consumers(&self) -> Vec<StreamConsumer> {
        Vec::new()
    }

    /// Bytes of memory that the connection takes.
    fn memory(control: &Control<Self>) -> ConnectionMemory;

    /// The counts of its messages. Costs no allocation.
    fn traffic(control: &Control<Self>) -> TrafficTotals;
}

/// The shared part of a connection.
pub(crate) struct Control<S: Shown> {
    pub(crate) outbox: Arc<Outbox<S::Side>>,
    /// Everything but the counters.
    pub(crate) info: Mutex<S::Facts>,
    pub(crate) received: Moved,
    pub(crate) sent: Moved,
    pub(crate) closing: Closing,
    pub(crate) own: S,
}

impl<S: Shown> Control<S> {
    pub(crate) fn new(outbox: Arc<Outbox<S::Side>>, facts: S::Facts) -> Control<S> {
        Control {
            outbox,
            info: Mutex::new(facts),
            received: Moved::default(),
            sent: Moved::default(),
            closing: Closing::default(),
            own: S::default(),
        }
    }

    pub(crate) fn set_state(&self, state: &'static str) {
        self.info.lock().set_state(state);
    }
}

impl<S: Shown<Facts = ConnectionInfo>> Control<S> {
    /// A channel of the connection, without anything of its own.
    pub(crate) fn channel(&self) -> ChannelInfo {
        let info = self.info.lock();
        ChannelInfo {
            connection: info.name.clone(),
            user: info.user.clone(),
            vhost: info.vhost.clone(),
            ..ChannelInfo::default()
        }
    }
}

impl<S: Shown> ConnectionControl for Control<S> {
    fn close(&self, reason: CloseReason) {
        self.closing.want(reason);
        self.outbox.wake();
    }

    fn wake(&self) {
        self.outbox.wake();
    }

    fn protocol(&self) -> &'static str {
        self.info.lock().protocol()
    }

    fn info(&self) -> ConnectionInfo {
        let mut info = self.info.lock().info();
        info.send_pending_bytes = self.outbox.pending_bytes() as u64;
        info.totals = self.totals();
        S::complete(self, &mut info);
        info
    }

    fn channels(&self) -> Vec<ChannelInfo> {
        S::channels(self)
    }

    fn sessions(&self) -> Option<Vec<SessionInfo>> {
        S::sessions(self)
    }

    fn stream_publishers(&self) -> Vec<StreamPublisher> {
        self.own.stream_publishers()
    }

    fn stream_consumers(&self) -> Vec<StreamConsumer> {
        self.own.stream_consumers()
    }

    fn memory(&self) -> ConnectionMemory {
        S::memory(self)
    }

    fn totals(&self) -> ConnectionTotals {
        totals(&self.received, &self.sent, S::traffic(self))
    }
}

/// The counts of published messages, where they are not kept by channel.
#[derive(Default)]
pub(crate) struct Published(Mutex<Vec<Arc<PublishCounters>>>);

impl Published {
    /// Counts these from now on.
    pub(crate) fn set(&self, counters: Vec<Arc<PublishCounters>>) {
        *self.0.lock() = counters;
    }

    /// All of them.
    pub(crate) fn traffic(&self) -> TrafficTotals {
        let mut traffic = TrafficTotals::default();
        self.0.lock().iter().for_each(|counters| traffic += &counters.now());
        traffic
    }
}
