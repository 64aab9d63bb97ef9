//! Where a message would go and why, for people. Publishes nothing, asks no permissions; refuses to print.

use std::sync::Arc;

use message::{CarbonCopies, MessageView, Properties, Table};
use metadata::{Binding, Destination};
use queues::{Machine, TurnedAway};
use routing::{Exchange, ExchangeKind, Explanation, KnownBinding};

use crate::Broker;
use crate::cell::QueueRef;
use crate::cell::machine::AnyMachine;
use crate::data::reply::{is_reply_address, node_of};
use crate::data::routes::keys_of;
use crate::refused::{Refused, Resource};
use crate::vhost::Vhost;

/// Routes per measurement.
const ROUTES: u32 = 1000;
/// A measurement ends early after so long.
const MEASURED_NS_MAX: u64 = 2_000_000;

/// Queues that are asked whether they would take a message.
pub const QUEUES_ASKED_MAX: usize = 20;

/// A message that is not published.
#[derive(Clone, Copy, Debug)]
pub struct Imagined<'a> {
    /// Exchange; empty is the default one.
    pub exchange: &'a [u8],
    /// Routing key.
    pub routing_key: &'a [u8],
    /// Raw properties, valid.
    pub properties: &'a [u8],
    /// Size of its body: queues may have a limit by bytes.
    pub body_bytes: u64,
}

/// The end of an address for direct replies, the kinder one of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplyAddress {
    /// No broker has given it out: to nobody.
    MadeUp,
    /// Its requester is gone: the reply is lost silently (B155).
    Gone,
    /// To its requester.
    Waits,
}

/// An answer to [`Broker::explain_route`].
pub struct ExplainedRoute {
    /// The way, step by step.
    pub explanation: Explanation<QueueRef>,
    /// The cost of routing this message now, nanoseconds on average.
    pub route_ns: u64,
    /// Of the first queues it goes to, [`QUEUES_ASKED_MAX`] at most, those that would not take it now.
    pub turned_away: Vec<(QueueRef, TurnedAway)>,
    /// The fate of a reply, where the key is an address for direct replies.
    pub reply: Option<ReplyAddress>,
}

impl Broker {
    /// The way of a message through the exchanges of a vhost.
    ///
    /// # Errors
    /// No such vhost, no such exchange, copies (CC, BCC) that are not lists.
    pub fn explain_route(&self, vhost: &str, message: Imagined<'_>) -> Result<ExplainedRoute, Refused> {
        let vhost = self.vhost(vhost).ok_or_else(|| Refused::NoSuchVhost(vhost.into()))?;
        let missing = || Refused::NotFound(Resource::exchange(vhost.name(), message.exchange));
        let start = vhost.exchange(message.exchange).ok_or_else(missing)?;
        let view = MessageView {
            exchange: message.exchange,
            routing_key: message.routing_key,
            properties: message.properties,
            body: &[],
        };
        let copies = CarbonCopies::of(&view)?;
        let keys = keys_of(message.routing_key, Some(&copies));
        let start = if message.exchange.is_empty() { default_exchange(&vhost, &keys) } else { start };
        let properties = Properties::new(message.properties);
        let asked =
            routing::Message { keys: &keys, headers: properties.headers(), properties: Some(properties) };
        let bindings = |from: &Exchange<QueueRef>, each: &mut dyn FnMut(KnownBinding<'_, QueueRef>)| {
            self.each_binding(&vhost, from, each);
        };
        let alternates = |name: &[u8]| vhost.exchange(name);
        let mut scratch = Vhost::scratch().imagining();
        let explanation = routing::explain(&start, &asked, &alternates, &bindings, &mut scratch);
        let mut out = Vec::new();
        let clock = &self.services().clock;
        let begin = clock.now();
        let (mut routes, mut spent_ns) = (0, 0);
        while routes < ROUTES && spent_ns < MEASURED_NS_MAX {
            routing::route(&start, &asked, &alternates, &mut scratch, &mut out);
            routes += 1;
            if routes % 16 == 1 {
                spent_ns = clock.now().0 - begin.0;
            }
        }
        let asks = explanation.queues.iter().take(QUEUES_ASKED_MAX);
        let turned_away = asks.filter_map(|QueueRef(queue)| {
            let asked = |machine: &AnyMachine| machine.turns_away(&view, message.body_bytes);
            let known = queue.read_used(|machine, _| asked(machine));
            let why = known.unwrap_or_else(|| asked(&queue.machine_type().open(queue.config(), 0)));
            why.map(|why| (QueueRef(queue.clone()), why))
        });
        let addresses = keys.iter().filter_map(|key| reply_address(&vhost, key));
        let reply = if message.exchange.is_empty() { addresses.max() } else { None };
        Ok(ExplainedRoute {
            turned_away: turned_away.collect(),
            reply,
            route_ns: (clock.now().0 - begin.0) / u64::from(routes),
            explanation,
        })
    }

    fn each_binding(
        &self,
        vhost: &Vhost,
        from: &Exchange<QueueRef>,
        each: &mut dyn FnMut(KnownBinding<'_, QueueRef>),
    ) {
        if from.name.is_empty() {
            for queue in vhost.queues() {
                let destination = routing::Destination::Queue(QueueRef(queue.clone()));
                each(KnownBinding { key: queue.name(), arguments: Table::EMPTY, destination });
            }
            return;
        }
        let bindings: Vec<Arc<Binding>> = self.read_metadata(|state| {
            let vhost = state.vhost(vhost.name().as_bytes());
            vhost
                .map_or_else(Vec::new, |vhost| vhost.bindings_from(&from.name).into_iter().cloned().collect())
        });
        for binding in bindings {
            let destination = match &binding.destination {
                Destination::Queue(record) => {
                    vhost.queue(&record.name).map(|queue| routing::Destination::Queue(QueueRef(queue)))
                }
                Destination::Exchange(record) => {
                    vhost.exchange(&record.name).map(routing::Destination::Exchange)
                }
            };
            if let Some(destination) = destination {
                let arguments = binding.arguments.as_table();
                each(KnownBinding { key: &binding.key, arguments, destination });
            }
        }
    }
}

/// The fate of a reply to that address, if it is one.
fn reply_address(vhost: &Vhost, key: &[u8]) -> Option<ReplyAddress> {
    is_reply_address(key).then(|| match vhost.replies.get(key) {
        Some(_) => ReplyAddress::Waits,
        None if node_of(key).is_some() => ReplyAddress::Gone,
        None => ReplyAddress::MadeUp,
    })
}

/// The default exchange has no table (B86): one with the only bindings that can match stands in for it.
fn default_exchange(vhost: &Vhost, keys: &[&[u8]]) -> Arc<Exchange<QueueRef>> {
    let exchange = Exchange::new(0, b"", ExchangeKind::Direct);
    for key in keys {
        if let Some(queue) = vhost.queue(key) {
            let destination = routing::Destination::Queue(QueueRef(queue));
            drop(exchange.edit(|table| table.bind(key, Table::EMPTY, &destination)));
        }
    }
    Arc::new(exchange)
}
