//! Values of one protocol in the types of the other.

use wire::amqp10::{Map, Value as Value10, Writer};
use wire::amqp091::{ArrayBuf, SHORT_STR_BYTES_MAX, TABLE_DEPTH_MAX, Table, TableBuf, Value as Value091};

/// Longest long string that is looked at for being text, bytes. Longer ones become binary, as in RabbitMQ.
const TEXT_BYTES_MAX: usize = 4096;

/// The map in the value of a section; empty if it is none.
pub(crate) fn map_of(value: &[u8]) -> Map<'_> {
    Value10::parse(value).ok().and_then(|(value, _)| value.as_map()).unwrap_or(Map::EMPTY)
}

/// Whether bytes are UTF-8 without NUL, and short enough to be looked at.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    bytes.len() <= TEXT_BYTES_MAX && !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// Whether a name or text fits where AMQP 0-9-1 has one byte for its length.
pub(super) const fn is_short(bytes: &[u8]) -> bool {
    bytes.len() <= SHORT_STR_BYTES_MAX
}

/// Appends an entry to a table. Left out: names of more than 255 bytes, and values that AMQP 0-9-1 cannot hold.
pub fn push_entry(table: &mut TableBuf, name: &[u8], value: &Value10<'_>) {
    if is_short(name) {
        with_value_091(value, TABLE_DEPTH_MAX - 1, &mut |value| {
            table.push(name, value);
        });
    }
}

/// Hands a value of AMQP 1.0 on in the types of AMQP 0-9-1; not at all if there is none for it, or it is nested too deep.
fn with_value_091(value: &Value10<'_>, depth_left: usize, take: &mut dyn FnMut(Value091<'_>)) {
    match *value {
        Value10::Null => take(Value091::Void),
        Value10::Bool(flag) => take(Value091::Bool(flag)),
        Value10::Ubyte(number) => take(Value091::U8(number)),
        Value10::Ushort(number) => take(Value091::U16(number)),
        Value10::Uint(number) => take(Value091::U32(number)),
        // A number above the middle becomes negative, as in RabbitMQ.
        Value10::Ulong(number) => take(Value091::I64(number.cast_signed())),
        Value10::Byte(number) => take(Value091::I8(number)),
        Value10::Short(number) => take(Value091::I16(number)),
        Value10::Int(number) => take(Value091::I32(number)),
        Value10::Long(number) => take(Value091::I64(number)),
        Value10::Float(number) => take(Value091::F32(number)),
        Value10::Double(number) => take(Value091::F64(number)),
        Value10::Timestamp(millis) => take(Value091::Timestamp(seconds(millis))),
        Value10::Str(bytes) | Value10::Symbol(bytes) | Value10::Binary(bytes) => {
            take(Value091::LongStr(bytes));
        }
        Value10::List(list) => take_array(list.iter(), depth_left, take),
        Value10::Array(array) => take_array(array.elements().map_while(Result::ok), depth_left, take),
        Value10::Map(map) => {
            let Some(depth_left) = depth_left.checked_sub(1) else { return };
            let mut table = TableBuf::new();
            for (name, value) in map.iter() {
                if let Some(name) = name.as_text().filter(|name| is_short(name)) {
                    with_value_091(&value, depth_left, &mut |value| {
                        table.push(name, value);
                    });
                }
            }
            take(Value091::Table(table.as_table()));
        }
        Value10::Decimal32(_)
        | Value10::Decimal64(_)
        | Value10::Decimal128(_)
        | Value10::Char(_)
        | Value10::Uuid(_)
        | Value10::Described(_) => {}
    }
}

fn take_array<'a>(
    elements: impl Iterator<Item = Value10<'a>>,
    depth_left: usize,
    take: &mut dyn FnMut(Value091<'_>),
) {
    let Some(depth_left) = depth_left.checked_sub(1) else { return };
    let mut array = ArrayBuf::new();
    for element in elements {
        with_value_091(&element, depth_left, &mut |element| {
            array.push(element);
        });
    }
    take(Value091::Array(array.as_array()));
}

/// Milliseconds as whole seconds; times before 1970 become 1970.
pub(super) fn seconds(millis: i64) -> u64 {
    u64::try_from(millis / 1000).unwrap_or(0)
}

/// Seconds as milliseconds.
pub(super) fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// Whether AMQP 1.0 has a type for a value.
pub(super) const fn is_known(value: &Value091<'_>) -> bool {
    !matches!(value, Value091::Decimal { .. })
}

/// Appends a value in the types of AMQP 1.0; it must be [known](is_known).
pub(super) fn write_value(writer: &mut Writer<'_>, value: &Value091<'_>) {
    writer.value(&match *value {
        Value091::Bool(flag) => Value10::Bool(flag),
        Value091::I8(number) => Value10::Byte(number),
        Value091::U8(number) => Value10::Ubyte(number),
        Value091::I16(number) => Value10::Short(number),
        Value091::U16(number) => Value10::Ushort(number),
        Value091::I32(number) => Value10::Int(number),
        Value091::U32(number) => Value10::Uint(number),
        Value091::I64(number) => Value10::Long(number),
        Value091::F32(number) => Value10::Float(number),
        Value091::F64(number) => Value10::Double(number),
        Value091::Timestamp(seconds) => Value10::Timestamp(millis(seconds)),
        Value091::LongStr(text) if is_text(text) => Value10::Str(text),
        Value091::LongStr(bytes) | Value091::Bytes(bytes) => Value10::Binary(bytes),
        Value091::Array(array) => {
            return writer.list(|writer| {
                array.iter().filter(is_known).for_each(|element| write_value(writer, &element));
            });
        }
        Value091::Table(table) => return writer.map(|writer| write_entries(writer, table)),
        Value091::Void | Value091::Decimal { .. } => Value10::Null,
    });
}

/// Appends an entry of a map, its name as a string; nothing if AMQP 1.0 has no type for the value.
pub fn write_entry(writer: &mut Writer<'_>, name: &[u8], value: &Value091<'_>) {
    if is_known(value) {
        writer.string(name);
        write_value(writer, value);
    }
}

fn write_entries(writer: &mut Writer<'_>, table: Table<'_>) {
    for (name, value) in table.iter().filter(|(_, value)| is_known(value)) {
        writer.symbol(name);
        write_value(writer, &value);
    }
}
