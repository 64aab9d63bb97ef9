//! Lists of exchanges and bindings, read from the metadata. Refuses to know what they route.

use std::sync::Arc;

use broker::Broker;
use metadata::ExchangeRecord;

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::Outcome;
use crate::ctl::delayed;
use crate::ctl::protocol::Request;
use crate::resources::bindings::BindingRow;
use crate::resources::exchanges::ExchangeRow;
use crate::resources::values::{text, typed};

/// An exchange, and how many messages wait in it, if it delays any and that was asked for.
type ExchangeLine = (ExchangeRow, Option<u64>);

pub(crate) const EXCHANGE_COLUMNS: &[Column<ExchangeLine>] = &[
    ("name", |(it, _)| it.name()),
    ("type", |(it, _)| it.kind()),
    ("durable", |(it, _)| it.record.durable.into()),
    ("auto_delete", |(it, _)| it.record.auto_delete.into()),
    ("internal", |(it, _)| it.record.internal.into()),
    ("arguments", |(it, _)| typed(it.record.arguments.raw())),
    ("policy", |(it, _)| it.policy().unwrap_or_default().into()),
    ("user_who_performed_action", |_| "".into()),
    ("messages_delayed", |(_, delayed)| delayed.map_or_else(|| "".into(), Into::into)),
];

/// Exchanges of a vhost by name, the default one first.
pub(crate) fn list_exchanges(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, EXCHANGE_COLUMNS, &["name", "type"])?;
    let all: Vec<Arc<ExchangeRecord>> = broker.read_metadata(|state| {
        let vhost = state.vhost(request.vhost().as_bytes());
        vhost.map(|vhost| vhost.exchanges().into_iter().cloned().collect()).unwrap_or_default()
    });
    let counts = columns.iter().any(|(name, _)| *name == "messages_delayed");
    let waiting = |exchange: &ExchangeRecord| {
        let store = delayed::store(broker, request.vhost(), &exchange.name).filter(|_| counts)?;
        Some(store.stats().wait().unacked)
    };
    let vhost = broker.vhost(request.vhost());
    let line =
        |exchange: &Arc<ExchangeRecord>| (ExchangeRow::of(exchange, vhost.as_deref()), waiting(exchange));
    Ok(rows(&columns, all.iter().map(line)))
}

pub(crate) const BINDING_COLUMNS: &[Column<BindingRow>] = &[
    ("source_name", |it| text(it.source())),
    ("source_kind", |_| "exchange".into()),
    ("destination_name", |it| text(it.destination().0)),
    ("destination_kind", |it| it.destination().1.into()),
    ("routing_key", |it| text(it.key())),
    ("arguments", |it| typed(it.arguments())),
    ("vhost", |it| text(it.vhost())),
];

pub(crate) const BINDING_DEFAULTS: &[&str] =
    &["source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments"];

/// Bindings of a vhost, the implicit ones first.
pub(crate) fn list_bindings(broker: &Broker, request: &Request) -> Outcome {
    let columns = chosen(request, BINDING_COLUMNS, BINDING_DEFAULTS)?;
    let bindings = broker.read_metadata(|state| state.vhost(request.vhost().as_bytes()).map(BindingRow::all));
    Ok(rows(&columns, bindings.unwrap_or_default()))
}
