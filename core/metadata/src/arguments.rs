//! Arguments of exchanges, queues and bindings, kept as the client sent them, and RabbitMQ's rules for comparing them.
//!
//! Knows how two values compare, not what an argument means.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use wire::amqp091::{Table, TableBuf, Value};

use crate::codec::{Codec, DecodeError, Reader, put_run};

/// A raw AMQP 0-9-1 field table without its length prefix. Equality is equality of bytes (B84, B114).
///
/// It has sixteen bytes and no heap when empty: most of a million bindings have no arguments. The same holds when it says that a queue is a
/// classic one and nothing else, as most of a million queues do (B64).
#[derive(Clone)]
pub struct Arguments(Bytes);

#[derive(Clone)]
enum Bytes {
    Own(Box<[u8]>),
    Classic,
}

/// `x-queue-type` is `classic`.
const CLASSIC: &[u8] = b"\x0cx-queue-typeS\0\0\0\x07classic";

/// The argument that says after how much unused time a queue goes, milliseconds.
const EXPIRY: &str = "x-expires";

impl Arguments {
    /// Keeps these bytes as they are. The caller has validated the table; a malformed one reads as shorter.
    #[must_use]
    pub fn from_raw(raw: impl Into<Box<[u8]>>) -> Self {
        let raw = raw.into();
        Self(if *raw == *CLASSIC { Bytes::Classic } else { Bytes::Own(raw) })
    }

    /// The bytes, without the length in front.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        match &self.0 {
            Bytes::Own(raw) => raw,
            Bytes::Classic => CLASSIC,
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Own(raw) => raw.len(),
            Bytes::Classic => 0,
        }
    }

    /// The table as a view.
    #[must_use]
    pub fn as_table(&self) -> Table<'_> {
        Table::from_raw(self.raw())
    }

    /// These with another `x-expires`, milliseconds from 1, or without one; `None` when they say so already.
    pub(crate) fn with_expiry(&self, expires_ms: Option<u64>) -> Option<Self> {
        let wanted = expires_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX).max(1));
        let known = self.as_table().get(EXPIRY);
        if known.is_some() == wanted.is_some() && known.and_then(|value| value.as_i64()) == wanted {
            return None;
        }
        let mut table = TableBuf::from(self.as_table());
        table.remove(EXPIRY);
        if let Some(ms) = wanted {
            table.push_i64(EXPIRY, ms);
        }
        Some(table.into())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw().is_empty()
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self(Bytes::Own(Box::default()))
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }
}

impl Eq for Arguments {}

impl PartialOrd for Arguments {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Arguments {
    fn cmp(&self, other: &Self) -> Ordering {
        self.raw().cmp(other.raw())
    }
}

impl Hash for Arguments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw().hash(state);
    }
}

impl From<Table<'_>> for Arguments {
    fn from(table: Table<'_>) -> Self {
        Self::from_raw(table.raw())
    }
}

impl From<TableBuf> for Arguments {
    fn from(table: TableBuf) -> Self {
        Self::from_raw(table.into_raw())
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.as_table().iter().map(|(name, value)| (name.escape_ascii().to_string(), value)))
            .finish()
    }
}

impl Codec for Arguments {
    fn put(&self, out: &mut Vec<u8>) {
        put_run(self.raw(), out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Box::<[u8]>::get(from).map(Self::from_raw)
    }
}

/// One owned argument value: its type octet and bytes as received.
#[derive(Clone, PartialEq, Eq)]
pub struct ArgumentValue(Arguments);

impl ArgumentValue {
    /// Copies a value.
    pub(crate) fn new(value: Value<'_>) -> Self {
        let mut table = TableBuf::new();
        table.push("", value);
        Self(table.into())
    }

    /// The value; [`Value::type_name`] gives RabbitMQ's word for its type.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        self.0.as_table().get("").unwrap_or(Value::Void)
    }
}

impl fmt::Debug for ArgumentValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// A value as RabbitMQ's comparison sees it: types of one class become one type.
#[derive(PartialEq)]
enum Comparable<'a> {
    Integer(i128),
    /// Bits, so that NaN equals itself.
    Float(u64),
    Decimal(u8, u32),
    Bool(bool),
    Bytes(&'a [u8]),
    Table(Table<'a>),
    Array(&'a [u8]),
    Void,
}

impl<'a> From<Value<'a>> for Comparable<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Timestamp(seconds) => Self::Integer(seconds.into()),
            Value::Decimal { scale, value } => Self::Decimal(scale, value),
            Value::Bool(flag) => Self::Bool(flag),
            Value::LongStr(bytes) | Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Table(table) => Self::Table(table),
            Value::Array(array) => Self::Array(array.raw()),
            other => match (other.as_i64(), other.as_f64()) {
                (Some(number), _) => Self::Integer(number.into()),
                (None, Some(number)) => Self::Float((number + 0.0).to_bits()), // -0.0 becomes 0.0
                (None, None) => Self::Void,
            },
        }
    }
}

/// Whether RabbitMQ takes two argument values for the same (B63): integers of any width by value, floats of any
/// width by value, the rest exactly. Timestamps count as their seconds and byte arrays as their bytes because
/// RabbitMQ falls back to comparing the bare values.
#[must_use]
pub fn values_equivalent(left: Value<'_>, right: Value<'_>) -> bool {
    Comparable::from(left) == Comparable::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_compare_by_value_and_other_types_do_not_mix() {
        assert!(values_equivalent(Value::U8(7), Value::I64(7)));
        assert!(!values_equivalent(Value::I8(-1), Value::U8(255)));
        assert!(values_equivalent(Value::F32(1.5), Value::F64(1.5)));
        assert!(!values_equivalent(Value::I32(1), Value::F64(1.0)));
        assert!(!values_equivalent(Value::LongStr(b"1"), Value::I32(1)));
        assert!(!values_equivalent(Value::Bool(true), Value::I8(1)));
        assert!(!values_equivalent(Value::Void, Value::Bool(false)));
    }

    #[test]
    fn the_arguments_of_most_queues_need_no_heap() {
        assert_eq!(size_of::<Arguments>(), 16);
        let mut table = TableBuf::new();
        table.push_str("x-queue-type", "classic");
        let arguments = Arguments::from(table.clone());
        assert_eq!((arguments.raw(), arguments.heap_bytes()), (table.as_table().raw(), 0));
        table.push_i64("x-expires", 1);
        let others = Arguments::from(table);
        assert!(others.heap_bytes() > 0 && others > arguments);
        assert_eq!((Arguments::default().heap_bytes(), Arguments::default().is_empty()), (0, true));
    }

    #[test]
    fn an_argument_value_survives_copying() {
        for value in [
            Value::I32(1000),
            Value::LongStr(b"x"),
            Value::Void,
            Value::Table(Table::from_raw(b"\x01at\x01")),
        ] {
            assert_eq!(ArgumentValue::new(value).value(), value);
        }
    }
}
