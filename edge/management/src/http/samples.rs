//! Rates: what counters were a moment ago. Refuses to know who counts.

use serde_json::{Value, json};

use super::call::Call;

/// Remembers counters for rates.
#[derive(Debug, Default)]
pub(crate) struct Samples {}

impl Samples {
    /// `message_stats`, `churn_rates` and `queue_totals` of the overview.
    pub(crate) fn overview(&self, _call: &Call) -> Vec<(&'static str, Value)> {
        vec![("message_stats", json!({})), ("churn_rates", json!({})), ("queue_totals", json!({}))]
    }

    /// Counters of the node.
    pub(crate) fn node(&self, _call: &Call) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}
