//! The key that makes a message a duplicate of another (`x-message-deduplication`): the value of its header `x-deduplication-header`.
//!
//! Refuses to know who remembers it, and for how long.

use std::hash::{DefaultHasher, Hasher};

use crate::{MessageView, Table, Value};

/// The header.
const HEADER: &str = "x-deduplication-header";

/// Stands for a value of the header: 128 bits of its hash. Two values that are different have different ones, as far as anybody
/// will see; the same in every run of the same build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UniqueKey(pub u128);

impl UniqueKey {
    /// Of a message's headers; `None` for a message that is no duplicate of any: without the header, or with an array, a table
    /// or a decimal there.
    ///
    /// Numbers are the same whatever their width, as in Erlang, where the plugin compares them; 5, 5.0 and "5" are three.
    #[must_use]
    pub fn of_headers(headers: Table<'_>) -> Option<UniqueKey> {
        let value = headers.get(HEADER)?;
        let number = match value {
            Value::Timestamp(seconds) => Some(i128::from(seconds)),
            _ => value.as_i64().map(i128::from),
        };
        if let Some(number) = number {
            return Some(UniqueKey::hashed(b'i', &number.to_be_bytes()));
        }
        if let Some(number) = value.as_f64() {
            return Some(UniqueKey::hashed(b'f', &number.to_be_bytes()));
        }
        match value {
            Value::LongStr(bytes) | Value::Bytes(bytes) => Some(UniqueKey::hashed(b's', bytes)),
            Value::Bool(flag) => Some(UniqueKey::hashed(b't', &[u8::from(flag)])),
            Value::Void => Some(UniqueKey::hashed(b'v', &[])),
            _ => None,
        }
    }

    /// Of a message.
    #[must_use]
    pub fn of(message: &MessageView<'_>) -> Option<UniqueKey> {
        UniqueKey::of_headers(message.plain().properties().headers()?)
    }

    fn hashed(kind: u8, bytes: &[u8]) -> UniqueKey {
        let half = |half: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write(&[half, kind]);
            hasher.write(bytes);
            u128::from(hasher.finish())
        };
        UniqueKey(half(0) << 64 | half(1))
    }
}

#[cfg(test)]
mod tests {
    use wire::amqp091::TableBuf;

    use super::*;

    fn key(value: Value<'_>) -> Option<UniqueKey> {
        let mut headers = TableBuf::new();
        headers.push(HEADER, value);
        UniqueKey::of_headers(headers.as_table())
    }

    #[test]
    fn values_are_compared_as_erlang_does() {
        let five = key(Value::I8(5));
        assert!(five.is_some());
        for same in [Value::U16(5), Value::I64(5), Value::Timestamp(5)] {
            assert_eq!(key(same), five);
        }
        let others = [
            Value::F64(5.0),
            Value::LongStr(b"5"),
            Value::I8(-5),
            Value::Bool(true),
            Value::Void,
            Value::LongStr(b""),
        ];
        let mut all: Vec<_> = others.into_iter().map(key).chain([five]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 7);
        assert_eq!(key(Value::F32(0.5)), key(Value::F64(0.5)));
        assert_eq!(key(Value::LongStr(b"a")), key(Value::Bytes(b"a")));
    }

    #[test]
    fn messages_without_a_plain_value_are_no_duplicates() {
        assert_eq!(UniqueKey::of_headers(Table::EMPTY), None);
        assert_eq!(key(Value::Table(Table::EMPTY)), None);
        assert_eq!(key(Value::Decimal { scale: 1, value: 5 }), None);
        assert_eq!(
            UniqueKey::of(&MessageView { exchange: b"", routing_key: b"", properties: &[0, 0], body: b"" }),
            None
        );
    }
}
