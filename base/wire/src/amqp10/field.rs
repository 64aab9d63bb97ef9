//! Types of the fields of composite types.

use super::compound::Map;
use super::value::Value;
use super::writer::Writer;

/// A field: its value when it is there, and what its absence means.
pub(super) trait Field<'a>: Sized {
    /// The value of a null or missing field; `None` if it must be there.
    fn absent() -> Option<Self>;

    /// `None` if the value is of another type.
    fn read(value: Value<'a>) -> Option<Self>;

    /// Whether it is written as null, or left out at the end.
    fn is_absent(&self) -> bool;

    fn write(&self, writer: &mut Writer<'_>);

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self;
}

/// A field type that is mandatory when it stands alone and optional in an `Option`.
pub(super) trait Scalar<'a>: Sized {
    fn read(value: Value<'a>) -> Option<Self>;

    fn write(&self, writer: &mut Writer<'_>);

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self;
}

impl<'a, T: Scalar<'a>> Field<'a> for T {
    fn absent() -> Option<Self> {
        None
    }

    #[inline]
    fn read(value: Value<'a>) -> Option<Self> {
        T::read(value)
    }

    fn is_absent(&self) -> bool {
        false
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        self.write(writer);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        T::sample(samples)
    }
}

impl<'a, T: Scalar<'a>> Field<'a> for Option<T> {
    #[inline]
    fn absent() -> Option<Self> {
        Some(None)
    }

    #[inline]
    fn read(value: Value<'a>) -> Option<Self> {
        T::read(value).map(Some)
    }

    #[inline]
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        if let Some(value) = self {
            value.write(writer);
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        (!samples.number().is_multiple_of(4)).then(|| T::sample(samples))
    }
}

macro_rules! numbers {
    ($($type:ty, $variant:ident, $method:ident;)+) => { $(
        impl<'a> Scalar<'a> for $type {
            #[inline]
            fn read(value: Value<'a>) -> Option<Self> {
                if let Value::$variant(number) = value { Some(number) } else { None }
            }

            #[inline]
            fn write(&self, writer: &mut Writer<'_>) {
                writer.$method(*self);
            }

            #[cfg(test)]
            fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
                let bytes = samples.number().to_le_bytes();
                <$type>::from_le_bytes(*bytes.first_chunk().unwrap())
            }
        }
    )+ };
}

numbers! {
    u8, Ubyte, ubyte;
    u16, Ushort, ushort;
    u32, Uint, uint;
    u64, Ulong, ulong;
}

impl<'a> Scalar<'a> for bool {
    fn read(value: Value<'a>) -> Option<Self> {
        if let Value::Bool(flag) = value { Some(flag) } else { None }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.bool(*self);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        samples.number() % 2 == 1
    }
}

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl<'a> Scalar<'a> for Timestamp {
    fn read(value: Value<'a>) -> Option<Self> {
        if let Value::Timestamp(millis) = value { Some(Self(millis)) } else { None }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.timestamp(self.0);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        Self(samples.number().cast_signed())
    }
}

/// A string as received: not necessarily UTF-8. Strings of a message must survive unchanged, so nobody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Str<'a>(pub &'a [u8]);

impl<'a> Str<'a> {
    /// As text, if it is UTF-8.
    #[must_use]
    pub fn to_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}

impl<'a> Scalar<'a> for Str<'a> {
    fn read(value: Value<'a>) -> Option<Self> {
        if let Value::Str(bytes) = value { Some(Self(bytes)) } else { None }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.string(self.0);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        Self(samples.text().as_bytes())
    }
}

/// A symbol as received: not necessarily ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a>(pub &'a [u8]);

impl<'a> Scalar<'a> for Symbol<'a> {
    fn read(value: Value<'a>) -> Option<Self> {
        if let Value::Symbol(bytes) = value { Some(Self(bytes)) } else { None }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.symbol(self.0);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        Self(samples.text().as_bytes())
    }
}

impl<'a> Scalar<'a> for &'a str {
    fn read(value: Value<'a>) -> Option<Self> {
        if let Value::Str(bytes) = value { std::str::from_utf8(bytes).ok() } else { None }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.string(self.as_bytes());
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        samples.text()
    }
}

impl<'a> Scalar<'a> for &'a [u8] {
    #[inline]
    fn read(value: Value<'a>) -> Option<Self> {
        if let Value::Binary(bytes) = value { Some(bytes) } else { None }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.binary(self);
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        samples.text().as_bytes()
    }
}

/// An absent map is an empty one.
impl<'a> Field<'a> for Map<'a> {
    fn absent() -> Option<Self> {
        Some(Map::EMPTY)
    }

    fn read(value: Value<'a>) -> Option<Self> {
        value.validate().ok()?;
        value.as_map()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.value(&Value::Map(*self));
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        samples.map()
    }
}
