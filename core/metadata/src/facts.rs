//! Durable facts, as the log and snapshots hold them.
//!
//! The log records what happened, not what was asked. Commands depend on things that are never logged. A durable auto-delete exchange lives
//! on because of a transient queue's binding, and an `if-unused` deletion is refused because of one. An identifier depends on how many
//! transient queues came before. Replaying commands without those things would give another state; replaying facts cannot. A fact also
//! implies no other: the deletion of a queue takes its bindings along, but an exchange that went because of it has a fact of its own.

use stdx::{ExchangeId, QueueId};

use crate::codec::{Codec, DecodeError, Reader, coded, record};
use crate::command::{
    AddVhost, Bind, ClearGlobalParameter, ClearParameter, ClearPermissions, ClearPolicy,
    ClearTopicPermissions, DeclareExchange, DeclareQueue, DeleteUser, DeleteVhost, Name, PutUser,
    SetGlobalParameter, SetParameter, SetPermissions, SetPolicy, SetQueueExpiry, SetTopicPermissions,
    SetVhostLimits, Unbind,
};
use crate::records::{Binding, ExchangeRecord, FIRST_NODE, NodesFact, NumberedNode, QueueRecord};
use crate::replicas::{NodeDownFact, ReplicasFact};

impl Codec for ExchangeId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Codec::get(from).map(Self)
    }
}

record! {
    /// A durable exchange was made.
    pub struct ExchangeFact {
        /// The identifier it got.
        pub id: ExchangeId,
        /// All else.
        pub exchange: DeclareExchange,
    }

    /// A durable queue was made.
    pub struct QueueFact {
        /// The identifier it got.
        pub id: QueueId,
        /// All else.
        pub queue: DeclareQueue,
    }

    /// A durable queue was made, by a user who is known.
    pub struct QueueByFact {
        /// The user.
        pub by: Name,
        /// All else.
        pub added: QueueFact,
    }

    /// A queue was made on another node than the first.
    pub struct QueueAtFact {
        /// The node that has its messages.
        pub home: u16,
        /// The user, if known.
        pub by: Option<Name>,
        /// All else.
        pub added: QueueFact,
    }

    /// A durable exchange was made, by a user who is known.
    pub struct ExchangeByFact {
        /// The user.
        pub by: Name,
        /// All else.
        pub added: ExchangeFact,
    }

    /// Something with a name in a vhost.
    pub struct NameInVhost {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
    }

    /// How far identifiers have been given out.
    pub struct IdsFact {
        /// The next durable identifier is not below this.
        pub next: u64,
    }
}

coded! {
    /// One durable change of the state. Codes of the encoding are never used again for something else.
    pub enum Fact: u16 as "metadata fact" {
        /// A vhost was made or its metadata replaced; its exchanges have facts of their own.
        1 => VhostSet(AddVhost),
        /// A vhost went with all in it, and all permissions on it.
        2 => VhostDeleted(DeleteVhost),
        /// A user was made or replaced; permissions stay.
        3 => UserSet(PutUser),
        /// A user went with its permissions.
        4 => UserDeleted(DeleteUser),
        /// Permissions were granted.
        5 => PermissionsSet(SetPermissions),
        /// Permissions were taken away.
        6 => PermissionsCleared(ClearPermissions),
        /// Topic permissions were set.
        7 => TopicPermissionsSet(SetTopicPermissions),
        /// Topic permissions were cleared.
        8 => TopicPermissionsCleared(ClearTopicPermissions),
        /// An exchange was made by nobody knows whom.
        9 => ExchangeAdded(ExchangeFact),
        /// An exchange went with its bindings.
        10 => ExchangeDeleted(NameInVhost),
        /// A queue was made by nobody knows whom.
        11 => QueueAdded(QueueFact),
        /// A queue went with its bindings.
        12 => QueueDeleted(NameInVhost),
        /// A binding was made.
        13 => BindingAdded(Bind),
        /// A binding went.
        14 => BindingRemoved(Unbind),
        /// A parameter was set.
        15 => ParameterSet(SetParameter),
        /// A parameter was cleared.
        16 => ParameterCleared(ClearParameter),
        /// A global parameter was set.
        17 => GlobalParameterSet(SetGlobalParameter),
        /// A global parameter was cleared.
        18 => GlobalParameterCleared(ClearGlobalParameter),
        /// A policy was set.
        19 => PolicySet(SetPolicy),
        /// A policy was cleared.
        20 => PolicyCleared(ClearPolicy),
        /// Identifiers below this were given out, also to things that are gone.
        21 => IdsUsed(IdsFact),
        /// Limits of a vhost were set; empty ones were cleared.
        22 => VhostLimitsSet(SetVhostLimits),
        /// An operator policy was set.
        23 => OperatorPolicySet(SetPolicy),
        /// An operator policy was cleared.
        24 => OperatorPolicyCleared(ClearPolicy),
        /// A queue was made.
        25 => QueueAddedBy(QueueByFact),
        /// An exchange was made.
        26 => ExchangeAddedBy(ExchangeByFact),
        /// A queue was made on another node than the first of a cluster.
        27 => QueueAddedAt(QueueAtFact),
        /// A node is a member; in snapshots of a cluster only, before all else.
        28 => NodeIs(NumberedNode),
        /// Numbers of nodes below this were given out, also to nodes that are gone.
        29 => NodesUsed(NodesFact),
        /// The others have lost sight of a node.
        30 => NodeDown(NodeDownFact),
        /// Nodes have copies of a queue.
        31 => ReplicasAre(ReplicasFact),
        /// A queue has another `x-expires`; snapshots have it among the queue's arguments.
        32 => QueueExpirySet(SetQueueExpiry),
    }
}

impl Fact {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads facts until the bytes end: one log record holds those of one or more commands.
    ///
    /// # Errors
    /// [`DecodeError`] for anything but bytes that [`Fact::encode`] writes.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut facts = Vec::new();
        while !reader.is_empty() {
            facts.push(Self::get(&mut reader)?);
        }
        Ok(facts)
    }

    pub(crate) fn exchange_added(record: &ExchangeRecord) -> Self {
        let added = ExchangeFact { id: record.id, exchange: record.to_declare() };
        match record.declared_by.clone() {
            None => Self::ExchangeAdded(added),
            Some(by) => Self::ExchangeAddedBy(ExchangeByFact { by, added }),
        }
    }

    pub(crate) fn queue_added(record: &QueueRecord) -> Self {
        let added = QueueFact { id: record.id, queue: record.to_declare() };
        match record.declared_by.clone() {
            by if record.home != FIRST_NODE => {
                Self::QueueAddedAt(QueueAtFact { home: record.home, by, added })
            }
            None => Self::QueueAdded(added),
            Some(by) => Self::QueueAddedBy(QueueByFact { by, added }),
        }
    }

    pub(crate) fn exchange_deleted(record: &ExchangeRecord) -> Self {
        Self::ExchangeDeleted(NameInVhost { vhost: record.vhost.as_ref().into(), name: record.name.clone() })
    }

    pub(crate) fn queue_deleted(record: &QueueRecord) -> Self {
        Self::QueueDeleted(NameInVhost { vhost: record.vhost.as_ref().into(), name: record.name.clone() })
    }

    pub(crate) fn binding_added(binding: &Binding) -> Self {
        Self::BindingAdded(binding.to_bind())
    }

    pub(crate) fn binding_removed(binding: &Binding) -> Self {
        let Bind { vhost, source, destination, key, arguments } = binding.to_bind();
        Self::BindingRemoved(Unbind { vhost, source, destination, key, arguments })
    }
}
