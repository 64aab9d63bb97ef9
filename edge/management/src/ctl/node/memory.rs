//! `memory_breakdown`.

use broker::Broker;
use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Request};
use crate::resources::node::memory;

pub(super) fn memory_breakdown(broker: &Broker, request: &Request) -> Outcome {
    let unit = request.options.get("unit").map_or("gb", String::as_str).to_ascii_lowercase();
    let bytes_of_unit = match unit.as_str() {
        "bytes" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(usage("Bad argument: --unit is one of bytes, KB, MB, GB")),
    };
    let parts = memory(broker);
    let total: u64 = parts.iter().map(|(_, bytes)| *bytes).sum();
    let percentage = |bytes: u64| rounded(bytes as f64 * 100.0 / total.max(1) as f64, 2);
    let lines = parts.iter().map(|(name, bytes)| {
        let amount = rounded(*bytes as f64 / bytes_of_unit, 4);
        format!("{name}: {amount:?} {unit} ({:?}%)", percentage(*bytes))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let json = parts
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), json!({"bytes": bytes, "percentage": percentage(*bytes)})));
    Ok(Answer::facts(text, Value::Object(json.collect())))
}

/// To so many digits behind the point.
fn rounded(number: f64, digits: i32) -> f64 {
    let factor = 10f64.powi(digits);
    (number * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_as_rabbitmq_rounds_them() {
        assert_eq!(format!("{:?} {:?}", rounded(0.07105, 4), rounded(0.0, 2)), "0.0711 0.0");
    }
}
