//! Arguments of queues: their meaning, and their refusals (B68, B72, B73, B76).

use message::{MessageView, Table, Value};

use crate::kind::Kind;
use crate::quorum::{self, Letters, Retry, RetryOf};
use crate::stream::{self, StreamRules};

/// An argument that cannot be accepted, with the data of RabbitMQ's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentError {
    /// The argument's name, such as `x-message-ttl`.
    pub name: Box<str>,
    /// Why.
    pub reason: ArgumentReason,
}

/// Why an argument is refused; the comment gives the text behind `invalid arg 'x' for queue 'q' in vhost '/'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentReason {
    /// `: {value_negative,-1}`
    Negative(i64),
    /// `: {value_zero,0}`
    Zero,
    /// `: {value_too_large,N}`
    TooLarge(i64),
    /// `: {max_value_exceeded,N}`
    MaxExceeded(i64),
    /// `: {unacceptable_type,longstr}`
    UnacceptableType(&'static str),
    /// `: "expected integer, got longstr"`
    ExpectedInteger(&'static str),
    /// `: invalid_overflow` and the like: an atom.
    Atom(&'static str),
    /// `: "unsupported queue version '3'"`: a text in quotes
    Text(Box<str>),
    /// `: {invalid_stream_offset_arg,...}` and the like: an Erlang term.
    Term(Box<str>),
    /// A text that is all there is.
    Plain(Box<str>),
    /// ` of queue type rabbit_classic_queue` (B73): the type that does not know it.
    OtherQueueType(Kind),
}

/// The action when a length limit is reached (`x-overflow`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Drop from the head, dead-lettering with `maxlen`.
    #[default]
    DropHead,
    /// Refuse the publish (basic.nack).
    RejectPublish,
    /// Refuse the publish and dead-letter it.
    RejectPublishDlx,
}

impl Overflow {
    /// The action that a word stands for.
    pub fn from_name(name: &[u8]) -> Option<Overflow> {
        match name {
            b"drop-head" => Some(Overflow::DropHead),
            b"reject-publish" => Some(Overflow::RejectPublish),
            b"reject-publish-dlx" => Some(Overflow::RejectPublishDlx),
            _ => None,
        }
    }
}

/// The arguments that a queue was declared with, understood, and the rules of its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueConfig {
    /// The type. Machines go by the rules below, not by this.
    pub kind: Kind,
    /// Survives a restart; its persistent messages are logged.
    pub durable: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// `x-expires`: unused time after which the queue goes, milliseconds.
    pub expires_ms: Option<u64>,
    /// `x-message-ttl`, milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// `x-max-length`: ready messages.
    pub max_length: Option<u64>,
    /// `x-max-length-bytes`: bytes of ready bodies.
    pub max_length_bytes: Option<u64>,
    /// `x-overflow`.
    pub overflow: Overflow,
    /// `x-max-priority`; 0 is a queue without priorities. Greater priorities count as this one.
    pub max_priority: u8,
    /// Priority of messages that have none.
    pub default_priority: u8,
    /// `x-single-active-consumer`.
    pub single_active: bool,
    /// A dead-letter exchange is set: dead messages are handed out rather than dropped.
    pub dead_letters: bool,
    /// Bytes of message data kept in memory before blocks go to disk.
    pub memory_bytes_max: usize,
    /// `x-message-deduplication`: a repetition of a message that is in the queue is dropped.
    pub deduplicates: bool,
    /// All messages survive a restart, whatever their delivery mode.
    pub keeps_all: bool,
    /// It counts how often messages came back, and hands those out before all others, in the order in which they came back (B161). Else they
    /// go back to where they were.
    pub counts_returns: bool,
    /// `x-delivery-limit`: a message that failed more often dies (B152). Counts only with `counts_returns`.
    pub delivery_limit: Option<u64>,
    /// A single active consumer makes way for one of higher priority once it has no deliveries left (B134).
    pub yields_to_priority: bool,
    /// The way of letters that nobody takes.
    pub letters: Letters,
    /// When messages that came back are handed out again.
    pub retry: Retry,
    /// Settings that only streams have.
    pub stream: StreamRules,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig {
            kind: Kind::Classic,
            durable: false,
            auto_delete: false,
            expires_ms: None,
            message_ttl_ms: None,
            max_length: None,
            max_length_bytes: None,
            overflow: Overflow::DropHead,
            max_priority: 0,
            default_priority: 0,
            single_active: false,
            dead_letters: false,
            memory_bytes_max: 4 << 20,
            deduplicates: false,
            keeps_all: false,
            counts_returns: false,
            yields_to_priority: false,
            delivery_limit: None,
            letters: Letters::AtMostOnce,
            retry: Retry::NONE,
            stream: StreamRules::default(),
        }
    }
}

/// Longest time to live or expiry, milliseconds: ten years, as RabbitMQ's timers allow.
pub const TIMER_MS_MAX: i64 = 315_360_000_000;

/// Arguments that some queue type knows: refused rather than ignored by the others (B73).
const OF_SOME_TYPE: &[&str] = &[
    "x-max-priority",
    "x-queue-mode",
    "x-queue-version",
    "x-queue-master-locator",
    "x-dead-letter-strategy",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-overflow",
    "x-single-active-consumer",
];

fn refused(name: &str, reason: ArgumentReason) -> ArgumentError {
    ArgumentError { name: name.into(), reason }
}

/// An argument as an integer, whatever its width (B63).
fn integer(name: &str, value: &Value<'_>) -> Result<i64, ArgumentError> {
    match *value {
        Value::I8(n) => Ok(n.into()),
        Value::U8(n) => Ok(n.into()),
        Value::I16(n) => Ok(n.into()),
        Value::U16(n) => Ok(n.into()),
        Value::I32(n) => Ok(n.into()),
        Value::U32(n) => Ok(n.into()),
        Value::I64(n) => Ok(n),
        ref other => Err(refused(name, ArgumentReason::ExpectedInteger(other.type_name()))),
    }
}

fn natural(name: &str, value: &Value<'_>) -> Result<i64, ArgumentError> {
    match integer(name, value)? {
        n if n < 0 => Err(refused(name, ArgumentReason::Negative(n))),
        n => Ok(n),
    }
}

fn timer(name: &str, value: &Value<'_>) -> Result<u64, ArgumentError> {
    match natural(name, value)? {
        n if n > TIMER_MS_MAX => Err(refused(name, ArgumentReason::TooLarge(n))),
        n => Ok(n as u64),
    }
}

fn text<'a>(name: &str, value: &Value<'a>) -> Result<&'a [u8], ArgumentError> {
    match value {
        Value::LongStr(text) => Ok(text),
        other => Err(refused(name, ArgumentReason::UnacceptableType(other.type_name()))),
    }
}

fn one_of(
    name: &str,
    value: &Value<'_>,
    allowed: &[&[u8]],
    otherwise: &'static str,
) -> Result<(), ArgumentError> {
    match allowed.contains(&text(name, value)?) {
        true => Ok(()),
        false => Err(refused(name, ArgumentReason::Atom(otherwise))),
    }
}

impl QueueConfig {
    /// Reads the arguments of a queue of a type, refusing as RabbitMQ does. `known` are the names that queues of the type know, in
    /// the order in which they are checked (the metadata have them, because redeclarations compare in that order too).
    /// Other arguments are ignored.
    ///
    /// # Errors
    /// The first argument that makes no sense, or that only queues of other types know.
    pub fn from_arguments(
        kind: Kind,
        arguments: Table<'_>,
        known: &[&str],
    ) -> Result<QueueConfig, ArgumentError> {
        let mut config = kind.rules();
        // RabbitMQ's plugin neither checks its type nor compares it.
        config.deduplicates = arguments.get("x-message-deduplication") == Some(Value::Bool(true));
        for name in known {
            if let Some(value) = arguments.get(name) {
                config.read(name, &value, arguments)?;
            }
        }
        for name in OF_SOME_TYPE.iter().filter(|name| !known.contains(name)) {
            if arguments.get(name).is_some() {
                return Err(refused(name, ArgumentReason::OtherQueueType(kind)));
            }
        }
        config.settle_rules();
        Ok(config)
    }

    /// Rules that follow from several settings. Called after the settings have changed.
    pub fn settle_rules(&mut self) {
        if self.kind == Kind::Quorum {
            quorum::settle_rules(self);
        }
    }

    /// The level of a message with that priority, 0 when its properties have none.
    #[inline]
    pub(crate) fn level_of(&self, priority: u8, message: &MessageView<'_>) -> usize {
        let default = self.default_priority;
        let is_absent = priority == 0 && default > 0 && message.priority().is_none();
        usize::from(if is_absent { default } else { priority.min(self.max_priority) })
    }

    fn read(&mut self, name: &str, value: &Value<'_>, all: Table<'_>) -> Result<(), ArgumentError> {
        match name {
            "x-expires" => match timer(name, value)? {
                0 => return Err(refused(name, ArgumentReason::Zero)),
                ms => self.expires_ms = Some(ms),
            },
            "x-message-ttl" => self.message_ttl_ms = Some(timer(name, value)?),
            "x-dead-letter-exchange" => {
                text(name, value)?;
                self.dead_letters = true;
            }
            "x-dead-letter-routing-key" => {
                text(name, value)?;
                if all.get("x-dead-letter-exchange").is_none() {
                    return Err(refused(name, ArgumentReason::Atom("routing_key_but_no_dlx_defined")));
                }
            }
            "x-max-length" => self.max_length = Some(natural(name, value)? as u64),
            "x-max-length-bytes" => self.max_length_bytes = Some(natural(name, value)? as u64),
            "x-max-priority" => match natural(name, value)? {
                n if n > 255 => return Err(refused(name, ArgumentReason::MaxExceeded(n))),
                n => self.max_priority = n as u8,
            },
            "x-overflow" => {
                let overflow = Overflow::from_name(text(name, value)?);
                self.overflow =
                    overflow.ok_or_else(|| refused(name, ArgumentReason::Atom("invalid_overflow")))?;
            }
            // Not checked since RabbitMQ 4.
            "x-queue-mode" => {
                text(name, value)?;
            }
            "x-queue-leader-locator" => {
                let words: &[&[u8]] = &[b"client-local", b"balanced", b"random", b"least-leaders"];
                one_of(name, value, words, "invalid_queue_locator_arg")?;
            }
            "x-queue-version" => match natural(name, value)? {
                2 => {}
                n => {
                    return Err(refused(
                        name,
                        ArgumentReason::Text(format!("unsupported queue version '{n}'").into()),
                    ));
                }
            },
            "x-max-age"
            | "x-stream-max-segment-size-bytes"
            | "x-stream-filter-size-bytes"
            | "x-initial-cluster-size" => {
                stream::read(&mut self.stream, name, value, || natural(name, value))?;
            }
            "x-single-active-consumer" => match value {
                Value::Bool(on) => self.single_active = *on,
                other => return Err(refused(name, ArgumentReason::UnacceptableType(other.type_name()))),
            },
            _ => return self.read_of_quorum(name, value),
        }
        Ok(())
    }

    /// Reads arguments that only quorum queues know.
    fn read_of_quorum(&mut self, name: &str, value: &Value<'_>) -> Result<(), ArgumentError> {
        match name {
            "x-dead-letter-strategy" => {
                let letters = Letters::from_name(text(name, value)?);
                self.letters =
                    letters.ok_or_else(|| refused(name, ArgumentReason::Atom("invalid_dlx_strategy")))?;
            }
            "x-quorum-initial-group-size" => {
                if natural(name, value)? == 0 {
                    return Err(refused(name, ArgumentReason::Zero));
                }
            }
            "x-max-in-memory-length"
            | "x-max-in-memory-bytes"
            | "x-consumer-timeout"
            | "x-consumer-disconnected-timeout" => {
                natural(name, value)?;
            }
            // RabbitMQ checks neither type nor value of these, and passes over what makes no sense.
            "x-delivery-limit" => {
                if let Ok(limit) = integer(name, value) {
                    self.delivery_limit = u64::try_from(limit).ok();
                }
            }
            "x-delayed-retry-type" => {
                if let Value::LongStr(word) = value {
                    self.retry.of = RetryOf::from_name(word);
                }
            }
            "x-delayed-retry-min" => self.retry.min_ms = positive(value),
            "x-delayed-retry-max" => self.retry.max_ms = positive(value),
            _ => {
                text(name, value)?;
            }
        }
        Ok(())
    }
}

/// A number above 0; `None` for anything else.
fn positive(value: &Value<'_>) -> Option<u64> {
    let number = integer("", value).ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::TableBuf;

    #[test]
    fn arguments_are_checked_in_the_order_given_and_foreign_ones_are_refused_last() {
        let mut arguments = TableBuf::new();
        arguments.push_i64("x-max-length", -1).push_i64("x-expires", 0).push_i64("x-delivery-limit", 3);
        let refused = |known: &[&str]| {
            QueueConfig::from_arguments(Kind::Classic, arguments.as_table(), known).unwrap_err()
        };
        assert_eq!(refused(&["x-expires", "x-max-length"]).reason, ArgumentReason::Zero);
        assert_eq!(refused(&["x-max-length", "x-expires"]).reason, ArgumentReason::Negative(-1));
        assert_eq!(refused(&[]).reason, ArgumentReason::OtherQueueType(Kind::Classic));
    }
}
