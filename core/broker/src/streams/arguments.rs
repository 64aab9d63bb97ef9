//! Arguments of a consumer: where it begins, and its filter.

use std::sync::Arc;

use message::{Table, Value};
use queues::{ArgumentError, ArgumentReason, ConsumerSpec, Kind, age_ms};
use streamlog::{ChunkFilter, Seek};

/// Where a consumer begins, and the first offset that it wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) seek: Seek,
    /// Messages before it are passed over.
    pub(super) first: u64,
    pub(super) filter: Option<Arc<ChunkFilter>>,
}

/// Reads the arguments. `now_ms` is what periods are counted back from.
pub(super) fn wanted(arguments: Table<'_>, now_ms: u64) -> Result<Wanted, ArgumentError> {
    let (seek, first) = offset(arguments, now_ms)?;
    Ok(Wanted { seek, first, filter: filter(arguments) })
}

fn offset(arguments: Table<'_>, now_ms: u64) -> Result<(Seek, u64), ArgumentError> {
    let refuse = |value: &str| {
        let reason = ArgumentReason::Term(format!("{{invalid_stream_offset_arg,{value}}}").into());
        Err(ArgumentError { name: "x-stream-offset".into(), reason })
    };
    let millis = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let seek = match arguments.get("x-stream-offset") {
        None => Seek::Next,
        Some(Value::LongStr(b"first")) => Seek::First,
        Some(Value::LongStr(b"last")) => Seek::Last,
        Some(Value::LongStr(b"next")) => Seek::Next,
        Some(Value::LongStr(text)) => match age_ms(text) {
            Some(ms) => Seek::Timestamp(millis(now_ms.saturating_sub(ms))),
            None => {
                let text = String::from_utf8_lossy(text);
                return refuse(&format!("{{longstr,<<\"{text}\">>}}"));
            }
        },
        Some(Value::Timestamp(seconds)) => Seek::Timestamp(millis(seconds.saturating_mul(1000))),
        Some(value) => match value.as_i64() {
            // An offset before the first one is the first one.
            Some(offset) => Seek::Offset(u64::try_from(offset).unwrap_or(0)),
            None => return refuse(value.type_name()),
        },
    };
    let first = if let Seek::Offset(first) = seek { first } else { 0 };
    Ok((seek, first))
}

/// `x-stream-filter`: a text, or several; other values are passed over.
fn filter(arguments: Table<'_>) -> Option<Arc<ChunkFilter>> {
    let text = |value: &Value<'_>| match value {
        Value::LongStr(text) => Some(Box::from(*text)),
        _ => None,
    };
    let values: Vec<Box<[u8]>> = match arguments.get("x-stream-filter")? {
        Value::Array(all) => all.iter().filter_map(|value| text(&value)).collect(),
        value => text(&value).into_iter().collect(),
    };
    let match_unfiltered = arguments.get("x-stream-match-unfiltered") == Some(Value::Bool(true));
    (!values.is_empty()).then(|| Arc::new(ChunkFilter { values, match_unfiltered }))
}

/// Why a stream takes no such consumer.
#[derive(Debug)]
pub(crate) enum ConsumerRefusal {
    /// It does not acknowledge.
    NoAck,
    /// It has no prefetch.
    NoPrefetch,
    /// An argument makes no sense here.
    Argument(ArgumentError),
}

/// Refuses what streams do not have, as RabbitMQ does and in its order. Links of AMQP 1.0 need no prefetch and may get deliveries settled;
/// RabbitMQ passes over a priority that they have.
///
/// # Errors
/// See there.
pub(crate) fn check(spec: &ConsumerSpec, now_ms: u64) -> Result<(), ConsumerRefusal> {
    let arguments = Table::from_raw(&spec.arguments);
    if spec.by_credit {
        return wanted(arguments, now_ms).map(drop).map_err(ConsumerRefusal::Argument);
    }
    if !spec.ack_required {
        return Err(ConsumerRefusal::NoAck);
    }
    if spec.prefetch == 0 {
        return Err(ConsumerRefusal::NoPrefetch);
    }
    for name in ["x-priority", "x-consumer-timeout"] {
        if arguments.get(name).is_some() {
            let reason = ArgumentReason::OtherQueueType(Kind::Stream);
            return Err(ConsumerRefusal::Argument(ArgumentError { name: name.into(), reason }));
        }
    }
    wanted(arguments, now_ms).map(drop).map_err(ConsumerRefusal::Argument)
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::TableBuf;

    fn of(value: Value<'_>) -> Result<(Seek, u64), ArgumentError> {
        let mut arguments = TableBuf::new();
        arguments.push("x-stream-offset", value);
        let wanted = wanted(arguments.as_table(), 1_000_000)?;
        Ok((wanted.seek, wanted.first))
    }

    #[test]
    fn all_forms_of_an_offset_are_read() {
        assert_eq!(of(Value::LongStr(b"first")).unwrap(), (Seek::First, 0));
        assert_eq!(of(Value::LongStr(b"last")).unwrap(), (Seek::Last, 0));
        assert_eq!(of(Value::LongStr(b"next")).unwrap(), (Seek::Next, 0));
        assert_eq!(of(Value::I64(7)).unwrap(), (Seek::Offset(7), 7));
        assert_eq!(of(Value::I8(-7)).unwrap(), (Seek::Offset(0), 0));
        assert_eq!(of(Value::Timestamp(5)).unwrap(), (Seek::Timestamp(5000), 0));
        assert_eq!(of(Value::LongStr(b"5m")).unwrap(), (Seek::Timestamp(700_000), 0));
        assert!(of(Value::LongStr(b"foo")).is_err() && of(Value::Bool(true)).is_err());
        assert_eq!(wanted(TableBuf::new().as_table(), 0).unwrap().seek, Seek::Next);
    }
}
