//! Lists of exchanges and bindings, read from the metadata. Refuses to know what they route.

use std::sync::Arc;

use broker::Broker;
use broker::policies::VhostPolicies;
use metadata::{Binding, Destination, ExchangeRecord, QueueRecord};

use crate::ctl::columns::{Column, chosen, rows};
use crate::ctl::commands::Outcome;
use crate::ctl::delayed;
use crate::ctl::protocol::Request;
use crate::resources::values::{text, typed};

/// An exchange, the policies of its vhost, and how many messages wait in it, if it delays any and that was asked for.
type ExchangeLine = (Arc<ExchangeRecord>, Arc<VhostPolicies>, Option<u64>);

pub(crate) const EXCHANGE_COLUMNS: &[Column<ExchangeLine>] = &[
    ("name", |it| text(&it.0.name)),
    ("type", |it| (*it.0.kind).into()),
    ("durable", |it| it.0.durable.into()),
    ("auto_delete", |it| it.0.auto_delete.into()),
    ("internal", |it| it.0.internal.into()),
    ("arguments", |it| typed(it.0.arguments.raw())),
    ("policy", |it| it.1.of_exchange(&it.0.name).policy().map(|it| &*it.name).unwrap_or_default().into()),
    ("user_who_performed_action", |_| "".into()),
    ("messages_delayed", |it| it.2.map_or_else(|| "".into(), Into::into)),
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
    let policies = broker.vhost(request.vhost()).map(|vhost| vhost.policies()).unwrap_or_default();
    let line = |exchange: Arc<ExchangeRecord>| (exchange.clone(), policies.clone(), waiting(&exchange));
    Ok(rows(&columns, all.into_iter().map(line)))
}

/// A binding, or the implicit one of the default exchange to a queue (B86).
pub(crate) enum Line {
    Implicit(Arc<QueueRecord>),
    Explicit(Arc<Binding>),
}

impl Line {
    fn source(&self) -> &[u8] {
        match self {
            Line::Implicit(_) => b"",
            Line::Explicit(binding) => &binding.source.name,
        }
    }

    fn destination(&self) -> (&[u8], &'static str) {
        match self {
            Line::Implicit(queue) => (&queue.name, "queue"),
            Line::Explicit(binding) => match &binding.destination {
                Destination::Queue(queue) => (&queue.name, "queue"),
                Destination::Exchange(exchange) => (&exchange.name, "exchange"),
            },
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Line::Implicit(queue) => &queue.name,
            Line::Explicit(binding) => &binding.key,
        }
    }

    fn vhost(&self) -> &[u8] {
        match self {
            Line::Implicit(queue) => &queue.vhost,
            Line::Explicit(binding) => &binding.source.vhost,
        }
    }

    fn arguments(&self) -> &[u8] {
        match self {
            Line::Implicit(_) => &[],
            Line::Explicit(binding) => binding.arguments.raw(),
        }
    }
}

pub(crate) const BINDING_COLUMNS: &[Column<Line>] = &[
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
    let lines: Vec<Line> = broker.read_metadata(|state| {
        let Some(vhost) = state.vhost(request.vhost().as_bytes()) else { return Vec::new() };
        let implicit = vhost.queues().into_iter().map(|queue| Line::Implicit(queue.clone()));
        implicit.chain(vhost.bindings().into_iter().map(|it| Line::Explicit(it.clone()))).collect()
    });
    Ok(rows(&columns, lines))
}
