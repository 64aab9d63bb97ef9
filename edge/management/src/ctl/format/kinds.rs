//! Which columns are not plain texts in RabbitMQ's tools: atoms, addresses, tuples, typed tables. Refuses to know the
//! formats that print them.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Numbers, flags, texts as binaries.
    Plain,
    /// Erlang atoms, one or a list.
    Atom,
    /// A text, or nothing, which is an atom of no letters.
    TextOrNothing,
    /// Four or eight numbers of an IP address.
    Address,
    /// Numbers that belong together.
    Tuple,
    /// `[name, type, value]` of each entry.
    Table,
    /// The settings of policies.
    Settings,
}

/// By the column's name.
pub(super) fn of(column: &str) -> Kind {
    match column {
        "type" | "state" | "activity_status" | "source_kind" | "destination_kind" | "tags"
        | "default_queue_type" => Kind::Atom,
        "policy"
        | "operator_policy"
        | "owner_pid"
        | "exclusive_consumer_pid"
        | "exclusive_consumer_tag"
        | "single_active_consumer_tag"
        | "head_message_timestamp"
        | "online"
        | "ssl_protocol"
        | "ssl_key_exchange"
        | "ssl_cipher"
        | "ssl_hash"
        | "peer_cert_subject"
        | "peer_cert_issuer"
        | "peer_cert_validity"
        | "peer_cert_serial_number" => Kind::TextOrNothing,
        "host" | "peer_host" => Kind::Address,
        "protocol" => Kind::Tuple,
        "arguments" | "client_properties" => Kind::Table,
        "effective_policy_definition" => Kind::Settings,
        _ => Kind::Plain,
    }
}

/// The address in a list of four or eight numbers.
pub(super) fn address(numbers: &[Value]) -> Option<String> {
    let number = |at: usize| numbers.get(at).and_then(Value::as_u64);
    match numbers.len() {
        4 => {
            let mut octets = [0u8; 4];
            for (at, octet) in octets.iter_mut().enumerate() {
                *octet = u8::try_from(number(at)?).ok()?;
            }
            Some(Ipv4Addr::from(octets).to_string())
        }
        8 => {
            let mut segments = [0u16; 8];
            for (at, segment) in segments.iter_mut().enumerate() {
                *segment = u16::try_from(number(at)?).ok()?;
            }
            Some(Ipv6Addr::from(segments).to_string())
        }
        _ => None,
    }
}

/// Name, type and value of an entry of a table.
pub(super) fn entry(value: &Value) -> Option<(&str, &str, &Value)> {
    match value.as_array()?.as_slice() {
        [Value::String(name), Value::String(kind), value] => Some((name, kind, value)),
        _ => None,
    }
}
