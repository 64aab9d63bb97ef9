//! Everything the broker refuses, as data. Reply codes and texts are made from it by each protocol.

use queues::ArgumentError;

/// The subject of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Queue or exchange.
    pub kind: ResourceKind,
    /// Its name as received, without CR and LF.
    pub name: Box<[u8]>,
    /// The vhost it is in.
    pub vhost: Box<str>,
}

/// The kinds of named things in a vhost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A queue.
    Queue,
    /// An exchange.
    Exchange,
}

/// A request that is refused. The comment gives the AMQP 0-9-1 reply code and B-number it becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// 404 `no queue 'q' in vhost '/'` (B56, B71, B85, B96).
    NotFound(Resource),
    /// 404 `queue 'q' in vhost '/' has crashed and failed to restart` (B71).
    Crashed(Resource),
    /// 404 `home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible`.
    HomeDown {
        /// The queue.
        resource: Resource,
        /// The node that has its messages.
        node: Box<str>,
    },
    /// 403 `configure access to queue 'q' in vhost '/' refused for user 'u'` (B83).
    Access {
        /// The permission that was asked for.
        permission: crate::Permission,
        /// On what.
        resource: Resource,
        /// By whom.
        user: Box<str>,
    },
    /// 403 `write access to topic 'k' in exchange 'x' in vhost '/' refused for user 'u'` (B83).
    TopicAccess {
        /// Read or write.
        permission: crate::Permission,
        /// The routing or binding key.
        routing_key: Box<[u8]>,
        /// The topic exchange.
        exchange: Resource,
        /// By whom.
        user: Box<str>,
    },
    /// 403 `operation not permitted on the default exchange` (B51).
    DefaultExchange,
    /// 403 `deletion of system exchange 'amq.direct' in vhost '/' not allowed` (B52).
    SystemExchange(Resource),
    /// 403 `queue name 'amq.x' contains reserved prefix 'amq.*'` (B49).
    ReservedPrefix(Resource),
    /// 403 `cannot publish to internal exchange 'x' in vhost '/'` (B57).
    InternalExchange(Resource),
    /// 403 `queue 'q' in vhost '/' in exclusive use` (B116).
    ExclusiveUse(Resource),
    /// 403 `cannot bind or unbind to a volatile (direct reply-to) queue` (B95).
    VolatileQueue,
    /// 405, cannot obtain exclusive access (B65).
    Locked(Resource),
    /// 405, basic.get on a quorum queue with a single active consumer (B123).
    GetOnSingleActive(Resource),
    /// 540 `basic.get not supported by stream queues queue 'q' in vhost '/'`, and the same of `queue.purge` (B80, B123).
    StreamOperation {
        /// The stream.
        resource: Resource,
        /// The method.
        operation: &'static str,
    },
    /// 540 `automatic acknowledgement not supported by stream queue 'q' in vhost '/'` (B124).
    StreamNoAck(Resource),
    /// 406 `consumer prefetch count is not set for stream queue 'q' in vhost '/'` (B125).
    StreamPrefetch(Resource),
    /// 406 `Cannot declare a server-named queue for type rabbit_quorum_queue` (B74).
    ServerNamed(queues::Kind),
    /// 406 `invalid property 'exclusive-owner' for queue 'q' in vhost '/'` (B74).
    Property {
        /// The queue to be declared.
        resource: Resource,
        /// The property that its type cannot have.
        property: &'static str,
    },
    /// 540, queue.delete with a condition on a quorum queue (B78).
    DeleteCondition {
        /// The queue.
        resource: Resource,
        /// `if-unused` or `if-empty`.
        flag: &'static str,
    },
    /// 406 `inequivalent arg ...` (B47, B62).
    Inequivalent {
        /// The object that exists already.
        resource: Resource,
        /// The difference, with both values.
        difference: Difference,
    },
    /// 406 `invalid arg 'x-message-ttl' for queue 'q' in vhost '/': ...` (B72, B73).
    Argument {
        /// The queue to be declared or consumed from.
        resource: Resource,
        /// Which argument and why.
        error: ArgumentError,
    },
    /// 406 `invalid type 'long' for arg 'alternate-exchange' in exchange 'x' in vhost '/'` (B55).
    AlternateExchangeType {
        /// The exchange to be declared.
        resource: Resource,
        /// The field type received, in RabbitMQ's words.
        received: &'static str,
    },
    /// 406 `exchange 'x' in vhost '/' in use`, `queue ... in use` (B53, B78).
    InUse(Resource),
    /// 406 `queue 'q' in vhost '/' not empty` (B78).
    NotEmpty(Resource),
    /// 406 `unknown exchange type 'x-foo'` (B48).
    UnknownExchangeType(Box<[u8]>),
    /// 406, an exchange type does not take the arguments of a declaration; the error is the text (B92).
    ExchangeArgument(routing::ArgumentError),
    /// 406, an exchange type does not take a binding (B92).
    Binding(BindingRefusal),
    /// 406, x-match has a value that is not known (B89).
    InvalidMatch {
        /// The value as RabbitMQ renders it.
        received: Box<str>,
    },
    /// 406, a topic binding key with three or more `#` (B88).
    TooManyHashes(Box<[u8]>),
    /// 406 queue or exchange limits (B58, B77); the text says which.
    LimitReached {
        /// The resource that was to be declared.
        resource: Resource,
        /// `vhost` limit or `cluster` limit.
        scope: LimitScope,
        /// The limit.
        limit: u64,
    },
    /// 406 `message size N is larger than configured max size M` (B98).
    MessageTooLarge {
        /// Bytes of body.
        size: u64,
        /// The configured bound.
        max: u64,
    },
    /// 406 `invalid expiration 'abc': ...` (B99).
    InvalidExpiration(Box<[u8]>),
    /// 406 `user_id property set to 'x' but authenticated user was 'y'` (B100).
    UserId {
        /// The property.
        claimed: Box<[u8]>,
        /// The authenticated user.
        user: Box<str>,
    },
    /// 406 `fast reply consumer does not exist` (B154).
    NoReplyConsumer,
    /// 406, CC or BCC is not an array of longstr (B94).
    InvalidCarbonCopy {
        /// `CC` or `BCC`.
        header: &'static str,
        /// The field type received, in RabbitMQ's words, or of the first bad element.
        received: Box<str>,
    },
    /// 501, headers of a message cannot be decoded.
    MalformedProperties,
    /// 541 with the deprecation text (B69, D7): only in strict mode.
    TransientQueueDenied,
    /// Somebody else has changed the object meanwhile. The caller tries again (management calls).
    Outdated,
    /// There are as many vhosts as there may be (management calls).
    VhostLimitReached {
        /// The vhost to be made.
        name: Box<str>,
        /// The limit.
        limit: u64,
    },
    /// 406: arguments, a value or texts that are too large to keep.
    TooLarge {
        /// How large.
        bytes: usize,
        /// How large they may be.
        bytes_max: usize,
    },
    /// The vhost is protected from deletion (management calls).
    ProtectedVhost(Box<str>),
    /// 404-like `vhost ... not found` for management calls.
    NoSuchVhost(Box<str>),
    /// No such user (management calls).
    NoSuchUser(Box<str>),
    /// The object exists already (management calls).
    AlreadyExists(Box<str>),
    /// Not possible at all, such as a password that cannot be hashed.
    Unavailable,
    /// 541: nothing durable can be promised, because a sync of the disk has failed or because the disk is full; the text says
    /// which and what to do.
    Storage(Box<str>),
}

/// Why an exchange type does not take a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingRefusal {
    /// `The binding key must be an integer: <<"k">>`
    WeightText(Box<[u8]>),
    /// `The binding key must be greater than 0`
    WeightZero,
    /// `The binding key must not exceed 10000`
    WeightTooLarge {
        /// The largest.
        max: u32,
    },
    /// `Non empty binding 'k' key not permitted`
    KeyNotEmpty(Box<[u8]>),
    /// `Queue type rabbit_quorum_queue not valid for this exchange type`
    QueueType(Box<str>),
    /// `Destination not found`: an exchange where only queues can be bound.
    NoQueue,
    /// A JMS binding without a selector. RabbitMQ ends the connection with 541.
    NoSelector,
    /// `invalid JMS selector: unexpected_end`
    Selector(routing::SelectorError),
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// A limit of the vhost.
    Vhost,
    /// A limit of the whole node or cluster.
    Cluster,
}

impl Resource {
    /// A queue in a vhost.
    pub fn queue(vhost: &str, name: &[u8]) -> Resource {
        Resource { kind: ResourceKind::Queue, name: name.into(), vhost: vhost.into() }
    }

    /// An exchange in a vhost.
    pub fn exchange(vhost: &str, name: &[u8]) -> Resource {
        Resource { kind: ResourceKind::Exchange, name: name.into(), vhost: vhost.into() }
    }
}

/// A property in which a redeclaration differs from what exists (B47, B62).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `durable`, `auto_delete`, `type`, `internal` or an argument's name.
    pub what: Box<str>,
    /// The value that the client sent.
    pub received: Compared,
    /// The value that the object has.
    pub current: Compared,
}

/// One side of a [`Difference`], rendered `'true'`, `none` or `the value '1000' of type 'signedint'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// A flag.
    Flag(bool),
    /// A name, such as an exchange type.
    Name(Box<str>),
    /// An argument's value and its field type in RabbitMQ's words.
    Value {
        /// Rendered value.
        value: Box<str>,
        /// `longstr`, `signedint`, `bool`, ...
        kind: &'static str,
    },
    /// The argument is not there.
    Absent,
}
