//! `x-delayed-message`: messages wait before they are routed by another type, the one in `x-delayed-type`. The waiting is the
//! broker's.

use message::{Table as Arguments, Value};

use crate::exchange_type::{ArgumentError, Duty, ExchangeType, TypeError};

pub(crate) const NAME: &str = "x-delayed-message";

/// Longest delay, milliseconds; more is none (README of the plugin, "Performance Impact").
const DELAY_MS_MAX: i64 = u32::MAX as i64;

/// How long these headers ask for a message to be held back, milliseconds, at least 1: `x-delay`, an integer of any width, a
/// float or digits. `None` for what is no number, not positive or beyond 2^32 - 1: such a message is routed at once.
#[must_use]
pub fn delay_ms(headers: Arguments<'_>) -> Option<u64> {
    let value = headers.get("x-delay")?;
    let number = match value {
        Value::LongStr(digits) => std::str::from_utf8(digits).ok()?.parse().ok()?,
        // A number that is not finite or too large becomes a number out of range, or 0.
        _ => value.as_i64().or_else(|| value.as_f64().map(|number| number as i64))?,
    };
    (1..=DELAY_MS_MAX).contains(&number).then_some(number.unsigned_abs())
}

/// The wrapped type must have no duty of its own: one exchange delays, and another behind it remembers.
pub(crate) fn parse(arguments: Arguments<'_>) -> Result<ExchangeType, TypeError> {
    let refused = TypeError::Argument(ArgumentError::DelayedType);
    let Some(Value::LongStr(inner)) = arguments.get("x-delayed-type") else { return Err(refused) };
    if inner == NAME.as_bytes() {
        return Err(TypeError::Argument(ArgumentError::DelayedItself));
    }
    match ExchangeType::parse(inner, arguments) {
        Ok(ExchangeType { kind, duty: Duty::Route }) => Ok(ExchangeType { kind, duty: Duty::Delay }),
        Ok(_) => Err(refused),
        Err(TypeError::Unknown) => Err(TypeError::UnknownInner(inner.into())),
        Err(other) => Err(other),
    }
}
