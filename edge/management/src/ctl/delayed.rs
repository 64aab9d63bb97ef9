//! Messages that wait in delayed exchanges: how many, which, and dropping one. Refuses to know when they go on.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use broker::{Broker, MessageSeq, Queue, Scheduled};
use serde_json::Value;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Outcome, arguments, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::values::text;

/// Messages listed when `--limit` does not say, and at most.
const LISTED: usize = 100;
const LISTED_MAX: usize = 100_000;

/// A message, and the time of the listing in milliseconds since the epoch.
type Line = (Scheduled, u64);

pub(crate) const DEFAULTS: &[&str] = &["id", "due_ms", "remaining_ms", "routing_key", "body_bytes"];

pub(crate) const COLUMNS: &[Column<Line>] = &[
    ("id", |(it, _)| it.seq.0.into()),
    ("due_ms", |(it, _)| it.due_ms.into()),
    ("remaining_ms", |(it, now_ms)| it.due_ms.saturating_sub(*now_ms).into()),
    ("routing_key", |(it, _)| it.shown.as_ref().map_or(Value::Null, |(key, _)| text(key))),
    ("body_bytes", |(it, _)| it.shown.as_ref().map_or(Value::Null, |(_, bytes)| (*bytes).into())),
];

/// Where messages of a delayed exchange wait.
pub(crate) fn store(broker: &Broker, vhost: &str, exchange: &[u8]) -> Option<Arc<Queue>> {
    let vhost = broker.vhost(vhost)?;
    vhost.delays(&*vhost.exchange(exchange)?)
}

fn find(broker: &Broker, request: &Request, exchange: &str) -> Result<Arc<Queue>, Failure> {
    let missing = || Failure::new(Exit::DATA, "Error:\nExchange does not exist or is of a different type");
    store(broker, request.vhost(), exchange.as_bytes()).ok_or_else(missing)
}

/// `EXCHANGE [column ...]`: waiting messages, soonest first, at most `--limit`. Of messages that lie on disk, key and size are not
/// shown.
pub(crate) fn list_delayed_messages(broker: &Broker, request: &Request) -> Outcome {
    let Some((exchange, columns)) = request.args.split_first() else {
        return Err(usage("not enough arguments."));
    };
    let asked = Request { args: columns.to_vec(), ..Request::default() };
    let columns = chosen(&asked, COLUMNS, DEFAULTS)?;
    let limit = match request.options.get("limit").map(|limit| limit.parse::<usize>()) {
        None => LISTED,
        Some(Ok(limit)) if limit <= LISTED_MAX => limit,
        Some(_) => return Err(usage(&format!("--limit is a number up to {LISTED_MAX}."))),
    };
    let waiting = find(broker, request, exchange)?.scheduled(limit).wait();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    Ok(rows(&columns, waiting.into_iter().map(|one| (one, now_ms))))
}

/// `EXCHANGE ID`: drops a message, named as listed.
pub(crate) fn cancel_delayed_message(broker: &Broker, request: &Request) -> Outcome {
    let [exchange, id] = arguments(request)?;
    let id = id.parse().map_err(|_| usage("an id is a number, as list_delayed_messages shows it."))?;
    if find(broker, request, exchange)?.drop_scheduled(MessageSeq(id)).wait() {
        return Ok(Answer::done());
    }
    Err(Failure::new(Exit::DATA, "Error:\nNo such message waits: it was dropped, or has gone on"))
}
