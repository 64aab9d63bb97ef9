//! The stream of events of `rabbitmq-diagnostics`, as lines of JSON. Refuses to know what happens where.

use broker::{Broker, Told, ToldEvent};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Request};
use crate::resources::values::table;

/// Largest compiled pattern, bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Events behind a number, one a line, and the number of the newest; without a number only that. A caller that wants more asks again,
/// within a minute, or is told how many events were not kept.
pub(crate) fn consume(broker: &Broker, request: &Request) -> Outcome {
    let pattern = request.options.get("pattern").map(|text| {
        let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
        built.map_err(|error| usage(&format!("--pattern is no regular expression: {error}")))
    });
    let pattern = pattern.transpose()?;
    let after = request.args.first().map(|text| text.parse::<u64>());
    let after = after.transpose().map_err(|_| usage("not a number of an event"))?;
    let told = broker.events_after(after);
    let missed = (told.missed > 0 || told.missed_more).then(|| missed(&told));
    let is_wanted = |event: &&ToldEvent| pattern.as_ref().is_none_or(|it: &Regex| it.is_match(&event.key));
    let events: Vec<Value> =
        missed.into_iter().chain(told.events.iter().filter(is_wanted).map(object)).collect();
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    Ok(Answer::Facts { text: lines.join("\n"), json: json!({"newest": told.newest, "events": events}) })
}

/// Events that a reader has missed who was away for long, or did not keep up. No other event has this name.
fn missed(told: &Told) -> Value {
    let mut missed = json!({"event": "events.missed", "count": told.missed});
    if told.missed_more {
        missed["at_least"] = true.into();
    }
    missed
}

/// As RabbitMQ writes it: headers, and kind. An array of characters in the headers is a text here.
fn object(event: &ToldEvent) -> Value {
    let mut object = table(event.headers.as_table().raw());
    for value in object.as_object_mut().into_iter().flat_map(|it| it.values_mut()) {
        if let Some(text) = characters(value) {
            *value = text.into();
        }
    }
    object["event"] = (*event.key).into();
    object
}

fn characters(value: &Value) -> Option<String> {
    let array = value.as_array().filter(|it| !it.is_empty())?;
    array.iter().map(|it| char::from_u32(u32::try_from(it.as_u64()?).ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_a_text_and_texts_stay_a_list() {
        assert_eq!(characters(&json!([117, 228])).as_deref(), Some("uä"));
        assert_eq!(characters(&json!(["a"])), None);
        assert_eq!(characters(&json!([])), None);
        assert_eq!(characters(&json!([55296])), None);
    }
}
