//! `x-recent-history`: a fanout that remembers. Routing is the fanout's; the remembering is the broker's.

use message::{Table as Arguments, Value};

use crate::ExchangeKind;
use crate::exchange_type::{ArgumentError, Duty, ExchangeType, TypeError, positive};

pub(crate) const NAME: &str = "x-recent-history";

/// Messages kept when the declaration does not say.
const MESSAGE_COUNT: u32 = 20;

pub(crate) fn parse(arguments: Arguments<'_>) -> Result<ExchangeType, TypeError> {
    let message_count_max = match arguments.get("x-recent-history-length") {
        None => MESSAGE_COUNT,
        Some(value) => positive(value).ok_or_else(|| ArgumentError::HistoryLength(shown(value)))?,
    };
    Ok(ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::KeepHistory { message_count_max } })
}

/// As RabbitMQ prints it, for the types that people send by mistake.
fn shown(value: Value<'_>) -> Box<str> {
    match (value, value.as_i64()) {
        (_, Some(number)) => number.to_string().into(),
        (Value::LongStr(text), _) => format!("<<{:?}>>", String::from_utf8_lossy(text)).into(),
        (Value::Bool(flag), _) => flag.to_string().into(),
        (Value::Void, _) => "undefined".into(),
        (other, _) => other.type_name().into(),
    }
}
