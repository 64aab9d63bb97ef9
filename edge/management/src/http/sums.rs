//! Counters of several nodes as one. Refuses to know what they count.

use serde_json::{Map, Value};

/// Adds the counters of another node, with their rates and samples. Counters that only the other node has are taken over.
pub(crate) fn add(total: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, more) in more {
        match total.get_mut(name) {
            // Nodes take their samples at about the same time.
            Some(_) if name == "timestamp" => {}
            Some(own) => add_value(own, more),
            None => drop(total.insert(name.clone(), more.clone())),
        }
    }
}

fn add_value(own: &mut Value, more: &Value) {
    match (own, more) {
        (Value::Object(own), Value::Object(more)) => add(own, more),
        (Value::Array(own), Value::Array(more)) => {
            own.iter_mut().zip(more).for_each(|(own, more)| add_value(own, more));
        }
        (Value::Number(own), Value::Number(more)) => {
            let whole = own.as_u64().zip(more.as_u64()).map(|(own, more)| own.saturating_add(more).into());
            let fraction = || {
                let sum = own.as_f64().unwrap_or_default() + more.as_f64().unwrap_or_default();
                serde_json::Number::from_f64(sum)
            };
            if let Some(sum) = whole.or_else(fraction) {
                *own = sum;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_rates_and_samples_add_up_and_times_do_not() {
        let mut own = json!({
            "publish": 3,
            "publish_details": {"rate": 1.5, "samples": [{"sample": 3, "timestamp": 1000}]},
        });
        let more = json!({
            "publish": 4,
            "publish_details": {"rate": 0.5, "samples": [{"sample": 4, "timestamp": 1001}]},
            "ack": 1,
        });
        add(own.as_object_mut().unwrap(), more.as_object().unwrap());
        let sum = json!({
            "publish": 7,
            "publish_details": {"rate": 2.0, "samples": [{"sample": 7, "timestamp": 1000}]},
            "ack": 1,
        });
        assert_eq!(own, sum);
    }
}
