//! `x-delayed-message`: messages wait before they are routed by another type, the one in `x-delayed-type`. The waiting is the
//! broker's.

use wire::amqp091::{Table as Arguments, Value};

use crate::exchange_type::{ArgumentError, Duty, ExchangeType, TypeError};

pub(crate) const NAME: &str = "x-delayed-message";

/// The wrapped type must have no duty of its own: one exchange delays, and another behind it remembers.
pub(crate) fn parse(arguments: Arguments<'_>) -> Result<ExchangeType, TypeError> {
    let refused = TypeError::Argument(ArgumentError::DelayedType);
    let Some(Value::LongStr(inner)) = arguments.get("x-delayed-type") else { return Err(refused) };
    if inner == NAME.as_bytes() {
        return Err(refused);
    }
    match ExchangeType::parse(inner, arguments) {
        Ok(ExchangeType { kind, duty: Duty::Route }) => Ok(ExchangeType { kind, duty: Duty::Delay }),
        Ok(_) | Err(TypeError::Unknown) => Err(refused),
        Err(other) => Err(other),
    }
}
