//! Exchange types as they are declared: from a type's name and the exchange's arguments to how its bindings are arranged and
//! what the broker does besides routing.
//!
//! Types that only add something around routing (remembering, delaying, dropping duplicates) have no table of their own:
//! they name the arrangement that they wrap. Refuses to know how the broker does those things.

use message::{Table as Arguments, Value};

use crate::ExchangeKind;
use crate::types::{consistent_hash, deduplication, delayed, recent_history};

/// The kind of a declared exchange, and its arguments understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeType {
    /// How bindings are arranged and matched.
    pub kind: ExchangeKind,
    /// The duty of the broker besides routing.
    pub duty: Duty,
}

/// The duty of an exchange besides routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    Route,
    /// Keeps the latest messages and gives them to each new binding (`x-recent-history`). Messages with the header
    /// `x-recent-history-no-store` set to true are not kept.
    KeepHistory {
        /// So many messages at most, at least 1.
        message_count_max: u32,
    },
    /// Holds each message back for as long as its header `x-delay` says (`x-delayed-message`).
    Delay,
    /// Drops a message whose header `x-deduplication-header` was seen before (`x-message-deduplication`).
    Deduplicate {
        /// So many header values are remembered, at least 1.
        value_count_max: u32,
        /// For so long; `None` is for ever.
        ttl_ms: Option<u64>,
        /// Whether they survive a restart.
        persistence: Persistence,
    },
}

/// Where an exchange keeps what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// In memory: a restart forgets.
    Memory,
    /// On disk, too.
    Disk,
}

/// Why an exchange cannot have these arguments; refused with 406 and this text by RabbitMQ and its plugins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// `hash-header` and `hash-property` together (B92).
    #[error("hash-header and hash-property are mutually exclusive")]
    HeaderAndProperty,
    /// `hash-property` is none of `message_id`, `correlation_id`, `timestamp` (B92).
    #[error("Unsupported property: {}", String::from_utf8_lossy(.0))]
    UnknownProperty(
        /// The value that was given.
        Box<[u8]>,
    ),
    /// `x-recent-history-length` is no positive integer.
    #[error("Invalid argument {0}, 'x-recent-history-length' must be a positive integer")]
    HistoryLength(
        /// The value, as RabbitMQ prints it.
        Box<str>,
    ),
    /// `x-delayed-type` is not there.
    #[error("Invalid argument, 'x-delayed-type' must be an existing exchange type")]
    DelayedType,
    /// `x-delayed-type` is the delaying type itself.
    #[error("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")]
    DelayedItself,
    /// `x-cache-size` is not there or no positive integer.
    #[error("Missing or invalid argument, 'x-cache-size' must be an integer greater than 0")]
    CacheSize,
    /// `x-cache-ttl` is no positive integer.
    #[error("Invalid argument, 'x-cache-ttl' must be an integer greater than 0")]
    CacheTtl,
    /// `x-cache-persistence` is neither of its two words.
    #[error("Invalid argument, 'x-cache-persistence' must be either 'disk' or 'memory'")]
    CachePersistence,
    /// An argument is of a type that it cannot have. RabbitMQ ends the connection with 541 here.
    #[error("invalid type '{received}' for arg '{argument}'")]
    Type {
        /// Which one.
        argument: &'static str,
        /// RabbitMQ's name of the type it has.
        received: &'static str,
    },
}

/// Why an exchange cannot be declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// There is no such type (B48).
    #[error("unknown exchange type")]
    Unknown,
    /// The type exists, and the one that it is to wrap does not.
    #[error("unknown exchange type")]
    UnknownInner(
        /// Its name.
        Box<[u8]>,
    ),
    /// The type does not take these arguments.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
}

/// Reads the arguments of a wrapping type.
type Wrap = fn(Arguments<'_>) -> Result<ExchangeType, TypeError>;

/// The types that wrap an arrangement.
const WRAPPING: &[(&str, Wrap)] = &[
    (recent_history::NAME, recent_history::parse),
    (delayed::NAME, delayed::parse),
    (deduplication::NAME, deduplication::parse),
];

impl ExchangeType {
    /// The type of that name, with what the arguments say.
    ///
    /// # Errors
    /// See [`TypeError`].
    pub fn parse(name: &[u8], arguments: Arguments<'_>) -> Result<Self, TypeError> {
        if let Some((_, wrap)) = WRAPPING.iter().find(|(other, _)| other.as_bytes() == name) {
            return wrap(arguments);
        }
        let kind = ExchangeKind::by_name(name).ok_or(TypeError::Unknown)?;
        if kind == ExchangeKind::ConsistentHash {
            consistent_hash::check_arguments(arguments)?;
        }
        Ok(Self { kind, duty: Duty::Route })
    }

    /// Names of all types, in no particular order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let wrapping = WRAPPING.iter().map(|(name, _)| *name);
        ExchangeKind::ALL.iter().map(|kind| kind.name()).chain(wrapping)
    }
}

impl From<ExchangeKind> for ExchangeType {
    fn from(kind: ExchangeKind) -> Self {
        Self { kind, duty: Duty::Route }
    }
}

/// A positive integer of 32 bits at most; larger ones are cut to that.
pub(crate) fn positive(value: Value<'_>) -> Option<u32> {
    let number = value.as_i64().filter(|&number| number > 0)?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use message::TableBuf;

    use super::*;

    fn parse(name: &str, arguments: &TableBuf) -> Result<ExchangeType, TypeError> {
        ExchangeType::parse(name.as_bytes(), arguments.as_table())
    }

    #[test]
    fn every_name_is_a_type_or_misses_an_argument() {
        for name in ExchangeType::names() {
            assert_ne!(parse(name, &TableBuf::new()), Err(TypeError::Unknown), "{name}");
        }
        assert_eq!(parse("x-foo", &TableBuf::new()), Err(TypeError::Unknown));
    }

    #[test]
    fn a_history_has_a_positive_length_and_routes_as_fanout() {
        let with = |value: Value<'_>| {
            let mut arguments = TableBuf::new();
            arguments.push("x-recent-history-length", value);
            parse("x-recent-history", &arguments)
        };
        let keeps = |message_count_max| {
            Ok(ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::KeepHistory { message_count_max } })
        };
        assert_eq!(parse("x-recent-history", &TableBuf::new()), keeps(20));
        assert_eq!(with(Value::I32(5)), keeps(5));
        for (value, shown) in
            [(Value::I32(0), "0"), (Value::I64(-1), "-1"), (Value::LongStr(b"5"), "<<\"5\">>")]
        {
            assert_eq!(with(value), Err(ArgumentError::HistoryLength(shown.into()).into()));
        }
    }

    #[test]
    fn a_delay_wraps_any_type_but_itself() {
        let with = |name: &str| {
            let mut arguments = TableBuf::new();
            arguments.push_str("x-delayed-type", name);
            parse("x-delayed-message", &arguments)
        };
        assert_eq!(with("topic"), Ok(ExchangeType { kind: ExchangeKind::Topic, duty: Duty::Delay }));
        assert_eq!(with("x-delayed-message"), Err(ArgumentError::DelayedItself.into()));
        assert_eq!(with("x-foo"), Err(TypeError::UnknownInner(b"x-foo"[..].into())));
        assert_eq!(with("x-recent-history"), Err(ArgumentError::DelayedType.into()));
        assert_eq!(parse("x-delayed-message", &TableBuf::new()), Err(ArgumentError::DelayedType.into()));
    }

    #[test]
    fn a_delay_is_a_number_that_is_positive_and_not_too_large() {
        let with = |value: Value<'_>| {
            let mut headers = TableBuf::new();
            headers.push("x-delay", value);
            crate::delay_ms(headers.as_table())
        };
        for five in [Value::I8(5), Value::U16(5), Value::I64(5), Value::F64(5.9), Value::LongStr(b"5")] {
            assert_eq!(with(five), Some(5), "{five:?}");
        }
        assert_eq!(with(Value::U32(u32::MAX)), Some(u64::from(u32::MAX)));
        for none in [
            Value::I32(0),
            Value::I32(-5),
            Value::I64(1 << 32),
            Value::F64(f64::NAN),
            Value::F64(1e300),
            Value::LongStr(b"soon"),
            Value::LongStr(b""),
            Value::Bool(true),
            Value::Timestamp(5),
        ] {
            assert_eq!(with(none), None, "{none:?}");
        }
        assert_eq!(crate::delay_ms(Arguments::EMPTY), None);
    }

    #[test]
    fn deduplication_needs_a_size() {
        let mut arguments = TableBuf::new();
        assert_eq!(parse("x-message-deduplication", &arguments), Err(ArgumentError::CacheSize.into()));
        arguments.push_str("x-cache-size", "100").push_i32("x-cache-ttl", 5000);
        let duty =
            Duty::Deduplicate { value_count_max: 100, ttl_ms: Some(5000), persistence: Persistence::Memory };
        assert_eq!(
            parse("x-message-deduplication", &arguments),
            Ok(ExchangeType { kind: ExchangeKind::Fanout, duty })
        );
    }
}
