//! Metrics of exchanges. Refuses to know pages.

use std::io;

use broker::{Broker, Passage};

use super::families::Asked;
use super::metric::{Metric, counter, write_objects};
use super::page::{Kind, Page, labels};

pub(crate) const METRICS: &[Metric<Passage>] = &[
    counter("exchange_messages_published_total", "Messages published to the exchange", |it| {
        it.arrived as f64
    }),
    counter(
        "exchange_messages_unroutable_returned_total",
        "Mandatory messages that went nowhere and were returned",
        |it| it.returned as f64,
    ),
    counter("exchange_messages_unroutable_dropped_total", "Other messages that went nowhere", |it| {
        it.dropped as f64
    }),
];

/// Metrics that RabbitMQ does not have.
pub(crate) const OURS: &[Metric<Passage>] =
    &[counter("exchange_messages_routed_total", "Queues that messages of the exchange went to", |it| {
        it.left as f64
    })];

/// Exchanges that ever saw a message, in the order of vhosts and names: labels and what passed.
fn used(broker: &Broker, wants: impl Fn(&str) -> bool) -> Vec<(String, Passage)> {
    let mut all = Vec::new();
    for vhost in broker.vhosts().into_iter().filter(|vhost| wants(vhost.name())) {
        for exchange in vhost.exchanges() {
            let passed = exchange.passed.now();
            if passed.arrived > 0 {
                let of = [("vhost", vhost.name().as_bytes()), ("exchange", &*exchange.name)];
                all.push((labels(&of), passed));
            }
        }
    }
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    all
}

/// All of them together.
pub(crate) fn sum(broker: &Broker) -> Passage {
    let mut sum = Passage::default();
    for (_, passed) in used(broker, |_| true) {
        sum.arrived += passed.arrived;
        sum.left += passed.left;
        sum.returned += passed.returned;
        sum.dropped += passed.dropped;
    }
    sum
}

/// A sample per metric and exchange that ever saw a message.
pub(crate) fn each(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    write_objects(page, METRICS, used(asked.broker, |vhost| asked.wants_vhost(vhost)).into_iter())
}

/// Exchanges as declared, each with its type and number of bindings, in the order of vhosts and names.
fn declared(asked: &Asked<'_>) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    for vhost in asked.broker.vhosts().into_iter().filter(|vhost| asked.wants_vhost(vhost.name())) {
        // One vhost at a time: nobody declares anything meanwhile.
        asked.broker.read_metadata(|state| {
            let Some(known) = state.vhost(vhost.name().as_bytes()) else { return };
            for exchange in known.exchanges() {
                let of = labels(&[
                    ("vhost", vhost.name().as_bytes()),
                    ("exchange", &exchange.name),
                    ("type", exchange.kind.as_bytes()),
                ]);
                all.push((of, known.binding_count_from(&exchange.name)));
            }
        });
    }
    all
}

/// Names and types.
pub(crate) fn names(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.head("exchange_name", Kind::Gauge, "Exchanges and their types; always 1")?;
    declared(asked).into_iter().try_for_each(|(of, _)| page.sample("exchange_name", &of, 1.0))
}

/// How many bindings lead away from each exchange.
pub(crate) fn bindings(asked: &Asked<'_>, page: &mut Page<'_>) -> io::Result<()> {
    page.head("exchange_bindings", Kind::Gauge, "Bindings of an exchange")?;
    let mut all = declared(asked).into_iter();
    all.try_for_each(|(of, count)| page.sample("exchange_bindings", &of, count as f64))
}
