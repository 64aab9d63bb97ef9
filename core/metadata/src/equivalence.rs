//! Whether a redeclared exchange or queue is the one that exists, in RabbitMQ's order of checks (B47, B61).

use wire::amqp091::Value;

use crate::arguments::{ArgumentValue, Arguments, values_equivalent};
use crate::command::{DeclareExchange, DeclareQueue, QueueType};
use crate::records::{ExchangeRecord, QueueRecord};
use crate::refusal::{Compared, Kind, Refusal};

/// The only argument that exchanges of the built-in types compare (B47).
const EXCHANGE_ARGUMENTS: &[&str] = &["alternate-exchange"];

const QUEUE_TYPE_ARGUMENT: &str = "x-queue-type";

const CLASSIC_ARGUMENTS: &[&str] = &[
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    QUEUE_TYPE_ARGUMENT,
    "x-queue-master-locator",
    "x-queue-leader-locator",
];

const QUORUM_ARGUMENTS: &[&str] = &[
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    QUEUE_TYPE_ARGUMENT,
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-message-ttl",
    "x-queue-leader-locator",
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
];

const STREAM_ARGUMENTS: &[&str] = &[
    "x-max-length-bytes",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    QUEUE_TYPE_ARGUMENT,
];

impl QueueType {
    /// The arguments that a queue of this type knows, in the order in which a redeclaration compares them (B61).
    #[must_use]
    pub const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Classic => CLASSIC_ARGUMENTS,
            Self::Quorum => QUORUM_ARGUMENTS,
            Self::Stream => STREAM_ARGUMENTS,
        }
    }

    /// The value of `x-queue-type` that selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }

    /// The type of that name, if it is known.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Classic, Self::Quorum, Self::Stream].into_iter().find(|kind| kind.name().as_bytes() == name)
    }
}

/// A difference: what, received, current.
type Difference = (&'static str, Compared, Compared);

/// Compares in the order type, durable, auto_delete, internal, alternate-exchange (B47).
pub(crate) fn check_exchange(current: &ExchangeRecord, declare: &DeclareExchange) -> Result<(), Refusal> {
    compare_text("type", &declare.kind, &current.kind)
        .and_then(|()| compare_flag("durable", declare.durable, current.durable))
        .and_then(|()| compare_flag("auto_delete", declare.auto_delete, current.auto_delete))
        .and_then(|()| compare_flag("internal", declare.internal, current.internal))
        .and_then(|()| compare_arguments(EXCHANGE_ARGUMENTS, &declare.arguments, &current.arguments))
        .map_err(|(what, received, found)| Refusal::Inequivalent {
            kind: Kind::Exchange,
            vhost: declare.vhost.clone(),
            name: declare.name.clone(),
            what,
            received,
            current: found,
        })
}

/// Compares in the order exclusivity, durable, auto_delete, arguments of the existing queue's type (B61, B66, B67).
pub(crate) fn check_queue(current: &QueueRecord, declare: &DeclareQueue) -> Result<(), Refusal> {
    if current.exclusive_owner != declare.exclusive_owner {
        return Err(Refusal::Locked { vhost: declare.vhost.clone(), name: declare.name.clone() });
    }
    compare_flag("durable", declare.is_stored_durable(), current.durable)
        .and_then(|()| compare_flag("auto_delete", declare.auto_delete, current.auto_delete))
        .and_then(|()| {
            compare_arguments(current.queue_type.arguments(), &declare.arguments, &current.arguments)
        })
        .map_err(|(what, received, found)| Refusal::Inequivalent {
            kind: Kind::Queue,
            vhost: declare.vhost.clone(),
            name: declare.name.clone(),
            what,
            received,
            current: found,
        })
}

fn compare_flag(what: &'static str, received: bool, current: bool) -> Result<(), Difference> {
    if received == current { Ok(()) } else { Err((what, Compared::Flag(received), Compared::Flag(current))) }
}

fn compare_text(what: &'static str, received: &str, current: &str) -> Result<(), Difference> {
    if received == current {
        return Ok(());
    }
    Err((what, Compared::Text(received.into()), Compared::Text(current.into())))
}

fn compare_arguments(
    names: &[&'static str],
    received: &Arguments,
    current: &Arguments,
) -> Result<(), Difference> {
    if received == current {
        return Ok(());
    }
    for name in names {
        let (received, current) = (lookup(received, name), lookup(current, name));
        let same = match (received, current) {
            (Some(left), Some(right)) => values_equivalent(left, right),
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Err((name, compared(received), compared(current)));
        }
    }
    Ok(())
}

/// The value that takes part in the comparison: an absent queue type is classic (B64). `""` and `"undefined"` choose
/// the default type as well, but RabbitMQ 4.3 compares them as the words they are.
fn lookup<'a>(arguments: &'a Arguments, name: &str) -> Option<Value<'a>> {
    let default = (name == QUEUE_TYPE_ARGUMENT).then_some(Value::LongStr(b"classic"));
    arguments.as_table().get(name).or(default)
}

fn compared(value: Option<Value<'_>>) -> Compared {
    value.map_or(Compared::Absent, |value| Compared::Argument(ArgumentValue::new(value)))
}
