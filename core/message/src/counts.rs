//! How often a quorum queue has handed out a message and had it back: written into the headers with which it goes out.

use crate::{Edit, Format, Properties, TableBuf, Value, amqp10, rewrite};

const ACQUIRED: &str = "x-acquired-count";
const FAILED: &str = "x-delivery-count";

/// Stored properties with these counts. Formats that show the counts elsewhere stay as they are.
#[must_use]
pub fn with_counts(properties: &[u8], acquired: u32, failed: u32) -> Vec<u8> {
    match Format::of(properties) {
        Format::Amqp091 => {}
        Format::Amqp10 => return amqp10::with_counts(properties, acquired, failed),
        Format::Mqtt => return properties.to_vec(),
    }
    let mut headers = TableBuf::new();
    let received = Properties::new(properties);
    for entry in received.headers().iter().flat_map(|table| table.entries().flatten()) {
        let name: &[u8] = &entry.name;
        let replaced = name == ACQUIRED.as_bytes() || (name == FAILED.as_bytes() && failed > 0);
        if !replaced {
            headers.push_entry(&entry);
        }
    }
    headers.push(ACQUIRED, Value::I64(acquired.into()));
    if failed > 0 {
        headers.push(FAILED, Value::I64(failed.into()));
    }
    rewrite(properties, &[Edit::Headers(headers.as_table())])
}
