//! Why a command was not done, as data. Texts and reply codes are made of it by each protocol.

use crate::arguments::ArgumentValue;
use crate::command::Name;

/// The kinds of things with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A vhost.
    Vhost,
    /// A user.
    User,
    /// An exchange.
    Exchange,
    /// A queue.
    Queue,
}

/// The objects that a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOf {
    /// The objects in one vhost.
    Vhost,
    /// The objects in all vhosts.
    All,
}

/// A command that was refused. The state is as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Something that the command needs is not there (B85).
    NotFound {
        /// The kind of thing.
        kind: Kind,
        /// Its name.
        name: Name,
        /// The vhost in which it was sought; `None` for vhosts and users.
        vhost: Option<Name>,
    },
    /// A user of that name exists.
    AlreadyExists {
        /// The kind of thing.
        kind: Kind,
        /// Its name.
        name: Name,
    },
    /// An exchange or queue of that name exists and differs (B47, B62).
    Inequivalent {
        /// Exchange or queue.
        kind: Kind,
        /// Its vhost.
        vhost: Name,
        /// Its name.
        name: Name,
        /// The property that differs first, in RabbitMQ's order and words: `type`, `durable`, `auto_delete`, `internal`, `x-...`.
        what: &'static str,
        /// As asked for.
        received: Compared,
        /// As it is.
        current: Compared,
    },
    /// The queue exists and belongs to another connection, or is not exclusive but was asked to be (B65, B66).
    Locked {
        /// Its vhost.
        vhost: Name,
        /// Its name.
        name: Name,
    },
    /// The exchange is the source of bindings and was to be deleted only if unused (B53).
    InUse {
        /// Its vhost.
        vhost: Name,
        /// Its name.
        name: Name,
    },
    /// Exchanges whose names begin with `amq.` cannot be deleted (B52).
    SystemExchange {
        /// Its vhost.
        vhost: Name,
        /// Its name.
        name: Name,
    },
    /// Nothing can be done to the default exchange (B51).
    DefaultExchange,
    /// The vhost is protected from deletion.
    ProtectedVhost {
        /// Its name.
        name: Name,
    },
    /// There are as many as there may be (B58, B77).
    LimitReached {
        /// Vhost, exchange or queue.
        kind: Kind,
        /// Its vhost; of a vhost, itself.
        vhost: Name,
        /// Its name.
        name: Name,
        /// Which limit.
        of: LimitOf,
        /// The limit.
        limit: u64,
    },
    /// The state that the entry was made from has changed. The entry is made anew.
    Outdated,
    /// A batch inside a batch.
    NestedBatch,
    /// Arguments, a value or texts that are too large to keep.
    TooLarge {
        /// How large.
        bytes: usize,
        /// How large they may be.
        bytes_max: usize,
    },
}

/// One side of a comparison.
///
/// RabbitMQ writes `none` for an absent argument and then the other side with its type, `the value '1000' of type
/// 'signedint'`; with both sides there it writes only `'1000'` (B62).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compared {
    /// A property that is on or off.
    Flag(bool),
    /// An exchange type.
    Text(Box<str>),
    /// An argument.
    Argument(ArgumentValue),
    /// An argument that is not there.
    Absent,
}
