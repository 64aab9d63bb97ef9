//! Parameters of routes, and the answer of one of Warren's own, for the description of the API. Refuses to know how they are made.

use serde_json::{Value, json};

use super::route::Method;

/// Parameters of the query that are not those of lists: name, whether it must be there, what it says.
pub(super) type Parameter = (&'static str, bool, &'static str);

const ROUTE: [Parameter; 5] = [
    ("vhost", false, "Virtual host; `/` by default"),
    ("exchange", true, "Exchange to which the message would be published; `amq.default` is the default one"),
    ("routing_key", false, "Its routing key, at most 255 bytes"),
    ("headers", false, "Its headers, a JSON object"),
    ("body_bytes", false, "How long its body is; 0 by default"),
];

const DELIVERY: [Parameter; 2] =
    [("vhost", false, "Virtual host; `/` by default"), ("queue", true, "The queue")];

const LOGS: [Parameter; 2] = [
    ("after", false, "Number of the line after which to begin; 0 by default"),
    ("limit", false, "How many lines at most; 200 by default"),
];

const WHOAMI: [Parameter; 1] =
    [("permissions", false, "`true`: also what the user may do in which virtual host")];

const NODE: [Parameter; 2] = [
    ("memory", false, "`true`: also where its memory is"),
    ("columns", false, "Paths of the values wanted, between commas"),
];

const EXPORT: [Parameter; 1] = [("download", false, "Name of the file for a browser")];

const IMPORT: [Parameter; 2] = [
    (
        "skip_unsupported",
        false,
        "`true`: leaves out parts that Warren does not have, and logs them; otherwise they refuse the document",
    ),
    (
        "report",
        false,
        "`true`: answers 200 with a list of what was left out and what follows from it, instead of 204",
    ),
];

const DELETE_EXCHANGE: [Parameter; 1] =
    [("if-unused", false, "`true`: only if nothing is bound to it as a source")];

const DELETE_QUEUE: [Parameter; 2] = [
    ("if-unused", false, "`true`: only if it has no consumers"),
    ("if-empty", false, "`true`: only if it has no messages"),
];

/// Parameters of the query of a route that is no list.
pub(super) fn parameters(method: Method, path: &str) -> Option<&'static [Parameter]> {
    match (method, path) {
        (_, "/api/explain/route") => Some(&ROUTE),
        (_, "/api/explain/delivery") => Some(&DELIVERY),
        (_, "/api/logs") => Some(&LOGS),
        (_, "/api/whoami") => Some(&WHOAMI),
        (Method::Get, "/api/nodes/{node}") => Some(&NODE),
        (Method::Get, "/api/definitions" | "/api/definitions/{vhost}" | "/api/all-configuration") => {
            Some(&EXPORT)
        }
        (Method::Post, "/api/definitions" | "/api/definitions/{vhost}" | "/api/all-configuration") => {
            Some(&IMPORT)
        }
        (Method::Delete, "/api/exchanges/{vhost}/{name}") => Some(&DELETE_EXCHANGE),
        (Method::Delete, "/api/queues/{vhost}/{name}") => Some(&DELETE_QUEUE),
        _ => None,
    }
}

/// An object with exactly these members, all of them there.
fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": names, "properties": properties, "additionalProperties": false})
}

fn of(kind: &str, about: &str) -> Value {
    json!({"type": kind, "description": about})
}

fn or_null(kind: &str, about: &str) -> Value {
    json!({"type": [kind, "null"], "description": about})
}

fn one_of(words: &[&str], about: &str) -> Value {
    json!({"type": "string", "enum": words, "description": about})
}

fn list(items: &Value, about: &str) -> Value {
    json!({"type": "array", "items": items, "description": about})
}

/// The answer of `/api/explain/route`.
pub(super) fn route() -> Value {
    let name = json!({"type": "string"});
    let turned_away = object(&[
        ("queue", of("string", "The queue")),
        (
            "reason",
            one_of(&["duplicate", "full", "over_limit", "expires"], "Why it does not keep the message"),
        ),
        ("dead_lettered", of("boolean", "Whether the message goes on to the queue's dead-letter exchange")),
    ]);
    object(&[
        ("steps", list(&step(), "Exchanges on the way, the first of them")),
        ("more_steps", of("integer", "Exchanges beyond those")),
        ("queues", list(&name, "Queues that get the message, at most 1000")),
        ("at_once", list(&name, "Queues that get it when it is published")),
        ("after_delay", list(&name, "Queues that get it when a delay on its way is over")),
        ("queue_count", of("integer", "How many queues get it")),
        ("turned_away", list(&turned_away, "Queues that would not keep it now")),
        (
            "reply",
            or_null("boolean", "For an address of direct replies: whether its consumer is still there"),
        ),
        ("route_ns", of("integer", "Time to find the queues, nanoseconds")),
    ])
}

fn step() -> Value {
    const ENDS: [&str; 6] = ["matched", "passed", "alternate", "no_such_alternate", "reply", "dead_end"];
    let binding = |why: Option<Value>| {
        let mut members = vec![
            ("routing_key", of("string", "Its routing key")),
            (
                "arguments",
                json!({"type": "object", "description": "Its arguments", "additionalProperties": true}),
            ),
            ("destination", of("string", "Where it leads")),
            ("destination_type", one_of(&["queue", "exchange"], "The kind of the destination")),
        ];
        members.extend(why.map(|why| ("why", why)));
        object(&members)
    };
    let nearest = binding(Some(of("string", "Why it does not match")));
    object(&[
        ("exchange", of("string", "Name of the exchange; empty for the default one")),
        ("type", of("string", "Its type")),
        ("internal", of("boolean", "Whether clients cannot publish to it")),
        ("came", one_of(&["published", "bound", "alternate"], "How the message came there")),
        ("from", or_null("string", "From which exchange")),
        ("matched", list(&binding(None), "Bindings that match, the first of them")),
        ("more_matched", of("integer", "Matching bindings beyond those")),
        ("nearest", list(&nearest, "Bindings that nearly match")),
        ("missed", of("integer", "How many bindings do not match")),
        ("not_compared", of("integer", "Bindings among which the nearest were not sought")),
        ("delay_ms", or_null("integer", "How long the exchange holds the message back")),
        ("duplicate", of("boolean", "Whether the exchange drops the message as a duplicate")),
        ("end", one_of(&ENDS, "Its fate there")),
        ("alternate", or_null("string", "The alternate exchange")),
    ])
}
