//! Runtime tables follow the metadata machine's changes, in its order.

use std::collections::HashMap;
use std::sync::Arc;

use message::{History, carbon_copies};
use metadata::{Binding, Change, Destination, ExchangeRecord, QueueRecord, QueueType, Replicas, State};
use queues::{Kind, QueueConfig, Recovering, SharedBody};
use routing::{Duty, Exchange, ExchangeType, Gate, Persistence};
use stdx::QueueId;

use super::policies::set_alternate;
use crate::access::{Grants, TopicGrants, User};
use crate::broker::Inner;
use crate::cell::machine::{AnyMachine, MachineType};
use crate::cell::settings::Terms;
use crate::cell::{Event, Queue, QueueRef};
use crate::data::batch::Batch;
use crate::data::handovers::Handovers;
use crate::data::recent::{RecentMessages, Replayed};
use crate::data::seen::SeenValues;
use crate::policies::AppliedPolicies;
use crate::queue_types::{kind_of, queue_config};
use crate::vhost::Vhost;

/// The global parameter with the name of the cluster that clients are shown.
const CLUSTER_NAME: &str = "cluster_name";

/// Recovered contents of the queues of which the log has something, by id.
pub(crate) type Contents = HashMap<QueueId, Recovering>;

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Under which id the log has what waits in a delayed exchange: its own. Exchanges and queues share one sequence of ids.
pub(crate) fn store_id(record: &ExchangeRecord) -> QueueId {
    QueueId(record.id.0)
}

/// Starts the clocks of expiry, and drops what has expired already.
fn start_clocks(queue: &Arc<Queue>) {
    queue.submit(Event::Tick);
}

/// Starts the clocks of all queues, not before there is every queue and binding: messages that expired or fell due while the node was down
/// go on.
pub(crate) fn start_all_clocks(queues: &[Arc<Queue>]) {
    queues.iter().for_each(start_clocks);
}

impl Inner {
    /// Applies changes to the runtime tables. Gives the vhosts whose policies have changed, for [`Inner::settle_policies`].
    pub(crate) fn follow(&self, state: &State, changes: &[Change]) -> Vec<Arc<Vhost>> {
        let mut ruled: Vec<Arc<Vhost>> = Vec::new();
        let mut rest = changes;
        while let Some((change, behind)) = rest.split_first() {
            rest = behind;
            match change {
                Change::VhostAdded(name) => {
                    let text = text(name);
                    self.vhosts.write().insert(text.clone(), Vhost::new(&text, &self.services));
                    self.refresh_vhost(state, name);
                }
                Change::VhostChanged(name) => self.refresh_vhost(state, name),
                Change::VhostDeleted(name) => {
                    self.vhosts.write().remove(&text(name));
                }
                Change::ExchangeAdded(record) => {
                    drop(self.add_exchange(record, None));
                    self.keep_history(record);
                }
                Change::ExchangeDeleted(record) => self.remove_exchange(record),
                Change::QueueAdded(record) => {
                    self.services.counters.queues_created.count();
                    let replicas = state.replicas(record.id);
                    self.add_queue(record, None, replicas).iter().for_each(start_clocks);
                }
                Change::QueueChanged(record) => self.change_queue(record),
                Change::QueueDeleted(record) => self.remove_queue(record),
                Change::BindingAdded(binding) | Change::BindingRemoved(binding) => {
                    let run = binding_run(binding, behind);
                    self.change_bindings(std::iter::once(change).chain(&behind[..run]));
                    rest = &behind[run..];
                }
                Change::UserChanged(name) => self.refresh_user(state, name),
                Change::PermissionsChanged { user, .. } | Change::TopicPermissionsChanged { user, .. } => {
                    self.refresh_user(state, user);
                }
                Change::UserDeleted(name) => {
                    self.users.write().remove(&text(name));
                }
                Change::PolicyChanged { vhost, .. } => {
                    // Once for a vhost, however many of its policies changed: the state is that after all changes.
                    let vhost = self.vhost_of(vhost);
                    if let Some(vhost) = vhost.filter(|it| !ruled.iter().any(|known| Arc::ptr_eq(known, it)))
                    {
                        self.follow_policies(state, &vhost);
                        ruled.push(vhost);
                    }
                }
                Change::ReplicasChanged { queue, replicas } => self.follow_replicas(*queue, replicas),
                Change::GlobalParameterChanged { name } => self.refresh_global_parameter(state, name),
                Change::ParameterChanged { .. } => {}
            }
        }
        let is_told =
            |change: &Change| matches!(change, Change::ParameterChanged { .. } | Change::VhostDeleted(_));
        if changes.iter().any(is_told) {
            self.services.parameter_watch.get().into_iter().for_each(|tell| tell());
        }
        ruled
    }

    fn refresh_global_parameter(&self, state: &State, name: &str) {
        let value = state.global_parameter(name);
        {
            let mut parameters = self.global_parameters.write();
            match value {
                Some(value) => drop(parameters.insert(name.into(), value.into())),
                None => drop(parameters.remove(name)),
            }
        }
        if name == CLUSTER_NAME {
            self.refresh_cluster_name();
        }
    }

    /// Shows clients the name that is recorded, if there is a reader of it.
    pub(crate) fn refresh_cluster_name(&self) {
        let Some(read) = self.cluster_name.reader.get() else { return };
        // Held until the name is shown: of two changes the later one is shown last.
        let parameters = self.global_parameters.read();
        let name = parameters.get(CLUSTER_NAME).map(|value| read(value));
        *self.cluster_name.shown.write() = name.as_deref().unwrap_or(&self.options.cluster_name).into();
    }

    /// Builds the runtime tables of a loaded state; gives the queues, whose clocks stand until [`start_all_clocks`].
    pub(crate) fn follow_all(&self, state: &State, mut contents: Contents) -> Vec<Arc<Queue>> {
        let mut queues = Vec::with_capacity(contents.len());
        for vhost in state.vhosts() {
            let name = text(vhost.name());
            let runtime = Vhost::new(&name, &self.services);
            runtime.refresh_policies(vhost);
            self.vhosts.write().insert(name.clone(), runtime);
            self.refresh_vhost(state, vhost.name());
            for record in vhost.exchanges() {
                queues.extend(self.add_exchange(record, contents.remove(&store_id(record))));
            }
            for record in vhost.queues() {
                let replicas = state.replicas(record.id);
                queues.extend(self.add_queue(record, contents.remove(&record.id), replicas));
            }
            let bindings = vhost.bindings_in_order_made();
            let added: Vec<_> = bindings.into_iter().cloned().map(Change::BindingAdded).collect();
            self.follow(state, &added);
            // Not before: an object that is bound already has had the messages.
            vhost.exchanges().into_iter().for_each(|record| self.keep_history(record));
        }
        for (name, _) in state.users() {
            self.refresh_user(state, name);
        }
        state.global_parameters().for_each(|(name, _)| self.refresh_global_parameter(state, name));
        queues
    }

    fn vhost_of(&self, name: &[u8]) -> Option<Arc<Vhost>> {
        self.vhosts.read().get(&text(name)).cloned()
    }

    /// Returns the store of a delayed exchange, with what waited in it.
    fn add_exchange(&self, record: &Arc<ExchangeRecord>, contents: Option<Recovering>) -> Option<Arc<Queue>> {
        let vhost = self.vhost_of(&record.vhost)?;
        let arguments = record.arguments.as_table();
        let Ok(declared) = ExchangeType::parse(record.kind.as_bytes(), arguments) else {
            tracing::warn!(exchange = %text(&record.name), kind = %record.kind, "an exchange of a type this build does not have routes nothing");
            return None;
        };
        let mut exchange = Exchange::with_arguments(record.id.0, &record.name, declared, arguments);
        exchange.durable = record.durable;
        exchange.auto_delete = record.auto_delete;
        exchange.internal = record.internal;
        set_alternate(&exchange, arguments, &vhost.policies().of_exchange(&record.name));
        exchange.gate = self.gate_of(record, declared.duty);
        let store = (declared.duty == Duty::Delay).then(|| self.open_store(&vhost, record, contents));
        if let Some(store) = &store {
            vhost.add_delays(record.id.0, store.clone());
        }
        vhost.add_exchange(Arc::new(exchange));
        store
    }

    /// Keeps the latest messages of a durable exchange that has them over restarts.
    fn keep_history(&self, record: &ExchangeRecord) {
        let Some(vhost) = self.vhost_of(&record.vhost).filter(|_| record.durable) else { return };
        if let Some(history) = vhost.history(record.id.0) {
            self.services.seen_files.keep(record.id.0, history);
        }
    }

    /// The memory of a deduplicating exchange.
    fn gate_of(&self, record: &ExchangeRecord, duty: Duty) -> Option<Arc<dyn Gate>> {
        let Duty::Deduplicate { value_count_max, ttl_ms, persistence } = duty else { return None };
        let seen = Arc::new(SeenValues::new(value_count_max, ttl_ms, self.services.clock.clone()));
        if persistence == Persistence::Disk {
            self.services.seen_files.keep(record.id.0, seen.clone());
        }
        Some(seen)
    }

    /// Opens the store of a delayed exchange: a queue that nobody finds by name.
    fn open_store(
        &self,
        vhost: &Arc<Vhost>,
        record: &ExchangeRecord,
        contents: Option<Recovering>,
    ) -> Arc<Queue> {
        let config = QueueConfig {
            durable: record.durable,
            dead_letters: true,
            memory_bytes_max: self.options.queue_memory_bytes_max,
            ..QueueConfig::default()
        };
        let record = QueueRecord {
            id: store_id(record),
            vhost: record.vhost.clone(),
            name: record.name.clone(),
            durable: record.durable,
            auto_delete: false,
            exclusive_owner: None,
            arguments: metadata::Arguments::default(),
            queue_type: QueueType::Classic,
            home: self.services.own_node,
            declared_by: None,
        };
        let nothing = AppliedPolicies::default();
        let terms = Terms::of(config, record.arguments.as_table(), nothing, &self.services.configs);
        let machine_type = MachineType::Delayed;
        let machine = self.machine(machine_type, &terms, contents);
        let store = Queue::new(Arc::new(record), terms, machine_type, machine, vhost.place().clone());
        self.services.register(&store);
        store
    }

    fn remove_exchange(&self, record: &ExchangeRecord) {
        let Some(vhost) = self.vhost_of(&record.vhost) else { return };
        if let Some(exchange) = vhost.exchange(&record.name) {
            if let Some(store) = vhost.delays(&exchange) {
                store.submit(Event::Close);
                self.services.unregister(&store);
            }
            self.services.seen_files.forget(record.id.0);
            vhost.remove_exchange(&record.name);
            self.retired.lock().keep(exchange.clear());
        }
    }

    /// Several nodes have a queue, and other ones do now, or another one leads.
    fn follow_replicas(&self, queue: QueueId, replicas: &Arc<Replicas>) {
        if let Some(queue) = self.services.queue_by_id(queue) {
            queue.set_replicas(replicas);
        }
    }

    fn add_queue(
        &self,
        record: &Arc<QueueRecord>,
        contents: Option<Recovering>,
        replicas: Option<&Arc<Replicas>>,
    ) -> Option<Arc<Queue>> {
        let vhost = self.vhost_of(&record.vhost)?;
        let policies = vhost.policies().of_queue(&record.name, record.queue_type);
        let terms = self.terms(record, policies);
        // A quorum queue may get a copy here at any time.
        let is_here = record.queue_type == QueueType::Quorum || record.home == self.services.own_node;
        // The cell of a queue that lives elsewhere stays empty.
        let kind = if is_here { kind_of(record.queue_type) } else { Kind::Classic };
        let machine_type = MachineType::from(kind);
        let machine = self.machine(machine_type, &terms, contents.filter(|_| is_here));
        let queue = Queue::new(record.clone(), terms, machine_type, machine, vhost.place().clone());
        if let Some(replicas) = replicas {
            queue.set_replicas(replicas);
        }
        self.services.register(&queue);
        vhost.add_queue(queue.clone());
        Some(queue)
    }

    /// The settings of a queue under these policies.
    pub(super) fn terms(&self, record: &QueueRecord, policies: AppliedPolicies) -> Terms {
        let arguments = record.arguments.as_table();
        let mut config =
            queue_config(record.queue_type, arguments).unwrap_or_else(|_| kind_of(record.queue_type).rules());
        config.durable = record.durable;
        config.auto_delete = record.auto_delete;
        config.memory_bytes_max = self.options.queue_memory_bytes_max;
        Terms::of(config, arguments, policies, &self.services.configs)
    }

    /// The machine of a queue in which something was logged.
    fn machine(
        &self,
        machine_type: MachineType,
        terms: &Terms,
        contents: Option<Recovering>,
    ) -> Option<AnyMachine> {
        let (bodies, now_ms) = (&self.services.bodies, self.services.now_ms());
        let resolve = &mut |name: &SharedBody| bodies.resolve(name);
        contents.map(|contents| machine_type.recover(contents, terms.config.clone(), now_ms, resolve))
    }

    /// A queue has other arguments.
    fn change_queue(&self, record: &Arc<QueueRecord>) {
        if let Some(queue) = self.services.queue_by_id(record.id) {
            queue.set_record(record, |policies| self.terms(record, policies));
            queue.reconfigure();
        }
    }

    fn remove_queue(&self, record: &QueueRecord) {
        let Some(vhost) = self.vhost_of(&record.vhost) else { return };
        if let Some(queue) = vhost.remove_queue(&record.name) {
            queue.submit(Event::Close);
            self.services.unregister(&queue);
            self.services.counters.queues_deleted.count();
        }
    }

    /// Changes of bindings from one exchange, published as one table: a client that deletes a queue with a hundred thousand bindings
    /// has publishers see one new table, not as many.
    fn change_bindings<'c>(&self, changes: impl Iterator<Item = &'c Change>) {
        let mut steps = changes.filter_map(BindingStep::of).peekable();
        let Some(first) = steps.peek() else { return };
        let record = first.binding.source.clone();
        let Some(vhost) = self.vhost_of(&record.vhost) else { return };
        let Some(source) = vhost.exchange(&record.name) else { return };
        let mut ends = Ends { vhost: &vhost, latest: None };
        let mut newly_bound = Vec::new();
        let history = vhost.history(source.id);
        let ((), old) = source.edit(|table| {
            for BindingStep { binding, way } in steps {
                let Some(destination) = ends.of(&binding.destination) else { continue };
                let arguments = binding.arguments.as_table();
                match way {
                    Way::Add => table.bind(&binding.key, arguments, destination),
                    Way::Remove => table.unbind(&binding.key, arguments, destination),
                };
                let is_added = matches!(way, Way::Add);
                if matches!(destination, routing::Destination::Exchange(_)) {
                    vhost.count_exchange_binding(is_added);
                }
                self.services.announcer.count_binding(&record.vhost, &record.name, is_added);
                if is_added && history.is_some() {
                    newly_bound.push(destination.clone());
                }
            }
        });
        self.retired.lock().keep(old);
        vhost.changed();
        if let Some(history) = history {
            newly_bound.iter().for_each(|destination| replay(&vhost, &history, destination));
        }
    }

    fn refresh_vhost(&self, state: &State, name: &[u8]) {
        if let (Some(vhost), Some(record)) = (self.vhost_of(name), state.vhost(name)) {
            vhost.refresh(record);
            self.services.tell_counted([vhost.counted()]);
        }
    }

    fn refresh_user(&self, state: &State, name: &[u8]) {
        let Some(record) = state.user(name) else { return };
        let key = text(name);
        let user = {
            let mut users = self.users.write();
            users.entry(key.clone()).or_insert_with(|| Arc::new(User::new(&key, Vec::new()))).clone()
        };
        user.set_tags(record.tags.clone());
        user.set_limits(record.limits.clone());
        self.services.tell_counted([user.counted(), user.counted_channels()]);
        let grants = record.permissions.iter().map(|(vhost, permissions)| {
            (text(vhost).into(), Grants::new(&permissions.configure, &permissions.write, &permissions.read))
        });
        let topics = record.topic_permissions.iter().map(|((vhost, exchange), grants)| {
            let vhost = text(vhost);
            let grants = TopicGrants::new([&grants.write, &grants.read], &key, &vhost);
            ((vhost.into(), exchange.clone()), grants)
        });
        user.set_rights(grants.collect(), topics.collect());
    }
}

/// Gives what an exchange remembers to a destination that was just bound to it. An exchange gets it as if it were published now,
/// with all its keys.
fn replay(vhost: &Vhost, history: &RecentMessages, destination: &routing::Destination<QueueRef>) {
    let (mut batch, mut handovers, mut scratch) = (Batch::default(), Handovers::default(), Vhost::scratch());
    history.replay(&mut batch, |Replayed { message, facts, annotations, index }| {
        let mut queues = Vec::new();
        match destination {
            routing::Destination::Queue(queue) => queues.push(queue.clone()),
            routing::Destination::Exchange(exchange) => {
                let plain = message.plain();
                let copies = carbon_copies(&plain.properties());
                let keys = History::new(annotations).keys(message.routing_key, &copies);
                vhost.route(exchange, &keys, plain.properties(), &mut scratch, &mut queues);
                vhost.remember(scratch.on_duty(), message, facts, annotations);
            }
        }
        if !queues.is_empty() {
            handovers.add(&Arc::from(queues), index);
        }
    });
    handovers.send(&Arc::new(batch), None, |_| {});
}

#[derive(Clone, Copy)]
enum Way {
    Add,
    Remove,
}

/// A change of bindings.
struct BindingStep<'c> {
    binding: &'c Arc<Binding>,
    way: Way,
}

impl<'c> BindingStep<'c> {
    fn of(change: &'c Change) -> Option<Self> {
        match change {
            Change::BindingAdded(binding) => Some(Self { binding, way: Way::Add }),
            Change::BindingRemoved(binding) => Some(Self { binding, way: Way::Remove }),
            _ => None,
        }
    }
}

/// How many of the changes that follow are of bindings from the same exchange.
fn binding_run(first: &Binding, behind: &[Change]) -> usize {
    let goes_on = |change: &&Change| {
        BindingStep::of(change).is_some_and(|step| Arc::ptr_eq(&step.binding.source, &first.source))
    };
    behind.iter().take_while(goes_on).count()
}

/// Finds what bindings lead to; of a run of them, most lead to the same.
struct Ends<'v> {
    vhost: &'v Vhost,
    latest: Option<(Destination, routing::Destination<QueueRef>)>,
}

impl Ends<'_> {
    fn of(&mut self, destination: &Destination) -> Option<&routing::Destination<QueueRef>> {
        if self.latest.as_ref().is_none_or(|(known, _)| !known.is_same(destination)) {
            let found = match destination {
                Destination::Queue(record) => {
                    routing::Destination::Queue(QueueRef(self.vhost.queue(&record.name)?))
                }
                Destination::Exchange(record) => {
                    routing::Destination::Exchange(self.vhost.exchange(&record.name)?)
                }
            };
            self.latest = Some((destination.clone(), found));
        }
        self.latest.as_ref().map(|(_, found)| found)
    }
}
