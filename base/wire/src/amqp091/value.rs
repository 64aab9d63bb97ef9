//! Values in field tables and arrays, with RabbitMQ's reading of the type octets.
//!
//! Refuses to know which arguments or headers mean what.
//!
//! | octet | value | octet | value |
//! | --- | --- | --- | --- |
//! | `t` | bool, any non-zero octet is true | `l`, `L` | signed 64 bits, both |
//! | `b` / `B` | signed / unsigned 8 bits | `f` / `d` | 32 / 64 bit float |
//! | `s` / `u` | signed / unsigned 16 bits | `D` | decimal: scale u8, value u32 |
//! | `I` / `i` | signed / unsigned 32 bits | `S` / `x` | long string / byte array |
//! | `T` | timestamp, u64 seconds | `A` / `F` / `V` | array / table / void |
//!
//! `s` is a short integer here, a short string in the specification; `L` is unsigned in the specification. Floats
//! that are not finite are kept; RabbitMQ has no such numbers and drops the connection over them.

use super::field::write_long;
use super::table::{Array, Table, TableError};
use crate::reader::Reader;

/// One value of a field table or array, borrowed from the received bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`, and `L` when read
    I64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: `value / 10^scale`
    Decimal {
        /// Digits after the point.
        scale: u8,
        /// All digits.
        value: u32,
    },
    /// `S`; not necessarily UTF-8
    LongStr(&'a [u8]),
    /// `A`
    Array(Array<'a>),
    /// `T`: seconds since 1970
    Timestamp(u64),
    /// `F`
    Table(Table<'a>),
    /// `V`
    Void,
    /// `x`
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// RabbitMQ's name of the type, as in its error texts (B62).
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Value::Bool(_) => "bool",
            Value::I8(_) => "byte",
            Value::U8(_) => "unsignedbyte",
            Value::I16(_) => "short",
            Value::U16(_) => "unsignedshort",
            Value::I32(_) => "signedint",
            Value::U32(_) => "unsignedint",
            Value::I64(_) => "long",
            Value::F32(_) => "float",
            Value::F64(_) => "double",
            Value::Decimal { .. } => "decimal",
            Value::LongStr(_) => "longstr",
            Value::Array(_) => "array",
            Value::Timestamp(_) => "timestamp",
            Value::Table(_) => "table",
            Value::Void => "void",
            Value::Bytes(_) => "binary",
        }
    }

    /// The number, if it is an integer of any width (B63). Timestamps are not.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::I8(number) => Some(number.into()),
            Value::U8(number) => Some(number.into()),
            Value::I16(number) => Some(number.into()),
            Value::U16(number) => Some(number.into()),
            Value::I32(number) => Some(number.into()),
            Value::U32(number) => Some(number.into()),
            Value::I64(number) => Some(number),
            _ => None,
        }
    }

    /// The number, if it is a float of any width.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(number) => Some(number.into()),
            Value::F64(number) => Some(number),
            _ => None,
        }
    }

    /// The flag, if it is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(flag) = *self { Some(flag) } else { None }
    }

    /// The bytes of a long string.
    #[must_use]
    pub const fn as_long_str(&self) -> Option<&'a [u8]> {
        if let Value::LongStr(bytes) = *self { Some(bytes) } else { None }
    }

    /// The table, if it is one.
    #[must_use]
    pub const fn as_table(&self) -> Option<Table<'a>> {
        if let Value::Table(table) = *self { Some(table) } else { None }
    }

    /// The array, if it is one.
    #[must_use]
    pub const fn as_array(&self) -> Option<Array<'a>> {
        if let Value::Array(array) = *self { Some(array) } else { None }
    }

    /// Reads a type octet and the value behind it; does not look into nested tables and arrays.
    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, TableError> {
        let kind = reader.u8().ok_or(TableError::Truncated)?;
        Self::read_of_kind(kind, reader).ok_or(TableError::Truncated)?.ok_or(TableError::UnknownType { kind })
    }

    /// `None`: the bytes end too early; `Some(None)`: no such type.
    #[inline]
    #[expect(clippy::option_option, reason = "two different absences, told apart by the only caller")]
    fn read_of_kind(kind: u8, reader: &mut Reader<'a>) -> Option<Option<Self>> {
        Some(Some(match kind {
            b'S' => Value::LongStr(reader.long_bytes()?),
            b't' => Value::Bool(reader.u8()? != 0),
            b'b' => Value::I8(reader.u8()?.cast_signed()),
            b'B' => Value::U8(reader.u8()?),
            b's' => Value::I16(reader.u16()?.cast_signed()),
            b'u' => Value::U16(reader.u16()?),
            b'I' => Value::I32(reader.u32()?.cast_signed()),
            b'i' => Value::U32(reader.u32()?),
            b'l' | b'L' => Value::I64(reader.u64()?.cast_signed()),
            b'f' => Value::F32(f32::from_bits(reader.u32()?)),
            b'd' => Value::F64(f64::from_bits(reader.u64()?)),
            b'D' => Value::Decimal { scale: reader.u8()?, value: reader.u32()? },
            b'A' => Value::Array(Array::from_raw(reader.long_bytes()?)),
            b'T' => Value::Timestamp(reader.u64()?),
            b'F' => Value::Table(Table::from_raw(reader.long_bytes()?)),
            b'V' => Value::Void,
            b'x' => Value::Bytes(reader.long_bytes()?),
            _ => return Some(None),
        }))
    }

    /// Appends the type octet and the value, as RabbitMQ writes it: 64-bit integers as `l`, true as 1.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.type_octet());
        match *self {
            Value::Bool(flag) => out.push(u8::from(flag)),
            Value::I8(number) => out.push(number.cast_unsigned()),
            Value::U8(number) => out.push(number),
            Value::I16(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::U16(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::I32(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::U32(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::I64(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::F32(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::F64(number) => out.extend_from_slice(&number.to_be_bytes()),
            Value::Decimal { scale, value } => {
                out.push(scale);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Value::LongStr(bytes) | Value::Bytes(bytes) => write_long(bytes, out),
            Value::Array(array) => write_long(array.raw(), out),
            Value::Timestamp(seconds) => out.extend_from_slice(&seconds.to_be_bytes()),
            Value::Table(table) => write_long(table.raw(), out),
            Value::Void => {}
        }
    }

    const fn type_octet(&self) -> u8 {
        match self {
            Value::Bool(_) => b't',
            Value::I8(_) => b'b',
            Value::U8(_) => b'B',
            Value::I16(_) => b's',
            Value::U16(_) => b'u',
            Value::I32(_) => b'I',
            Value::U32(_) => b'i',
            Value::I64(_) => b'l',
            Value::F32(_) => b'f',
            Value::F64(_) => b'd',
            Value::Decimal { .. } => b'D',
            Value::LongStr(_) => b'S',
            Value::Array(_) => b'A',
            Value::Timestamp(_) => b'T',
            Value::Table(_) => b'F',
            Value::Void => b'V',
            Value::Bytes(_) => b'x',
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::LongStr(text.as_bytes())
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::I64(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Value<'_>, TableError> {
        Value::read(&mut Reader::new(bytes))
    }

    #[test]
    fn type_octets_mean_what_rabbitmq_reads() {
        assert_eq!(read(b"t\x02"), Ok(Value::Bool(true)));
        assert_eq!(read(b"L\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), Ok(Value::I64(-1)));
        assert_eq!(read(b"l\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), Ok(Value::I64(-1)));
        assert_eq!(read(b"i\xFF\xFF\xFF\xFF"), Ok(Value::U32(u32::MAX)));
        assert_eq!(read(b"I\xFF\xFF\xFF\xFF"), Ok(Value::I32(-1)));
        assert_eq!(read(b"u\xFF\xFF"), Ok(Value::U16(u16::MAX)));
        assert_eq!(read(b"s\xFF\xFF"), Ok(Value::I16(-1)));
        assert_eq!(read(b"D\x02\xFF\xFF\xFF\xFF"), Ok(Value::Decimal { scale: 2, value: u32::MAX }));
        assert_eq!(read(b"U\xFF\xFF"), Err(TableError::UnknownType { kind: b'U' }));
        assert_eq!(read(b"S\x00\x00\x00\x02a"), Err(TableError::Truncated));
    }

    #[test]
    fn every_type_is_read_back_as_written() {
        let values = [
            Value::Bool(true),
            Value::I8(-8),
            Value::U8(8),
            Value::I16(-16),
            Value::U16(16),
            Value::I32(-32),
            Value::U32(32),
            Value::I64(-64),
            Value::F32(1.5),
            Value::F64(-2.5),
            Value::Decimal { scale: 1, value: 15 },
            Value::LongStr(b"text"),
            Value::Array(Array::from_raw(b"V")),
            Value::Timestamp(1),
            Value::Table(Table::from_raw(b"\x01aV")),
            Value::Void,
            Value::Bytes(b"\x00"),
        ];
        for value in values {
            let mut bytes = Vec::new();
            value.write(&mut bytes);
            assert_eq!(read(&bytes), Ok(value));
        }
    }
}
