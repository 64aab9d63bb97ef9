//! Limits of vhosts and users, read from JSON and shown as JSON. Refuses to know what happens at a limit.

use metadata::Limits;
use serde_json::{Map, Value};

/// The limits that a vhost may have.
pub(crate) const VHOST_LIMITS: [&str; 2] = [Limits::CONNECTIONS_MAX, Limits::QUEUES_MAX];

/// The limits that a user may have.
pub(crate) const USER_LIMITS: [&str; 2] = [Limits::CONNECTIONS_MAX, Limits::CHANNELS_MAX];

/// As an object.
pub(crate) fn shown(limits: &Limits) -> Value {
    Value::Object(limits.iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}

/// A value as RabbitMQ's texts show it.
fn term(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        other => other.to_string(),
    }
}

/// Limits in an object; `what` is RabbitMQ's word for all of them. An empty list is none: RabbitMQ exports it of a vhost whose last limit
/// was cleared.
///
/// # Errors
/// Names other than those known, values that are not whole numbers, in RabbitMQ's words.
pub(crate) fn limits_of(definition: &Value, known: &[&str], what: &str) -> Result<Limits, String> {
    if definition.as_array().is_some_and(Vec::is_empty) {
        return Ok(Limits::default());
    }
    let object = definition.as_object().ok_or_else(|| format!("{what} are no JSON object"))?;
    let unknown: Map<String, Value> = object
        .iter()
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !unknown.is_empty() {
        let terms: Vec<String> =
            unknown.iter().map(|(name, value)| format!("{{<<\"{name}\">>,{}}}", term(value))).collect();
        return Err(format!("Unrecognised terms [{}] in {what}", terms.join(",")));
    }
    let number = |(name, value): (&String, &Value)| {
        let number = value.as_i64();
        let number =
            number.ok_or_else(|| format!("{name} should be a number, actually was {}", term(value)))?;
        Ok((name.as_str().into(), number))
    };
    object.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_are_refused_in_rabbitmqs_words() {
        let refused = |definition: Value| limits_of(&definition, &VHOST_LIMITS, "limits").unwrap_err();
        assert_eq!(refused(json!({"max-x": 5})), "Unrecognised terms [{<<\"max-x\">>,5}] in limits");
        let text = "max-queues should be a number, actually was <<\"a\">>";
        assert_eq!(refused(json!({"max-queues": "a"})), text);
        assert!(refused(json!([1])).contains("no JSON object"));
    }

    #[test]
    fn an_empty_list_is_no_limits() {
        assert_eq!(limits_of(&json!([]), &VHOST_LIMITS, "limits").unwrap(), Limits::default());
    }

    #[test]
    fn limits_come_back_as_they_were_given() {
        let given = json!({"max-connections": -1, "max-queues": 0});
        assert_eq!(shown(&limits_of(&given, &VHOST_LIMITS, "limits").unwrap()), given);
    }
}
