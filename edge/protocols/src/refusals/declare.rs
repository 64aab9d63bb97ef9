//! Texts about declarations: differences, arguments, types, limits.

use broker::{ArgumentError, ArgumentReason, BindingRefusal, Compared, Difference, LimitScope, Resource};

use super::{kind_of, name_of, render};
use crate::erlang::erlang_binary;

/// B47, B62: two values are shown bare, a value against none with its type.
pub(super) fn inequivalent(resource: &Resource, difference: &Difference) -> String {
    let Difference { what, received, current } = difference;
    let bare = *received != Compared::Absent && *current != Compared::Absent;
    let received = compared(received, bare);
    let current = compared(current, bare);
    format!(
        "inequivalent arg '{what}' for {}: received {received} but current is {current}",
        render(resource)
    )
}

fn compared(side: &Compared, bare: bool) -> String {
    match side {
        Compared::Flag(flag) => format!("'{flag}'"),
        Compared::Name(name) => format!("'{}'", atom(name)),
        Compared::Value { value, .. } if bare => format!("'{value}'"),
        Compared::Value { value, kind } => format!("the value '{value}' of type '{kind}'"),
        Compared::Absent => "none".into(),
    }
}

/// An exchange type as Erlang prints an atom: in quotes of its own when it is more than a word.
fn atom(name: &str) -> std::borrow::Cow<'_, str> {
    let is_word = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@');
    if is_word { name.into() } else { format!("'{name}'").into() }
}

/// B72, B73.
pub(super) fn argument(resource: &Resource, error: &ArgumentError) -> String {
    let reason = match &error.reason {
        ArgumentReason::Negative(value) => format!(": {{value_negative,{value}}}"),
        ArgumentReason::Zero => ": {value_zero,0}".into(),
        ArgumentReason::TooLarge(value) => format!(": {{value_too_large,{value}}}"),
        ArgumentReason::MaxExceeded(value) => format!(": {{max_value_exceeded,{value}}}"),
        // B72: a dead-letter exchange of a wrong type has a text of its own.
        ArgumentReason::UnacceptableType(kind) if &*error.name == "x-dead-letter-exchange" => {
            return format!("invalid type '{kind}' for arg '{}' in {}", error.name, render(resource));
        }
        ArgumentReason::UnacceptableType(kind) => format!(": {{unacceptable_type,{kind}}}"),
        ArgumentReason::ExpectedInteger(kind) => format!(": \"expected integer, got {kind}\""),
        ArgumentReason::Atom(atom) => format!(": {atom}"),
        ArgumentReason::Text(text) => format!(": \"{text}\""),
        ArgumentReason::Term(term) => format!(": {term}"),
        ArgumentReason::Plain(text) => return text.to_string(),
        ArgumentReason::OtherQueueType(kind) => format!(" of queue type {}", kind.module()),
    };
    format!("invalid arg '{}' for {}{reason}", error.name, render(resource))
}

/// B48. RabbitMQ (3.10 and 4.3) says `invalid` when the word happens to be an atom of its virtual machine, `unknown`
/// otherwise: the set of atoms depends on the modules that the node has loaded. Here the words that anybody may write by mistake.
pub(super) fn unknown_exchange_type(kind: &[u8]) -> String {
    const ATOMS: &[&[u8]] =
        &[b"", b"queue", b"exchange", b"binding", b"policy", b"classic", b"quorum", b"stream", b"federation"];
    let what = if ATOMS.contains(&kind) { "invalid" } else { "unknown" };
    format!("{what} exchange type '{}'", String::from_utf8_lossy(kind))
}

/// B89: `received` is the value as it came, or `type signedint (value 1)` for one of a wrong type.
pub(super) fn invalid_match(received: &str) -> String {
    if received.starts_with("type ") {
        return format!("Invalid x-match field {received}; expected longstr");
    }
    let received = erlang_binary(received.as_bytes());
    format!("Invalid x-match field value {received}; expected all, any, all-with-x, or any-with-x")
}

/// B92, and the like of other types.
pub(super) fn binding(refusal: &BindingRefusal) -> String {
    match refusal {
        BindingRefusal::WeightText(key) => {
            format!("The binding key must be an integer: {}", erlang_binary(key))
        }
        BindingRefusal::WeightZero => "The binding key must be greater than 0".into(),
        BindingRefusal::WeightTooLarge { max } => format!("The binding key must not exceed {max}"),
        BindingRefusal::KeyNotEmpty(key) => {
            format!("Non empty binding '{}' key not permitted", String::from_utf8_lossy(key))
        }
        BindingRefusal::QueueType(name) => format!("Queue type {name} not valid for this exchange type"),
        BindingRefusal::NoQueue => "Destination not found".into(),
        BindingRefusal::NoSelector => "invalid JMS selector: missing rjms_erlang_selector".into(),
        BindingRefusal::Selector(error) => format!("invalid JMS selector{error}"),
    }
}

/// B78.
pub(super) fn delete_condition(resource: &Resource, flag: &str) -> String {
    format!(
        "cannot delete {}. queue.delete operations with {flag} flag set are not supported by quorum queues",
        render(resource)
    )
}

/// B88.
pub(super) fn too_many_hashes(key: &[u8]) -> String {
    let count = key.split(|byte| *byte == b'.').filter(|word| *word == b"#").count();
    let key = String::from_utf8_lossy(key);
    format!("Topic binding key '{key}' uses {count} '#' wildcards, at most 2 are allowed")
}

/// B58, B77.
pub(super) fn limit_reached(resource: &Resource, scope: LimitScope, limit: u64) -> String {
    let (kind, name, vhost) = (kind_of(resource), name_of(resource), &resource.vhost);
    match (kind, scope) {
        ("exchange", _) => {
            format!("cannot declare {}: exchange limit of {limit} is reached", render(resource))
        }
        (_, LimitScope::Vhost) => {
            format!("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached")
        }
        (_, LimitScope::Cluster) => {
            format!("cannot declare queue '{name}': queue limit in cluster ({limit}) is reached")
        }
    }
}
