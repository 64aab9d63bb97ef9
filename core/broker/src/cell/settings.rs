//! Settings of a queue: its arguments, and the policies that apply to it. Of arguments only `x-expires` changes. Refuses to
//! know which policies there are.

use std::sync::Arc;

use message::{Table, Value};
use metadata::{PolicyValue, QueueRecord};
use queues::{Kind, Letters, Overflow, QueueConfig, RetryOf, age_ms};

use crate::cell::configs::Configs;
use crate::policies::AppliedPolicies;

/// Where dead letters go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetterTarget {
    pub(crate) exchange: Box<[u8]>,
    pub(crate) routing_key: Option<Box<[u8]>>,
}

/// Whether a queue goes by something else than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It must be told.
    Anew,
    /// It need not.
    AsBefore,
}

/// The settings of a queue, understood.
pub(crate) struct Terms {
    pub(crate) config: Arc<QueueConfig>,
    pub(super) dead_letter: Option<Box<DeadLetterTarget>>,
    pub(super) policies: AppliedPolicies,
    /// The metadata's record of the queue now, if it has changed since the queue is here.
    pub(super) changed: Option<Arc<QueueRecord>>,
}

impl Terms {
    /// `declared` is what the arguments say; policies are put beside it (B143).
    pub(crate) fn of(
        declared: QueueConfig,
        arguments: Table<'_>,
        policies: AppliedPolicies,
        configs: &Configs,
    ) -> Terms {
        let dead_letter = dead_letter_target(arguments, &policies);
        let config = if policies.is_empty() { declared } else { under(&declared, arguments, &policies) };
        let config = configs
            .share(QueueConfig { dead_letters: config.dead_letters || dead_letter.is_some(), ..config });
        Terms { config, dead_letter: dead_letter.map(Box::new), policies, changed: None }
    }
}

impl Terms {
    /// Bytes on the heap that no other queue shares.
    pub(super) fn heap_bytes(&self) -> usize {
        self.dead_letter.as_ref().map_or(0, |target| {
            let key = target.routing_key.as_ref().map_or(0, |key| key.len());
            size_of::<DeadLetterTarget>() + target.exchange.len() + key
        })
    }
}

/// The lower of two numbers; of words those of the arguments.
fn under(declared: &QueueConfig, arguments: Table<'_>, policies: &AppliedPolicies) -> QueueConfig {
    let lower = |declared: Option<u64>, name: &str| match (declared, policies.natural(name)) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let overflow = match policies.text("overflow").filter(|_| arguments.get("x-overflow").is_none()) {
        Some(word) => Overflow::from_name(word.as_bytes()).unwrap_or_default(),
        None => declared.overflow,
    };
    let mut config = QueueConfig {
        expires_ms: lower(declared.expires_ms, "expires"),
        message_ttl_ms: lower(declared.message_ttl_ms, "message-ttl"),
        max_length: lower(declared.max_length, "max-length"),
        max_length_bytes: lower(declared.max_length_bytes, "max-length-bytes"),
        overflow,
        ..declared.clone()
    };
    if config.kind == Kind::Stream {
        under_of_stream(&mut config, policies);
    }
    if config.kind == Kind::Quorum {
        under_of_quorum(&mut config, arguments, policies);
        config.settle_rules();
    }
    config
}

/// Settings of streams from policies. They stand above arguments.
fn under_of_stream(config: &mut QueueConfig, policies: &AppliedPolicies) {
    if let Some(bytes) = policies.natural("max-length-bytes") {
        config.max_length_bytes = Some(bytes);
    }
    if let Some(ms) = policies.text("max-age").and_then(|age| age_ms(age.as_bytes())) {
        config.stream.max_age_ms = Some(ms);
    }
    if let Some(bytes) = policies.natural("stream-max-segment-size-bytes") {
        config.stream.segment_bytes = Some(bytes);
    }
    let filter = policies.natural("stream-filter-size-bytes").and_then(|bytes| u8::try_from(bytes).ok());
    if let Some(bytes) = filter.filter(|bytes| *bytes >= 16) {
        config.stream.filter_bytes = Some(bytes);
    }
}

/// Settings that only policies of quorum queues have.
fn under_of_quorum(config: &mut QueueConfig, arguments: Table<'_>, policies: &AppliedPolicies) {
    let integer = |name| match policies.get(name) {
        Some(PolicyValue::Integer(number)) => Some(*number),
        _ => None,
    };
    if let Some(limit) = integer("delivery-limit") {
        let argument = arguments.get("x-delivery-limit").and_then(|value| value.as_i64());
        // The lower one, but no limit is what one of them says who has none.
        let both = match argument {
            Some(own) if own < 0 || limit < 0 => own.max(limit),
            Some(own) => own.min(limit),
            None => limit,
        };
        config.delivery_limit = u64::try_from(both).ok();
    }
    let word = |argument: &str, name| policies.text(name).filter(|_| arguments.get(argument).is_none());
    if let Some(word) = word("x-dead-letter-strategy", "dead-letter-strategy") {
        config.letters = Letters::from_name(word.as_bytes()).unwrap_or_default();
    }
    if let Some(word) = word("x-delayed-retry-type", "delayed-retry-type") {
        config.retry.of = RetryOf::from_name(word.as_bytes());
    }
    let positive = |name| policies.natural(name).filter(|ms| *ms > 0);
    config.retry.min_ms = config.retry.min_ms.or(positive("delayed-retry-min"));
    config.retry.max_ms = config.retry.max_ms.or(positive("delayed-retry-max"));
}

/// Of exchange and key each that of the arguments, else that of a policy.
fn dead_letter_target(arguments: Table<'_>, policies: &AppliedPolicies) -> Option<DeadLetterTarget> {
    let text = |argument: &str, name: &str| -> Option<Box<[u8]>> {
        match arguments.get(argument) {
            Some(Value::LongStr(text)) => Some(text.into()),
            _ => policies.text(name).map(|text| text.as_bytes().into()),
        }
    };
    let exchange = text("x-dead-letter-exchange", "dead-letter-exchange")?;
    let routing_key = text("x-dead-letter-routing-key", "dead-letter-routing-key");
    Some(DeadLetterTarget { exchange, routing_key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::TableBuf;

    #[test]
    fn a_queue_without_policies_goes_by_its_arguments() {
        let mut arguments = TableBuf::new();
        arguments.push_str("x-dead-letter-exchange", "x").push_i64("x-max-length", 3);
        let declared = QueueConfig { max_length: Some(3), dead_letters: true, ..QueueConfig::default() };
        let (table, nothing) = (arguments.as_table(), AppliedPolicies::default());
        let terms = Terms::of(declared.clone(), table, nothing, &Configs::default());
        assert_eq!(*terms.config, declared);
        let target = DeadLetterTarget { exchange: b"x".as_slice().into(), routing_key: None };
        assert_eq!(terms.dead_letter.as_deref(), Some(&target));
    }
}
