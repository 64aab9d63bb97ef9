//! The value of a shovel's parameter as a definition. Refuses to know who sets it.

use std::time::Duration;

use serde_json::{Map, Value};
use shovel::{
    AckMode, Amount, Definition, Destination, From, Property, Protocol, Source, Stamp, To, Topology, Uri,
};
use wire::amqp091::Property as Name;

use super::arguments::{of_consumer, of_queue};
use super::checks::{Keys, term};
use crate::resources::json::{TOO_DEEP, is_too_deep};

/// Most deliveries that are not acked, when the parameter does not say (RabbitMQ's default).
const PREFETCH_COUNT: u16 = 1000;

/// Pause before a new attempt, when the parameter does not say (RabbitMQ's default).
const RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// Longest pause that can be set, seconds.
const RECONNECT_DELAY_S_MAX: f64 = 1e9;

/// Longest `src-delete-after-duration`, seconds: ten years.
const LIFETIME_S_MAX: u64 = 315_360_000;

/// Property names of `dest-publish-properties` that are texts.
const TEXTS: [(&str, Name); 10] = [
    ("app_id", Name::AppId),
    ("cluster_id", Name::ClusterId),
    ("content_encoding", Name::ContentEncoding),
    ("content_type", Name::ContentType),
    ("correlation_id", Name::CorrelationId),
    ("expiration", Name::Expiration),
    ("message_id", Name::MessageId),
    ("reply_to", Name::ReplyTo),
    ("type", Name::Type),
    ("user_id", Name::UserId),
];

/// Reads the value of the parameter `name`.
///
/// # Errors
/// Everything that is wrong with it, in RabbitMQ's words where it has some.
pub fn read(name: &str, value: &str) -> Result<Definition, Vec<String>> {
    let value = serde_json::from_str(value).map_err(|error| vec![format!("not JSON: {error}")])?;
    from_value(name, &value)
}

/// As [`read`].
pub(super) fn from_value(name: &str, value: &Value) -> Result<Definition, Vec<String>> {
    if is_too_deep(value) {
        return Err(vec![format!("{TOO_DEEP} in {name}")]);
    }
    let nothing = Map::new();
    let object = value.as_object().unwrap_or(&nothing);
    let mut problems = contradictions(object);
    let mut keys = Keys::new(object);
    let ack_mode = keys.one_of("ack-mode", &["no-ack", "on-publish", "on-confirm"]);
    let delay_s = keys.number("reconnect-delay").unwrap_or(RECONNECT_DELAY.as_secs_f64());
    keys.flag("internal");
    keys.get("internal_owner");
    let source = source(&mut keys);
    let destination = destination(&mut keys);
    match value {
        Value::Object(_) => {}
        Value::Array(list) if list.is_empty() => {}
        other => problems.push(format!("Unrecognised terms {} in {name}", term(other))),
    }
    problems.extend(keys.finish(name));
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Definition {
        source,
        destination,
        ack_mode: match ack_mode {
            Some("no-ack") => AckMode::NoAck,
            Some("on-publish") => AckMode::OnPublish,
            _ => AckMode::OnConfirm,
        },
        reconnect_delay: (delay_s > 0.0).then(|| Duration::from_secs_f64(delay_s.min(RECONNECT_DELAY_S_MAX))),
    })
}

/// Keys that do not go together.
fn contradictions(object: &Map<String, Value>) -> Vec<String> {
    let has = |key: &str| object.contains_key(key);
    let is_10 = |key: &str| object.get(key).is_some_and(|protocol| protocol == "amqp10");
    let mut problems = Vec::new();
    match (has("src-exchange"), has("src-queue")) {
        _ if is_10("src-protocol") => {}
        (false, false) => problems.push("Must specify 'src-exchange' or 'src-queue'".to_owned()),
        (true, true) => problems.push("Cannot specify 'src-exchange' and 'src-queue'".to_owned()),
        _ => {}
    }
    let delete_after = object.get("src-delete-after").or_else(|| object.get("delete-after"));
    if delete_after.is_some_and(Value::is_u64) && object.get("ack-mode").is_some_and(|mode| mode == "no-ack")
    {
        problems.push("Cannot specify 'no-ack' and numerical 'delete-after'".to_owned());
    }
    if has("dest-exchange") && has("dest-queue") && !is_10("dest-protocol") {
        problems.push("Cannot specify 'dest-exchange' and 'dest-queue'".to_owned());
    }
    problems
}

fn source(keys: &mut Keys<'_>) -> Source {
    if protocol(keys, "src-protocol") == Protocol::Amqp10 {
        return source_of_amqp10(keys);
    }
    let queue = keys.name("src-queue").map(str::to_owned);
    let exchange = keys.name("src-exchange").map(str::to_owned);
    let key = keys.name("src-exchange-key").unwrap_or_default().to_owned();
    let from = exchange.map(|name| From::Exchange { name, key });
    let early = keys.count("prefetch-count");
    let later = amount(keys, "delete-after");
    Source {
        uris: uris(keys, "src-uri"),
        from: from.unwrap_or_else(|| From::Queue(queue.unwrap_or_default())),
        queue_arguments: arguments(keys, "src-queue-args", of_queue),
        consumer_arguments: arguments(keys, "src-consumer-args", of_consumer),
        consumer_tag: keys.name("src-consumer-name").unwrap_or_default().to_owned(),
        prefetch_count: keys.count("src-prefetch-count").or(early).unwrap_or(PREFETCH_COUNT),
        amount: amount(keys, "src-delete-after").or(later).unwrap_or(Amount::Unlimited),
        lifetime: lifetime(keys, "src-delete-after-duration"),
        topology: topology(keys, "src-predeclared"),
    }
}

/// A source that speaks AMQP 1.0: an address instead of queue or exchange.
fn source_of_amqp10(keys: &mut Keys<'_>) -> Source {
    let amount = amount(keys, "src-delete-after").unwrap_or(Amount::Unlimited);
    if amount == Amount::QueueLength {
        let text = "src-delete-after should be a number greater than or equal to 0 or \"never\", actually was <<\"queue-length\">>";
        keys.problem("src-delete-after", text.to_owned());
    }
    Source {
        uris: remote_uris(keys, "src-uri"),
        from: From::Address(address(keys, "src-address")),
        queue_arguments: Vec::new(),
        consumer_arguments: arguments(keys, "src-consumer-args", of_consumer),
        consumer_tag: keys.name("src-consumer-name").unwrap_or_default().to_owned(),
        prefetch_count: keys.count("src-prefetch-count").unwrap_or(PREFETCH_COUNT),
        amount,
        lifetime: lifetime(keys, "src-delete-after-duration"),
        topology: topology(keys, "src-predeclared"),
    }
}

/// A destination that speaks AMQP 1.0. Keys that would change the bare message are passed over, as in RabbitMQ.
fn destination_of_amqp10(keys: &mut Keys<'_>) -> Destination {
    for ignored in ["dest-application-properties", "dest-message-annotations", "dest-properties"] {
        keys.object(ignored);
    }
    let stamp =
        |keys: &mut Keys<'_>, key| if keys.flag(key) == Some(true) { Stamp::Added } else { Stamp::Omitted };
    Destination {
        uris: remote_uris(keys, "dest-uri"),
        to: To::Address(address(keys, "dest-address")),
        queue_arguments: Vec::new(),
        properties: Vec::new(),
        forward_headers: stamp(keys, "dest-add-forward-headers"),
        timestamp_header: stamp(keys, "dest-add-timestamp-header"),
        topology: topology(keys, "dest-predeclared"),
    }
}

fn address(keys: &mut Keys<'_>, key: &'static str) -> String {
    if keys.get(key).is_none() {
        keys.missing(key);
    }
    keys.text(key).unwrap_or_default().to_owned()
}

/// A side that speaks AMQP 1.0 is reached over a socket.
fn remote_uris(keys: &mut Keys<'_>, key: &'static str) -> Vec<Uri> {
    let uris = uris(keys, key);
    if uris.iter().any(|uri| uri.place.is_none()) {
        keys.problem(key, format!("{key} needs a host where the protocol is amqp10"));
    }
    uris
}

fn destination(keys: &mut Keys<'_>) -> Destination {
    if protocol(keys, "dest-protocol") == Protocol::Amqp10 {
        return destination_of_amqp10(keys);
    }
    let queue = keys.name("dest-queue").map(str::to_owned);
    let exchange = keys.name("dest-exchange").map(str::to_owned);
    let key = keys.name("dest-exchange-key").map(str::to_owned);
    let to = match (queue, exchange) {
        (Some(queue), _) => To::Queue(queue),
        (None, Some(name)) => To::Exchange { name, key },
        (None, None) => To::SameExchange,
    };
    let mut properties = properties(keys, "publish-properties");
    properties.extend(self::properties(keys, "dest-publish-properties"));
    Destination {
        uris: uris(keys, "dest-uri"),
        to,
        queue_arguments: arguments(keys, "dest-queue-args", of_queue),
        properties,
        forward_headers: stamp(keys, "dest-add-forward-headers", "add-forward-headers"),
        timestamp_header: stamp(keys, "dest-add-timestamp-header", "add-timestamp-header"),
        topology: topology(keys, "dest-predeclared"),
    }
}

/// RabbitMQ's `local` is a queue of this node, which `amqp://` says as well.
fn protocol(keys: &mut Keys<'_>, key: &'static str) -> Protocol {
    match keys.one_of(key, &["local", "amqp091", "amqp10"]) {
        Some("amqp10") => Protocol::Amqp10,
        _ => Protocol::Amqp091,
    }
}

fn uris(keys: &mut Keys<'_>, key: &'static str) -> Vec<Uri> {
    let texts: Vec<&Value> = match keys.get(key) {
        None => {
            keys.missing(key);
            return Vec::new();
        }
        Some(one @ Value::String(_)) => vec![one],
        Some(Value::Array(many)) if !many.is_empty() => many.iter().collect(),
        Some(Value::Array(_)) => {
            keys.problem(key, format!("{key} has no URI"));
            return Vec::new();
        }
        Some(other) => {
            keys.problem(key, format!("{key} should be list, actually was {}", term(other)));
            return Vec::new();
        }
    };
    let mut uris = Vec::new();
    for value in texts {
        let Some(text) = value.as_str() else {
            keys.problem(key, format!("{key} should be binary, actually was {}", term(value)));
            continue;
        };
        match Uri::parse(text) {
            Ok(uri) => uris.push(uri),
            Err(problem @ (shovel::UriProblem::NoHost | shovel::UriProblem::Verify(_))) => {
                keys.problem(key, format!("\"{text}\" not a valid URI: {problem}"));
            }
            Err(problem) => {
                keys.problem(key, format!("\"{text}\" not a valid URI: {{{problem},{}}}", characters(text)));
            }
        }
    }
    uris
}

/// An Erlang text: without characters it is an empty list.
fn characters(text: &str) -> String {
    if text.is_empty() { "[]".to_owned() } else { format!("\"{text}\"") }
}

type Judge = fn(&str, &Map<String, Value>) -> Result<Vec<u8>, String>;

/// A raw AMQP table.
fn arguments(keys: &mut Keys<'_>, key: &'static str, judge: Judge) -> Vec<u8> {
    let Some(object) = keys.object(key) else { return Vec::new() };
    judge(key, object).unwrap_or_else(|problem| {
        keys.problem(key, problem);
        Vec::new()
    })
}

fn amount(keys: &mut Keys<'_>, key: &'static str) -> Option<Amount> {
    let value = keys.get(key)?;
    match value.as_str() {
        Some("never") => return Some(Amount::Unlimited),
        Some("queue-length") => return Some(Amount::QueueLength),
        _ => {}
    }
    if let Some(count) = value.as_u64() {
        return Some(Amount::Messages(count));
    }
    let text = format!(
        "{key} should be a number greater than or equal to 0, \"never\" or \"queue-length\", actually was {}",
        term(value)
    );
    keys.problem(key, text);
    None
}

fn lifetime(keys: &mut Keys<'_>, key: &'static str) -> Option<Duration> {
    let value = keys.get(key)?;
    let problem = match value.as_u64() {
        Some(seconds @ 1..=LIFETIME_S_MAX) => return Some(Duration::from_secs(seconds)),
        Some(seconds @ 1..) => {
            format!("{key} is {seconds} seconds, which exceeds the maximum supported duration")
        }
        _ => format!("{key} should be a positive integer (seconds), actually was {}", term(value)),
    };
    keys.problem(key, problem);
    None
}

fn topology(keys: &mut Keys<'_>, key: &'static str) -> Topology {
    if keys.flag(key) == Some(true) { Topology::Predeclared } else { Topology::Declared }
}

/// The second key is the older name.
fn stamp(keys: &mut Keys<'_>, key: &'static str, older: &'static str) -> Stamp {
    let older = keys.flag(older);
    if keys.flag(key).or(older) == Some(true) { Stamp::Added } else { Stamp::Omitted }
}

fn properties(keys: &mut Keys<'_>, key: &'static str) -> Vec<Property> {
    let Some(object) = keys.object(key) else { return Vec::new() };
    let mut inner = Keys::new(object);
    let octet = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
    let numbers = [
        inner.whole("delivery_mode", 255).map(|mode| Property::DeliveryMode(octet(mode))),
        inner.whole("priority", 255).map(|priority| Property::Priority(octet(priority))),
        inner.whole("timestamp", u64::MAX).map(Property::Timestamp),
    ];
    let mut properties: Vec<Property> = numbers.into_iter().flatten().collect();
    for (name, property) in TEXTS {
        properties.extend(inner.name(name).map(|text| Property::Text(property, text.to_owned())));
    }
    for problem in inner.finish(key) {
        keys.problem(key, problem);
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(changes: &Value) -> Result<Definition, Vec<String>> {
        let mut value =
            json!({"src-uri": "amqp://", "src-queue": "q1", "dest-uri": "amqp://", "dest-queue": "q2"});
        for (key, change) in changes.as_object().unwrap() {
            match change {
                Value::Null => drop(value.as_object_mut().unwrap().remove(key)),
                other => value[key] = other.clone(),
            }
        }
        from_value("zz", &value)
    }

    fn problems(changes: &Value) -> String {
        with(changes).unwrap_err().join("\n")
    }

    /// Texts were compared with RabbitMQ 4.3.6.
    #[test]
    fn mistakes_have_rabbitmqs_texts() {
        for (changes, text) in [
            (json!({"src-queue": null}), "Must specify 'src-exchange' or 'src-queue'"),
            (json!({"src-exchange": "x"}), "Cannot specify 'src-exchange' and 'src-queue'"),
            (json!({"dest-exchange": "x"}), "Cannot specify 'dest-exchange' and 'dest-queue'"),
            (json!({"src-uri": 5}), "src-uri should be list, actually was 5"),
            (
                json!({"src-uri": ["amqp://", "http://x"]}),
                "\"http://x\" not a valid URI: {{unexpected_uri_scheme,\"http\"},\"http://x\"}",
            ),
            (
                json!({"ack-mode": "x"}),
                "ack-mode should be one of [<<\"no-ack\">>,<<\"on-publish\">>,<<\"on-confirm\">>], actually was <<\"x\">>",
            ),
            (json!({"ack-mode": 5}), "ack-mode should be binary, actually was 5"),
            (
                json!({"ack-mode": "no-ack", "src-delete-after": 5}),
                "Cannot specify 'no-ack' and numerical 'delete-after'",
            ),
            (
                json!({"src-delete-after": -1}),
                "src-delete-after should be a number greater than or equal to 0, \"never\" or \"queue-length\", actually was -1",
            ),
            (json!({"reconnect-delay": "x"}), "reconnect-delay should be a number, actually was <<\"x\">>"),
            (json!({"dest-publish-properties": 5}), "dest-publish-properties not a list 5"),
            (
                json!({"dest-publish-properties": {"headers": {"a": 1}}}),
                "Unrecognised terms [{<<\"headers\">>,#{<<\"a\">> => 1}}] in dest-publish-properties",
            ),
            (
                json!({"dest-publish-properties": {"delivery_mode": "x"}}),
                "delivery_mode should be a number, actually was <<\"x\">>",
            ),
            (json!({"dest-predeclared": 1}), "dest-predeclared should be boolean, actually was 1"),
            (
                json!({"nope": 1, "zap": "x"}),
                "Unrecognised terms [{<<\"nope\">>,1},{<<\"zap\">>,<<\"x\">>}] in zz",
            ),
        ] {
            assert_eq!(problems(&changes), text, "{changes}");
        }
    }

    #[test]
    fn all_mistakes_are_told_in_rabbitmqs_order() {
        let several = json!({"src-exchange": "x", "ack-mode": "z", "nope": 1});
        let expected = "Cannot specify 'src-exchange' and 'src-queue'\nUnrecognised terms [{<<\"nope\">>,1}] in zz\nack-mode";
        assert!(problems(&several).starts_with(expected), "{}", problems(&several));
    }

    #[test]
    fn what_warren_does_not_have_is_said() {
        assert!(problems(&json!({"src-uri": "amqps://"})).contains("needs a host"));
    }

    #[test]
    fn sides_of_amqp_1_0_have_addresses_and_hosts() {
        let read = |value: Value| from_value("s", &value).map_err(|problems| problems.join("\n"));
        let both = json!({
            "src-protocol": "amqp10", "src-uri": "amqp://h", "src-address": "/queues/q",
            "src-consumer-args": {"x-stream-offset": "first"}, "src-delete-after": 5,
            "dest-protocol": "amqp10", "dest-uri": "amqps://h", "dest-address": "/exchanges/x/k",
            "dest-properties": {"subject": "passed over"}, "dest-add-forward-headers": true,
        });
        let definition = read(both.clone()).unwrap();
        assert_eq!(definition.source.from, From::Address("/queues/q".into()));
        assert_eq!(definition.destination.to, To::Address("/exchanges/x/k".into()));
        assert_eq!(
            (definition.source.amount, definition.destination.forward_headers),
            (Amount::Messages(5), Stamp::Added)
        );
        let without = |key: &str, value: Option<Value>| {
            let mut changed = both.clone();
            let object = changed.as_object_mut().unwrap();
            object.remove(key);
            object.extend(value.map(|value| (key.to_owned(), value)));
            read(changed).unwrap_err()
        };
        assert!(without("src-address", None).contains("src-address"));
        assert!(without("dest-address", None).contains("dest-address"));
        assert!(without("dest-uri", Some(json!("amqp://"))).contains("needs a host"));
        assert!(without("src-delete-after", Some(json!("queue-length"))).contains("or \"never\""));
    }

    #[test]
    fn defaults_and_older_names_are_rabbitmqs() {
        let plain = with(&json!({})).unwrap();
        assert_eq!((plain.ack_mode, plain.source.prefetch_count), (AckMode::OnConfirm, 1000));
        assert_eq!(plain.reconnect_delay, Some(Duration::from_secs(5)));
        assert_eq!((plain.source.amount, plain.destination.to), (Amount::Unlimited, To::Queue("q2".into())));
        let older = json!({"prefetch-count": 5, "delete-after": "queue-length", "add-forward-headers": true, "reconnect-delay": 0});
        let older = with(&older).unwrap();
        assert_eq!((older.source.prefetch_count, older.source.amount), (5, Amount::QueueLength));
        assert_eq!((older.destination.forward_headers, older.reconnect_delay), (Stamp::Added, None));
    }
}
