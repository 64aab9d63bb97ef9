//! How long the stages of a message's way take, as JSON. Refuses to know how stages are measured.

use broker::{Broker, StageTimes};
use serde_json::{Value, json};

/// Percentiles shown, with their columns.
pub(crate) const SHARES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

pub(crate) fn mean_us(times: &StageTimes) -> f64 {
    us(times.times.sum() / times.times.count().max(1))
}

/// Microseconds, to a tenth.
pub(crate) fn us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

/// The entry of `status` in JSON.
pub(crate) fn status_entry(broker: &Broker) -> Value {
    let entry = |times: &StageTimes| {
        let mut entry = json!({
            "stage": times.stage.name(), "queue_kind": times.kind.map(|kind| kind.name()),
            "batches": times.times.count(), "mean_us": mean_us(times),
        });
        for (name, share) in SHARES {
            entry[format!("{name}_us")] = us(times.times.quantile(share)).into();
        }
        entry
    };
    broker.stages().snapshot().iter().map(entry).collect()
}
