//! Arguments of queues and consumers that a shovel makes, judged before it is recorded: a mistake is told to its author, not
//! to the log. Texts are RabbitMQ's. Refuses to know what the queue at the other end is: arguments of any queue type may be.

use ::queues::{ArgumentError, ArgumentReason};
use broker::queue_config;
use metadata::QueueType;
use serde_json::{Map, Value};

use super::checks::term;
use crate::resources::values::raw_table;

/// Arguments of a queue as a raw AMQP table.
pub(super) fn of_queue(key: &str, object: &Map<String, Value>) -> Result<Vec<u8>, String> {
    let table = read(key, object)?;
    let mut queue_type = QueueType::Classic;
    if let Some(Value::String(kind)) = object.get("x-queue-type") {
        queue_type = QueueType::from_name(kind.as_bytes())
            .ok_or_else(|| invalid(key, "x-queue-type", &format!("\"unsupported queue type '{kind}'\"")))?;
    }
    match queue_config(queue_type, broker_table(&table)) {
        Err(ArgumentError { reason: ArgumentReason::OtherQueueType(_), .. }) | Ok(_) => Ok(table),
        Err(error) => Err(invalid(key, &error.name, &reason(&error.reason))),
    }
}

/// Arguments of a consumer as a raw AMQP table.
pub(super) fn of_consumer(key: &str, object: &Map<String, Value>) -> Result<Vec<u8>, String> {
    let table = read(key, object)?;
    if let Some(value) = object.get("x-priority").filter(|value| !value.is_i64()) {
        return Err(invalid(key, "x-priority", &format!("\"expected integer, got {}\"", kind(value))));
    }
    if let Some(Value::String(text)) = object.get("x-stream-offset").filter(|value| !is_offset(value)) {
        let given = format!("{{invalid_stream_offset_arg,{{longstr,{}}}}}", term(&text.as_str().into()));
        return Err(invalid(key, "x-stream-offset", &given));
    }
    Ok(table)
}

fn read(key: &str, object: &Map<String, Value>) -> Result<Vec<u8>, String> {
    if let Some((name, _)) = object.iter().find(|(_, value)| has_null(value)) {
        return Err(invalid(key, name, "null_not_allowed"));
    }
    raw_table(object).map(wire::amqp091::TableBuf::into_raw).map_err(|problem| format!("{key}: {problem}"))
}

fn broker_table(raw: &[u8]) -> wire::amqp091::Table<'_> {
    wire::amqp091::Table::from_raw(raw)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_null),
        Value::Object(object) => object.values().any(has_null),
        _ => false,
    }
}

fn invalid(key: &str, name: &str, reason: &str) -> String {
    format!("invalid arg '{name}' in {key}: {reason}")
}

/// RabbitMQ's name of the type in which a value arrives.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "longstr",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Object(_) => "table",
        Value::Number(_) => "double",
        Value::Null => "void",
    }
}

/// `first`, `last`, `next`, a number, or an interval such as `2h`.
fn is_offset(value: &Value) -> bool {
    let Value::String(text) = value else { return true };
    let is_interval = || {
        let (count, unit) = text.split_at(text.len().saturating_sub(1));
        !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()) && "YMDhms".contains(unit)
    };
    ["first", "last", "next"].contains(&text.as_str()) || (text.is_ascii() && is_interval())
}

/// Why an argument is refused, as RabbitMQ's terms.
pub(crate) fn reason(reason: &ArgumentReason) -> String {
    match reason {
        ArgumentReason::Negative(value) => format!("{{value_negative,{value}}}"),
        ArgumentReason::Zero => "{value_zero,0}".into(),
        ArgumentReason::TooLarge(value) => format!("{{value_too_large,{value}}}"),
        ArgumentReason::MaxExceeded(value) => format!("{{max_value_exceeded,{value}}}"),
        ArgumentReason::UnacceptableType(kind) => format!("{{unacceptable_type,{kind}}}"),
        ArgumentReason::ExpectedInteger(kind) => format!("\"expected integer, got {kind}\""),
        ArgumentReason::Atom(atom) => (*atom).into(),
        ArgumentReason::Text(text) => format!("\"{text}\""),
        ArgumentReason::Term(text) | ArgumentReason::Plain(text) => text.to_string(),
        ArgumentReason::OtherQueueType(_) => "it is for queues of another type".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Texts were compared with RabbitMQ 4.3.6.
    #[test]
    fn arguments_that_make_no_sense_are_refused_in_rabbitmqs_words() {
        for (value, text) in [
            (
                json!({"x-max-length": "x"}),
                "invalid arg 'x-max-length' in k: \"expected integer, got longstr\"",
            ),
            (
                json!({"x-queue-type": "nope"}),
                "invalid arg 'x-queue-type' in k: \"unsupported queue type 'nope'\"",
            ),
            (json!({"x-expires": 0}), "invalid arg 'x-expires' in k: {value_zero,0}"),
            (json!({"x-message-ttl": -1}), "invalid arg 'x-message-ttl' in k: {value_negative,-1}"),
            (json!({"x-overflow": "zz"}), "invalid arg 'x-overflow' in k: invalid_overflow"),
            (json!({"x-max-priority": 300}), "invalid arg 'x-max-priority' in k: {max_value_exceeded,300}"),
            (
                json!({"x-dead-letter-exchange": 5}),
                "invalid arg 'x-dead-letter-exchange' in k: {unacceptable_type,long}",
            ),
        ] {
            assert_eq!(of_queue("k", value.as_object().unwrap()).unwrap_err(), text);
        }
        for (value, text) in [
            (json!({"x-priority": "x"}), "invalid arg 'x-priority' in k: \"expected integer, got longstr\""),
            (
                json!({"x-stream-offset": "zz"}),
                "invalid arg 'x-stream-offset' in k: {invalid_stream_offset_arg,{longstr,<<\"zz\">>}}",
            ),
        ] {
            assert_eq!(of_consumer("k", value.as_object().unwrap()).unwrap_err(), text);
        }
    }

    #[test]
    fn arguments_of_other_queue_types_are_for_the_other_end_to_judge() {
        let quorum = json!({"x-queue-type": "quorum", "x-delivery-limit": 5});
        assert!(of_queue("k", quorum.as_object().unwrap()).is_ok());
        let offset = |value: &str| of_consumer("k", json!({"x-stream-offset": value}).as_object().unwrap());
        assert!(
            offset("first").is_ok() && offset("2h").is_ok() && offset("h").is_err() && offset("ä").is_err()
        );
    }
}
