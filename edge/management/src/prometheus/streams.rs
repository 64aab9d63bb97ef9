//! Metrics of consumers of the stream protocol. Refuses to know pages.

use std::collections::BTreeMap;
use std::io;

use broker::Broker;

use super::page::{Kind, Page, labels};

const NAME: &str = "stream_consumer_max_offset_lag";
const HELP: &str = "Current maximum of offset lag of consumers";

/// How far the consumer that is furthest behind is behind, by vhost and stream.
fn lags(broker: &Broker) -> BTreeMap<(String, String), u64> {
    let mut lags = BTreeMap::new();
    for (_, control) in broker.connections().all() {
        let consumers = control.stream_consumers();
        if consumers.is_empty() {
            continue;
        }
        let vhost = control.info().vhost;
        for consumer in consumers {
            let lag = lags.entry((vhost.clone(), consumer.stream)).or_insert(0);
            *lag = consumer.offset_lag.max(*lag);
        }
    }
    lags
}

/// A sample per stream that has consumers.
pub(crate) fn each(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    page.head(NAME, Kind::Gauge, HELP)?;
    for ((vhost, stream), lag) in lags(broker) {
        page.sample(NAME, &labels(&[("vhost", vhost.as_bytes()), ("queue", stream.as_bytes())]), lag as f64)?;
    }
    Ok(())
}

/// The largest of all.
pub(crate) fn largest(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    page.single(NAME, Kind::Gauge, HELP, lags(broker).into_values().max().unwrap_or(0) as f64)
}
