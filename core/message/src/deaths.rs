//! The deaths that a message shows: a dead letter is rewritten in its own format (B145-B147).

use crate::{
    Array, ArrayBuf, Edit, Format, History, MessageView, Properties, Property, Table, TableBuf, Value,
    amqp10, carbon_copies, mqtt, rewrite,
};

/// One death of a message.
#[derive(Clone, Copy, Debug)]
pub struct Death<'a> {
    /// Name of the queue where it died.
    pub queue: &'a [u8],
    /// Of what it died, in RabbitMQ's words.
    pub reason: &'a [u8],
    /// When, milliseconds since 1970.
    pub now_ms: u64,
}

/// A message after a death.
#[derive(Debug)]
pub struct Died {
    /// Its properties: without a time to live, with what its format shows of deaths.
    pub properties: Vec<u8>,
    /// Its deaths, latest first: an array of tables.
    pub deaths: Vec<u8>,
}

impl Died {
    /// Rewrites properties and history of a message that dies. `annotations` are those beside it.
    #[must_use]
    pub fn of(message: &MessageView<'_>, annotations: &[u8], death: &Death<'_>) -> Died {
        let history = History::new(annotations);
        let deaths = add_death(message, history, death);
        let properties = match message.format() {
            Format::Amqp091 => in_headers(message, history, death, &deaths),
            Format::Amqp10 => {
                let has_died_before = history.deaths().iter().next().is_some();
                amqp10::died(message.properties, Array::from_raw(&deaths), death.now_ms, has_died_before)
            }
            Format::Mqtt => mqtt::without_expiry(message.properties),
        };
        Died { properties, deaths }
    }
}

/// Properties of AMQP 0-9-1 with the headers of a dead letter.
fn in_headers(message: &MessageView<'_>, history: History<'_>, death: &Death<'_>, deaths: &[u8]) -> Vec<u8> {
    let mut headers = TableBuf::new();
    let keep_first = history.deaths().iter().next().is_some();
    if let Some(table) = Properties::new(message.properties).headers() {
        for entry in table.entries().flatten() {
            let name: &[u8] = &entry.name;
            let replaced = name == b"x-death"
                || name.starts_with(b"x-last-death-")
                || (name.starts_with(b"x-first-death-") && !keep_first)
                || name == b"BCC";
            if !replaced {
                headers.push_entry(&entry);
            }
        }
    }
    if !keep_first {
        push_death_names(&mut headers, "first", message.exchange, death);
    }
    push_death_names(&mut headers, "last", message.exchange, death);
    headers.push_array("x-death", Array::from_raw(deaths));
    let edits = [Edit::Headers(headers.as_table()), Edit::Remove(Property::Expiration)];
    rewrite(message.properties, &edits)
}

fn push_death_names(headers: &mut TableBuf, which: &str, exchange: &[u8], death: &Death<'_>) {
    headers.push_str(format!("x-{which}-death-exchange"), exchange);
    headers.push_str(format!("x-{which}-death-queue"), death.queue);
    headers.push_str(format!("x-{which}-death-reason"), death.reason);
}

/// The history with this death in front: a repeated {queue, reason} is counted and moved (B146).
fn add_death(message: &MessageView<'_>, history: History<'_>, death: &Death<'_>) -> Vec<u8> {
    let is_same = |table: &Table<'_>| {
        table.get("queue") == Some(Value::LongStr(death.queue))
            && table.get("reason") == Some(Value::LongStr(death.reason))
    };
    let mut rest = ArrayBuf::new();
    let mut repeated = None;
    for earlier in history.deaths().iter() {
        match earlier {
            Value::Table(table) if is_same(&table) => repeated = Some(table),
            Value::Table(table) => drop(rest.push_table(table)),
            _ => {}
        }
    }
    let newest = match repeated {
        Some(table) => counted(&table),
        None => first_of_its_kind(message, history, death),
    };
    let mut all = ArrayBuf::new();
    all.push_table(newest.as_table());
    for earlier in rest.as_array().iter() {
        all.push(earlier);
    }
    all.as_array().raw().to_vec()
}

/// A death that was there, once more.
fn counted(table: &Table<'_>) -> TableBuf {
    let mut death = TableBuf::new();
    let count = table.get("count").and_then(|count| count.as_i64()).unwrap_or(0);
    for entry in table.entries().flatten() {
        if *entry.name == *b"count" {
            death.push_i64("count", count + 1);
        } else {
            death.push_entry(&entry);
        }
    }
    death
}

fn first_of_its_kind(message: &MessageView<'_>, history: History<'_>, death: &Death<'_>) -> TableBuf {
    let plain = message.plain();
    let properties = plain.properties();
    let mut keys = ArrayBuf::new();
    keys.push_str(message.routing_key);
    if !history.is_rerouted() {
        carbon_copies(&properties).iter().for_each(|key| {
            keys.push_str(key);
        });
    }
    let mut table = TableBuf::new();
    // First in RabbitMQ 4.3, last before.
    if let Some(expiration) = properties.expiration() {
        table.push_str("original-expiration", expiration);
    }
    table
        .push_i64("count", 1)
        .push_str("reason", death.reason)
        .push_str("queue", death.queue)
        .push_timestamp("time", death.now_ms / 1000)
        .push_str("exchange", message.exchange)
        .push_array("routing-keys", keys.as_array());
    table
}
