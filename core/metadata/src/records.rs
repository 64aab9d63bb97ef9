//! Records that the machine keeps of each thing. Records of exchanges, queues and bindings never change once made and are shared with the
//! broker's runtime tables; a redeclared name gets a new record with a new id. A queue whose expiry changes gets another record with its id.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::{ConnectionId, ExchangeId, QueueId, piece_bytes};
use wire::amqp091::{Table, Value};

use crate::arguments::Arguments;
use crate::codec::{plain_codes, record};
use crate::command::{
    Bind, Credentials, DeclareExchange, DeclareQueue, DestinationName, Name, PutUser, QueueType,
};
use crate::limits::Limits;
use crate::policies::{ApplyTo, PolicyDefinition};

/// The number of the node that forms a cluster, and of a node alone.
pub const FIRST_NODE: u16 = 1;

/// The name of a vhost, shared by all records in it.
pub type VhostName = Arc<[u8]>;

/// An exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// Unique for ever among durable exchanges, see [`crate::State::begin_incarnation`] for transient ones.
    pub id: ExchangeId,
    /// Its vhost.
    pub vhost: VhostName,
    /// Name; empty for the default exchange.
    pub name: Name,
    /// Type name.
    pub kind: Box<str>,
    /// Survives a restart.
    pub durable: bool,
    /// Goes with its last source-side binding (B54).
    pub auto_delete: bool,
    /// Clients cannot publish to it (B57).
    pub internal: bool,
    /// As declared.
    pub arguments: Arguments,
    /// The user who declared it, or made the vhost whose own it is, if that is known; never changes.
    pub declared_by: Option<Name>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    /// Unique for ever among durable queues, see [`crate::State::begin_incarnation`] for transient ones.
    pub id: QueueId,
    /// Its vhost.
    pub vhost: VhostName,
    /// Name.
    pub name: Name,
    /// Survives a restart; false for exclusive queues whatever was asked (B67).
    pub durable: bool,
    /// Goes with its last consumer (B68).
    pub auto_delete: bool,
    /// The only connection that may use it.
    pub exclusive_owner: Option<ConnectionId>,
    /// As declared.
    pub arguments: Arguments,
    /// The type that implements it.
    pub queue_type: QueueType,
    /// The node that has its messages; [`FIRST_NODE`] on a node alone.
    pub home: u16,
    /// The user who declared it, if that is known; never changes, and does not own anything by it.
    pub declared_by: Option<Name>,
}

/// The receiving end of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A queue.
    Queue(Arc<QueueRecord>),
    /// An exchange.
    Exchange(Arc<ExchangeRecord>),
}

impl Destination {
    /// Whether both are the very same record.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Destination::Queue(one), Destination::Queue(other)) => Arc::ptr_eq(one, other),
            (Destination::Exchange(one), Destination::Exchange(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A binding. Its identity is source, destination, key **and arguments** (B84). The implicit bindings of the default
/// exchange (B86) are not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Where messages come from.
    pub source: Arc<ExchangeRecord>,
    /// Where they go.
    pub destination: Destination,
    /// Routing key.
    pub key: Name,
    /// As bound.
    pub arguments: Arguments,
}

/// Two counters stand before what several hold.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl ExchangeRecord {
    /// Bytes of a shared record and what hangs on it, its vhost's name aside.
    pub(crate) fn heap_bytes(&self) -> usize {
        let by = self.declared_by.as_ref().map_or(0, |name| piece_bytes(name.len()));
        let texts = piece_bytes(self.name.len()) + piece_bytes(self.kind.len()) + by;
        piece_bytes(COUNTS_BYTES + size_of::<Self>()) + texts + piece_bytes(self.arguments.heap_bytes())
    }

    /// The declaration that would make it again.
    #[must_use]
    pub fn to_declare(&self) -> DeclareExchange {
        DeclareExchange {
            vhost: self.vhost.as_ref().into(),
            name: self.name.clone(),
            kind: self.kind.clone(),
            durable: self.durable,
            auto_delete: self.auto_delete,
            internal: self.internal,
            arguments: self.arguments.clone(),
        }
    }

    /// The record of a declaration by that user; the declaration's own vhost name is not looked at.
    pub(crate) fn of_declare(
        id: ExchangeId,
        vhost: VhostName,
        declare: &DeclareExchange,
        by: Option<&[u8]>,
    ) -> Self {
        Self {
            id,
            vhost,
            name: declare.name.clone(),
            kind: declare.kind.clone(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: declare.arguments.clone(),
            declared_by: by.map(Into::into),
        }
    }
}

impl QueueRecord {
    /// As [`ExchangeRecord::heap_bytes`].
    pub(crate) fn heap_bytes(&self) -> usize {
        let by = self.declared_by.as_ref().map_or(0, |name| piece_bytes(name.len()));
        let hanging = piece_bytes(self.name.len()) + piece_bytes(self.arguments.heap_bytes()) + by;
        piece_bytes(COUNTS_BYTES + size_of::<Self>()) + hanging
    }

    /// The declaration that would make it again.
    #[must_use]
    pub fn to_declare(&self) -> DeclareQueue {
        DeclareQueue {
            vhost: self.vhost.as_ref().into(),
            name: self.name.clone(),
            durable: self.durable,
            auto_delete: self.auto_delete,
            exclusive_owner: self.exclusive_owner,
            arguments: self.arguments.clone(),
            queue_type: self.queue_type,
        }
    }

    /// The record of a declaration by that user; the declaration's own vhost name is not looked at.
    pub(crate) fn of_declare(
        id: QueueId,
        vhost: VhostName,
        declare: &DeclareQueue,
        home: u16,
        by: Option<&[u8]>,
    ) -> Self {
        Self {
            id,
            vhost,
            name: declare.name.clone(),
            durable: declare.is_stored_durable(),
            auto_delete: declare.auto_delete,
            exclusive_owner: declare.exclusive_owner,
            arguments: declare.arguments.clone(),
            queue_type: declare.queue_type,
            home,
            declared_by: by.map(Into::into),
        }
    }
}

impl DeclareQueue {
    /// Exclusive queues are stored as not durable whatever was asked (B67).
    #[must_use]
    pub fn is_stored_durable(&self) -> bool {
        self.durable && self.exclusive_owner.is_none()
    }
}

impl Destination {
    /// Kind and name.
    #[must_use]
    pub fn to_name(&self) -> DestinationName {
        match self {
            Self::Queue(queue) => DestinationName::Queue(queue.name.clone()),
            Self::Exchange(exchange) => DestinationName::Exchange(exchange.name.clone()),
        }
    }

    /// Whether the end survives a restart.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        match self {
            Self::Queue(queue) => queue.durable,
            Self::Exchange(exchange) => exchange.durable,
        }
    }

    /// Exchanges before queues, then by name.
    fn sort_key(&self) -> (u8, &[u8]) {
        match self {
            Self::Exchange(exchange) => (0, &exchange.name),
            Self::Queue(queue) => (1, &queue.name),
        }
    }
}

impl Binding {
    /// Bytes of a shared binding and what hangs on it, its ends aside.
    pub(crate) fn heap_bytes(&self) -> usize {
        let hanging = piece_bytes(self.key.len()) + piece_bytes(self.arguments.heap_bytes());
        piece_bytes(COUNTS_BYTES + size_of::<Self>()) + hanging
    }

    /// Bindings survive a restart only when both ends do.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.source.durable && self.destination.is_durable()
    }

    /// The command that would make it again.
    #[must_use]
    pub fn to_bind(&self) -> Bind {
        Bind {
            vhost: self.source.vhost.as_ref().into(),
            source: self.source.name.clone(),
            destination: self.destination.to_name(),
            key: self.key.clone(),
            arguments: self.arguments.clone(),
        }
    }

    /// The identity within a vhost as comparable bytes.
    pub(crate) fn identity(&self) -> Identity<'_> {
        let (kind, destination) = self.destination.sort_key();
        Identity {
            source: &self.source.name,
            kind,
            destination,
            key: &self.key,
            arguments: self.arguments.raw(),
        }
    }

    /// The order in which lists of bindings are given: source, destination, key, arguments.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        // Bindings that go together mostly share an end: no need to compare its name.
        if Arc::ptr_eq(&self.source, &other.source) && self.destination.is_same(&other.destination) {
            return self.key.cmp(&other.key).then_with(|| self.arguments.raw().cmp(other.arguments.raw()));
        }
        self.identity().cmp(&other.identity())
    }
}

/// The key that makes a binding different from others of its vhost (B84).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity<'a> {
    source: &'a [u8],
    kind: u8,
    destination: &'a [u8],
    key: &'a [u8],
    arguments: &'a [u8],
}

impl<'a> Identity<'a> {
    pub(crate) fn new(
        source: &'a [u8],
        to: &'a DestinationName,
        key: &'a [u8],
        arguments: &'a Arguments,
    ) -> Self {
        let (kind, destination) = match to {
            DestinationName::Exchange(name) => (0, name),
            DestinationName::Queue(name) => (1, name),
        };
        Self { source, kind, destination, key, arguments: arguments.raw() }
    }
}

/// Permissions of a user on a vhost: regular expressions, opaque here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Names that may be created and deleted.
    pub configure: Box<str>,
    /// Names that may be written to.
    pub write: Box<str>,
    /// Names that may be read from.
    pub read: Box<str>,
}

/// Permissions of a user on keys of a topic exchange (B82): regular expressions, opaque here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPermissions {
    /// Keys that may be published.
    pub write: Box<str>,
    /// Keys that may be bound.
    pub read: Box<str>,
}

/// A user with what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Password.
    pub credentials: Credentials,
    /// Tags, such as `administrator`.
    pub tags: Vec<Box<str>>,
    /// Limits by name.
    pub limits: Limits,
    /// By vhost.
    pub permissions: BTreeMap<Name, Permissions>,
    /// By vhost and exchange.
    pub topic_permissions: BTreeMap<(Name, Name), TopicPermissions>,
}

impl User {
    /// The command that would make it again, without permissions.
    #[must_use]
    pub fn to_put(&self, name: &[u8]) -> PutUser {
        PutUser {
            name: name.into(),
            credentials: self.credentials.clone(),
            tags: self.tags.clone(),
            limits: self.limits.clone(),
        }
    }
}

/// A policy, of users or of operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Regular expression over names, opaque here.
    pub pattern: Box<str>,
    /// To which kinds of things it applies.
    pub apply_to: ApplyTo,
    /// The highest wins.
    pub priority: i64,
    /// The settings of the policy.
    pub definition: PolicyDefinition,
}

record! {
    /// A node that is a member.
    pub struct NodeRow {
        /// Its name, such as `rabbit@host`.
        pub name: Box<str>,
        /// The identity of its data directory: one whose disk was lost has another one.
        pub data_id: [u8; 16],
        /// Its present start: grows with each.
        pub life: u32,
        /// The number that the process of its present start drew: a start that asks twice gets one life.
        pub nonce: u64,
        /// Its proposals of this life up to this number were applied.
        pub answered: u64,
    }

    /// A node's row with its number, in a snapshot.
    pub struct NumberedNode {
        /// The number, never used again.
        pub number: u16,
        /// The row.
        pub row: NodeRow,
    }

    /// How far numbers of nodes have been given out.
    pub struct NodesFact {
        /// The next number.
        pub next: u16,
    }
}

/// The node where a new queue lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// The one that declares it.
    #[default]
    ClientLocal,
    /// The one with the fewest queues of the same type; where there are many queues, the next one in turn.
    Balanced,
    /// As the arguments of each queue say, or else the one that declares it.
    ArgumentsOrLocal,
    /// As the arguments of each queue say, or else as [`Placement::Balanced`].
    ArgumentsOrBalanced,
}

plain_codes!(Placement as "placement of a queue" { 1 => ClientLocal, 2 => Balanced, 3 => ArgumentsOrLocal, 4 => ArgumentsOrBalanced, });

impl Placement {
    /// Whatever is not `client-local` balances, as with RabbitMQ: `balanced`, `least-leaders`, `min-masters`, `random`.
    #[must_use]
    pub fn named(word: &[u8]) -> Placement {
        if word == b"client-local" { Placement::ClientLocal } else { Placement::Balanced }
    }

    /// The placement that the arguments of a queue ask for; `None` when they name none.
    #[must_use]
    pub fn of_arguments(arguments: Table<'_>) -> Option<Placement> {
        ["x-queue-leader-locator", "x-queue-master-locator"].into_iter().find_map(|name| {
            let Some(Value::LongStr(word)) = arguments.get(name.as_bytes()) else { return None };
            Some(Placement::named(word))
        })
    }

    /// Whether a new queue with these arguments goes to the node with the fewest queues.
    pub(crate) fn balances(self, arguments: Table<'_>) -> bool {
        let placement = match self {
            Placement::ArgumentsOrLocal => {
                Placement::of_arguments(arguments).unwrap_or(Placement::ClientLocal)
            }
            Placement::ArgumentsOrBalanced => {
                Placement::of_arguments(arguments).unwrap_or(Placement::Balanced)
            }
            named => named,
        };
        placement == Placement::Balanced
    }
}

#[cfg(test)]
mod tests {
    use wire::amqp091::TableBuf;

    use super::*;

    #[test]
    fn arguments_say_where_queues_of_an_import_live_or_else_the_configuration() {
        let with = |name: &str, word: &str| {
            let mut table = TableBuf::new();
            table.push_str(name, word.as_bytes());
            table
        };
        let balanced = with("x-queue-leader-locator", "balanced");
        let older = with("x-queue-master-locator", "min-masters");
        let local = with("x-queue-leader-locator", "client-local");
        let balances = |placement: Placement| {
            [&balanced, &older, &local, &TableBuf::new()].map(|table| placement.balances(table.as_table()))
        };
        assert_eq!(balances(Placement::ArgumentsOrLocal), [true, true, false, false]);
        assert_eq!(balances(Placement::ArgumentsOrBalanced), [true, true, false, true]);
        assert_eq!(balances(Placement::Balanced), [true; 4], "whoever declares has looked at the arguments");
        assert_eq!(balances(Placement::ClientLocal), [false; 4]);
    }
}
