//! The rules of the type, as values that the machine goes by.

use crate::arguments::{Overflow, QueueConfig};
use crate::kind::Kind;

/// Messages have priorities from 0 to this.
pub const PRIORITY_MAX: u8 = 31;

/// Priority of a message that has none.
const PRIORITY_DEFAULT: u8 = 4;

/// A message that failed more often than this dies, unless the queue says otherwise (B152).
pub const DELIVERY_LIMIT: u64 = 20;

/// Longest delay of a retry without `x-delayed-retry-max`, milliseconds.
const RETRY_MS_MAX: u64 = 86_400_000;

/// The fate of dead letters that not all queues take (`x-dead-letter-strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Letters {
    /// They are published once, and gone.
    #[default]
    AtMostOnce,
    /// They are published until all queues have confirmed them.
    AtLeastOnce,
}

impl Letters {
    /// The meaning of a word.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Letters> {
        match name {
            b"at-most-once" => Some(Letters::AtMostOnce),
            b"at-least-once" => Some(Letters::AtLeastOnce),
            _ => None,
        }
    }
}

/// Which messages that came back are handed out later only (`x-delayed-retry-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetryOf {
    /// None.
    #[default]
    Disabled,
    /// All.
    All,
    /// Messages that failed.
    Failed,
    /// Messages that were given back without having failed.
    Returned,
}

impl RetryOf {
    /// The meaning of a word; unknown words have none.
    #[must_use]
    pub fn from_name(name: &[u8]) -> RetryOf {
        match name {
            b"all" => RetryOf::All,
            b"failed" => RetryOf::Failed,
            b"returned" => RetryOf::Returned,
            _ => RetryOf::Disabled,
        }
    }
}

/// When messages that came back are handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Which wait.
    pub of: RetryOf,
    /// `x-delayed-retry-min`, milliseconds: waited for each time that the message came back. Without it none waits.
    pub min_ms: Option<u64>,
    /// `x-delayed-retry-max`, milliseconds.
    pub max_ms: Option<u64>,
}

impl Retry {
    /// At once.
    pub const NONE: Retry = Retry { of: RetryOf::Disabled, min_ms: None, max_ms: None };

    /// How long a message waits that came back for the `count`th time, milliseconds.
    #[must_use]
    pub fn delay_ms(&self, has_failed: bool, count: u64) -> u64 {
        let waits = match self.of {
            RetryOf::Disabled => false,
            RetryOf::All => true,
            RetryOf::Failed => has_failed,
            RetryOf::Returned => !has_failed,
        };
        let Some(min_ms) = self.min_ms.filter(|_| waits) else { return 0 };
        min_ms.saturating_mul(count).min(self.max_ms.unwrap_or(RETRY_MS_MAX))
    }
}

/// The rules of a quorum queue that was declared without arguments.
pub(crate) fn rules() -> QueueConfig {
    QueueConfig {
        kind: Kind::Quorum,
        max_priority: PRIORITY_MAX,
        default_priority: PRIORITY_DEFAULT,
        keeps_all: true,
        counts_returns: true,
        yields_to_priority: true,
        delivery_limit: Some(DELIVERY_LIMIT),
        ..QueueConfig::default()
    }
}

/// As RabbitMQ reads settings that quorum queues do not have.
pub(crate) fn settle_rules(config: &mut QueueConfig) {
    // Accepted, and passed over: these queues do not dead-letter what they refuse.
    if config.overflow == Overflow::RejectPublishDlx {
        config.overflow = Overflow::DropHead;
    }
    // Letters that are to be kept until they are safe could not be dropped for room.
    if config.overflow != Overflow::RejectPublish {
        config.letters = Letters::AtMostOnce;
    }
}
