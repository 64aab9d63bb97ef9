//! The broker: it opens, recovers, holds and closes everything below.

mod connecting;
mod connection_news;
mod consuming;
mod logging_in;
mod message_trace;
mod new_vhosts;
mod opening;
mod own_exchanges;
mod statistics;

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use commitlog::DataDirLock;
use metadata::{Command, DeleteExclusiveQueues, Entry};
use parking_lot::{Mutex, RwLock};
use routing::Retired;
use stdx::{ConnectionId, QueueId};

use crate::access::{Principal, User};
use crate::actor::INTERNAL;
use crate::alarms::Alarms;
use crate::announcements::events::EVENT_EXCHANGE;
use crate::background::Job;
use crate::call::Call;
use crate::cell::{Queue, QueueRef};
use crate::cluster::Cluster;
use crate::cluster_name::ClusterName;
use crate::connections::{CloseReason, ConnectionControl, ConnectionIds, Connections};
use crate::control::committing::Committing;
use crate::control::deletions::Deletions;
use crate::control::long_changes::LongChanges;
use crate::control::proposals::{Followed, Proposals};
use crate::control::writer::Writer;
use crate::login_lines::Reason;
use crate::open_errors::OpenError;
use crate::options::BrokerOptions;
use crate::refused::Refused;
use crate::services::Services;
use crate::vhost::Vhost;

/// A running broker. Cheap to clone.
#[derive(Clone)]
pub struct Broker(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: BrokerOptions,
    pub(crate) services: Arc<Services>,
    pub(crate) vhosts: RwLock<HashMap<String, Arc<Vhost>>>,
    pub(crate) users: RwLock<HashMap<String, Arc<User>>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) cluster_name: ClusterName,
    /// Global runtime parameters, for those who may not wait for the metadata's writer.
    pub(crate) global_parameters: RwLock<HashMap<Box<str>, Arc<str>>>,
    /// Replaced routing tables, until no publisher reads them any more.
    pub(crate) retired: Mutex<Retired<QueueRef>>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) committing: Arc<Committing>,
    pub(crate) proposals: Proposals<Told>,
    pub(crate) deletions: Arc<Deletions<Inner>>,
    pub(crate) long_changes: LongChanges,
    pub(crate) connection_ids: ConnectionIds,
    /// Of a node that is a member of one.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Given back when all files are closed. In a cluster, the owner of the replica has the lock.
    pub(crate) lock: Mutex<Option<DataDirLock>>,
}

/// Told what came of a proposal, without any lock.
pub(crate) type Told = Box<dyn FnOnce(&Inner, Result<Followed, Refused>) + Send>;

impl Inner {
    /// Lets go of all that holds something which leads back here, so that the last [`Broker`] frees everything.
    pub(crate) fn abandon(&self) {
        self.connections.abandon();
        self.deletions.abandon();
        self.proposals.abandon();
        self.services.abandon();
    }
}

impl Broker {
    /// The cluster that this node is a member of; `None` on a node alone.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        self.0.cluster.as_ref()
    }

    /// Memory, disk space and failed storage: the raised alarms, and the thresholds.
    pub fn alarms(&self) -> &Alarms {
        &self.0.services.alarms
    }

    /// The options it runs with.
    pub fn options(&self) -> &BrokerOptions {
        &self.0.options
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.0.services
    }

    /// The name that clients are shown.
    pub fn cluster_name(&self) -> Arc<str> {
        self.0.cluster_name.shown.read().clone()
    }

    /// From now on clients are shown what `read` makes of the global parameter `cluster_name`, whichever node sets it; without it the name
    /// of the options. The first reader counts.
    pub fn follow_cluster_name(&self, read: fn(&str) -> String) {
        let _is_first = self.0.cluster_name.reader.set(read);
        self.0.refresh_cluster_name();
    }

    /// The value of a global runtime parameter, as it was set. It is the same `Arc` until the parameter changes.
    #[must_use]
    pub fn global_parameter(&self, name: &str) -> Option<Arc<str>> {
        self.0.global_parameters.read().get(name).cloned()
    }

    /// A vhost by name.
    pub fn vhost(&self, name: &str) -> Option<Arc<Vhost>> {
        self.0.vhosts.read().get(name).cloned()
    }

    /// All vhosts, by name.
    pub fn vhosts(&self) -> Vec<Arc<Vhost>> {
        let mut all: Vec<_> = self.0.vhosts.read().values().cloned().collect();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// A queue by the number that profiles know it by, as long as there is something of it.
    #[must_use]
    pub fn queue_by_id(&self, queue: u64) -> Option<Arc<Queue>> {
        self.0.services.queue_by_id(QueueId(queue))
    }

    /// Number of queues in all vhosts.
    #[must_use]
    pub fn queue_count(&self) -> u64 {
        self.0.vhosts.read().values().map(|vhost| vhost.queue_count() as u64).sum()
    }

    /// Queues with messages that go to a dead letter exchange, or that are due, as soon as the disk alarm clears, each with the number of its
    /// messages: so many wait at most. The largest come first; none while the alarm is off. Looks at every queue.
    #[must_use]
    pub fn queues_waiting_for_disk(&self) -> Vec<(Arc<Queue>, u64)> {
        let services = self.services();
        if !services.holds_dead_letters() {
            return Vec::new();
        }
        let waiting = |queue: Arc<Queue>| queue.messages_waiting_for_disk().map(|count| (queue, count));
        let mut queues: Vec<_> = services.all_queues().into_iter().filter_map(waiting).collect();
        queues.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        queues
    }

    /// Number of exchanges in all vhosts, without the exchange of events, which RabbitMQ has only with a plugin.
    #[must_use]
    pub fn exchange_count(&self) -> u64 {
        let vhosts = self.0.vhosts.read();
        let all: u64 = vhosts.values().map(|vhost| vhost.exchange_count() as u64).sum();
        drop(vhosts);
        all.saturating_sub(self.event_exchange_count())
    }

    /// 1 when the exchange of events is there.
    pub(crate) fn event_exchange_count(&self) -> u64 {
        let vhost = self.options().event_exchange_vhost.as_ref().and_then(|name| self.vhost(name));
        u64::from(vhost.is_some_and(|vhost| vhost.exchange(EVENT_EXCHANGE).is_some()))
    }

    /// The clients' connections.
    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }

    /// Reads the metadata under the writer's lock; keep it short.
    pub fn read_metadata<T>(&self, read: impl FnOnce(&metadata::State) -> T) -> T {
        read(&self.0.writer.lock().state)
    }

    /// Changes of metadata that hold up readers and other changes of metadata. Threads that serve several connections ask here first.
    pub fn long_changes(&self) -> &LongChanges {
        &self.0.long_changes
    }

    /// From now on `tell` is called after every change of a vhost's runtime parameters, also when they go with their vhost. It
    /// is called under the writer's lock: it may wake somebody, and nothing else. The first one counts.
    pub fn watch_parameters(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _is_first = self.0.services.parameter_watch.set(Box::new(tell));
    }

    /// The name of a new connection.
    pub fn next_connection_id(&self) -> ConnectionId {
        self.0.connection_ids.next()
    }

    /// The name of the connection with that count in this life of this node.
    #[must_use]
    pub fn connection_id(&self, count: u64) -> ConnectionId {
        self.0.connection_ids.of(count)
    }

    /// Checks a user name and password, and that `loopback_users` only come from loopback (B16).
    /// `None` is a refusal whose reason is in the log only.
    pub fn authenticate(&self, user: &str, password: &[u8], from_loopback: bool) -> Option<Arc<User>> {
        let credentials =
            self.read_metadata(|state| state.user(user.as_bytes()).map(|user| user.credentials.clone()));
        let Some(credentials) = credentials else {
            self.log_refused_login(user, Reason::NoSuchUser);
            return None;
        };
        if !credentials.verify(password) {
            self.log_refused_login(user, Reason::WrongPassword);
            return None;
        }
        self.let_in(user, from_loopback)
    }

    /// A user that something other than a password has proved, such as a certificate. The same refusals as of
    /// [`Broker::authenticate`].
    pub fn authenticate_proved(&self, user: &str, from_loopback: bool) -> Option<Arc<User>> {
        if self.read_metadata(|state| state.user(user.as_bytes()).is_none()) {
            self.log_refused_login(user, Reason::NoSuchUser);
            return None;
        }
        self.let_in(user, from_loopback)
    }

    fn let_in(&self, user: &str, from_loopback: bool) -> Option<Arc<User>> {
        if !from_loopback && self.0.options.loopback_users.iter().any(|name| name == user) {
            self.log_refused_login(user, Reason::NotFromThere);
            return None;
        }
        self.0.users.read().get(user).cloned()
    }

    /// connection.open: limits and access in the order of B24; registers the connection for listings.
    pub fn open_connection(
        &self,
        user: Arc<User>,
        vhost: &str,
        connection: ConnectionId,
        control: Arc<dyn ConnectionControl>,
    ) -> Result<Principal, OpenError> {
        let (node_max, found) = (self.0.options.connections_max, self.vhost(vhost));
        let vhost = match found {
            Some(vhost) => vhost,
            None => {
                self.services().announcer.connection_closed(connection, &control.info());
                self.0.connections.check_node(node_max)?;
                return Err(OpenError::VhostNotFound(vhost.into()));
            }
        };
        let info = control.info();
        let connection_name = info.name.as_str().into();
        let principal = Principal { user, vhost, connection, connection_name, client: None };
        if let Err(refused) = self
            .0
            .connections
            .admit(&principal, control, node_max, |counted| self.services().counted_elsewhere(counted))
        {
            self.services().announcer.connection_closed(connection, &info);
            return Err(refused);
        }
        self.services().tell_counted([principal.vhost.counted(), principal.user.counted()]);
        self.services().counters.connections_created.count();
        let (vhost, user) = (principal.vhost.name(), &principal.user.name);
        self.services().announcer.connection_created(connection, &info, vhost, user);
        Ok(principal)
    }

    /// The connection is gone: its exclusive queues are deleted, it leaves the listings. Consumers and unacked
    /// deliveries are the session's to release (cancel, settle with requeue) before this.
    pub fn close_connection(&self, principal: &Principal) {
        if let Some(control) = self.0.connections.remove(principal.connection, &self.services().counters)
            && self.services().announcer.is_heard()
        {
            self.services().announcer.connection_closed(principal.connection, &control.info());
        }
        self.services().tell_counted([principal.vhost.counted(), principal.user.counted()]);
        let owner = principal.connection;
        if self.cluster().is_some_and(|cluster| !cluster.take_exclusive(owner)) {
            return;
        }
        let delete = move |inner: &Inner| {
            let command = Command::DeleteExclusiveQueues(DeleteExclusiveQueues { owner });
            inner.propose(Entry::new(INTERNAL, command), |_, came| {
                if let Err(error) = came {
                    tracing::error!(?error, "exclusive queues of a closed connection could not be deleted");
                }
            });
        };
        let bindings = move |inner: &Inner| inner.writer.lock().state.exclusive_binding_count(owner);
        self.0.delete_in_turn(bindings, delete);
    }

    /// Deletes the exclusive queues of a connection that is about to close, on all nodes of the cluster: answered when they are gone here. `None` on a
    /// node alone, where they go with [`Broker::close_connection`] at once, and for connections that have declared none.
    #[must_use]
    pub fn leave_exclusive(&self, principal: &Principal) -> Option<Call<()>> {
        let owner = principal.connection;
        self.cluster()?.take_exclusive(owner).then(|| {
            let (reply, call) = Call::pair();
            let command = Command::DeleteExclusiveQueues(DeleteExclusiveQueues { owner });
            self.0.propose(Entry::new(INTERNAL, command), move |_, _| reply.send(()));
            call
        })
    }

    /// Answered when this node has all that the cluster had committed when it asked: a missing object may be there now. `None` on a node
    /// alone, and while nobody leads.
    #[must_use]
    pub fn catch_up(&self) -> Option<Call<()>> {
        let cluster = self.cluster()?;
        cluster.view().leader?;
        let (reply, call) = Call::pair();
        cluster.propose(None, Box::new(move |_, _| reply.send(())));
        Some(call)
    }

    /// Asks all connections to close; used at shutdown.
    pub fn close_all_connections(&self, reason: &CloseReason) {
        self.0.connections.close_where(reason, |_| true);
    }

    /// Flushes and closes logs. Every connection must be gone.
    pub fn shutdown(&self) {
        if self.0.threads.lock().is_empty() {
            self.0.services.settle_all();
            self.0.services.seen_files.write_changed(&self.0.services.log);
        } else {
            self.0.services.settle_letters();
        }
        self.0.services.announcer.outlet.stop();
        self.0.deletions.stop();
        self.0.services.background.submit(Job::Stop);
        self.0.services.checkpointer.stop();
        self.0.services.alarms.stop();
        self.0.services.seen_files.stop();
        for thread in self.0.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread has panicked");
            }
        }
        self.0.services.segments.close();
        self.0.services.streams.close();
        if let Err(error) = self.0.services.log.close() {
            tracing::error!(%error, "the message log could not be closed");
        }
        self.0.writer.lock().close();
        self.0.abandon();
        drop(self.0.lock.lock().take());
    }
}
