//! `shovel_status`, `restart_shovel`, `delete_shovel`: RabbitMQ's columns and texts.

use broker::{Broker, Refused};
use metadata::{ClearParameter, Command, Outcome as Applied};
use serde_json::Value;
use shovel::Report;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::{Commands, Outcome, arguments, settled};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::{NODE_NAME, Node};
use crate::resources::shovels::{SHOVEL, Shown, count};

/// Commands about shovels.
pub(crate) const COMMANDS: Commands = &[
    ("shovel_status", |it| status(it.node)),
    ("restart_shovel", |it| restart(it.node, it.request)),
    ("delete_shovel", |it| delete(it.broker, it.request)),
];

const COLUMNS: &[Column<Report>] = &[
    ("name", |it| it.name.as_str().into()),
    ("pending", |it| of_progress(it, |progress| progress.pending.into())),
    ("type", |_| "dynamic".into()),
    ("state", |it| Shown(it).state().into()),
    ("source", |it| of_progress(it, |progress| progress.source_uri.as_str().into())),
    ("destination", |it| of_progress(it, |progress| progress.destination_uri.as_str().into())),
    ("vhost", |it| it.vhost.as_str().into()),
    ("termination_reason", |it| Shown(it).reason().unwrap_or_default().into()),
    ("destination_protocol", |it| protocol(it, |definition| definition.destination.to.protocol())),
    ("source_protocol", |it| protocol(it, |definition| definition.source.from.protocol())),
    ("last_changed", |it| Shown(it).changed().into()),
    ("source_queue", |it| end(it, "src_queue")),
    ("source_exchange", |it| end(it, "src_exchange")),
    ("source_exchange_key", |it| end(it, "src_exchange_key")),
    ("destination_queue", |it| end(it, "dest_queue")),
    ("destination_exchange", |it| end(it, "dest_exchange")),
    ("destination_exchange_key", |it| end(it, "dest_exchange_key")),
    ("remaining", |it| of_progress(it, |progress| count(progress.remaining))),
    ("remaining_unacked", |it| of_progress(it, |progress| count(progress.remaining_unacked))),
    ("forwarded", |it| of_progress(it, |progress| progress.forwarded.into())),
];

/// Empty while it does not run.
fn of_progress(report: &Report, value: fn(&shovel::Progress) -> Value) -> Value {
    Shown(report).progress().map_or_else(|| "".into(), value)
}

/// The protocol of a side; empty while it does not run.
fn protocol(report: &Report, of: fn(&shovel::Definition) -> shovel::Protocol) -> Value {
    let is_running = Shown(report).progress().is_some();
    report.definition.as_ref().filter(|_| is_running).map_or("", |definition| of(definition).name()).into()
}

/// The object at an end, by its name in statuses; empty where there is nothing of the kind.
fn end(report: &Report, name: &str) -> Value {
    let ends = report.definition.iter().flat_map(|definition| definition.ends());
    ends.into_iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value).into()
}

fn status(node: &Node) -> Outcome {
    let names: Vec<&'static str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let columns = chosen(&Request::default(), COLUMNS, &names)?;
    Ok(rows(&columns, node.shovels.iter().flat_map(shovel::Shovels::reports)))
}

fn missing(tail: &str) -> Failure {
    let text =
        format!("Error:\nShovel with the given name was not found on the target node '{NODE_NAME}' {tail}");
    Failure::new(Exit::UNAVAILABLE, text)
}

fn restart(node: &Node, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let restarted = node.shovels.as_ref().map(|shovels| shovels.restart(request.vhost(), name));
    match restarted {
        Some(Ok(())) => Ok(Answer::done()),
        _ => Err(missing(&format!("and / or virtual host '{}'", request.vhost()))),
    }
}

/// Deletes the parameter; the shovel ends when messages on their way are settled.
fn delete(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let vhost = request.vhost().as_bytes().into();
    let clear = ClearParameter { vhost, component: SHOVEL.into(), name: name.into() };
    match broker.apply_telling(Command::ClearParameter(clear)).and_then(broker::Call::wait) {
        Ok(Applied::Unchanged) | Err(Refused::NoSuchVhost(_)) => {
            Err(missing(&format!("and/or virtual host '{}'", request.vhost())))
        }
        other => settled(other.map(drop)),
    }
}
