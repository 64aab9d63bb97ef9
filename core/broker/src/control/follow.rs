//! Runtime tables follow the metadata machine's changes, in its order.

use std::collections::HashMap;
use std::sync::Arc;

use metadata::{Binding, Change, Destination, ExchangeRecord, QueueRecord, QueueType, State};
use queues::{Classic, Order, QueueConfig, Recovering};
use routing::{Duty, Exchange, ExchangeType, Gate, Persistence};
use stdx::QueueId;
use wire::amqp091::{Properties, Value};

use crate::access::{Grants, TopicGrants, User};
use crate::broker::Inner;
use crate::cell::{DeadLetterTarget, Event, Queue, QueueRef, Terms};
use crate::data::batch::Batch;
use crate::data::handovers::Handovers;
use crate::data::recent::RecentMessages;
use crate::data::seen::SeenValues;
use crate::vhost::Vhost;

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

/// Starts the clocks of all queues, not before there is every queue and binding: what expired or fell due while the node was down
/// goes on.
pub(crate) fn start_all_clocks(queues: &[Arc<Queue>]) {
    queues.iter().for_each(start_clocks);
}

impl Inner {
    /// Applies changes to the runtime tables.
    pub(crate) fn follow(&self, state: &State, changes: &[Change]) {
        for change in changes {
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
                Change::ExchangeAdded(record) => drop(self.add_exchange(record, None)),
                Change::ExchangeDeleted(record) => self.remove_exchange(record),
                Change::QueueAdded(record) => {
                    self.services.counters.queues_created.count();
                    self.add_queue(record, None).iter().for_each(start_clocks);
                }
                Change::QueueDeleted(record) => self.remove_queue(record),
                Change::BindingAdded(binding) => self.change_binding(binding, Way::Add),
                Change::BindingRemoved(binding) => self.change_binding(binding, Way::Remove),
                Change::UserChanged(name) => self.refresh_user(state, name),
                Change::PermissionsChanged { user, .. } | Change::TopicPermissionsChanged { user, .. } => {
                    self.refresh_user(state, user);
                }
                Change::UserDeleted(name) => {
                    self.users.write().remove(&text(name));
                }
                Change::ParameterChanged { .. }
                | Change::GlobalParameterChanged { .. }
                | Change::PolicyChanged { .. } => {}
            }
        }
    }

    /// Builds the runtime tables of a loaded state; gives the queues, whose clocks stand until [`start_all_clocks`].
    pub(crate) fn follow_all(&self, state: &State, mut contents: Contents) -> Vec<Arc<Queue>> {
        let mut queues = Vec::with_capacity(contents.len());
        for vhost in state.vhosts() {
            let name = text(vhost.name());
            self.vhosts.write().insert(name.clone(), Vhost::new(&name, &self.services));
            self.refresh_vhost(state, vhost.name());
            for record in vhost.exchanges() {
                queues.extend(self.add_exchange(record, contents.remove(&store_id(record))));
            }
            for record in vhost.queues() {
                queues.extend(self.add_queue(record, contents.remove(&record.id)));
            }
            let bindings = vhost.bindings_in_order_made();
            bindings.into_iter().for_each(|binding| self.change_binding(binding, Way::Add));
        }
        for (name, _) in state.users() {
            self.refresh_user(state, name);
        }
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
        if let Some(Value::LongStr(name)) = arguments.get("alternate-exchange") {
            exchange.set_alternate(Some(name));
        }
        exchange.gate = self.gate_of(record, declared.duty);
        let store = (declared.duty == Duty::Delay).then(|| self.open_store(&vhost, record, contents));
        if let Some(store) = &store {
            vhost.add_delays(record.id.0, store.clone());
        }
        vhost.add_exchange(Arc::new(exchange));
        store
    }

    /// The memory of a deduplicating exchange.
    fn gate_of(&self, record: &ExchangeRecord, duty: Duty) -> Option<Arc<dyn Gate>> {
        let Duty::Deduplicate { value_count_max, ttl_ms, persistence } = duty else { return None };
        let seen = Arc::new(SeenValues::new(value_count_max, ttl_ms, self.services.clock.clone()));
        if persistence == Persistence::Disk {
            self.services.seen_files.keep(record.id.0, &seen);
        }
        Some(seen)
    }

    /// What a delayed exchange keeps its messages in: a queue that nobody finds by name.
    fn open_store(
        &self,
        vhost: &Arc<Vhost>,
        record: &ExchangeRecord,
        contents: Option<Recovering>,
    ) -> Arc<Queue> {
        let config = QueueConfig {
            durable: record.durable,
            dead_letters: true,
            order: Order::Due,
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
        };
        let terms = Terms { config: self.services.configs.share(config), dead_letter: None };
        let machine = self.machine(&terms, contents);
        let store = Queue::new(Arc::new(record), terms, machine, vhost.place().clone());
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
            self.retired.lock().retire(exchange.clear());
        }
    }

    fn add_queue(&self, record: &Arc<QueueRecord>, contents: Option<Recovering>) -> Option<Arc<Queue>> {
        let vhost = self.vhost_of(&record.vhost)?;
        let arguments = record.arguments.as_table();
        let mut config =
            QueueConfig::from_arguments(arguments, QueueType::Classic.arguments()).unwrap_or_default();
        config.durable = record.durable;
        config.auto_delete = record.auto_delete;
        config.memory_bytes_max = self.options.queue_memory_bytes_max;
        let dead_letter = match arguments.get("x-dead-letter-exchange") {
            Some(Value::LongStr(exchange)) => {
                let routing_key = match arguments.get("x-dead-letter-routing-key") {
                    Some(Value::LongStr(key)) => Some(key.into()),
                    _ => None,
                };
                Some(DeadLetterTarget { exchange: exchange.into(), routing_key })
            }
            _ => None,
        };
        let terms =
            Terms { config: self.services.configs.share(config), dead_letter: dead_letter.map(Box::new) };
        let machine = self.machine(&terms, contents);
        let queue = Queue::new(record.clone(), terms, machine, vhost.place().clone());
        self.services.register(&queue);
        vhost.add_queue(queue.clone());
        Some(queue)
    }

    /// The machine of a queue in which something was logged.
    fn machine(&self, terms: &Terms, contents: Option<Recovering>) -> Option<Classic> {
        contents.map(|contents| contents.finish(terms.config.clone(), self.services.now_ms()))
    }

    fn remove_queue(&self, record: &QueueRecord) {
        let Some(vhost) = self.vhost_of(&record.vhost) else { return };
        if let Some(queue) = vhost.remove_queue(&record.name) {
            queue.submit(Event::Close);
            self.services.unregister(&queue);
            self.services.counters.queues_deleted.count();
        }
    }

    fn change_binding(&self, binding: &Binding, way: Way) {
        let Some(vhost) = self.vhost_of(&binding.source.vhost) else { return };
        let Some(source) = vhost.exchange(&binding.source.name) else { return };
        let destination = match &binding.destination {
            Destination::Queue(record) => {
                vhost.queue(&record.name).map(|queue| routing::Destination::Queue(QueueRef(queue)))
            }
            Destination::Exchange(record) => vhost.exchange(&record.name).map(routing::Destination::Exchange),
        };
        let Some(destination) = destination else { return };
        let arguments = binding.arguments.as_table();
        let ((), old) = source.edit(|table| {
            match way {
                Way::Add => table.bind(&binding.key, arguments, &destination),
                Way::Remove => table.unbind(&binding.key, arguments, &destination),
            };
        });
        self.retired.lock().retire(old);
        if matches!(binding.destination, Destination::Exchange(_)) {
            vhost.count_exchange_binding(matches!(way, Way::Add));
        }
        let (vhost_name, source_name) = (&binding.source.vhost, &binding.source.name);
        self.services.voice.count_binding(vhost_name, source_name, matches!(way, Way::Add));
        vhost.changed();
        if let (Way::Add, Some(history)) = (way, vhost.history(source.id)) {
            replay(&vhost, &history, &destination);
        }
    }

    fn refresh_vhost(&self, state: &State, name: &[u8]) {
        if let (Some(vhost), Some(record)) = (self.vhost_of(name), state.vhost(name)) {
            vhost.refresh(record);
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
        let grants = record.permissions.iter().map(|(vhost, permissions)| {
            (text(vhost).into(), Grants::new(&permissions.configure, &permissions.write, &permissions.read))
        });
        let topics = record.topic_permissions.iter().map(|((vhost, exchange), grants)| {
            let grants = TopicGrants { write: grants.write.clone(), read: grants.read.clone() };
            ((text(vhost).into(), exchange.clone()), grants)
        });
        user.set_rights(grants.collect(), topics.collect());
    }
}

/// Gives what an exchange remembers to a destination that was just bound to it.
fn replay(vhost: &Vhost, history: &RecentMessages, destination: &routing::Destination<QueueRef>) {
    let (mut batch, mut handovers, mut scratch) = (Batch::default(), Handovers::default(), Vhost::scratch());
    history.replay(&mut batch, |message, index| {
        let mut queues = Vec::new();
        match destination {
            routing::Destination::Queue(queue) => queues.push(queue.clone()),
            routing::Destination::Exchange(exchange) => {
                let properties = Properties::new(message.properties);
                vhost.route(exchange, &[message.routing_key], properties, &mut scratch, &mut queues);
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
