//! Metrics of streams and of users of the stream protocol. Refuses to know pages.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use broker::{Broker, Queue};

use super::page::{Kind, Page, labels};

const NAME: &str = "stream_consumer_max_offset_lag";
const HELP: &str = "Current maximum of offset lag of consumers";

const SEGMENTS: &str = "stream_segments";
const SEGMENTS_HELP: &str = "Files of streams";

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

/// Publishers and consumers of the stream protocol.
pub(crate) fn users(broker: &Broker) -> (u64, u64) {
    let mut users = (0, 0);
    for (_, control) in broker.connections().all() {
        users.0 += control.stream_publishers().len() as u64;
        users.1 += control.stream_consumers().len() as u64;
    }
    users
}

/// How many files each stream has, with its labels.
fn segment_counts(queues: &[Arc<Queue>]) -> impl Iterator<Item = (String, u32)> {
    queues.iter().filter_map(|queue| {
        let segments = queue.stream_log()?.info().segments;
        Some((labels(&[("vhost", queue.vhost_name().as_bytes()), ("queue", queue.name())]), segments))
    })
}

/// Files of each stream. RabbitMQ calls it a counter, though files go.
pub(crate) fn segments_each(queues: &[Arc<Queue>], page: &mut Page<'_>) -> io::Result<()> {
    page.head(SEGMENTS, Kind::Counter, SEGMENTS_HELP)?;
    for (of, segments) in segment_counts(queues) {
        page.sample(SEGMENTS, &of, f64::from(segments))?;
    }
    Ok(())
}

/// Files of all streams.
pub(crate) fn segments(queues: &[Arc<Queue>], page: &mut Page<'_>) -> io::Result<()> {
    let all: u32 = segment_counts(queues).map(|(_, segments)| segments).sum();
    page.single(SEGMENTS, Kind::Counter, SEGMENTS_HELP, f64::from(all))
}

/// Faults of files, as they were found when streams were opened.
pub(crate) fn faults(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    let (damages, cut_tails) = broker.stream_faults();
    page.single(
        "stream_damages",
        Kind::Gauge,
        "Damaged places in files of streams at the start",
        damages as f64,
    )?;
    let help = "Streams of which the last write was not whole at the start and was cut";
    page.single("stream_cut_tails", Kind::Gauge, help, cut_tails as f64)
}

/// Codes of the stream protocol, from 2 on, as RabbitMQ's metrics call them.
const ERRORS: [&str; 17] = [
    "stream_does_not_exist",
    "subscription_id_already_exists",
    "subscription_id_does_not_exist",
    "stream_already_exists",
    "stream_not_available",
    "sasl_mechanism_not_supported",
    "authentication_failure",
    "sasl_error",
    "sasl_challenge",
    "sasl_authentication_failure_loopback",
    "vhost_access_failure",
    "unknown_frame",
    "frame_too_large",
    "internal_error",
    "access_refused",
    "precondition_failed",
    "publisher_does_not_exist",
];

/// Refusals of the stream protocol by their codes.
pub(crate) fn errors(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    for (code, error) in (2..).zip(ERRORS) {
        let name = format!("stream_error_{error}_total");
        page.head(&name, Kind::Counter, "Refusals of the stream protocol")?;
        page.sample(&name, "protocol=\"stream\"", broker.stream_errors(code) as f64)?;
    }
    Ok(())
}

/// The largest of all.
pub(crate) fn largest(broker: &Broker, page: &mut Page<'_>) -> io::Result<()> {
    page.single(NAME, Kind::Gauge, HELP, lags(broker).into_values().max().unwrap_or(0) as f64)
}
