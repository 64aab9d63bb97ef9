//! Everything that can be asked of the metadata machine, as data with one binary encoding.
//!
//! A command carries whatever is not a function of the state: salts inside password hashes, generated names, the
//! connection that owns a queue. Knows nothing of the outcome.

use stdx::{ConnectionId, QueueId};

use crate::arguments::Arguments;
use crate::codec::{Codec, DecodeError, Reader, coded, plain_codes, record};
use crate::limits::Limits;
use crate::passwords::Hashing;
use crate::policies::{ApplyTo, PolicyDefinition};

/// The name of a vhost, user, exchange or queue, or a routing key: bytes as received, at most 255 from AMQP 0-9-1.
pub type Name = Box<[u8]>;

/// The implementation behind a queue (`x-queue-type`, B64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueType {
    /// One node, FIFO.
    Classic,
    /// Replicated by Raft.
    Quorum,
    /// Replicated, replayable log.
    Stream,
}

plain_codes!(QueueType as "queue type" { 1 => Classic, 2 => Quorum, 3 => Stream, });

/// The receiving end of a binding, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DestinationName {
    /// A queue.
    Queue(Name),
    /// An exchange.
    Exchange(Name),
}

impl Codec for DestinationName {
    fn put(&self, out: &mut Vec<u8>) {
        let (code, name) = match self {
            Self::Queue(name) => (1u8, name),
            Self::Exchange(name) => (2, name),
        };
        out.push(code);
        name.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::get(from)? {
            1 => Ok(Self::Queue(Codec::get(from)?)),
            2 => Ok(Self::Exchange(Codec::get(from)?)),
            code => Err(DecodeError::UnknownCode { what: "binding destination", code: code.into() }),
        }
    }
}

impl Codec for ConnectionId {
    fn put(&self, out: &mut Vec<u8>) {
        self.node.put(out);
        self.life.put(out);
        self.count.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { node: Codec::get(from)?, life: Codec::get(from)?, count: Codec::get(from)? })
    }
}

impl Codec for QueueId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Codec::get(from).map(Self)
    }
}

/// Whether an exchange is deleted although bindings lead away from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteWhen {
    /// Whatever is bound to it.
    Always,
    /// Only when it is the source of no binding (`if-unused`, B53).
    Unused,
}

plain_codes!(DeleteWhen as "deletion condition" { 1 => Always, 2 => Unused, });

record! {
    /// The facts about a vhost besides its name.
    pub struct VhostMetadata {
        /// Free text.
        pub description: Box<str>,
        /// Free words.
        pub tags: Vec<Box<str>>,
        /// Type of queues declared without one (B64); a name so that unknown ones round-trip.
        pub default_queue_type: Option<Box<str>>,
        /// Deletion is refused while this is set.
        pub protected_from_deletion: bool,
    }

    /// Creates a vhost with its predeclared exchanges (B46); one that exists stays as it is.
    pub struct AddVhost {
        /// Name.
        pub name: Name,
        /// The rest.
        pub metadata: VhostMetadata,
    }

    /// Replaces the metadata of a vhost.
    pub struct SetVhostMetadata {
        /// Name.
        pub name: Name,
        /// The new metadata.
        pub metadata: VhostMetadata,
    }

    /// Replaces the limits of a vhost.
    pub struct SetVhostLimits {
        /// Vhost.
        pub vhost: Name,
        /// All limits from now on.
        pub limits: Limits,
    }

    /// Deletes a vhost and all in it.
    pub struct DeleteVhost {
        /// Name.
        pub name: Name,
    }

    /// A password as it is kept (B170).
    pub struct Credentials {
        /// Four bytes of salt and the hash of salt and password; empty: no password logs in.
        pub password_hash: Box<[u8]>,
        /// How it was made.
        pub hashing: Hashing,
    }

    /// Creates a user without permissions.
    pub struct AddUser {
        /// Name.
        pub name: Name,
        /// The password.
        pub credentials: Credentials,
        /// Tags, such as `administrator`.
        pub tags: Vec<Box<str>>,
    }

    /// Creates a user, or replaces password, tags and limits of the one that exists (definitions, HTTP).
    pub struct PutUser {
        /// Name.
        pub name: Name,
        /// The password.
        pub credentials: Credentials,
        /// Tags, such as `administrator`.
        pub tags: Vec<Box<str>>,
        /// All its limits.
        pub limits: Limits,
    }

    /// Deletes a user and its permissions.
    pub struct DeleteUser {
        /// Name.
        pub name: Name,
    }

    /// Replaces a password.
    pub struct ChangePassword {
        /// User.
        pub name: Name,
        /// The new password.
        pub credentials: Credentials,
    }

    /// Leaves a user without a password that logs in.
    pub struct ClearPassword {
        /// User.
        pub name: Name,
    }

    /// Replaces the tags of a user.
    pub struct SetUserTags {
        /// User.
        pub name: Name,
        /// All tags from now on.
        pub tags: Vec<Box<str>>,
    }

    /// Replaces the limits of a user.
    pub struct SetUserLimits {
        /// User.
        pub name: Name,
        /// All limits from now on.
        pub limits: Limits,
    }

    /// Grants permissions on a vhost. Patterns are regular expressions, opaque here.
    pub struct SetPermissions {
        /// User.
        pub user: Name,
        /// Vhost.
        pub vhost: Name,
        /// Names that may be created and deleted.
        pub configure: Box<str>,
        /// Names that may be written to.
        pub write: Box<str>,
        /// Names that may be read from.
        pub read: Box<str>,
    }

    /// Takes away the permissions on a vhost.
    pub struct ClearPermissions {
        /// User.
        pub user: Name,
        /// Vhost.
        pub vhost: Name,
    }

    /// Restricts the keys of one topic exchange (B82).
    pub struct SetTopicPermissions {
        /// User.
        pub user: Name,
        /// Vhost.
        pub vhost: Name,
        /// Exchange; need not exist.
        pub exchange: Name,
        /// Keys that may be published.
        pub write: Box<str>,
        /// Keys that may be bound.
        pub read: Box<str>,
    }

    /// Lifts topic restrictions.
    pub struct ClearTopicPermissions {
        /// User.
        pub user: Name,
        /// Vhost.
        pub vhost: Name,
        /// One exchange, or all of the vhost.
        pub exchange: Option<Name>,
    }

    /// Creates an exchange or checks that the existing one is equivalent (B47).
    pub struct DeclareExchange {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
        /// Type name; the caller refuses unknown ones (B48).
        pub kind: Box<str>,
        /// Survives a restart.
        pub durable: bool,
        /// Goes with its last source-side binding (B54).
        pub auto_delete: bool,
        /// Clients cannot publish to it (B57).
        pub internal: bool,
        /// Arguments as received.
        pub arguments: Arguments,
    }

    /// Deletes an exchange and its bindings; a missing one is fine (B53).
    pub struct DeleteExchange {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
        /// On which condition.
        pub when: DeleteWhen,
    }

    /// Creates a queue or checks that the existing one is equivalent (B61).
    pub struct DeclareQueue {
        /// Vhost.
        pub vhost: Name,
        /// Name; the caller has generated one where the client sent none (B59).
        pub name: Name,
        /// Survives a restart. Exclusive queues never do (B67).
        pub durable: bool,
        /// Goes with its last consumer (B68).
        pub auto_delete: bool,
        /// The only connection that may use it, and with which it goes.
        pub exclusive_owner: Option<ConnectionId>,
        /// Arguments as received, with the queue type injected where B64 says so.
        pub arguments: Arguments,
        /// The type that the caller read from the arguments.
        pub queue_type: QueueType,
    }

    /// Deletes a queue and its bindings; a missing one is fine (B78). `if-unused` and `if-empty` are the caller's.
    pub struct DeleteQueue {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
        /// Only this incarnation, for deletions decided earlier (expiry, auto-delete).
        pub id: Option<QueueId>,
    }

    /// Changes after how much unused time a queue goes. One that is gone stays so; an exclusive queue and a stream have no such time.
    pub struct SetQueueExpiry {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Name,
        /// Only this incarnation.
        pub id: QueueId,
        /// Its `x-expires` from now on, milliseconds from 1; `None` is never.
        pub expires_ms: Option<u64>,
    }

    /// Adds a binding (B84).
    pub struct Bind {
        /// Vhost.
        pub vhost: Name,
        /// Source exchange.
        pub source: Name,
        /// Receiving end.
        pub destination: DestinationName,
        /// Routing key.
        pub key: Name,
        /// Arguments as received: part of the identity.
        pub arguments: Arguments,
    }

    /// Removes a binding; a missing one is fine (B85).
    pub struct Unbind {
        /// Vhost.
        pub vhost: Name,
        /// Source exchange.
        pub source: Name,
        /// Receiving end.
        pub destination: DestinationName,
        /// Routing key.
        pub key: Name,
        /// Arguments as received: part of the identity.
        pub arguments: Arguments,
    }

    /// Deletes all exclusive queues of a connection that has gone (B67).
    pub struct DeleteExclusiveQueues {
        /// The connection.
        pub owner: ConnectionId,
    }

    /// Sets a runtime parameter of a vhost. The value is JSON text, opaque here.
    pub struct SetParameter {
        /// Vhost.
        pub vhost: Name,
        /// Component, such as `shovel` or `operator_policy`.
        pub component: Box<str>,
        /// Name.
        pub name: Box<str>,
        /// JSON text.
        pub value: Box<str>,
    }

    /// Removes a runtime parameter.
    pub struct ClearParameter {
        /// Vhost.
        pub vhost: Name,
        /// Component.
        pub component: Box<str>,
        /// Name.
        pub name: Box<str>,
    }

    /// Sets a global runtime parameter. The value is JSON text, opaque here.
    pub struct SetGlobalParameter {
        /// Name.
        pub name: Box<str>,
        /// JSON text.
        pub value: Box<str>,
    }

    /// Removes a global runtime parameter.
    pub struct ClearGlobalParameter {
        /// Name.
        pub name: Box<str>,
    }

    /// Sets a policy. The pattern is opaque here.
    pub struct SetPolicy {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Box<str>,
        /// Regular expression over names.
        pub pattern: Box<str>,
        /// To which kinds of things it applies.
        pub apply_to: ApplyTo,
        /// The highest wins.
        pub priority: i64,
        /// The settings of the policy.
        pub definition: PolicyDefinition,
    }

    /// Removes a policy.
    pub struct ClearPolicy {
        /// Vhost.
        pub vhost: Name,
        /// Name.
        pub name: Box<str>,
    }
}

coded! {
    /// A change that is asked for. Codes of the encoding are never used again for something else.
    pub enum Command: u16 as "metadata command" {
        /// See [`AddVhost`].
        1 => AddVhost(AddVhost),
        /// See [`SetVhostMetadata`].
        2 => SetVhostMetadata(SetVhostMetadata),
        /// See [`DeleteVhost`].
        3 => DeleteVhost(DeleteVhost),
        /// See [`AddUser`].
        4 => AddUser(AddUser),
        /// See [`PutUser`].
        5 => PutUser(PutUser),
        /// See [`DeleteUser`].
        6 => DeleteUser(DeleteUser),
        /// See [`ChangePassword`].
        7 => ChangePassword(ChangePassword),
        /// See [`ClearPassword`].
        8 => ClearPassword(ClearPassword),
        /// See [`SetUserTags`].
        9 => SetUserTags(SetUserTags),
        /// See [`SetUserLimits`].
        10 => SetUserLimits(SetUserLimits),
        /// See [`SetPermissions`].
        11 => SetPermissions(SetPermissions),
        /// See [`ClearPermissions`].
        12 => ClearPermissions(ClearPermissions),
        /// See [`SetTopicPermissions`].
        13 => SetTopicPermissions(SetTopicPermissions),
        /// See [`ClearTopicPermissions`].
        14 => ClearTopicPermissions(ClearTopicPermissions),
        /// See [`DeclareExchange`].
        15 => DeclareExchange(DeclareExchange),
        /// See [`DeleteExchange`].
        16 => DeleteExchange(DeleteExchange),
        /// See [`DeclareQueue`].
        17 => DeclareQueue(DeclareQueue),
        /// See [`DeleteQueue`].
        18 => DeleteQueue(DeleteQueue),
        /// See [`Bind`].
        19 => Bind(Bind),
        /// See [`Unbind`].
        20 => Unbind(Unbind),
        /// See [`DeleteExclusiveQueues`].
        21 => DeleteExclusiveQueues(DeleteExclusiveQueues),
        /// See [`SetParameter`].
        22 => SetParameter(SetParameter),
        /// See [`ClearParameter`].
        23 => ClearParameter(ClearParameter),
        /// See [`SetGlobalParameter`].
        24 => SetGlobalParameter(SetGlobalParameter),
        /// See [`ClearGlobalParameter`].
        25 => ClearGlobalParameter(ClearGlobalParameter),
        /// See [`SetPolicy`].
        26 => SetPolicy(SetPolicy),
        /// See [`ClearPolicy`].
        27 => ClearPolicy(ClearPolicy),
        /// See [`Batch`].
        28 => ImportBatch(Batch),
        /// See [`SetVhostLimits`].
        29 => SetVhostLimits(SetVhostLimits),
        /// Sets an operator policy, which is named apart from policies.
        30 => SetOperatorPolicy(SetPolicy),
        /// Removes an operator policy.
        31 => ClearOperatorPolicy(ClearPolicy),
        /// See [`SetQueueExpiry`].
        32 => SetQueueExpiry(SetQueueExpiry),
    }
}

/// Many commands in one step: definitions being imported. Each is applied even if others are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// In order; none of them a batch.
    pub commands: Vec<Command>,
}

impl Codec for Batch {
    fn put(&self, out: &mut Vec<u8>) {
        self.commands.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if from.in_batch {
            return Err(DecodeError::NestedBatch);
        }
        from.in_batch = true;
        let commands = Vec::get(from)?;
        from.in_batch = false;
        Ok(Self { commands })
    }
}

impl Command {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads exactly one command.
    ///
    /// # Errors
    /// [`DecodeError`] for anything but the bytes that [`Command::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let command = Self::get(&mut reader)?;
        reader.finish()?;
        Ok(command)
    }
}
