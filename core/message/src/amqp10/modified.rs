//! Annotations that a client of AMQP 1.0 gives a message with the outcome `modified`: entries of a map, as they came.

use wire::amqp10::{Map, Value, Writer};

use super::sections::{Stored, rewritten};
use super::values::push_entry;
use crate::{Edit, Format, Properties, TableBuf, rewrite};

/// The annotation that says when a message may go out again.
const DELIVERY_TIME: &str = "x-opt-delivery-time";

fn names(entries: &[u8]) -> Vec<&[u8]> {
    Map::from_raw(entries).iter().filter_map(|(name, _)| name.as_text()).collect()
}

fn write(entries: &[u8], except: &[&[u8]], writer: &mut Writer<'_>) {
    for (name, value) in Map::from_raw(entries).iter() {
        if !name.as_text().is_some_and(|name| except.contains(&name)) {
            writer.value(&name);
            writer.value(&value);
        }
    }
}

/// Entries with `newer` ones instead of those of the same names.
#[must_use]
pub fn merged(older: &[u8], newer: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    write(older, &names(newer), &mut writer);
    write(newer, &[], &mut writer);
    out
}

/// When a message with these annotations may go out again, milliseconds since 1970; `None` if they do not say.
#[must_use]
pub fn delivery_time_ms(entries: &[u8]) -> Option<u64> {
    match Map::from_raw(entries).get(DELIVERY_TIME)? {
        Value::Timestamp(ms) => u64::try_from(ms).ok(),
        value => u64::try_from(value.as_i64()?).ok(),
    }
}

/// Stored properties with these annotations instead of those of the same names: headers of a message of AMQP 0-9-1. Annotations of MQTT
/// stay.
#[must_use]
pub fn with_annotations(properties: &[u8], entries: &[u8]) -> Vec<u8> {
    match Format::of(properties) {
        Format::Mqtt => properties.to_vec(),
        Format::Amqp10 => {
            let stored = Stored::of_properties(properties);
            rewritten(&stored.header, stored.annotations, &names(entries), |writer| {
                write(entries, &[], writer);
            })
        }
        Format::Amqp091 => {
            let (replaced, mut headers) = (names(entries), TableBuf::new());
            let received = Properties::new(properties);
            for entry in received.headers().iter().flat_map(|table| table.entries().flatten()) {
                if !replaced.contains(&&*entry.name) {
                    headers.push_entry(&entry);
                }
            }
            for (name, value) in Map::from_raw(entries).iter() {
                if let Some(name) = name.as_text() {
                    push_entry(&mut headers, name, &value);
                }
            }
            rewrite(properties, &[Edit::Headers(headers.as_table())])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(of: &[(&str, Value<'_>)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        for (name, value) in of {
            writer.symbol(name.as_bytes());
            writer.value(value);
        }
        out
    }

    #[test]
    fn later_annotations_win_and_messages_of_both_protocols_get_them() {
        let first = entries(&[("x-a", Value::Str(b"1")), ("x-b", Value::Int(5))]);
        let both = merged(&first, &entries(&[("x-a", Value::Str(b"2"))]));
        let map = Map::from_raw(&both);
        assert_eq!((map.get("x-a"), map.get("x-b")), (Some(Value::Str(b"2")), Some(Value::Int(5))));
        assert_eq!(map.iter().count(), 2);
        let plain = with_annotations(Properties::EMPTY.raw(), &both);
        let headers = Properties::new(&plain).headers().unwrap();
        assert_eq!(headers.get("x-a").and_then(|value| value.as_long_str()), Some(&b"2"[..]));
        assert_eq!(headers.get("x-b").and_then(|value| value.as_i64()), Some(5));
        let stored = with_annotations(Format::Amqp10.prefix(), &both);
        let annotations = Stored::of_properties(&stored).annotations;
        assert_eq!(annotations.get("x-b"), Some(Value::Int(5)));
        let again = with_annotations(&stored, &entries(&[("x-b", Value::Int(6))]));
        assert_eq!(Stored::of_properties(&again).annotations.get("x-b"), Some(Value::Int(6)));
    }

    #[test]
    fn the_time_of_the_next_delivery_is_milliseconds() {
        assert_eq!(delivery_time_ms(&entries(&[(DELIVERY_TIME, Value::Timestamp(7000))])), Some(7000));
        assert_eq!(delivery_time_ms(&entries(&[(DELIVERY_TIME, Value::Ulong(7))])), Some(7));
        assert_eq!(delivery_time_ms(&entries(&[(DELIVERY_TIME, Value::Long(-7))])), None);
        assert_eq!(delivery_time_ms(&entries(&[(DELIVERY_TIME, Value::Str(b"7"))])), None);
        assert_eq!(delivery_time_ms(b""), None);
    }
}
