//! Deaths of a message: the annotation `x-opt-deaths`, and the header `x-death` of AMQP 0-9-1.
//!
//! ```text
//!  x-opt-deaths  array of maps: ttl uint?, queue string, reason symbol, count ulong, first-time and last-time
//!                timestamps, exchange string, routing-keys array of strings
//!  x-death       array of tables: original-expiration longstr?, count l, reason, queue, time, exchange, routing-keys
//! ```

use wire::amqp10::{Array as Array10, Header, Value as Value10, Writer};
use wire::amqp091::{Array as Array091, ArrayBuf, Table, TableBuf, Value as Value091};

use super::sections::{Stored, rewritten};
use super::values::{millis, seconds};

/// The annotation.
pub(super) const DEATHS: &[u8] = b"x-opt-deaths";
const LAST: [&[u8]; 3] = [b"x-last-death-exchange", b"x-last-death-queue", b"x-last-death-reason"];
const FIRST: [&[u8]; 3] = [b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason"];

/// Stored properties of a message that died: without a time to live, with all its `deaths`, the latest first.
///
/// They are an array of tables as in `x-death`. The latest was at `now_ms`, milliseconds since 1970, after `earlier`
/// others.
#[must_use]
pub fn died(properties: &[u8], deaths: Array091<'_>, now_ms: u64, has_died_before: bool) -> Vec<u8> {
    let stored = Stored::of_properties(properties);
    let latest = deaths.iter().find_map(|death| death.as_table());
    let names = latest.map(|death| ["exchange", "queue", "reason"].map(|name| text(&death, name)));
    let replaced: Vec<&[u8]> =
        [DEATHS].into_iter().chain(LAST).chain(FIRST.into_iter().filter(|_| !has_died_before)).collect();
    let header = Header { ttl: None, ..stored.header };
    rewritten(&header, stored.annotations, &replaced, |writer| {
        let firsts = FIRST.into_iter().filter(|_| !has_died_before).zip(names.into_iter().flatten());
        let lasts = LAST.into_iter().zip(names.into_iter().flatten());
        for (name, value) in firsts.chain(lasts) {
            writer.symbol(name);
            writer.string(value);
        }
        write_opt_deaths(writer, deaths, now_ms);
    })
}

fn text<'a>(table: &Table<'a>, name: &str) -> &'a [u8] {
    table.get(name).and_then(|value| value.as_long_str()).unwrap_or_default()
}

/// Appends the annotation for an array as in `x-death`. The last time of the first one is `latest_ms`, that of others the first time, which
/// is all that is known of them.
pub(super) fn write_opt_deaths(writer: &mut Writer<'_>, deaths: Array091<'_>, latest_ms: u64) {
    let mut last_ms = i64::try_from(latest_ms).unwrap_or(i64::MAX);
    let mut maps = Vec::new();
    for death in deaths.iter().filter_map(|death| death.as_table()) {
        let mut map = Vec::new();
        write_death(&mut Writer::new(&mut map), &death, std::mem::take(&mut last_ms));
        maps.push(map);
    }
    writer.symbol(DEATHS);
    let maps = maps.iter().filter_map(|map| Value10::parse(map).ok()).map(|(map, _)| map);
    writer.array(maps).expect("all of them are maps");
}

fn write_death(writer: &mut Writer<'_>, death: &Table<'_>, last_ms: i64) {
    let count = death.get("count").and_then(|count| count.as_i64()).unwrap_or(1);
    let first_ms = match death.get("time") {
        Some(Value091::Timestamp(seconds)) => millis(seconds),
        _ => 0,
    };
    let keys = death.get("routing-keys").and_then(|keys| keys.as_array()).unwrap_or(Array091::from_raw(&[]));
    let ttl = std::str::from_utf8(text(death, "original-expiration")).ok().and_then(|ttl| ttl.parse().ok());
    writer.map(|writer| {
        if let Some(ttl) = ttl {
            writer.symbol(b"ttl");
            writer.uint(ttl);
        }
        writer.symbol(b"queue");
        writer.string(text(death, "queue"));
        writer.symbol(b"reason");
        writer.symbol(text(death, "reason"));
        writer.symbol(b"count");
        writer.ulong(u64::try_from(count).unwrap_or(0));
        writer.symbol(b"first-time");
        writer.timestamp(first_ms);
        writer.symbol(b"last-time");
        writer.timestamp(last_ms.max(first_ms));
        writer.symbol(b"exchange");
        writer.string(text(death, "exchange"));
        writer.symbol(b"routing-keys");
        let keys = keys.iter().filter_map(|key| key.as_long_str()).map(Value10::Str);
        writer.array(keys).expect("all of them are strings");
    });
}

/// Appends the header `x-death`, if the annotation is an array of maps.
pub(super) fn push_x_death(headers: &mut TableBuf, deaths: &Array10<'_>) {
    let mut tables = ArrayBuf::new();
    for death in deaths.elements().map_while(Result::ok).filter_map(|death| death.as_map()) {
        let string = |name: &str| death.get(name).and_then(|value| value.as_text()).unwrap_or_default();
        let mut keys = ArrayBuf::new();
        if let Some(Value10::Array(received)) = death.get("routing-keys") {
            for key in received.elements().map_while(Result::ok).filter_map(|key| key.as_text()) {
                keys.push_str(key);
            }
        }
        let mut table = TableBuf::new();
        if let Some(Value10::Uint(ttl)) = death.get("ttl") {
            table.push_str("original-expiration", ttl.to_string());
        }
        let first_s = match death.get("first-time") {
            Some(Value10::Timestamp(millis)) => seconds(millis),
            _ => 0,
        };
        table
            .push_i64("count", death.get("count").and_then(|count| count.as_i64()).unwrap_or(1))
            .push_str("reason", string("reason"))
            .push_str("queue", string("queue"))
            .push_timestamp("time", first_s)
            .push_str("exchange", string("exchange"))
            .push_array("routing-keys", keys.as_array());
        tables.push_table(table.as_table());
    }
    if !tables.is_empty() {
        headers.push_array("x-death", tables.as_array());
    }
}
