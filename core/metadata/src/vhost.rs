//! One vhost: its tables, and the steps in which they change. A step keeps the tables consistent with each other and
//! has no consequences; `apply` decides those (auto-delete, refusals).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arguments::Arguments;
use crate::bindings::{Bindings, List, Side, SlotId};
use crate::command::{DestinationName, Name, VhostMetadata};
use crate::limits::Limits;
use crate::names::{Named, Names};
use crate::policies::PolicyKind;
use crate::records::{Binding, Destination, ExchangeRecord, Identity, Policy, QueueRecord, VhostName};
use crate::refusal::Kind;

#[derive(Debug)]
struct ExchangeEntry {
    record: Arc<ExchangeRecord>,
    outgoing: List,
    incoming: List,
}

#[derive(Debug)]
struct QueueEntry {
    record: Arc<QueueRecord>,
    incoming: List,
}

impl Named for ExchangeEntry {
    fn name(&self) -> &[u8] {
        &self.record.name
    }
}

impl Named for QueueEntry {
    fn name(&self) -> &[u8] {
        &self.record.name
    }
}

/// A vhost and all in it.
#[derive(Debug)]
pub struct Vhost {
    name: VhostName,
    pub(crate) metadata: VhostMetadata,
    pub(crate) limits: Limits,
    exchanges: Names<ExchangeEntry>,
    queues: Names<QueueEntry>,
    bindings: Bindings,
    pub(crate) parameters: BTreeMap<(Box<str>, Box<str>), Box<str>>,
    /// Bytes of the records in the tables.
    record_bytes: usize,
    policies: BTreeMap<Box<str>, Policy>,
    operator_policies: BTreeMap<Box<str>, Policy>,
}

/// Reading. Lists are sorted, so that they are the same on every node.
impl Vhost {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &VhostName {
        &self.name
    }

    /// Description, tags and the like.
    #[must_use]
    pub fn metadata(&self) -> &VhostMetadata {
        &self.metadata
    }

    /// Limits by name.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The exchange of that name; the default exchange has the empty one.
    #[must_use]
    pub fn exchange(&self, name: &[u8]) -> Option<&Arc<ExchangeRecord>> {
        self.exchanges.get(name).map(|entry| &entry.record)
    }

    /// The queue of that name.
    #[must_use]
    pub fn queue(&self, name: &[u8]) -> Option<&Arc<QueueRecord>> {
        self.queues.get(name).map(|entry| &entry.record)
    }

    /// Number of exchanges, predeclared ones included.
    #[must_use]
    pub fn exchange_count(&self) -> usize {
        self.exchanges.len()
    }

    /// Number of queues.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// Number of explicit bindings.
    #[must_use]
    pub fn binding_count(&self) -> usize {
        self.bindings.len()
    }

    /// All exchanges by name.
    #[must_use]
    pub fn exchanges(&self) -> Vec<&Arc<ExchangeRecord>> {
        self.exchanges.sorted().into_iter().map(|entry| &entry.record).collect()
    }

    /// All queues by name.
    #[must_use]
    pub fn queues(&self) -> Vec<&Arc<QueueRecord>> {
        self.queues.sorted().into_iter().map(|entry| &entry.record).collect()
    }

    /// All explicit bindings in [`Binding::order`].
    #[must_use]
    pub fn bindings(&self) -> Vec<&Arc<Binding>> {
        self.bindings.sorted()
    }

    /// All explicit bindings, those made first first, also over restarts: consistent hashing gives out its buckets so.
    #[must_use]
    pub fn bindings_in_order_made(&self) -> Vec<&Arc<Binding>> {
        self.bindings.in_order_made()
    }

    /// Bindings that leave an exchange, in [`Binding::order`]; empty when there is no such exchange.
    #[must_use]
    pub fn bindings_from(&self, exchange: &[u8]) -> Vec<&Arc<Binding>> {
        let list = self.exchanges.get(exchange).map_or_else(List::default, |entry| entry.outgoing);
        self.listed(list, Side::Source)
    }

    /// Bindings that end at a queue or exchange, in [`Binding::order`]; empty when there is no such thing.
    #[must_use]
    pub fn bindings_to(&self, destination: &DestinationName) -> Vec<&Arc<Binding>> {
        self.listed(self.incoming(destination).unwrap_or_default(), Side::Destination)
    }

    /// Number of bindings that leave an exchange; 0 when there is no such exchange.
    #[must_use]
    pub fn binding_count_from(&self, exchange: &[u8]) -> usize {
        self.exchanges.get(exchange).map_or(0, |entry| entry.outgoing.len())
    }

    /// Number of bindings that end at a queue or exchange; 0 when there is no such thing.
    #[must_use]
    pub fn binding_count_to(&self, destination: &DestinationName) -> usize {
        self.incoming(destination).map_or(0, List::len)
    }

    /// Runtime parameters: ((component, name), JSON text), in that order.
    pub fn parameters(&self) -> impl Iterator<Item = (&(Box<str>, Box<str>), &str)> {
        self.parameters.iter().map(|(key, value)| (key, &**value))
    }

    /// Policies of a kind by name.
    pub fn policies(&self, kind: PolicyKind) -> impl Iterator<Item = (&str, &Policy)> {
        let policies = match kind {
            PolicyKind::User => &self.policies,
            PolicyKind::Operator => &self.operator_policies,
        };
        policies.iter().map(|(name, policy)| (&**name, policy))
    }

    /// The policy of that kind and name.
    #[must_use]
    pub fn policy(&self, kind: PolicyKind, name: &str) -> Option<&Policy> {
        match kind {
            PolicyKind::User => self.policies.get(name),
            PolicyKind::Operator => self.operator_policies.get(name),
        }
    }

    pub(crate) fn policies_mut(&mut self, kind: PolicyKind) -> &mut BTreeMap<Box<str>, Policy> {
        match kind {
            PolicyKind::User => &mut self.policies,
            PolicyKind::Operator => &mut self.operator_policies,
        }
    }

    pub(crate) fn exchanges_unsorted(&self) -> impl Iterator<Item = &Arc<ExchangeRecord>> {
        self.exchanges.unsorted().map(|entry| &entry.record)
    }

    pub(crate) fn queues_unsorted(&self) -> impl Iterator<Item = &Arc<QueueRecord>> {
        self.queues.unsorted().map(|entry| &entry.record)
    }

    pub(crate) fn bindings_unsorted(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.bindings.unsorted()
    }

    /// Bytes of memory that its exchanges, queues and bindings take here: records and tables. Counted as they change, not
    /// measured now.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.record_bytes
            + self.exchanges.table_bytes()
            + self.queues.table_bytes()
            + self.bindings.table_bytes()
    }

    fn listed(&self, list: List, side: Side) -> Vec<&Arc<Binding>> {
        self.bindings.sorted_slots(list, side).into_iter().map(|slot| self.bindings.get(slot)).collect()
    }

    fn incoming(&self, destination: &DestinationName) -> Option<List> {
        match destination {
            DestinationName::Queue(name) => self.queues.get(name).map(|entry| entry.incoming),
            DestinationName::Exchange(name) => self.exchanges.get(name).map(|entry| entry.incoming),
        }
    }
}

/// The end of a binding that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissingEnd<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a Name,
}

/// Steps.
impl Vhost {
    pub(crate) fn new(name: VhostName, metadata: VhostMetadata) -> Self {
        Self {
            name,
            metadata,
            limits: Limits::default(),
            exchanges: Names::default(),
            queues: Names::default(),
            bindings: Bindings::default(),
            parameters: BTreeMap::new(),
            policies: BTreeMap::new(),
            record_bytes: 0,
            operator_policies: BTreeMap::new(),
        }
    }

    /// Adds an exchange whose name is new.
    pub(crate) fn add_exchange(&mut self, record: Arc<ExchangeRecord>) {
        self.record_bytes += record.heap_bytes();
        self.exchanges.insert(ExchangeEntry { record, outgoing: List::default(), incoming: List::default() });
    }

    /// Adds a queue whose name is new.
    pub(crate) fn add_queue(&mut self, record: Arc<QueueRecord>) {
        self.record_bytes += record.heap_bytes();
        self.queues.insert(QueueEntry { record, incoming: List::default() });
    }

    /// Puts another record in the place of a queue's, with the same name and identifier. Its bindings lead to that one.
    pub(crate) fn replace_queue(&mut self, record: &Arc<QueueRecord>) {
        let Some(entry) = self.queues.get_mut(&record.name) else { return };
        let (incoming, new_bytes) = (entry.incoming, record.heap_bytes());
        let old = std::mem::replace(&mut entry.record, record.clone());
        self.record_bytes = self.record_bytes - old.heap_bytes() + new_bytes;
        for slot in self.bindings.sorted_slots(incoming, Side::Destination) {
            let binding = Binding::clone(self.bindings.get(slot));
            let destination = Destination::Queue(record.clone());
            self.bindings.replace(slot, Arc::new(Binding { destination, ..binding }));
        }
    }

    /// Adds a binding; `None` when it exists. A missing source is told before a missing destination.
    pub(crate) fn add_binding<'a>(
        &mut self,
        source: &'a Name,
        destination: &'a DestinationName,
        key: &Name,
        arguments: &Arguments,
    ) -> Result<Option<Arc<Binding>>, MissingEnd<'a>> {
        let from = self.exchange(source).ok_or(MissingEnd { kind: Kind::Exchange, name: source })?.clone();
        let to = match destination {
            DestinationName::Queue(name) => {
                let queue = self.queue(name).ok_or(MissingEnd { kind: Kind::Queue, name })?;
                Destination::Queue(queue.clone())
            }
            DestinationName::Exchange(name) => {
                let exchange = self.exchange(name).ok_or(MissingEnd { kind: Kind::Exchange, name })?;
                Destination::Exchange(exchange.clone())
            }
        };
        if self.find_binding(source, destination, key, arguments).is_some() {
            return Ok(None);
        }
        let binding =
            Binding { source: from, destination: to, key: key.clone(), arguments: arguments.clone() };
        let binding = Arc::new(binding);
        self.record_bytes += binding.heap_bytes();
        let slot = self.bindings.insert(binding.clone());
        let (bindings, source_list) = self.outgoing_mut(&binding);
        bindings.link(slot, Side::Source, source_list);
        let (bindings, destination_list) = self.incoming_mut(&binding);
        bindings.link(slot, Side::Destination, destination_list);
        Ok(Some(binding))
    }

    pub(crate) fn find_binding(
        &self,
        source: &Name,
        destination: &DestinationName,
        key: &Name,
        arguments: &Arguments,
    ) -> Option<SlotId> {
        self.bindings.find(Identity::new(source, destination, key, arguments))
    }

    /// Removes a binding.
    pub(crate) fn take_binding(&mut self, slot: SlotId) -> Arc<Binding> {
        let binding = self.bindings.get(slot).clone();
        let (bindings, list) = self.outgoing_mut(&binding);
        bindings.unlink(slot, Side::Source, list);
        let (bindings, list) = self.incoming_mut(&binding);
        bindings.unlink(slot, Side::Destination, list);
        self.record_bytes -= binding.heap_bytes();
        self.bindings.remove(slot)
    }

    /// Removes a queue and its bindings; those are given in [`Binding::order`].
    pub(crate) fn take_queue(&mut self, name: &[u8]) -> Option<(Arc<QueueRecord>, Vec<Arc<Binding>>)> {
        let incoming = self.queues.get(name)?.incoming;
        let bindings = self.take_list(incoming, Side::Destination);
        let entry = self.queues.remove(name).expect("it was there a moment ago");
        self.record_bytes -= entry.record.heap_bytes();
        Some((entry.record, bindings))
    }

    /// Removes an exchange and its bindings: those that leave it, then those that end at it, each in
    /// [`Binding::order`].
    pub(crate) fn take_exchange(&mut self, name: &[u8]) -> Option<TakenExchange> {
        let outgoing = self.exchanges.get(name)?.outgoing;
        let outgoing = self.take_list(outgoing, Side::Source);
        // Bindings to itself went with the first list.
        let incoming = self.exchanges.get(name)?.incoming;
        let incoming = self.take_list(incoming, Side::Destination);
        let entry = self.exchanges.remove(name).expect("it was there a moment ago");
        self.record_bytes -= entry.record.heap_bytes();
        Some(TakenExchange { record: entry.record, outgoing, incoming })
    }

    fn take_list(&mut self, list: List, side: Side) -> Vec<Arc<Binding>> {
        let slots = self.bindings.sorted_slots(list, side);
        slots.into_iter().map(|slot| self.take_binding(slot)).collect()
    }

    /// Whether the exchange is the source of no binding.
    pub(crate) fn is_unused(&self, exchange: &[u8]) -> bool {
        self.exchanges.get(exchange).is_none_or(|entry| entry.outgoing.is_empty())
    }

    fn outgoing_mut(&mut self, binding: &Binding) -> (&mut Bindings, &mut List) {
        let entry = self.exchanges.get_mut(&binding.source.name);
        (&mut self.bindings, &mut entry.expect("a binding goes before its source").outgoing)
    }

    fn incoming_mut(&mut self, binding: &Binding) -> (&mut Bindings, &mut List) {
        let list = match &binding.destination {
            Destination::Queue(queue) => self.queues.get_mut(&queue.name).map(|entry| &mut entry.incoming),
            Destination::Exchange(exchange) => {
                self.exchanges.get_mut(&exchange.name).map(|entry| &mut entry.incoming)
            }
        };
        (&mut self.bindings, list.expect("a binding goes before its destination"))
    }
}

/// An exchange that was removed, with its bindings.
#[derive(Debug)]
pub(crate) struct TakenExchange {
    pub(crate) record: Arc<ExchangeRecord>,
    pub(crate) outgoing: Vec<Arc<Binding>>,
    pub(crate) incoming: Vec<Arc<Binding>>,
}
