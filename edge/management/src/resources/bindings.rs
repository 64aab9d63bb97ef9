//! Bindings, as listings and pages show them.

use std::sync::Arc;

use metadata::{Binding, Destination, DestinationName, QueueRecord, Vhost};

/// A binding, or the implicit one of the default exchange to a queue (B86).
pub(crate) enum BindingRow {
    Implicit(Arc<QueueRecord>),
    Explicit(Arc<Binding>),
}

impl BindingRow {
    /// All bindings of a virtual host, the implicit ones first.
    pub(crate) fn all(vhost: &Vhost) -> Vec<BindingRow> {
        implicit(vhost).chain(explicit(vhost.bindings())).collect()
    }

    /// Bindings that end at a queue or an exchange.
    pub(crate) fn to(vhost: &Vhost, destination: &DestinationName) -> Vec<BindingRow> {
        let queue = match destination {
            DestinationName::Queue(name) => vhost.queue(name),
            DestinationName::Exchange(_) => None,
        };
        let implicit = queue.map(|queue| BindingRow::Implicit(queue.clone()));
        implicit.into_iter().chain(explicit(vhost.bindings_to(destination))).collect()
    }

    /// Bindings that begin at an exchange; the default one has a binding to each queue.
    pub(crate) fn from(vhost: &Vhost, exchange: &[u8]) -> Vec<BindingRow> {
        match exchange {
            [] => implicit(vhost).collect(),
            name => explicit(vhost.bindings_from(name)).collect(),
        }
    }

    pub(crate) fn source(&self) -> &[u8] {
        match self {
            BindingRow::Implicit(_) => b"",
            BindingRow::Explicit(binding) => &binding.source.name,
        }
    }

    /// The name and the kind of its end.
    pub(crate) fn destination(&self) -> (&[u8], &'static str) {
        match self {
            BindingRow::Implicit(queue) => (&queue.name, "queue"),
            BindingRow::Explicit(binding) => match &binding.destination {
                Destination::Queue(queue) => (&queue.name, "queue"),
                Destination::Exchange(exchange) => (&exchange.name, "exchange"),
            },
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self {
            BindingRow::Implicit(queue) => &queue.name,
            BindingRow::Explicit(binding) => &binding.key,
        }
    }

    pub(crate) fn vhost(&self) -> &[u8] {
        match self {
            BindingRow::Implicit(queue) => &queue.vhost,
            BindingRow::Explicit(binding) => &binding.source.vhost,
        }
    }

    /// Its arguments as they were received.
    pub(crate) fn arguments(&self) -> &[u8] {
        match self {
            BindingRow::Implicit(_) => &[],
            BindingRow::Explicit(binding) => binding.arguments.raw(),
        }
    }
}

fn implicit(vhost: &Vhost) -> impl Iterator<Item = BindingRow> {
    vhost.queues().into_iter().map(|queue| BindingRow::Implicit(queue.clone()))
}

fn explicit(bindings: Vec<&Arc<Binding>>) -> impl Iterator<Item = BindingRow> {
    bindings.into_iter().map(|binding| BindingRow::Explicit(binding.clone()))
}
