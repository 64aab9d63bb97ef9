//! Facts that the broker keeps beside a message: where it died before, and its hidden copies (BCC).
//!
//! Stored as the message's annotations: a field table with `deaths`, `bcc` and `rerouted`. `deaths` is the array that clients see as
//! `x-death`, made here only (B148). `bcc` is an array of routing keys. `rerouted` is present when a queue has given the message a routing
//! key of its own.

use smallvec::SmallVec;

use crate::{Array, Table, TableBuf, Value};

/// Which routing keys a dead letter travels with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The keys that it was published with, its CC header among them.
    Kept,
    /// One that a queue gave it (`x-dead-letter-routing-key`), now or at an earlier death.
    Replaced,
}

/// A view of annotations.
#[derive(Clone, Copy)]
pub struct History<'a>(Table<'a>);

impl<'a> History<'a> {
    /// From the bytes beside a message; empty is a message without history.
    pub fn new(annotations: &'a [u8]) -> History<'a> {
        History(Table::from_raw(annotations))
    }

    /// Deaths, latest first.
    pub fn deaths(self) -> Array<'a> {
        match self.0.get("deaths") {
            Some(Value::Array(deaths)) => deaths,
            _ => Array::from_raw(&[]),
        }
    }

    /// Keys of BCC.
    fn hidden(self) -> Vec<&'a [u8]> {
        match self.0.get("bcc") {
            Some(Value::Array(keys)) => keys.iter().filter_map(|key| key.as_long_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// The keys that a message travels with: its routing key, and those of its CC header, given here, and of BCC unless a queue has
    /// given it a routing key of its own.
    pub fn keys(self, routing_key: &'a [u8], copies: &'a [Box<[u8]>]) -> SmallVec<[&'a [u8]; 4]> {
        let mut keys = smallvec::smallvec![routing_key];
        if !self.is_rerouted() {
            keys.extend(copies.iter().map(|copy| &**copy));
            keys.extend(self.hidden());
        }
        keys
    }

    /// Whether a queue has given the message a routing key of its own on the way: its CC header does not route any more.
    pub fn is_rerouted(self) -> bool {
        self.0.get("rerouted").is_some()
    }

    /// Annotations of a fresh message with BCC.
    pub fn with_hidden(keys: &Value<'_>) -> Vec<u8> {
        let mut table = TableBuf::new();
        if let Value::Array(keys) = keys {
            table.push_array("bcc", *keys);
        }
        table.into_raw()
    }

    /// Annotations after a death: the keys of BCC last as long as those of CC.
    pub fn after_death(self, deaths: Array<'_>, keys: Keys) -> Vec<u8> {
        let mut table = TableBuf::new();
        table.push_array("deaths", deaths);
        match (keys, self.0.get("bcc")) {
            (Keys::Replaced, _) => drop(table.push_bool("rerouted", true)),
            (Keys::Kept, Some(Value::Array(hidden))) => drop(table.push_array("bcc", hidden)),
            (Keys::Kept, _) => {}
        }
        table.into_raw()
    }
}
