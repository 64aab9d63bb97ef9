//! Values: constructors, their widths, and the sum type they are read into.
//!
//! Refuses to know what a value means where it stands. Nothing is copied: compound values are views.
//!
//! ```text
//!  value        constructor | data               constructor  format code u8
//!  described    0x00 | descriptor (a value) | value
//!
//!  code  0x4_ no data   0x5_ 1 byte    0x6_ 2   0x7_ 4   0x8_ 8   0x9_ 16
//!        0xA_ size u8 | data           0xB_ size u32 | data
//!        0xC_ size u8 | count u8 | items      0xD_ size u32 | count u32 | items    (size covers count and items)
//!        0xE_ size u8 | count u8 | constructor | data      0xF_ the same with u32
//! ```

use super::compound::{Array, Described, List, Map};
use crate::reader::Reader;

/// How deep lists, maps, arrays and described values may be nested, the outermost being 1 (also in a chain of
/// descriptors). RabbitMQ has no bound and recurses.
pub const DEPTH_MAX: usize = 32;

/// The reason why bytes are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// A value runs past the end of the bytes or of the value it lies in.
    #[error("a value runs past the end")]
    Truncated,
    /// No such format code.
    #[error("unknown format code {code:#04x}")]
    UnknownCode {
        /// The code.
        code: u8,
    },
    /// A boolean (0x56) that is neither 0 nor 1; RabbitMQ refuses it, too.
    #[error("a boolean of {octet:#04x}")]
    BadBool {
        /// The octet that stood there.
        octet: u8,
    },
    /// A map with a key but no value at its end.
    #[error("a map with a key without a value")]
    OddMap,
    /// An array whose elements do not fill it, or that names more elements than it has bytes.
    #[error("an array whose count and size do not agree")]
    BadArray,
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {depth_max}")]
    TooDeep {
        /// Levels allowed.
        depth_max: usize,
    },
}

/// One value, borrowed from the received bytes (AMQP 1.0 part 1, section 1.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `boolean`
    Bool(bool),
    /// `ubyte`
    Ubyte(u8),
    /// `ushort`
    Ushort(u16),
    /// `uint`
    Uint(u32),
    /// `ulong`
    Ulong(u64),
    /// `byte`
    Byte(i8),
    /// `short`
    Short(i16),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `decimal32`, as received
    Decimal32([u8; 4]),
    /// `decimal64`, as received
    Decimal64([u8; 8]),
    /// `decimal128`, as received
    Decimal128([u8; 16]),
    /// `char`, not necessarily a code point
    Char(u32),
    /// `timestamp`: milliseconds since 1970
    Timestamp(i64),
    /// `uuid`
    Uuid([u8; 16]),
    /// `binary`
    Binary(&'a [u8]),
    /// `string`; not necessarily UTF-8, as RabbitMQ does not look either
    Str(&'a [u8]),
    /// `symbol`; not necessarily ASCII
    Symbol(&'a [u8]),
    /// `list`
    List(List<'a>),
    /// `map`
    Map(Map<'a>),
    /// `array`
    Array(Array<'a>),
    /// A value with a descriptor in front
    Described(Described<'a>),
}

impl<'a> Value<'a> {
    /// Reads the value at the front of `bytes`; says how many bytes it takes. Does not look into compound values.
    ///
    /// # Errors
    /// See [`TypeError`].
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), TypeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::read(&mut reader)?;
        Ok((value, bytes.len() - reader.rest().len()))
    }

    /// Walks the value once, down to [`DEPTH_MAX`] levels. A value that passes can be read without further checks.
    ///
    /// # Errors
    /// See [`TypeError`].
    pub fn validate(&self) -> Result<(), TypeError> {
        self.validate_within(DEPTH_MAX)
    }

    // The recursion goes at most DEPTH_MAX deep: each compound value takes one from `depth_left`.
    pub(super) fn validate_within(&self, depth_left: usize) -> Result<(), TypeError> {
        if !matches!(self, Value::List(_) | Value::Map(_) | Value::Array(_) | Value::Described(_)) {
            return Ok(());
        }
        let depth_left = depth_left.checked_sub(1).ok_or(TypeError::TooDeep { depth_max: DEPTH_MAX })?;
        match self {
            Value::List(list) => list.items().try_for_each(|item| item?.validate_within(depth_left)),
            Value::Map(map) => map.entries().try_for_each(|entry| {
                let (key, value) = entry?;
                key.validate_within(depth_left)?;
                value.validate_within(depth_left)
            }),
            Value::Array(array) => array.validate_within(depth_left),
            Value::Described(described) => {
                described.read_descriptor()?.validate_within(depth_left)?;
                described.read_value()?.validate_within(depth_left)
            }
            _ => Ok(()),
        }
    }

    /// Reads a constructor and what belongs to it.
    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, TypeError> {
        let code = reader.u8().ok_or(TypeError::Truncated)?;
        if code == 0 {
            return Described::read_behind_marker(reader).map(Value::Described);
        }
        Self::read_of_code(code, reader)
    }

    /// Reads the data of a value whose constructor was the format code `code`, which is not 0.
    #[inline]
    pub(super) fn read_of_code(code: u8, reader: &mut Reader<'a>) -> Result<Self, TypeError> {
        if code & 0xF0 >= 0xC0 {
            return Self::read_compound(code, reader);
        }
        Self::read_scalar(code, reader).ok_or(TypeError::Truncated)?
    }

    /// `None`: the bytes end too early.
    #[inline]
    fn read_scalar(code: u8, reader: &mut Reader<'a>) -> Option<Result<Self, TypeError>> {
        Some(Ok(match code {
            0x40 => Value::Null,
            0x41 => Value::Bool(true),
            0x42 => Value::Bool(false),
            0x43 => Value::Uint(0),
            0x44 => Value::Ulong(0),
            0x45 => Value::List(List::EMPTY),
            0x50 => Value::Ubyte(reader.u8()?),
            0x51 => Value::Byte(reader.u8()?.cast_signed()),
            0x52 => Value::Uint(reader.u8()?.into()),
            0x53 => Value::Ulong(reader.u8()?.into()),
            0x54 => Value::Int(reader.u8()?.cast_signed().into()),
            0x55 => Value::Long(reader.u8()?.cast_signed().into()),
            0x56 => match reader.u8()? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                octet => return Some(Err(TypeError::BadBool { octet })),
            },
            0x60 => Value::Ushort(reader.u16()?),
            0x61 => Value::Short(reader.u16()?.cast_signed()),
            0x70 => Value::Uint(reader.u32()?),
            0x71 => Value::Int(reader.u32()?.cast_signed()),
            0x72 => Value::Float(f32::from_bits(reader.u32()?)),
            0x73 => Value::Char(reader.u32()?),
            0x74 => Value::Decimal32(reader.array()?),
            0x80 => Value::Ulong(reader.u64()?),
            0x81 => Value::Long(reader.u64()?.cast_signed()),
            0x82 => Value::Double(f64::from_bits(reader.u64()?)),
            0x83 => Value::Timestamp(reader.u64()?.cast_signed()),
            0x84 => Value::Decimal64(reader.array()?),
            0x94 => Value::Decimal128(reader.array()?),
            0x98 => Value::Uuid(reader.array()?),
            0xA0 => Value::Binary(reader.short_bytes()?),
            0xA1 => Value::Str(reader.short_bytes()?),
            0xA3 => Value::Symbol(reader.short_bytes()?),
            0xB0 => Value::Binary(reader.long_bytes()?),
            0xB1 => Value::Str(reader.long_bytes()?),
            0xB3 => Value::Symbol(reader.long_bytes()?),
            _ => return Some(Err(TypeError::UnknownCode { code })),
        }))
    }

    fn read_compound(code: u8, reader: &mut Reader<'a>) -> Result<Self, TypeError> {
        let is_wide = code & 0x10 != 0;
        let body = if is_wide { reader.long_bytes() } else { reader.short_bytes() };
        let mut body = Reader::new(body.ok_or(TypeError::Truncated)?);
        let count = if is_wide { body.u32() } else { body.u8().map(u32::from) };
        let count = count.ok_or(TypeError::Truncated)?;
        match code {
            // The count is not looked at, as in RabbitMQ: the size says where the items end.
            0xC0 | 0xD0 => Ok(Value::List(List::from_raw(body.rest()))),
            0xC1 | 0xD1 => Ok(Value::Map(Map::from_raw(body.rest()))),
            0xE0 | 0xF0 => Array::new(count, body.rest()).map(Value::Array),
            _ => Err(TypeError::UnknownCode { code }),
        }
    }

    /// The number, if it is an integer of any width that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Ubyte(number) => Some(number.into()),
            Value::Ushort(number) => Some(number.into()),
            Value::Uint(number) => Some(number.into()),
            Value::Ulong(number) => i64::try_from(number).ok(),
            Value::Byte(number) => Some(number.into()),
            Value::Short(number) => Some(number.into()),
            Value::Int(number) => Some(number.into()),
            Value::Long(number) => Some(number),
            _ => None,
        }
    }

    /// The bytes of a string or symbol.
    #[must_use]
    pub const fn as_text(&self) -> Option<&'a [u8]> {
        match *self {
            Value::Str(bytes) | Value::Symbol(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The list, if it is one.
    #[must_use]
    pub const fn as_list(&self) -> Option<List<'a>> {
        if let Value::List(list) = *self { Some(list) } else { None }
    }

    /// The map, if it is one.
    #[must_use]
    pub const fn as_map(&self) -> Option<Map<'a>> {
        if let Value::Map(map) = *self { Some(map) } else { None }
    }

    /// The described value, if it is one.
    #[must_use]
    pub const fn as_described(&self) -> Option<Described<'a>> {
        if let Value::Described(described) = *self { Some(described) } else { None }
    }
}

/// Passes over one value by its size, whatever it is; unknown format codes have the width of their category.
#[inline]
pub(super) fn skip(reader: &mut Reader<'_>) -> Result<(), TypeError> {
    // A marker of a described value stands for two values instead of one: no recursion.
    let mut left = 1_usize;
    while left > 0 {
        let code = reader.u8().ok_or(TypeError::Truncated)?;
        if code == 0 {
            left += 1;
            if left > DEPTH_MAX {
                return Err(TypeError::TooDeep { depth_max: DEPTH_MAX });
            }
        } else {
            skip_data(code, reader)?;
            left -= 1;
        }
    }
    Ok(())
}

/// Passes over the data of a value with this format code.
#[inline]
pub(super) fn skip_data(code: u8, reader: &mut Reader<'_>) -> Result<(), TypeError> {
    let passed = match code >> 4 {
        0x4 => return Ok(()),
        0x5 => reader.bytes(1),
        0x6 => reader.bytes(2),
        0x7 => reader.bytes(4),
        0x8 => reader.bytes(8),
        0x9 => reader.bytes(16),
        0xA | 0xC | 0xE => reader.short_bytes(),
        0xB | 0xD | 0xF => reader.long_bytes(),
        _ => return Err(TypeError::UnknownCode { code }),
    };
    passed.map(|_| ()).ok_or(TypeError::Truncated)
}

/// Takes one whole value, constructor included.
#[inline]
pub(super) fn take<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], TypeError> {
    let before = reader.rest();
    skip(reader)?;
    Ok(&before[..before.len() - reader.rest().len()])
}

#[cfg(test)]
mod tests;
