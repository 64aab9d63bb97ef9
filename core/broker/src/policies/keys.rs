//! The settings that policies may have: one table of names, what values are valid, who may set them, how those of users and
//! operators merge, and which types of queues do not know them. As RabbitMQ 4.3.6 has them.

use metadata::{PolicyValue, QueueType};

/// The way to merge a setting that a policy and an operator policy both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Operators cannot set it.
    UserOnly,
    /// The lower number.
    Lower,
    /// The higher number.
    Higher,
    /// The operator's.
    Operator,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKey {
    /// Its name.
    pub name: &'static str,
    /// The words for an invalid value, behind `is not a valid`.
    pub words: &'static str,
    /// Whether a value is valid.
    pub is_valid: fn(&PolicyValue) -> bool,
    /// The way to merge two values.
    pub merge: Merge,
    /// Types of queues to which a policy with it does not apply: one with a setting that they do not know is passed over as if its
    /// pattern did not match.
    pub unknown_to: &'static [QueueType],
}

impl PolicyKey {
    /// Whether it may be this number.
    #[must_use]
    pub fn takes(&self, number: i64) -> bool {
        (self.is_valid)(&PolicyValue::Integer(number))
    }
}

/// The setting of that name.
#[must_use]
pub fn policy_key(name: &str) -> Option<&'static PolicyKey> {
    KEYS.iter().find(|key| key.name == name)
}

fn natural(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Integer(0..))
}

fn positive(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Integer(1..))
}

fn integer(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Integer(_))
}

fn text(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Text(_))
}

fn version(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Integer(1 | 2))
}

fn segment_size(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Integer(0..=3_000_000_000))
}

fn filter_size(value: &PolicyValue) -> bool {
    matches!(value, PolicyValue::Integer(16..=255))
}

fn word(value: &PolicyValue, words: &[&str]) -> bool {
    matches!(value, PolicyValue::Text(text) if words.contains(&&**text))
}

fn overflow(value: &PolicyValue) -> bool {
    word(value, &["drop-head", "reject-publish", "reject-publish-dlx"])
}

fn mode(value: &PolicyValue) -> bool {
    word(value, &["default", "lazy"])
}

fn strategy(value: &PolicyValue) -> bool {
    word(value, &["at-most-once", "at-least-once"])
}

fn locator(value: &PolicyValue) -> bool {
    word(value, &["client-local", "balanced", "random", "least-leaders"])
}

fn retry_type(value: &PolicyValue) -> bool {
    word(value, &["all", "failed", "returned", "disabled"])
}

/// A whole number and one of Y, M, D, h, m, s.
fn age(value: &PolicyValue) -> bool {
    let PolicyValue::Text(text) = value else { return false };
    let digits = text.trim_end_matches(['Y', 'M', 'D', 'h', 'm', 's']);
    !digits.is_empty() && digits.len() + 1 == text.len() && digits.bytes().all(|it| it.is_ascii_digit())
}

const fn key(
    name: &'static str,
    words: &'static str,
    is_valid: fn(&PolicyValue) -> bool,
    merge: Merge,
) -> PolicyKey {
    PolicyKey { name, words, is_valid, merge, unknown_to: &[] }
}

/// A setting that classic queues do not know.
const fn of_others(
    name: &'static str,
    words: &'static str,
    is_valid: fn(&PolicyValue) -> bool,
    merge: Merge,
) -> PolicyKey {
    PolicyKey { name, words, is_valid, merge, unknown_to: &[QueueType::Classic] }
}

/// A setting that only streams know.
const fn of_streams(
    name: &'static str,
    words: &'static str,
    is_valid: fn(&PolicyValue) -> bool,
    merge: Merge,
) -> PolicyKey {
    PolicyKey { name, words, is_valid, merge, unknown_to: &[QueueType::Classic, QueueType::Quorum] }
}

/// A setting that quorum queues do not know.
const fn of_classic(
    name: &'static str,
    words: &'static str,
    is_valid: fn(&PolicyValue) -> bool,
    merge: Merge,
) -> PolicyKey {
    PolicyKey { name, words, is_valid, merge, unknown_to: &[QueueType::Quorum] }
}

/// All of them.
pub const KEYS: &[PolicyKey] = &[
    key("alternate-exchange", "alternate exchange name", text, Merge::UserOnly),
    key("consumer-disconnected-timeout", "consumer disconnected timeout", natural, Merge::UserOnly),
    key("consumer-timeout", "consumer timeout", natural, Merge::UserOnly),
    key("dead-letter-exchange", "dead letter exchange name", text, Merge::UserOnly),
    key("dead-letter-routing-key", "dead letter routing key", text, Merge::UserOnly),
    of_others("dead-letter-strategy", "dead letter strategy", strategy, Merge::UserOnly),
    key(
        "delayed-retry-max",
        "delayed retry maximum delay. Must be a positive integer",
        positive,
        Merge::Lower,
    ),
    key(
        "delayed-retry-min",
        "delayed retry minimum delay. Must be a positive integer",
        positive,
        Merge::Higher,
    ),
    key(
        "delayed-retry-type",
        "delayed retry type. Must be one of: all, failed, returned, disabled",
        retry_type,
        Merge::Operator,
    ),
    of_others("delivery-limit", "delivery limit", integer, Merge::Lower),
    key("expires", "queue expiry", positive, Merge::Lower),
    of_streams("initial-cluster-size", "cluster size", natural, Merge::UserOnly),
    of_streams("max-age", "max age", age, Merge::UserOnly),
    of_others("max-in-memory-bytes", "maximum memory in bytes", natural, Merge::Lower),
    of_others("max-in-memory-length", "maximum memory in bytes", natural, Merge::Lower),
    key("max-length", "maximum length", natural, Merge::Lower),
    key("max-length-bytes", "maximum length in bytes", natural, Merge::Lower),
    key("message-ttl", "message TTL", natural, Merge::Lower),
    key("overflow", "overflow value", overflow, Merge::Operator),
    key("queue-leader-locator", "queue leader locator value", locator, Merge::UserOnly),
    of_classic("queue-mode", "queue-mode value", mode, Merge::UserOnly),
    key("queue-version", "queue-version value", version, Merge::Operator),
    key("stream-filter-size-bytes", "filter size. Valid range is 16-255", filter_size, Merge::UserOnly),
    of_streams("stream-max-segment-size-bytes", "segment size", segment_size, Merge::UserOnly),
    of_others("target-group-size", "qq target count value", positive, Merge::Higher),
];

/// Settings that are checked and kept, and change nothing: in RabbitMQ 4 these do little or nothing, too.
pub const WITHOUT_EFFECT: &[&str] =
    &["max-in-memory-bytes", "max-in-memory-length", "queue-leader-locator", "queue-mode", "queue-version"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_stands_once_and_in_order() {
        assert!(KEYS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(WITHOUT_EFFECT.iter().all(|name| policy_key(name).is_some()));
    }

    #[test]
    fn an_age_is_a_number_and_a_unit() {
        let is_age = |text: &str| age(&PolicyValue::Text(text.into()));
        assert!(is_age("10D") && is_age("1Y") && is_age("1s"));
        assert!(["", "5", "D", "1x", "-1D", "1.5D", "1DD"].iter().all(|text| !is_age(text)));
    }
}
