//! A vhost at run time: its exchanges and queues by name, and the way from one to the other.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use message::{Facts, MessageView, Properties};
use metadata::Limits;
use parking_lot::{Mutex, RwLock};
use platform::profile::NameId;
use routing::{Duty, Exchange, RoutesBy, Scratch};

use crate::announcements::trace_switch::TraceSwitch;
use crate::cell::place::Place;
use crate::cell::{Queue, QueueRef};
use crate::cluster::{Counted, CountedKind};
use crate::data::recent::RecentMessages;
use crate::data::reply::Replies;
use crate::name_table::{HasName, NameTable};
use crate::policies::VhostPolicies;
use crate::services::Services;
use crate::stats::ConnectionTotals;

/// An exchange, its entry and its current table, without bindings.
const EXCHANGE_ENTRY_BYTES: usize = 400;

type Named<T> = RwLock<HashMap<Box<[u8]>, Arc<T>, foldhash::fast::RandomState>>;

impl HasName for Queue {
    fn name(&self) -> &[u8] {
        self.name()
    }
}

/// A vhost.
pub struct Vhost {
    /// Shared by its queues; has its name.
    place: Arc<Place>,
    exchanges: Named<Exchange<QueueRef>>,
    queues: RwLock<NameTable<Queue>>,
    /// Grows with every change of exchanges, queues or bindings: the memory of sessions is valid while it stands.
    generation: AtomicU64,
    /// Exchange-to-exchange bindings in the vhost.
    exchange_bindings: AtomicUsize,
    /// Open connections; changes under the lock of the node's connections.
    connections: Arc<AtomicU64>,
    limits: RwLock<Limits>,
    /// `x-queue-type` of queues declared without one (B64).
    default_queue_type: RwLock<Option<Box<str>>>,
    policies: RwLock<Arc<VhostPolicies>>,
    /// The messages that exchanges remember, by their ids.
    histories: RwLock<HashMap<u64, Arc<RecentMessages>>>,
    /// Where delayed exchanges keep what waits, by their ids.
    delays: RwLock<HashMap<u64, Arc<Queue>>>,
    pub(crate) replies: Replies,
    /// The counts of closed connections.
    pub(crate) connections_gone: Mutex<ConnectionTotals>,
    /// Its name in profiles.
    label: NameId,
}

impl Vhost {
    /// An empty vhost.
    pub(crate) fn new(name: &str, services: &Arc<Services>) -> Arc<Vhost> {
        Arc::new_cyclic(|vhost| Vhost {
            place: Arc::new(Place {
                vhost_name: name.into(),
                vhost: vhost.clone(),
                services: services.clone(),
                trace: TraceSwitch::default(),
            }),
            exchanges: Named::default(),
            queues: RwLock::default(),
            generation: AtomicU64::new(1),
            exchange_bindings: AtomicUsize::new(0),
            connections: Arc::default(),
            limits: RwLock::default(),
            default_queue_type: RwLock::default(),
            policies: RwLock::default(),
            histories: RwLock::default(),
            delays: RwLock::default(),
            replies: Replies::default(),
            connections_gone: Mutex::default(),
            label: platform::profile::intern(name),
        })
    }

    /// Its name in profiles.
    pub fn label(&self) -> NameId {
        self.label
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.place.vhost_name
    }

    /// Takes over what was recorded about the vhost.
    pub(crate) fn refresh(&self, record: &metadata::Vhost) {
        *self.limits.write() = record.limits().clone();
        self.default_queue_type.write().clone_from(&record.metadata().default_queue_type);
    }

    /// Its policies, ready for use.
    pub fn policies(&self) -> Arc<VhostPolicies> {
        self.policies.read().clone()
    }

    /// Takes over the recorded policies. The caller tells which queues and exchanges they apply to.
    pub(crate) fn refresh_policies(&self, record: &metadata::Vhost) {
        let former = self.policies();
        *self.policies.write() = Arc::new(former.then(record));
    }

    /// How many queues there may be; `None` is no limit.
    pub(crate) fn queues_max(&self) -> Option<u64> {
        self.limits.read().bound(Limits::QUEUES_MAX)
    }

    /// How many connections there may be; `None` is no limit.
    pub(crate) fn connections_max(&self) -> Option<u64> {
        self.limits.read().bound(Limits::CONNECTIONS_MAX)
    }

    pub(crate) fn connections(&self) -> &AtomicU64 {
        &self.connections
    }

    /// Its connections, if there is a limit.
    pub(crate) fn counted(&self) -> Option<Counted> {
        let counted = || Counted::new(CountedKind::Vhost, self.name(), &self.connections);
        self.connections_max().map(|_| counted())
    }

    pub(crate) fn default_queue_type(&self) -> Option<Box<str>> {
        self.default_queue_type.read().clone()
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.place.vhost_name.clone()
    }

    /// The parts that its queues share.
    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Whether its messages are traced.
    pub(crate) fn trace(&self) -> &TraceSwitch {
        &self.place.trace
    }

    /// An exchange by name; the default exchange is the empty name.
    pub fn exchange(&self, name: &[u8]) -> Option<Arc<Exchange<QueueRef>>> {
        self.exchanges.read().get(name).cloned()
    }

    /// All exchanges, the default one included, in no order.
    pub fn exchanges(&self) -> Vec<Arc<Exchange<QueueRef>>> {
        self.exchanges.read().values().cloned().collect()
    }

    /// A queue by name.
    pub fn queue(&self, name: &[u8]) -> Option<Arc<Queue>> {
        self.queues.read().get(name).cloned()
    }

    /// All queues, in no order.
    pub fn queues(&self) -> Vec<Arc<Queue>> {
        self.queues.read().iter().cloned().collect()
    }

    /// Bytes of the tables by name, without what they lead to.
    pub(crate) fn table_bytes(&self) -> usize {
        let exchanges: usize =
            self.exchanges.read().keys().map(|name| name.len() + EXCHANGE_ENTRY_BYTES).sum();
        exchanges + self.queues.read().heap_bytes()
    }

    /// Number of queues.
    pub fn queue_count(&self) -> usize {
        self.queues.read().len()
    }

    /// Number of exchanges, the default one included.
    pub fn exchange_count(&self) -> usize {
        self.exchanges.read().len()
    }

    /// Version of everything that decides routes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Something that decides routes has changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn add_exchange(&self, exchange: Arc<Exchange<QueueRef>>) {
        if let Duty::KeepHistory { message_count_max } = exchange.duty {
            let history = RecentMessages::new(message_count_max);
            self.histories.write().insert(exchange.id, Arc::new(history));
        }
        self.exchanges.write().insert(exchange.name.clone(), exchange);
        self.changed();
    }

    pub(crate) fn remove_exchange(&self, name: &[u8]) {
        let gone = self.exchanges.write().remove(name);
        if let Some(exchange) = gone.filter(|exchange| exchange.duty != Duty::Route) {
            self.histories.write().remove(&exchange.id);
            self.delays.write().remove(&exchange.id);
        }
        self.changed();
    }

    /// The memory of an exchange that has one.
    pub(crate) fn history(&self, exchange_id: u64) -> Option<Arc<RecentMessages>> {
        self.histories.read().get(&exchange_id).cloned()
    }

    /// Gives a delayed exchange, not yet added, the place where its messages wait.
    pub(crate) fn add_delays(&self, exchange_id: u64, store: Arc<Queue>) {
        self.delays.write().insert(exchange_id, store);
    }

    /// Where the messages of a delayed exchange wait; `None` for others. It is no queue that anybody finds by name.
    pub fn delays(&self, exchange: &Exchange<QueueRef>) -> Option<Arc<Queue>> {
        if exchange.duty == Duty::Delay { self.delays.read().get(&exchange.id).cloned() } else { None }
    }

    /// Lets exchanges with these ids remember a message.
    pub(crate) fn remember(
        &self,
        on_duty: &[u64],
        message: MessageView<'_>,
        facts: Facts,
        annotations: &[u8],
    ) {
        for history in on_duty.iter().filter_map(|&id| self.history(id)) {
            history.keep(message, facts, annotations);
        }
    }

    pub(crate) fn add_queue(&self, queue: Arc<Queue>) {
        self.queues.write().insert(queue);
        self.changed();
    }

    pub(crate) fn remove_queue(&self, name: &[u8]) -> Option<Arc<Queue>> {
        let gone = self.queues.write().remove(name);
        gone.iter().for_each(|queue| queue.removed());
        self.changed();
        gone
    }

    pub(crate) fn count_exchange_binding(&self, added: bool) {
        if added {
            self.exchange_bindings.fetch_add(1, Ordering::AcqRel);
        } else {
            self.exchange_bindings.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether a route from this exchange depends on nothing but its key and the tables as they are.
    pub(crate) fn routes_are_plain(&self, exchange: &Exchange<QueueRef>) -> bool {
        let by_key = exchange.duty == Duty::Route && exchange.load().routes_by() == RoutesBy::Key;
        by_key && exchange.alternate().is_none() && self.exchange_bindings.load(Ordering::Acquire) == 0
    }

    /// The scratch that a publisher routes with: random exchanges choose differently for each.
    pub(crate) fn scratch() -> Scratch<QueueRef> {
        Scratch::seeded(foldhash::fast::RandomState::default().hash_one(()))
    }

    /// All queues a message reaches, each once (B87), and the stores of exchanges that delay it.
    pub(crate) fn route(
        &self,
        exchange: &Arc<Exchange<QueueRef>>,
        keys: &[&[u8]],
        properties: Properties<'_>,
        scratch: &mut Scratch<QueueRef>,
        out: &mut Vec<QueueRef>,
    ) {
        if exchange.name.is_empty() {
            // The default exchange has no table: keys are queue names (B86). Nor is there any on duty.
            scratch.begin();
            let queues = self.queues.read();
            for (at, key) in keys.iter().enumerate() {
                if let Some(queue) = queues.get(key).filter(|_| !keys[..at].contains(key)) {
                    out.push(QueueRef(queue.clone()));
                }
            }
            return;
        }
        let message = routing::Message { keys, headers: properties.headers(), properties: Some(properties) };
        routing::route(exchange, &message, &|name| self.exchange(name), scratch, out);
        if !scratch.on_duty().is_empty() {
            let delays = self.delays.read();
            let waits = scratch.on_duty().iter().filter_map(|id| delays.get(id));
            out.extend(waits.map(|store| QueueRef(store.clone())));
        }
    }
}
