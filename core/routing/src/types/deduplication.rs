//! `x-message-deduplication`: a fanout that drops what it has seen. The remembering is the broker's.

use message::{Table as Arguments, Value};

use crate::ExchangeKind;
use crate::exchange_type::{ArgumentError, Duty, ExchangeType, Persistence, TypeError, positive};

pub(crate) const NAME: &str = "x-message-deduplication";

pub(crate) fn parse(arguments: Arguments<'_>) -> Result<ExchangeType, TypeError> {
    let number = |name| arguments.get(name).map(positive_or_digits);
    let value_count_max = number("x-cache-size").flatten().ok_or(ArgumentError::CacheSize)?;
    let ttl_ms = match number("x-cache-ttl") {
        None => None,
        Some(ttl) => Some(u64::from(ttl.ok_or(ArgumentError::CacheTtl)?)),
    };
    let persistence = match arguments.get("x-cache-persistence") {
        None | Some(Value::LongStr(b"memory")) => Persistence::Memory,
        Some(Value::LongStr(b"disk")) => Persistence::Disk,
        Some(_) => return Err(ArgumentError::CachePersistence.into()),
    };
    let duty = Duty::Deduplicate { value_count_max, ttl_ms, persistence };
    Ok(ExchangeType { kind: ExchangeKind::Fanout, duty })
}

/// The plugin takes numbers as text, too: policies and tools send them so.
fn positive_or_digits(value: Value<'_>) -> Option<u32> {
    match value {
        Value::LongStr(digits) => {
            std::str::from_utf8(digits).ok()?.parse().ok().map(Value::I64).and_then(positive)
        }
        other => positive(other),
    }
}
