//! Warren's own: why a message goes where it goes, and why consumers get messages or do not.

use broker::{ExplainedRoute, Imagined, QueueRef, Refused, ReplyAddress};
use queues::{Afterwards, TurnedAway};
use routing::{Before, Came, Destination, End, MatchedBinding, Step};
use serde_json::{Map, Value, json};
use wire::amqp091::PropertiesBuf;

use super::auth::{Access, enters_vhost};
use super::call::Call;
use super::problem::Problem;
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use super::shapes::lossy;
use crate::resources::delivery::explain_delivery;
use crate::resources::routes::{type_names, why};
use crate::resources::values::{raw_table, table, text};

pub(crate) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/api/explain/route",
        Access::Management,
        "The way that a message would take, without publishing it: `vhost`, `exchange`, `routing_key`, `headers` (JSON), `body_bytes`.",
        of_route,
    ),
    route(
        Method::Get,
        "/api/explain/delivery",
        Access::Management,
        "Why the consumers of a queue get messages or do not: `vhost`, `queue`.",
        of_delivery,
    ),
];

/// Queues named in an answer.
const QUEUES_NAMED_MAX: usize = 1_000;

/// A value of the query that must be there.
fn asked<'a>(call: &'a Call, name: &str) -> Result<&'a str, Problem> {
    call.query(name).ok_or_else(|| Problem::keys_missing(&[name]))
}

/// The vhost in the query. One that the user may not see is as good as missing.
fn vhost(call: &Call) -> Result<&str, Problem> {
    let vhost = call.query("vhost").unwrap_or("/");
    match call.broker().vhost(vhost) {
        Some(_) if enters_vhost(&call.user, vhost) => Ok(vhost),
        _ => Err(Problem::new(404, "not_found", format!("vhost '{vhost}' does not exist"))),
    }
}

/// Properties with these headers.
fn properties(call: &Call) -> Result<Vec<u8>, Problem> {
    let headers: Map<String, Value> = match call.query("headers").filter(|text| !text.is_empty()) {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|_| Problem::bad("headers are a JSON object"))?,
    };
    let mut properties = PropertiesBuf::default();
    if !headers.is_empty() {
        properties.headers = Some(raw_table(&headers).map_err(Problem::bad)?);
    }
    let mut raw = Vec::new();
    properties.encode(&mut raw).map_err(|error| Problem::bad(error.to_string()))?;
    Ok(raw)
}

fn of_route(call: &Call) -> Answer {
    call.check_query(&["vhost", "exchange", "routing_key", "headers", "body_bytes"])?;
    let (vhost, key) = (vhost(call)?, call.query("routing_key").unwrap_or_default());
    if key.len() > usize::from(u8::MAX) {
        return Err(Problem::bad("a routing key has at most 255 bytes"));
    }
    let exchange = match asked(call, "exchange")? {
        "amq.default" => "",
        name => name,
    };
    let properties = properties(call)?;
    let body_bytes = call.query("body_bytes").map_or(Ok(0), str::parse);
    let message = Imagined {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        properties: &properties,
        body_bytes: body_bytes.map_err(|_| Problem::bad("body_bytes is no number"))?,
    };
    let explained = call.broker().explain_route(vhost, message).map_err(|refused| match refused {
        Refused::NotFound(exchange) => {
            let name = lossy(&exchange.name);
            Problem::new(404, "not_found", format!("exchange '{name}' does not exist in vhost '{vhost}'"))
        }
        other => other.into(),
    })?;
    Ok(Reply::Json(route_object(&explained)))
}

fn route_object(explained: &ExplainedRoute) -> Value {
    let explanation = &explained.explanation;
    let named = |some: &dyn Fn(&QueueRef) -> bool| {
        let queues = explanation.queues.iter().filter(|queue| some(queue)).take(QUEUES_NAMED_MAX);
        queues.map(|queue| text(queue.0.name())).collect::<Vec<_>>()
    };
    json!({
        "steps": explanation.steps.iter().map(|step| step_object(step, explained.reply)).collect::<Vec<_>>(),
        "more_steps": explanation.more_steps,
        "queues": named(&|_| true),
        "at_once": named(&|queue| explanation.at_once.contains(queue)),
        "after_delay": named(&|queue| explanation.after_delay.contains(queue)),
        "queue_count": explanation.queues.len(),
        "turned_away": explained.turned_away.iter().map(turned_away).collect::<Vec<_>>(),
        "reply": explained.reply.map(|address| address == ReplyAddress::Waits),
        "route_ns": explained.route_ns,
    })
}

fn turned_away((queue, why): &(QueueRef, TurnedAway)) -> Value {
    let (reason, afterwards) = match why {
        TurnedAway::Duplicate => ("duplicate", Afterwards::Gone),
        TurnedAway::Full(afterwards) => ("full", *afterwards),
        TurnedAway::OverLimit(afterwards) => ("over_limit", *afterwards),
        TurnedAway::Expires(afterwards) => ("expires", *afterwards),
    };
    let dead_lettered = afterwards == Afterwards::DeadLettered;
    json!({"queue": text(queue.0.name()), "reason": reason, "dead_lettered": dead_lettered})
}

fn step_object(step: &Step<QueueRef>, reply: Option<ReplyAddress>) -> Value {
    let (came, from) = match &step.came {
        Came::Published => ("published", Value::Null),
        Came::Bound(from) => ("bound", text(from)),
        Came::Alternate(of) => ("alternate", text(of)),
    };
    let (end, alternate) = match &step.end {
        End::Matched => ("matched", Value::Null),
        End::Passed => ("passed", Value::Null),
        End::ToAlternate(to) => ("alternate", text(to)),
        End::NoSuchAlternate(to) => ("no_such_alternate", text(to)),
        End::DeadEnd if reply == Some(ReplyAddress::Waits) => ("reply", Value::Null),
        End::DeadEnd => ("dead_end", Value::Null),
    };
    let delay_ms = if let Before::Waits(delay_ms) = step.before { Some(delay_ms) } else { None };
    let nearest = step.nearest.iter().map(|missed| {
        let mut json = binding_object(&missed.binding);
        json["why"] = why(&missed.why).into();
        json
    });
    json!({
        "exchange": text(&step.exchange.name),
        "type": type_names(&step.exchange).0,
        "internal": step.exchange.internal,
        "came": came,
        "from": from,
        "matched": step.matched.iter().map(binding_object).collect::<Vec<_>>(),
        "more_matched": step.more_matched,
        "nearest": nearest.collect::<Vec<_>>(),
        "missed": step.missed,
        "not_compared": step.not_compared,
        "delay_ms": delay_ms,
        "duplicate": step.before == Before::Drops,
        "end": end,
        "alternate": alternate,
    })
}

fn binding_object(binding: &MatchedBinding<QueueRef>) -> Value {
    let (destination, kind) = match &binding.destination {
        Destination::Queue(queue) => (text(queue.0.name()), "queue"),
        Destination::Exchange(exchange) => (text(&exchange.name), "exchange"),
    };
    json!({
        "routing_key": text(&binding.key),
        "arguments": table(&binding.arguments),
        "destination": destination,
        "destination_type": kind,
    })
}

fn of_delivery(call: &Call) -> Answer {
    call.check_query(&["vhost", "queue"])?;
    let (vhost, queue) = (vhost(call)?, asked(call, "queue")?);
    let missing =
        || Problem::new(404, "not_found", format!("queue '{queue}' does not exist in vhost '{vhost}'"));
    let explained = explain_delivery(call.broker(), vhost, queue).ok_or_else(missing)?;
    let json = serde_json::to_value(explained).map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok(Reply::Json(json))
}
