//! Arguments of queues, exchanges and bindings: maps on one side, field tables on the other.

use message::amqp10::{push_entry, write_entry};
use message::{Table, TableBuf};
use wire::amqp10::{Map, Value, Writer};

/// A map as a field table; `None` if a key is no text.
pub(super) fn table_of(map: Map<'_>) -> Option<TableBuf> {
    let mut table = TableBuf::new();
    for (name, value) in map.iter() {
        push_entry(&mut table, name.as_text()?, &value);
    }
    Some(table)
}

/// Appends a field table as a map.
pub(super) fn write(writer: &mut Writer<'_>, arguments: Table<'_>) {
    writer.map(|writer| {
        arguments.iter().for_each(|(name, value)| write_entry(writer, name, &value));
    });
}

/// Names arguments in the address of a binding; empty if there are none. FNV-1a, in hexadecimal: RabbitMQ has another function, and clients
/// do not look into it.
pub(super) fn digest(arguments: Table<'_>) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    format!("{:016x}", arguments.raw().iter().fold(0xCBF2_9CE4_8422_2325, step))
}

/// A flag of a request's body.
pub(super) fn flag(value: &Value<'_>) -> Option<bool> {
    if let Value::Bool(flag) = value { Some(*flag) } else { None }
}

/// A text of a request's body.
pub(super) fn text<'a>(value: &Value<'a>) -> Option<&'a [u8]> {
    if let Value::Str(text) = value { Some(text) } else { None }
}
