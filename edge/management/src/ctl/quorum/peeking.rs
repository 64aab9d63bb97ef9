//! `peek`: the ready message at a position of a quorum queue, which stays as it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Broker, Kind, Peeked, Queue};
use serde_json::{Map, Value, json};
use wire::amqp091::Properties;

use crate::ctl::commands::{Outcome, arguments};
use crate::ctl::everywhere::{self, Question};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::members;
use crate::resources::node::Node;
use crate::resources::values;

/// The option of a request that another node passes on: it goes no further.
const ASKED_BY_NODE: &str = "asked-by-node";
/// Bytes of the body that are shown.
const BODY_BYTES_SHOWN: usize = 64;
/// How long the disk may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The disk is asked again after so long.
const ASK_AGAIN: Duration = Duration::from_millis(10);

fn failed(text: &str) -> Failure {
    let json = json!({ "result": "error", "message": text });
    Failure::new(Exit::UNAVAILABLE, format!("Error:\n{text}")).with_json(json)
}

/// Shows a message. Another node is asked if that leads the queue.
pub(super) fn peek(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    let [name, position] = arguments(request)?;
    let Some(position) = position.parse::<u64>().ok().filter(|position| *position > 0) else {
        let text = "Error (argument validation): \"position value must be a positive integer\"";
        return Err(Failure::new(Exit::USAGE, text));
    };
    let queue = broker.vhost(request.vhost()).and_then(|vhost| vhost.queue(name.as_bytes()));
    let Some(queue) = queue else {
        return Err(failed(&format!("Target queue was not found in virtual host '{}'", request.vhost())));
    };
    if queue.queue_kind() != Kind::Quorum {
        return Err(failed(&format!("Cannot peek into a {} queue", queue.queue_kind().name())));
    }
    if let Some((_, why)) = members::led_elsewhere(&queue) {
        if request.has(ASKED_BY_NODE) {
            return Err(failed(&why));
        }
        let leader = members::nodes_of(&queue).leader;
        let mut asked = request.clone();
        asked.options.insert(ASKED_BY_NODE.into(), String::new());
        let question = Question::Command(asked);
        let answer = everywhere::ask_long(node, &leader, &question);
        return match answer.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            Some(Answer::Failed(failure)) => Err(failure),
            Some(answer) => Ok(answer),
            None => Err(failed(&why)),
        };
    }
    match look(&queue, position - 1) {
        Peeked::Nothing => Err(failed("Target queue does not have a message at that position")),
        Peeked::Waits => Err(failed("The disk has not answered in time")),
        Peeked::Message { exchange, routing_key, properties, body, failed } => {
            let mut shown = facts(&properties);
            shown.insert("routing_keys".into(), json!([values::text(&routing_key)]));
            shown.insert("exchange".into(), values::text(&exchange));
            let beginning = &body[..body.len().min(BODY_BYTES_SHOWN)];
            shown.insert("payload (max 64 bytes)".into(), String::from_utf8_lossy(beginning).into());
            shown.insert("header.x-delivery-count".into(), failed.into());
            let lines: Vec<_> = shown.iter().map(|(key, value)| format!("{key}\t{}", plain(value))).collect();
            Ok(Answer::facts(
                format!("keys\tvalues\n{}", lines.join("\n")),
                json!({ "message": shown, "result": "ok" }),
            ))
        }
    }
}

fn look(queue: &Arc<Queue>, position: u64) -> Peeked {
    let end = Instant::now() + TIMEOUT;
    loop {
        let peeked = queue.peek(position).wait();
        if peeked != Peeked::Waits || end < Instant::now() {
            return peeked;
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// Properties by their names, and each header as `header.NAME`.
fn facts(raw: &[u8]) -> Map<String, Value> {
    let mut facts = Map::new();
    let Value::Object(properties) = values::properties(&Properties::new(raw)) else { return facts };
    for (name, value) in properties {
        match value {
            Value::Object(headers) if name == "headers" => {
                facts.extend(headers.into_iter().map(|(name, value)| (format!("header.{name}"), value)));
            }
            value => {
                facts.insert(name, value);
            }
        }
    }
    facts
}
