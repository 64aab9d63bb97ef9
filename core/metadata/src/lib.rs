//! Vhosts, users, permissions, exchanges, queues, bindings, parameters and policies as one deterministic machine.
//!
//! [`State::apply_entry`] takes a committed [`Entry`], which is a [`Command`] with what it relies on. [`State::apply`]
//! takes a command alone. Each gives an [`Outcome`] or a [`Refusal`]; into [`Applied`] it puts the
//! [`Change`]s that the broker's runtime tables follow and the durable [`Fact`]s that belong into the log.
//! [`State::replay`] puts facts back, [`State::encode_snapshot`] writes the durable part as a whole.
//!
//! The crate refuses to know: clocks, randomness, I/O, threads, routing tables, regular expressions, JSON, reply codes
//! and texts. Nothing depends on the order of a hash table.

mod apply;
mod arguments;
mod bindings;
mod bounds;
mod changes;
mod codec;
mod command;
mod contradiction;
mod definitions;
mod difference;
mod entry;
mod equivalence;
mod facts;
mod fingerprint;
mod limits;
mod names;
mod passwords;
mod policies;
mod records;
mod refusal;
mod replicas;
mod since;
mod snapshot;
mod state;
mod steps;
#[cfg(test)]
mod testing;
mod vhost;

pub use arguments::{ArgumentValue, Arguments, values_equivalent};
pub use bounds::BULK_BYTES_MAX;
pub use changes::{Applied, Change, Outcome};
pub use codec::DecodeError;
pub use command::{
    AddUser, AddVhost, Batch, Bind, ChangePassword, ClearGlobalParameter, ClearParameter, ClearPassword,
    ClearPermissions, ClearPolicy, ClearTopicPermissions, Command, Credentials, DeclareExchange,
    DeclareQueue, DeleteExchange, DeleteExclusiveQueues, DeleteQueue, DeleteUser, DeleteVhost, DeleteWhen,
    DestinationName, Name, PutUser, QueueType, SetGlobalParameter, SetParameter, SetPermissions, SetPolicy,
    SetQueueExpiry, SetTopicPermissions, SetUserLimits, SetUserTags, SetVhostLimits, SetVhostMetadata,
    Unbind, VhostMetadata,
};
pub use contradiction::Contradiction;
pub use definitions::{Definitions, Gathered};
pub use entry::{Condition, Entry, Named, RoomFor, RoomForSome, VhostRoom};
pub use facts::{
    ExchangeByFact, ExchangeFact, Fact, IdsFact, NameInVhost, QueueAtFact, QueueByFact, QueueFact,
};
pub use fingerprint::fingerprint;
pub use limits::Limits;
pub use passwords::{HashError, Hashing, SALT_BYTES};
pub use policies::{ApplyTo, PolicyDefinition, PolicyKind, PolicyValue};
pub use records::{
    Binding, Destination, ExchangeRecord, FIRST_NODE, NodeRow, NodesFact, NumberedNode, Permissions,
    Placement, Policy, QueueRecord, TopicPermissions, User, VhostName,
};
pub use refusal::{Compared, Kind, LimitOf, Refusal};
pub use replicas::{
    ChangeReplicas, NodeDownFact, NodeSeen, REPLICAS_MAX, ReplicaChange, Replicas, ReplicasFact,
};
pub use snapshot::{CLUSTER_SNAPSHOT_VERSION, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, snapshot_facts};
pub use state::{State, is_durable_id};
pub use steps::{AddNode, BeginLife, ClusterStep, ForgetNode, Proposed, Stepped};
pub use vhost::Vhost;
