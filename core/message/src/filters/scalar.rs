//! One value of a message or of an expression, and how such values compare: as RabbitMQ compares them.

use std::cmp::Ordering;

use wire::amqp10::{MessageId, Value};

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    /// It is not there.
    Unknown,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Strings, symbols and binary are all the same.
    Bytes(&'a [u8]),
    Uuid([u8; 16]),
}

impl<'a> Scalar<'a> {
    /// Of a value that is neither compound nor decimal nor null.
    pub(super) fn of(value: &Value<'a>) -> Option<Scalar<'a>> {
        Some(match *value {
            Value::Bool(flag) => Scalar::Bool(flag),
            Value::Ulong(number) => Scalar::Int(number.into()),
            Value::Char(number) => Scalar::Int(number.into()),
            Value::Timestamp(millis) => Scalar::Int(millis.into()),
            Value::Float(number) => Scalar::Float(number.into()),
            Value::Double(number) => Scalar::Float(number),
            Value::Uuid(bytes) => Scalar::Uuid(bytes),
            Value::Binary(bytes) | Value::Str(bytes) | Value::Symbol(bytes) => Scalar::Bytes(bytes),
            ref value => Scalar::Int(value.as_i64()?.into()),
        })
    }

    pub(super) fn of_id(id: MessageId<'a>) -> Scalar<'a> {
        match id {
            MessageId::Ulong(number) => Scalar::Int(number.into()),
            MessageId::Uuid(bytes) => Scalar::Uuid(bytes),
            MessageId::Binary(bytes) | MessageId::Str(bytes) => Scalar::Bytes(bytes),
        }
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Scalar::Bytes(bytes) => Some(bytes),
            Scalar::Uuid(bytes) => Some(bytes),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "mixed numbers are compared as floating-point numbers")]
    pub(super) fn number(&self) -> Option<f64> {
        match *self {
            Scalar::Int(number) => Some(number as f64),
            Scalar::Float(number) => Some(number),
            _ => None,
        }
    }

    /// Whether two known values are equal; those of different kinds are not.
    pub(super) fn equals(&self, other: &Scalar<'_>) -> bool {
        match (self, other) {
            (Scalar::Bool(one), Scalar::Bool(other)) => one == other,
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    /// How two values of the same kind are ordered; `None` of different kinds, and of flags.
    pub(super) fn order(&self, other: &Scalar<'_>) -> Option<Ordering> {
        if let (Scalar::Int(one), Scalar::Int(other)) = (self, other) {
            return Some(one.cmp(other));
        }
        if let (Some(one), Some(other)) = (self.bytes(), other.bytes()) {
            return Some(one.cmp(other));
        }
        self.number()?.partial_cmp(&other.number()?)
    }
}
