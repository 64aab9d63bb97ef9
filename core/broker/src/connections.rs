//! Table of connections: management lists and closes them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metadata::Limits;
use parking_lot::{Mutex, RwLock};
use stdx::ConnectionId;

use crate::access::{Principal, User};
use crate::alarms::Woken;
use crate::clients::Clients;
use crate::cluster::Counted;
use crate::open_errors::OpenError;
use crate::services::Services;
use crate::sessions::SessionInfo;
use crate::stats::{ByProtocol, ConnectionTotals, NodeCounters, TrafficTotals};
use crate::stream_listing::{StreamConsumer, StreamPublisher};
use crate::vhost::Vhost;

/// Why the broker closes a connection; the protocol makes its own close of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The node stops (B28): 320 `CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'`.
    Shutdown,
    /// An operator asked, with a reason: 320 `CONNECTION_FORCED - <reason>`.
    Operator(String),
    /// 320 `CONNECTION_FORCED - vhost 'v' is deleted` (B191).
    VhostDeleted(String),
    /// 320 `CONNECTION_FORCED - user 'u' is deleted` (B191).
    UserDeleted(String),
    /// Another connection has claimed its name, see [`crate::Broker::claim_client`]. Only connections that claimed one hear it.
    TakenOver,
}

/// The control of a session that management has.
pub trait ConnectionControl: Send + Sync {
    /// Asks the connection to close itself; returns at once.
    fn close(&self, reason: CloseReason);
    /// Something that the connection looks at has changed, such as the alarms; returns at once.
    fn wake(&self);
    /// The known facts about the connection now.
    fn info(&self) -> ConnectionInfo;
    /// The name of its protocol in listings.
    fn protocol(&self) -> &'static str {
        self.info().protocol
    }
    /// Its channels now.
    fn channels(&self) -> Vec<ChannelInfo>;
    /// Its sessions of AMQP 1.0 now; `None` if it speaks something else.
    fn sessions(&self) -> Option<Vec<SessionInfo>> {
        None
    }
    /// The totals of the connection; costs no allocation.
    fn totals(&self) -> ConnectionTotals;
    /// Its publishers of the stream protocol.
    fn stream_publishers(&self) -> Vec<StreamPublisher> {
        Vec::new()
    }
    /// Its consumers of the stream protocol.
    fn stream_consumers(&self) -> Vec<StreamConsumer> {
        Vec::new()
    }
    /// Bytes of memory it takes.
    fn memory(&self) -> ConnectionMemory {
        ConnectionMemory::default()
    }
}

/// Bytes of memory that a connection takes, all of it in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionMemory {
    /// The connection itself.
    pub connection: u64,
    /// Its channels and consumers, with what is not acked.
    pub channels: u64,
    /// Buffers of bytes for the socket.
    pub outgoing: u64,
}

impl ConnectionMemory {
    /// All of it.
    #[must_use]
    pub fn total(self) -> u64 {
        self.connection + self.channels + self.outgoing
    }
}

/// One line of `list_connections`. Names follow RabbitMQ's columns.
#[derive(Clone, Debug, Default)]
pub struct ConnectionInfo {
    /// `127.0.0.1:50000 -> 127.0.0.1:5672`.
    pub name: String,
    /// Address and port of the peer.
    pub peer_host: String,
    /// Port of the peer.
    pub peer_port: u16,
    /// Our address.
    pub host: String,
    /// Our port.
    pub port: u16,
    /// `AMQP 0-9-1`, ...
    pub protocol: &'static str,
    /// `running`, `blocked`, `closing`, ...; `flow` is told by [`Self::at`].
    pub state: &'static str,
    /// When it was last held back because its messages go to queues, or a disk, that cannot take them as fast: milliseconds since the epoch;
    /// 0 for never, `u64::MAX` while it is.
    pub held_back_ms: u64,
    /// Authenticated user.
    pub user: String,
    /// The vhost opened.
    pub vhost: String,
    /// SASL mechanism used.
    pub auth_mechanism: String,
    /// Negotiated heartbeat interval, seconds; 0 is off.
    pub heartbeat_s: u16,
    /// Negotiated largest frame, bytes.
    pub frame_max: u32,
    /// Negotiated number of channels.
    pub channel_max: u16,
    /// Open channels.
    pub channels: usize,
    /// `connection_name` of the client's properties (B11).
    pub user_provided_name: Option<String>,
    /// The name that a client of AMQP 1.0 gives itself.
    pub container_id: Option<String>,
    /// Fields that only connections of MQTT have.
    pub mqtt: Option<MqttInfo>,
    /// Client properties as a raw AMQP field table.
    pub client_properties: Vec<u8>,
    /// Bytes, reads and writes, messages.
    pub totals: ConnectionTotals,
    /// Bytes in the outbox.
    pub send_pending_bytes: u64,
    /// Milliseconds since the epoch at which the connection was accepted.
    pub connected_at_ms: u64,
    /// The encryption of the connection; `None` if there is none.
    pub tls: Option<Arc<TlsSession>>,
}

/// Columns that only connections of MQTT have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MqttInfo {
    /// The session began with this connection, or ends with it.
    pub is_clean: bool,
    /// The exchange of topics.
    pub exchange: String,
    /// Messages of QoS 1 and 2 on the way to the client, at most.
    pub prefetch: u16,
    /// Messages that are on their way.
    pub unacknowledged: usize,
    /// Publishes of QoS 1 and 2 that are not answered yet.
    pub unconfirmed: usize,
}

/// The terms that the two ends of an encrypted connection have agreed on, in RabbitMQ's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSession {
    /// `tlsv1.3`, ...
    pub protocol: &'static str,
    /// `any`, `ecdhe_rsa`, ...
    pub key_exchange: &'static str,
    /// `aes_256_gcm`, ...
    pub cipher: &'static str,
    /// `aead`
    pub hash: &'static str,
    /// The client's certificate, if it showed one.
    pub peer: Option<PeerCertificate>,
}

/// The facts that listings show of a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The distinguished name of its subject.
    pub subject: String,
    /// The distinguished name of its issuer.
    pub issuer: String,
    /// From when until when it is valid.
    pub validity: String,
    /// The serial number.
    pub serial: String,
}

/// So long after the read that it was held back for a connection is said to be.
const FLOW_MS: u64 = 1000;

impl ConnectionInfo {
    /// As it is shown: RabbitMQ calls a connection that runs `flow` that is held back, or was for what was read within the last second.
    #[must_use]
    pub fn at(mut self, now_ms: u64) -> ConnectionInfo {
        if self.state == "running" && now_ms < self.held_back_ms.saturating_add(FLOW_MS) {
            self.state = "flow";
        }
        self
    }
}

/// One line of `list_channels`.
#[derive(Clone, Debug, Default)]
pub struct ChannelInfo {
    /// Name of its connection.
    pub connection: String,
    /// Channel number.
    pub number: u16,
    /// User of the connection.
    pub user: String,
    /// Vhost of the connection.
    pub vhost: String,
    /// `tx.select` was done.
    pub transactional: bool,
    /// `confirm.select` was done.
    pub confirm: bool,
    /// Consumers on the channel.
    pub consumer_count: usize,
    /// Deliveries not yet settled.
    pub messages_unacknowledged: usize,
    /// Publishes not yet confirmed.
    pub messages_unconfirmed: usize,
    /// Publishes in the open transaction.
    pub messages_uncommitted: usize,
    /// Acks in the open transaction.
    pub acks_uncommitted: usize,
    /// Prefetch of later consumers.
    pub prefetch_count: u32,
    /// Prefetch of the whole channel.
    pub global_prefetch_count: u32,
    /// The totals of the connection.
    pub traffic: TrafficTotals,
    /// When a frame last came in on it or a delivery was written, milliseconds since 1970; 0 if that is yet to come.
    pub used_ms: u64,
}

/// All connections of the node.
#[derive(Default)]
pub struct Connections {
    open: RwLock<HashMap<ConnectionId, Open>>,
    /// Open channels on all of them.
    pub(crate) channels: Arc<AtomicU64>,
    /// Names that at most one of them may have.
    pub(crate) clients: Arc<Clients>,
    /// Why clients are sent away again as soon as they are connected; `None` while they may stay.
    sent_away: RwLock<Option<CloseReason>>,
}

struct Open {
    control: Arc<dyn ConnectionControl>,
    user: Arc<User>,
    vhost: Arc<Vhost>,
    name: Arc<str>,
}

/// The bound if there is one and it is reached.
fn reached(count: u64, bound: Option<u64>) -> Option<u64> {
    bound.filter(|max| count >= *max)
}

/// Gives connections their names, in one life of the node.
pub(crate) struct ConnectionIds {
    node: u16,
    life: u32,
    next: AtomicU64,
}

impl ConnectionIds {
    /// `life` is greater than that of each earlier start.
    pub(crate) fn new(node: u16, life: u32) -> ConnectionIds {
        ConnectionIds { node, life, next: AtomicU64::new(1) }
    }

    /// A new one.
    pub(crate) fn next(&self) -> ConnectionId {
        self.of(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The one with that count.
    pub(crate) fn of(&self, count: u64) -> ConnectionId {
        ConnectionId { node: self.node, life: self.life, count }
    }
}

fn is_node_full(open: &HashMap<ConnectionId, Open>, node_max: Option<u64>) -> Result<(), OpenError> {
    reached(open.len() as u64, node_max).map_or(Ok(()), |max| Err(OpenError::NodeLimit(max)))
}

impl Connections {
    /// Whether the node has room for one more.
    pub(crate) fn check_node(&self, node_max: Option<u64>) -> Result<(), OpenError> {
        is_node_full(&self.open.read(), node_max)
    }

    /// Adds a connection that has finished its handshake, unless a limit or the user's permissions forbid it, looked at
    /// in the order of B24.
    pub(crate) fn admit(
        &self,
        principal: &Principal,
        control: Arc<dyn ConnectionControl>,
        node_max: Option<u64>,
        elsewhere: impl Fn(Option<Counted>) -> u64,
    ) -> Result<(), OpenError> {
        let (user, vhost) = (&principal.user, &principal.vhost);
        let mut open = self.open.write();
        is_node_full(&open, node_max)?;
        let count = |here: &AtomicU64, counted| here.load(Ordering::Relaxed) + elsewhere(counted);
        if let Some(max) = reached(count(vhost.connections(), vhost.counted()), vhost.connections_max()) {
            return Err(OpenError::VhostLimit(max));
        }
        let user_max = user.bound(Limits::CONNECTIONS_MAX);
        if let Some(max) = reached(count(user.connections(), user.counted()), user_max) {
            return Err(OpenError::UserLimit(max));
        }
        if !user.may_open(vhost.name()) {
            return Err(OpenError::AccessRefused);
        }
        vhost.connections().fetch_add(1, Ordering::Relaxed);
        user.connections().fetch_add(1, Ordering::Relaxed);
        let name = principal.connection_name.clone();
        let admitted = control.clone();
        let entry = Open { control, user: user.clone(), vhost: vhost.clone(), name };
        open.insert(principal.connection, entry);
        drop(open);
        let reason = self.sent_away.read().clone();
        reason.into_iter().for_each(|reason| admitted.close(reason));
        Ok(())
    }

    /// See [`crate::Broker::send_clients_away`].
    pub(crate) fn send_away(&self, reason: Option<CloseReason>) {
        // First: a connection that is admitted from now on sees it, an earlier one is among those that are closed.
        self.sent_away.write().clone_from(&reason);
        reason.into_iter().for_each(|reason| self.close_where(&reason, |_| true));
    }

    /// Forgets a connection. Its counts stay counted.
    pub(crate) fn remove(
        &self,
        id: ConnectionId,
        counters: &NodeCounters,
    ) -> Option<Arc<dyn ConnectionControl>> {
        let mut open = self.open.write();
        let gone = open.remove(&id)?;
        let totals = gone.control.totals();
        *gone.vhost.connections_gone.lock() += &totals;
        *counters.connections_gone.lock().entry(gone.control.protocol()).or_default() += &totals;
        counters.connections_closed.count();
        drop(open);
        gone.vhost.connections().fetch_sub(1, Ordering::Relaxed);
        gone.user.connections().fetch_sub(1, Ordering::Relaxed);
        Some(gone.control)
    }

    /// Forgets all connections without a word: at the end, of those that did not end in order.
    pub(crate) fn abandon(&self) {
        let left = std::mem::take(&mut *self.open.write());
        drop(left);
    }

    /// Counts of connections by protocol, and those of connections that are `gone`.
    pub(crate) fn totals_by_protocol(&self, gone: &Mutex<ByProtocol>) -> ByProtocol {
        let open = self.open.read();
        // A connection is in one of the two places as long as the lock is held.
        let mut sums = gone.lock().clone();
        for Open { control, .. } in open.values() {
            *sums.entry(control.protocol()).or_default() += &control.totals();
        }
        sums
    }

    /// The totals of those connections whose vhost `is_counted`, and of the `gone` ones.
    pub(crate) fn totals(
        &self,
        gone: &Mutex<ConnectionTotals>,
        is_counted: impl Fn(&Arc<Vhost>) -> bool,
    ) -> ConnectionTotals {
        let open = self.open.read();
        // A connection is in one of the two places as long as the lock is held.
        let mut sum = *gone.lock();
        open.values()
            .filter(|entry| is_counted(&entry.vhost))
            .for_each(|entry| sum += &entry.control.totals());
        sum
    }

    /// Name and user of a connection.
    pub(crate) fn name_and_user(&self, id: ConnectionId) -> Option<(Arc<str>, Arc<User>)> {
        self.open.read().get(&id).map(|open| (open.name.clone(), open.user.clone()))
    }

    /// Number of open connections.
    pub fn count(&self) -> usize {
        self.open.read().len()
    }

    /// One of them.
    pub fn get(&self, id: ConnectionId) -> Option<Arc<dyn ConnectionControl>> {
        self.open.read().get(&id).map(|open| open.control.clone())
    }

    /// All of them, in order of their ids.
    pub fn all(&self) -> Vec<(ConnectionId, Arc<dyn ConnectionControl>)> {
        let mut all: Vec<_> =
            self.open.read().iter().map(|(id, entry)| (*id, entry.control.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Asks every connection for which `pick` holds to close.
    pub fn close_where(&self, reason: &CloseReason, pick: impl Fn(&ConnectionInfo) -> bool) {
        for (_, control) in self.all() {
            if pick(&control.info()) {
                control.close(reason.clone());
            }
        }
    }
}

impl Woken for Connections {
    fn wake_all(&self) {
        self.open.read().values().for_each(|entry| entry.control.wake());
    }
}

/// Why a channel may not be opened (B38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelRefused {
    /// 530: the user has this many channels on all its connections.
    UserLimit(u64),
    /// 530: the node has this many channels.
    NodeLimit(u64),
}

/// A channel counts against the limits of its user and its node as long as this lives.
pub struct ChannelPermit {
    pub(crate) user: Arc<User>,
    pub(crate) services: Arc<Services>,
    pub(crate) node: Arc<AtomicU64>,
    pub(crate) connection: ConnectionId,
    pub(crate) number: u16,
    /// Consumers on the channel, for the event of its end.
    pub consumers: u32,
}

impl Drop for ChannelPermit {
    fn drop(&mut self) {
        self.user.channels().fetch_sub(1, Ordering::Relaxed);
        self.services.tell_counted([self.user.counted_channels()]);
        self.node.fetch_sub(1, Ordering::Relaxed);
        self.services.counters.channels_closed.count();
        let announcer = &self.services.announcer;
        announcer.channel_closed(self.connection, self.number, self.consumers, &self.user.name);
    }
}

/// Counts one more unless the bound is reached; then gives the bound.
pub(crate) fn count_within(counter: &AtomicU64, bound: Option<u64>) -> Result<(), u64> {
    let max = bound.unwrap_or(u64::MAX);
    let one_more = |count| (count < max).then_some(count + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).map(|_| ()).map_err(|_| max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Broker;
    use crate::test_broker::connect;

    /// A connection that keeps why it was asked to close.
    #[derive(Default)]
    struct Asked(Mutex<Vec<CloseReason>>);

    impl ConnectionControl for Asked {
        fn close(&self, reason: CloseReason) {
            self.0.lock().push(reason);
        }
        fn wake(&self) {}
        fn info(&self) -> ConnectionInfo {
            crate::Unseen.info()
        }
        fn channels(&self) -> Vec<ChannelInfo> {
            Vec::new()
        }
        fn totals(&self) -> ConnectionTotals {
            ConnectionTotals::default()
        }
    }

    #[test]
    fn clients_are_sent_away_whether_they_are_there_or_still_coming() {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(&folder, crate::BrokerOptions::default());
        let come = || {
            let user = broker.authenticate("guest", b"guest", true).unwrap();
            let control = Arc::new(Asked::default());
            broker.open_connection(user, "/", broker.next_connection_id(), control.clone()).ok().unwrap();
            control
        };
        let there = come();
        broker.send_clients_away(Some(CloseReason::Shutdown));
        let late = come();
        broker.send_clients_away(None);
        let stays = come();
        assert_eq!([there, late, stays].map(|it| it.0.lock().len()), [1, 1, 0]);
    }

    fn broker(folder: &tempfile::TempDir, options: crate::BrokerOptions) -> Broker {
        Broker::open(folder.path(), options).unwrap()
    }

    fn one_connection() -> Limits {
        [(Limits::CONNECTIONS_MAX.into(), 1)].into_iter().collect()
    }

    #[test]
    fn a_connection_that_goes_makes_room_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(&folder, crate::BrokerOptions::default());
        broker.set_vhost_limits("/", one_connection()).unwrap().wait().unwrap();
        let first = connect(&broker).unwrap();
        assert_eq!(connect(&broker).err(), Some(OpenError::VhostLimit(1)));
        broker.edit_user_limits("guest", |own| own.set(Limits::CONNECTIONS_MAX, 0)).unwrap();
        assert_eq!(connect(&broker).err(), Some(OpenError::VhostLimit(1)), "the vhost is looked at first");
        broker.close_connection(&first);
        assert_eq!(connect(&broker).err(), Some(OpenError::UserLimit(0)));
        broker.edit_user_limits("guest", |own| own.set(Limits::CONNECTIONS_MAX, -1)).unwrap();
        assert!(connect(&broker).is_ok());
        broker.shutdown();
    }

    #[test]
    fn limits_hold_when_many_come_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(&folder, crate::BrokerOptions { queues_max: Some(5), ..Default::default() });
        let three = [(Limits::CONNECTIONS_MAX.into(), 3)].into_iter().collect();
        broker.set_vhost_limits("/", three).unwrap().wait().unwrap();
        let principals: Vec<Principal> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| connect(&broker).ok())).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(principals.len(), 3);
        let declare = |name: String| {
            let declare = crate::QueueDeclare {
                name: name.as_bytes(),
                durable: false,
                exclusive: false,
                auto_delete: false,
                arguments: message::Table::from_raw(&[]),
            };
            broker.declare_queue(&principals[0], declare).is_ok()
        };
        let made = std::thread::scope(|scope| {
            let declare = &declare;
            let many = |thread| (0..5).filter(|at| declare(format!("{thread}-{at}"))).count();
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || many(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!((made, broker.queue_count()), (5, 5));
        broker.shutdown();
    }

    #[test]
    fn channels_count_until_they_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(&folder, crate::BrokerOptions { channels_max: Some(2), ..Default::default() });
        let principal = connect(&broker).unwrap();
        let first = broker.open_channel(&principal, 1).ok().unwrap();
        let _second = broker.open_channel(&principal, 1).ok().unwrap();
        assert_eq!(broker.open_channel(&principal, 1).err(), Some(ChannelRefused::NodeLimit(2)));
        broker.edit_user_limits("guest", |own| own.set(Limits::CHANNELS_MAX, 1)).unwrap();
        assert_eq!(broker.open_channel(&principal, 1).err(), Some(ChannelRefused::UserLimit(1)));
        drop(first);
        assert_eq!(broker.open_channel(&principal, 1).err(), Some(ChannelRefused::UserLimit(1)));
        broker.shutdown();
    }
}
