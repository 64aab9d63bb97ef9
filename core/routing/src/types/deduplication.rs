//! `x-message-deduplication`: a fanout that drops what it has seen. The remembering is the broker's.

use wire::amqp091::Table as Arguments;

use crate::ExchangeKind;
use crate::exchange_type::{ArgumentError, Duty, ExchangeType, TypeError, positive};

pub(crate) const NAME: &str = "x-message-deduplication";

pub(crate) fn parse(arguments: Arguments<'_>) -> Result<ExchangeType, TypeError> {
    let number = |name: &'static str| match arguments.get(name) {
        None => Ok(None),
        Some(value) => positive(value).map(Some).ok_or(ArgumentError::Cache(name)),
    };
    let value_count_max = number("x-cache-size")?.ok_or(ArgumentError::Cache("x-cache-size"))?;
    let ttl_ms = number("x-cache-ttl")?.map(u64::from);
    Ok(ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::Deduplicate { value_count_max, ttl_ms } })
}
